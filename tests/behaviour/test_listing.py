"""list_memories (memory.md §9; D4, D10, D18)."""

from __future__ import annotations

from typing import Any

import pytest

from support.stores import learn, listed, pages
from velesdb_memory import MemoryService
from velesdb_memory.errors import InvalidArgument
from velesdb_memory.testing import FixedClock


@pytest.fixture
def dozen(memory: MemoryService) -> tuple[MemoryService, list[int]]:
    ids = [memory.remember(f"{n} fact", metadata={"third": n % 3 == 0}) for n in range(12)]
    return memory, sorted(ids)


def test_memories_come_by_ascending_unsigned_id(dozen: tuple[MemoryService, list[int]]) -> None:
    memory, ids = dozen
    assert ids[0] < 2**63 < ids[-1]
    page = memory.list_memories()
    assert [entry.id for entry in page.memories] == ids
    assert [entry.id_str for entry in page.memories] == list(map(str, ids))
    assert page.next_cursor is None


@pytest.mark.parametrize("limit", [1, 3, 5, 12, 13])
def test_D18_a_walk_meets_everything_once_and_ends_with_null_on_the_last_page(
    dozen: tuple[MemoryService, list[int]], limit: int
) -> None:
    memory, ids = dozen
    walked = list(pages(memory, limit=limit))
    assert [entry.id for page in walked for entry in page] == ids
    assert [len(page) for page in walked] == [limit] * (12 // limit) + ([12 % limit] if 12 % limit else [])


def test_D18_the_limit_counts_rows_returned_also_with_a_filter(dozen: tuple[MemoryService, list[int]]) -> None:
    memory, _ = dozen
    assert [len(page) for page in pages(memory, limit=3, filter={"third": True})] == [3, 1]
    assert [len(page) for page in pages(memory, limit=2, filter={"third": True})] == [2, 2]
    assert listed(memory, filter={"third": 1}) == []


@pytest.mark.parametrize(("limit", "rows"), [(0, 1), (1, 1), (5_000, 12)])
def test_the_limit_is_brought_into_its_range(dozen: tuple[MemoryService, list[int]], limit: int, rows: int) -> None:
    assert len(dozen[0].list_memories(limit=limit).memories) == rows


def test_a_page_holds_fifty_by_default_and_a_thousand_at_most(memory: MemoryService) -> None:
    from velesdb_memory.ids import fact_id

    memory.import_(f'{{"id_str": "{fact_id(f"f{n}")}", "content": "f{n}"}}' for n in range(1_001))
    assert len(memory.list_memories().memories) == 50
    page = memory.list_memories(limit=5_000)
    assert len(page.memories) == 1_000 and page.next_cursor == page.memories[-1].id_str


def test_D4_a_cursor_is_an_id_in_any_form_and_need_not_exist(dozen: tuple[MemoryService, list[int]]) -> None:
    memory, ids = dozen
    for cursor in (ids[4], str(ids[4]), f" +{ids[4]} ", ids[5] - 1):
        assert [entry.id for entry in memory.list_memories(cursor).memories] == ids[5:]
    assert len(memory.list_memories(0).memories) == 12
    for cursor in (2**64 - 1, ids[-1]):
        page = memory.list_memories(cursor)
        assert (page.memories, page.next_cursor) == ([], None)


@pytest.mark.parametrize("cursor", [1.0, -1, 2**64, True, "", "x", "-1", []])
def test_D4_a_cursor_that_is_no_id_is_refused(memory: MemoryService, cursor: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        memory.list_memories(cursor)
    assert caught.value.field == "cursor"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": "5"}, "limit"),
        ({"limit": None}, "limit"),
        ({"include_internal": 1}, "include_internal"),
    ],
)
def test_bad_arguments_are_refused_by_name(memory: MemoryService, arguments: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        memory.list_memories(**arguments)
    assert caught.value.field == field


def test_what_is_written_during_a_walk_appears_where_its_id_is(dozen: tuple[MemoryService, list[int]]) -> None:
    memory, ids = dozen
    page = memory.list_memories(limit=6)
    fresh = [memory.remember(f"fresh {n}") for n in range(10)]
    memory.forget(ids[7])
    rest = listed_from(memory, page.next_cursor)
    expected = set(ids[6:]) - {ids[7]} | {number for number in fresh if number > ids[5]}
    assert rest == sorted(expected)


def listed_from(memory: MemoryService, cursor: str | None) -> list[int]:
    found: list[int] = []
    while cursor is not None:
        page = memory.list_memories(cursor, limit=3)
        found += [entry.id for entry in page.memories]
        cursor = page.next_cursor
    return found


def test_expired_facts_are_skipped(memory: MemoryService, clock: FixedClock) -> None:
    memory.remember("short", ttl_seconds=5)
    stays = memory.remember("stays")
    clock.advance(5)
    assert (
        [entry.id for entry in listed(memory)]
        == [entry.id for entry in listed(memory, include_internal=True)]
        == [stays]
    )


def test_D10_entities_and_reserved_keys_appear_only_when_asked_for(memory: MemoryService, clock: FixedClock) -> None:
    fact = learn(memory, "Theo is 15", ["Theo"], attributes=[("Theo", "age", 15)])
    memory.feedback(fact, True)
    memory.remember("short", ttl_seconds=60, metadata={"k": 1})
    assert {entry.content for entry in listed(memory)} == {"Theo is 15", "short"}
    assert all(set(entry.metadata) <= {"_veles_date", "k"} for entry in listed(memory))
    shown = {entry.content: entry.metadata for entry in listed(memory, include_internal=True)}
    assert shown == {
        "Entity: theo": {"_veles_hub": True, "age": 15},
        "Theo is 15": {
            "_veles_date": 20231114,
            "_veles_rl_confidence": 0.6000000238418579,
            "_veles_rl_failure": 0,
            "_veles_rl_success": 1,
        },
        "short": {"_veles_date": 20231114, "_veles_expires_at": clock.now() + 60, "k": 1},
    }


def test_D10_a_filter_does_not_bring_entities_out(memory: MemoryService) -> None:
    learn(memory, "Theo is 15", ["Theo"], attributes=[("Theo", "age", 15)])
    assert listed(memory, filter={"age": 15}) == []


def test_an_empty_store_is_one_empty_page(memory: MemoryService) -> None:
    assert list(pages(memory)) == [[]]
