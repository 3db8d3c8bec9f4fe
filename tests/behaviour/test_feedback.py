"""feedback and what recall makes of it (memory.md §4, §7; D6, D12)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from conftest import Opener
from support.stores import contents, listed
from velesdb_memory import ColumnFilter, MemoryService
from velesdb_memory.errors import InvalidArgument, UnknownMemory
from velesdb_memory.testing import FixedClock, FixedEmbedder


def test_confidence_moves_by_the_documented_steps_in_single_precision(memory: MemoryService) -> None:
    number = memory.remember("x")
    raised = [memory.feedback(number, True) for _ in range(6)]
    assert raised == [0.6000000238418579, 0.7000000476837158, 0.8000000715255737, 0.9000000953674316, 1.0, 1.0]
    assert memory.feedback(number, False) == 0.949999988079071


def test_confidence_stops_at_zero(memory: MemoryService) -> None:
    number = memory.remember("x")
    lowered = [memory.feedback(number, False) for _ in range(12)]
    assert lowered[0] == pytest.approx(0.45) and lowered[-1] == 0.0 and min(lowered) == 0.0


def test_outcomes_are_counted(memory: MemoryService) -> None:
    number = memory.remember("x")
    for success in (True, True, False):
        memory.feedback(number, success)
    (entry,) = listed(memory, include_internal=True)
    assert (entry.metadata["_veles_rl_success"], entry.metadata["_veles_rl_failure"]) == (2, 1)


def test_feedback_changes_nothing_else(memory: MemoryService, clock: FixedClock) -> None:
    number = memory.remember("x", metadata={"k": 1}, ttl_seconds=10)
    before = listed(memory)
    memory.feedback(number, True)
    assert listed(memory) == before
    assert memory.recall("x")[0].score == pytest.approx(1.0)
    clock.advance(10)
    assert listed(memory) == []


def test_an_unknown_or_expired_memory_is_refused(memory: MemoryService, clock: FixedClock) -> None:
    number = memory.remember("x", ttl_seconds=10)
    clock.advance(10)
    for missing in (number, 123):
        with pytest.raises(UnknownMemory) as caught:
            memory.feedback(missing, True)
        assert isinstance(caught.value, KeyError)
        assert (caught.value.field, caught.value.memory_id) == ("id", missing)


@pytest.mark.parametrize("wrong", [1, 0, "true", None])
def test_success_is_true_or_false(memory: MemoryService, wrong: Any) -> None:
    number = memory.remember("x")
    with pytest.raises(InvalidArgument) as caught:
        memory.feedback(number, wrong)
    assert caught.value.field == "success"


def at(degrees: float) -> list[float]:
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


@pytest.fixture
def fan(open_memory: Opener) -> tuple[MemoryService, list[int]]:
    """Ninety facts, half a degree away from the query and from each other."""
    vectors = {f"fact {n:02}": at(n / 2) for n in range(90)}
    memory = open_memory(embedder=FixedEmbedder({"q": at(0), **vectors}))
    return memory, [memory.remember(text, metadata={"k": 1}) for text in vectors]


def test_D12_feedback_lifts_a_fact_over_the_cut(fan: tuple[MemoryService, list[int]]) -> None:
    memory, ids = fan
    assert contents(memory.recall("q", 1)) == ["fact 00"]
    memory.feedback(ids[5], True)
    assert contents(memory.recall("q", 2)) == ["fact 05", "fact 00"]
    assert memory.recall("q", 1)[0].score == pytest.approx(math.cos(math.radians(2.5)))


def test_D12_a_fact_that_was_no_use_sinks_below_the_cut(fan: tuple[MemoryService, list[int]]) -> None:
    memory, ids = fan
    memory.feedback(ids[0], False)
    assert "fact 00" not in contents(memory.recall("q", 3))


def test_D12_the_pool_is_64_or_eight_times_k(fan: tuple[MemoryService, list[int]]) -> None:
    memory, ids = fan
    for number in (ids[63], ids[64], ids[79], ids[80]):
        for _ in range(5):
            memory.feedback(number, True)
    assert contents(memory.recall("q", 5)) == ["fact 63", "fact 00", "fact 01", "fact 02", "fact 03"]
    assert [name for name in contents(memory.recall("q", 10)) if name > "fact 20"] == ["fact 63", "fact 64", "fact 79"]


def test_D12_the_order_is_that_of_the_documented_key(fan: tuple[MemoryService, list[int]]) -> None:
    memory, ids = fan
    confidence = dict.fromkeys(ids, 0.5)
    for position in range(60):
        for _ in range(position % 4):
            confidence[ids[position]] = memory.feedback(ids[position], position % 3 == 0)
    scores = {number: math.cos(math.radians(position / 2)) for position, number in enumerate(ids[:64])}
    key = {number: (score + 1) / 2 * (1 + 0.5 * (2 * confidence[number] - 1)) for number, score in scores.items()}
    assert [hit.id for hit in memory.recall("q", 8)] == sorted(key, key=lambda number: -key[number])[:8]


def test_D12_equal_keys_are_ordered_by_id(open_memory: Opener) -> None:
    texts = [f"same {n}" for n in range(20)]
    memory = open_memory(embedder=FixedEmbedder({"q": [1, 0]} | {text: [1, 1] for text in texts}))
    ids = [memory.remember(text) for text in texts]
    assert [hit.id for hit in memory.recall("q", 20)] == sorted(ids)
    memory.remember(texts[3])
    assert [hit.id for hit in memory.recall("q", 7)] == sorted(ids)[:7]


def test_confidence_does_not_enter_recall_where_with_filters(fan: tuple[MemoryService, list[int]]) -> None:
    memory, ids = fan
    memory.feedback(ids[5], True)
    assert contents(memory.recall_where("q", [ColumnFilter("k", "eq", 1)], 2)) == ["fact 00", "fact 01"]
    assert contents(memory.recall_where("q", [], 2)) == ["fact 05", "fact 00"]
