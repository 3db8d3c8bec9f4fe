"""The index of typed fields against rules written down a second time (D11, D14; memory.md §4, §5)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import oracle
from velesdb_memory.store.base import Predicate
from velesdb_memory.store.sqlite import facets

OPERATORS = ["eq", "ne", "lt", "le", "gt", "ge"]


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(
            "CREATE TABLE facet (field TEXT NOT NULL, tag TEXT NOT NULL, value NOT NULL, slot INTEGER NOT NULL,"
            " PRIMARY KEY (field, tag, value, slot)) WITHOUT ROWID"
        )
        yield connection


def found(connection: sqlite3.Connection, stored: list[Any], predicate: Predicate) -> list[int]:
    connection.execute("DELETE FROM facet")
    for slot, value in enumerate(stored):
        facets.write(connection, slot, {"f": value, "other": value})
    slots = facets.matching_slots(connection, [predicate], None)
    assert slots is not None
    return slots.tolist()


@given(stored=st.lists(oracle.VALUES, max_size=12), op=st.sampled_from(OPERATORS), wanted=oracle.SCALARS)
def test_D14_a_comparison_finds_what_the_rules_say(
    connection: sqlite3.Connection, stored: list[Any], op: Any, wanted: Any
) -> None:
    predicate = Predicate("f", op, wanted)
    expected = [slot for slot, value in enumerate(stored) if oracle.satisfies({"f": value}, "f", op, wanted)]
    assert found(connection, stored, predicate) == expected
    assert [slot for slot, value in enumerate(stored) if facets.matcher([predicate])({"f": value})] == expected


@pytest.mark.parametrize("op", OPERATORS)
def test_D14_every_pair_of_awkward_numbers_compares_exactly(connection: sqlite3.Connection, op: Any) -> None:
    for wanted in oracle.EDGES:
        expected = [n for n, value in enumerate(oracle.EDGES) if oracle.satisfies({"f": value}, "f", op, wanted)]
        assert found(connection, oracle.EDGES, Predicate("f", op, wanted)) == expected, wanted


@given(stored=st.lists(oracle.VALUES, max_size=12), wanted=oracle.VALUES)
def test_strict_equality_finds_what_the_rules_say(
    connection: sqlite3.Connection, stored: list[Any], wanted: Any
) -> None:
    predicate = Predicate("f", "is", wanted)
    expected = [slot for slot, value in enumerate(stored) if oracle.same(value, wanted)]
    assert found(connection, stored, predicate) == expected
    assert [slot for slot, value in enumerate(stored) if facets.matcher([predicate])({"f": value})] == expected


@given(
    stored=st.lists(st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)), max_size=20),
    bounds=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(OPERATORS), st.integers(0, 3)), min_size=1, max_size=3
    ),
    cap=st.none() | st.integers(0, 10),
)
def test_several_predicates_must_all_hold_however_the_work_is_split(
    connection: sqlite3.Connection, stored: list[dict[str, int]], bounds: list[tuple[str, Any, int]], cap: int | None
) -> None:
    # a table of its own name would be a mock; the metadata of what is left is read from the store's own
    connection.execute("DELETE FROM facet")
    connection.execute("CREATE TABLE IF NOT EXISTS memory (slot INTEGER PRIMARY KEY, metadata TEXT)")
    connection.execute("DELETE FROM memory")
    for slot, metadata in enumerate(stored):
        facets.write(connection, slot, metadata)
        connection.execute("INSERT INTO memory VALUES (?, ?)", (slot, facets.canonical_json(metadata)))
    slots = facets.matching_slots(connection, [Predicate(*bound) for bound in bounds], cap)
    expected = [
        slot for slot, metadata in enumerate(stored) if all(oracle.satisfies(metadata, *bound) for bound in bounds)
    ]
    if slots is None:
        assert cap is not None
    else:
        assert slots.tolist() == expected


@given(oracle.VALUES, oracle.VALUES)
def test_what_was_written_is_what_is_removed(value: Any, other: Any) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE facet (field, tag, value, slot, PRIMARY KEY (field, tag, value, slot))")
        facets.write(connection, 1, {"a": value})
        facets.write(connection, 2, {"a": other})
        facets.remove(connection, 1, {"a": value})
        assert connection.execute("SELECT slot FROM facet").fetchall() == [(2,)]


def test_equal_values_of_equal_types_give_equal_text() -> None:
    assert facets.canonical_json({"b": 1, "a": [1.0, "é"]}) == '{"a":[1.0,"é"],"b":1}'
