"""Facts that end (memory.md §3.3, §3.4; D5, D7, D8; C42)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from conftest import Opener
from support.stores import assert_sound, contents, everything, learn, listed
from velesdb_memory import ColumnFilter, Link, MemoryService
from velesdb_memory.testing import FixedClock


def stored(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        return connection.execute("SELECT count(*) FROM memory").fetchone()[0]


def test_a_fact_lives_to_the_last_second(memory: MemoryService, clock: FixedClock) -> None:
    memory.remember("short", ttl_seconds=10)
    clock.advance(9)
    assert contents(memory.recall("short")) == ["short"]
    clock.advance(1)
    assert memory.recall("short") == []


@pytest.mark.parametrize("ttl", [None, 0])
def test_D5_no_duration_and_zero_mean_for_ever(memory: MemoryService, clock: FixedClock, ttl: int | None) -> None:
    memory.remember("lasting", ttl_seconds=ttl)
    clock.advance(10**12)
    assert contents(memory.recall("lasting")) == ["lasting"]


@pytest.mark.parametrize("ttl", [2**62, 2**63, 2**64, 10**30])
def test_an_endless_duration_is_taken(memory: MemoryService, ttl: int) -> None:
    memory.remember("lasting", ttl_seconds=ttl)
    assert contents(memory.recall("lasting")) == ["lasting"]
    assert_sound(memory)


def test_C42_a_duration_and_metadata_go_together(memory: MemoryService, clock: FixedClock) -> None:
    memory.remember("both", metadata={"k": 1}, ttl_seconds=1)
    assert contents(memory.recall("both", filter={"k": 1})) == ["both"]
    clock.advance(1)
    assert memory.recall("both", filter={"k": 1}) == [] == memory.recall_where("both", [ColumnFilter("k", "eq", 1)])


def test_an_expiry_survives_reopening(open_memory: Opener, clock: FixedClock) -> None:
    open_memory().remember("short", ttl_seconds=10)
    clock.advance(10)
    assert listed(open_memory()) == []


@pytest.mark.parametrize(("again", "lives_after"), [(None, True), (0, True), (5, False), (100, True)])
def test_D7_the_duration_is_what_the_last_call_says(
    memory: MemoryService, clock: FixedClock, again: int | None, lives_after: bool
) -> None:
    memory.remember("again", ttl_seconds=10)
    clock.advance(5)
    memory.remember("again", ttl_seconds=again)
    clock.advance(50)
    assert (contents(memory.recall("again")) == ["again"]) is lives_after


def test_D7_a_lasting_fact_can_be_given_an_end(memory: MemoryService, clock: FixedClock) -> None:
    memory.remember("again")
    memory.remember("again", ttl_seconds=10)
    clock.advance(10)
    assert memory.recall("again") == []


def test_D7_an_expired_fact_becomes_a_fresh_one_at_once(memory: MemoryService, clock: FixedClock) -> None:
    other = memory.remember("other")
    number = memory.remember(
        "again", metadata={"_veles_date": 20200101, "k": 1}, ttl_seconds=10, links=[Link(other, "to")]
    )
    memory.feedback(number, True)
    clock.advance(10)
    assert memory.remember("again") == number
    assert [(hit.id, hit.metadata) for hit in memory.recall("again", 1)] == [(number, {"_veles_date": 20231114})]
    assert memory.why("again").edges == []
    assert memory.feedback(number, True) == pytest.approx(0.6)
    assert memory.memory_status().memory.edges == 0
    assert_sound(memory)


def test_D8_what_has_expired_is_swept_along_with_writes(memory: MemoryService, clock: FixedClock, folder: Path) -> None:
    for n in range(20):
        memory.remember(f"short {n}", ttl_seconds=5)
    clock.advance(5)
    for n in range(3):
        memory.remember(f"stays {n}")
    assert stored(folder) == 3
    assert_sound(memory)


def test_D8_D9_an_expired_fact_takes_what_only_it_taught_along(memory: MemoryService, clock: FixedClock) -> None:
    learn(memory, "Theo is 15", ["Theo"], [("Theo", "brother of", "Camille")], [("Theo", "age", 15)])
    memory.remember("Theo is 15", ttl_seconds=5)
    clock.advance(5)
    memory.remember("another")
    assert [entry.content for entry in listed(memory, include_internal=True)] == ["another"]
    assert_sound(memory)


def test_a_clock_that_goes_back_brings_nothing_half_swept(memory: MemoryService, clock: FixedClock) -> None:
    memory.remember("short", ttl_seconds=5)
    clock.advance(5)
    assert memory.recall("short") == []
    clock.advance(-3)
    assert contents(memory.recall("short")) == ["short"]
    assert_sound(memory)


def test_what_has_expired_is_not_exported(memory: MemoryService, clock: FixedClock) -> None:
    a, b = memory.remember("a", ttl_seconds=5), memory.remember("b")
    memory.relate(a, b, "x")
    clock.advance(5)
    assert [line.get("content") for line in everything(memory)] == [None, "b"]
