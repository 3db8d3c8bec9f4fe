"""recall_where (memory.md §5; D10, D11, D14)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Opener
from support import oracle
from support.stores import contents, everything, scratch
from velesdb_memory import ColumnFilter, MemoryService
from velesdb_memory.errors import InvalidFilter
from velesdb_memory.testing import FixedEmbedder

OPERATORS: list[Any] = ["eq", "ne", "lt", "le", "gt", "ge"]


def names(memory: MemoryService, *filters: tuple[str, Any, Any]) -> list[str]:
    return sorted(contents(memory.recall_where("q", [ColumnFilter(*entry) for entry in filters], 100)))


@pytest.fixture
def library(memory: MemoryService) -> MemoryService:
    for name, metadata in {
        "a": {"status": "open", "year": 2008},
        "b": {"status": "closed", "year": 2010},
        "c": {"status": "open", "year": 2012},
        "d": {"year": None},
        "e": {"status": None, "year": "2010"},
        "f": {},
    }.items():
        memory.remember(name, metadata=metadata)
    return memory


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([("status", "eq", "open")], "ac"),
        ([("status", "ne", "open")], "b"),
        ([("nowhere", "eq", 1)], ""),
        ([("nowhere", "ne", 1)], ""),
        ([("year", "lt", 2010)], "a"),
        ([("year", "le", 2010)], "ab"),
        ([("year", "gt", 2010)], "c"),
        ([("year", "ge", 2010)], "bc"),
        ([("year", "eq", 2010)], "b"),
        ([("year", "eq", 2010.0)], "b"),
        ([("year", "ne", 2010)], "ace"),
        ([("year", "ne", "2010")], "abc"),
        ([("year", "eq", "2010")], "e"),
        ([("year", "ge", "2")], "e"),
        ([("status", "ge", "closed"), ("year", "lt", 2011)], "ab"),
        ([("year", "eq", True)], ""),
        ([("year", "lt", True)], ""),
        ([("_veles_date", "ge", 20231114)], "abcdef"),
        ([("select", "eq", 1)], ""),
    ],
)
def test_D14_the_conformance_table(library: MemoryService, filters: list[Any], found: str) -> None:
    assert names(library, *filters) == list(found)


def test_D14_integers_compare_exactly(memory: MemoryService) -> None:
    memory.remember("big", metadata={"n": 2**53 + 1})
    assert names(memory, ("n", "eq", 2**53)) == names(memory, ("n", "eq", float(2**53))) == []
    assert names(memory, ("n", "gt", 2**53)) == names(memory, ("n", "gt", float(2**53))) == ["big"]
    assert names(memory, ("n", "eq", 2**53 + 1)) == ["big"]


@settings(max_examples=25, deadline=None)
@given(
    facts=st.lists(st.dictionaries(st.sampled_from(["a", "b"]), oracle.VALUES, max_size=2), min_size=1, max_size=8),
    filters=st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(OPERATORS), oracle.SCALARS), min_size=1, max_size=3
    ),
)
def test_D11_D14_filters_find_all_and_only_what_the_rules_say(facts: list[dict[str, Any]], filters: list[Any]) -> None:
    with scratch() as memory:
        for n, metadata in enumerate(facts):
            memory.remember(f"fact {n}", metadata=metadata)
        for subset in (filters[:1], filters):
            expected = [
                f"fact {n}" for n, m in enumerate(facts) if all(oracle.satisfies(m, *entry) for entry in subset)
            ]
            assert names(memory, *subset) == expected


def test_hits_come_in_order_of_similarity(open_memory: Opener) -> None:
    embedder = FixedEmbedder({"q": [1, 0], "near": [9, 1], "nearer": [99, 1], "far": [0, 1]})
    memory = open_memory(embedder=embedder)
    for text in ("far", "nearer", "near"):
        memory.remember(text, metadata={"k": 1})
    hits = memory.recall_where("q", [ColumnFilter("k", "eq", 1)], 2)
    assert contents(hits) == ["nearer", "near"]


@pytest.mark.parametrize(("query", "k"), [("", 10), (" ", 10), ("q", 0)])
def test_a_blank_query_or_no_k_finds_nothing_even_with_bad_filters(memory: MemoryService, query: str, k: int) -> None:
    memory.remember("q")
    assert memory.recall_where(query, [ColumnFilter("not plain", "eq", 1)], k) == []


def test_D14_no_filters_are_the_same_as_recall(memory: MemoryService) -> None:
    ids = [memory.remember(f"fact {n}") for n in range(5)]
    memory.feedback(ids[3], True)
    assert memory.recall_where("fact", []) == memory.recall("fact")


def test_D14_filters_that_are_none_are_refused(memory: MemoryService) -> None:
    with pytest.raises(InvalidFilter) as caught:
        memory.recall_where("q", None)  # type: ignore[arg-type]
    assert isinstance(caught.value, ValueError) and caught.value.field == "filters"


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (ColumnFilter("a.b", "eq", 1), "filters[0].field"),
        (ColumnFilter("content", "eq", "x"), "filters[0].field"),
        (ColumnFilter("a", "like", "x"), "filters[0].op"),  # type: ignore[arg-type]
        (ColumnFilter("a", "eq", None), "filters[0].value"),  # type: ignore[arg-type]
        (ColumnFilter("a", "eq", [1]), "filters[0].value"),  # type: ignore[arg-type]
    ],
)
def test_C27_a_filter_that_cannot_be_carried_out_is_refused_and_never_silently_empty(
    memory: MemoryService, entry: ColumnFilter, field: str
) -> None:
    memory.remember("q")
    before = everything(memory)
    with pytest.raises(InvalidFilter) as caught:
        memory.recall_where("q", [entry])
    assert caught.value.field == field
    assert everything(memory) == before


@pytest.mark.parametrize("value", ["'; DROP TABLE memory; --", '"', "%", "\\", "?"])
def test_a_value_is_a_value_and_nothing_else(memory: MemoryService, value: str) -> None:
    memory.remember("q", metadata={"k": value})
    assert names(memory, ("k", "eq", value)) == ["q"]
    assert memory.recall("q", filter={value: 1}) == []


@pytest.mark.parametrize(
    ("stored", "op", "wanted", "told"),
    [
        ("2010", "ge", 2010, True),
        (2010, "eq", "2010", True),
        (True, "eq", 1, True),
        (1, "eq", True, True),
        ([1], "eq", 1, True),
        (2010, "gt", 2010, False),
        (None, "eq", 1, False),
        ("2010", "ne", "2010", False),
    ],
)
def test_D14_a_warning_tells_of_a_field_that_only_holds_another_type(
    memory: MemoryService, stored: Any, op: Any, wanted: Any, told: bool
) -> None:
    memory.remember("q", metadata={"year": stored})
    answer = memory.recall_where("q", [ColumnFilter("year", op, wanted)])
    assert list(answer) == []
    assert ["year" in warning for warning in answer.warnings] == ([True] if told else [])


def test_D14_there_is_no_warning_when_something_matched_or_the_field_is_unknown(memory: MemoryService) -> None:
    memory.remember("q", metadata={"a": 1})
    assert memory.recall_where("q", [ColumnFilter("a", "eq", 1)]).warnings == []
    assert memory.recall_where("q", [ColumnFilter("b", "eq", 1)]).warnings == []
