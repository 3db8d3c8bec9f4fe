"""forget (memory.md §8.3; D4, D9)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.stores import assert_sound, contents, everything, listed
from velesdb_memory import ColumnFilter, Link, MemoryService
from velesdb_memory.errors import InvalidArgument
from velesdb_memory.ids import fact_id
from velesdb_memory.testing import FixedClock


def rows(folder: Path) -> dict[str, int]:
    """How many rows each table holds of what hangs on facts."""
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        tables = (
            "memory",
            "facet",
            "posting",
            "edge",
            "edge_source",
            "edge_refused",
            "attribute",
            "embedding",
            "enrichment",
        )
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def test_a_forgotten_fact_is_nowhere_to_be_seen(memory: MemoryService) -> None:
    keep = memory.remember("keep the change")
    gone = memory.remember("forget the change", links=[Link(keep, "see")], metadata={"k": 1})
    memory.relate(keep, gone, "see")
    assert memory.forget(gone) is True
    assert contents(memory.recall("change")) == ["keep the change"]
    assert memory.recall("change", filter={"k": 1}) == []
    assert memory.recall_where("change", [ColumnFilter("k", "ge", 0)]) == []
    assert memory.why("keep").edges == []
    assert [entry.id for entry in listed(memory)] == [keep]
    assert [line for line in everything(memory) if "edge" in line] == []
    assert (memory.memory_status().memory.facts, memory.memory_status().memory.edges) == (1, 0)
    assert_sound(memory)


def test_D9_nothing_stays_behind_in_the_database(memory: MemoryService, folder: Path) -> None:
    other = memory.remember("another one entirely", metadata={"x": "y"})
    before = rows(folder)
    gone = memory.remember("words that only this fact uses", links=[Link(other, "to")], metadata={"a": 1, "b": [2]})
    memory.relate(other, gone, "back")
    memory.feedback(gone, True)
    memory.forget(gone)
    assert rows(folder) == before


def test_forgetting_twice_and_forgetting_nothing_answer_false(memory: MemoryService) -> None:
    number = memory.remember("x")
    assert [memory.forget(number), memory.forget(number), memory.forget(123)] == [True, False, False]


def test_D9_an_expired_fact_is_not_found_but_is_gone_afterwards(
    memory: MemoryService, clock: FixedClock, folder: Path
) -> None:
    before = rows(folder)
    number = memory.remember("short", metadata={"a": 1}, ttl_seconds=5)
    clock.advance(5)
    assert memory.forget(number) is False
    assert rows(folder) == before


def test_a_fact_that_comes_back_starts_afresh(memory: MemoryService) -> None:
    other = memory.remember("other")
    number = memory.remember("again", links=[Link(other, "to")], metadata={"k": 1})
    memory.feedback(number, True)
    memory.forget(number)
    assert memory.remember("again") == number
    assert memory.recall("again")[0].metadata == {"_veles_date": 20231114}
    assert memory.feedback(number, False) == pytest.approx(0.45)
    assert memory.why("again").edges == []


@pytest.mark.parametrize("form", [str, "  {}  ".format, "+{}".format, "000{}".format])
def test_D4_C02_an_id_may_be_a_padded_string(memory: MemoryService, form: Any) -> None:
    assert memory.forget(form(memory.remember("x")))


@pytest.mark.parametrize("verb", ["forget", "feedback"])
@pytest.mark.parametrize("wrong", [float(fact_id("x")), -1, 2**64, True, None, "", "1.0", [1]])
def test_D4_C01_what_is_no_id_is_refused_and_nothing_is_forgotten(memory: MemoryService, verb: str, wrong: Any) -> None:
    memory.remember("x")
    with pytest.raises(InvalidArgument) as caught:
        getattr(memory, verb)(*([wrong] if verb == "forget" else [wrong, True]))
    assert caught.value.field == "id"
    assert memory.memory_status().memory.facts == 1


def test_forgetting_everything_leaves_a_working_store(memory: MemoryService) -> None:
    for number in [memory.remember(f"fact {n}") for n in range(30)]:
        memory.forget(number)
    assert memory.recall("fact") == [] and listed(memory) == []
    assert_sound(memory)
    memory.remember("fresh")
    assert contents(memory.recall("fresh")) == ["fresh"]
