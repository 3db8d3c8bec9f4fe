"""relate and unrelate (memory.md §8.1 to §8.3; D4, D8)."""

from __future__ import annotations

from typing import Any

import pytest

from support.stores import assert_sound, everything
from velesdb_memory import MemoryService
from velesdb_memory.errors import InvalidArgument, InvalidRelation, SelfRelation, UnknownMemory
from velesdb_memory.ids import edge_id
from velesdb_memory.model import Unrelated
from velesdb_memory.testing import FixedClock

MISSING = 123


@pytest.fixture
def pair(memory: MemoryService) -> tuple[int, int]:
    return memory.remember("alpha"), memory.remember("beta")


def test_D2_an_edge_has_the_id_of_the_reference(memory: MemoryService, pair: tuple[int, int]) -> None:
    assert memory.relate(*pair, "knows") == 11689923964802794373


def test_relating_twice_makes_one_edge_and_another_label_another(memory: MemoryService, pair: tuple[int, int]) -> None:
    first = memory.relate(*pair, "knows")
    assert memory.relate(*pair, "knows") == first
    assert memory.relate(*pair, " knows") != first
    assert memory.relate(*pair, "Knows") != first
    assert memory.relate(*reversed(pair), "knows") == edge_id(pair[1], pair[0], "knows") != first
    assert memory.memory_status().memory.edges == 4


def test_D4_ids_may_be_decimal_strings(memory: MemoryService, pair: tuple[int, int]) -> None:
    alpha, beta = pair
    edge = memory.relate(f" +{alpha} ", f"{beta}", "knows")  # type: ignore[arg-type]
    assert edge == edge_id(alpha, beta, "knows")
    assert memory.unrelate(str(alpha), str(beta), "knows") == Unrelated(True, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [1.0, -1, 2**64, True, None, "x", ""])
@pytest.mark.parametrize("verb", ["relate", "unrelate"])
def test_D4_C01_what_is_no_id_is_refused_by_name(
    memory: MemoryService, pair: tuple[int, int], verb: str, wrong: Any
) -> None:
    for arguments, field in (((wrong, pair[1]), "from"), ((pair[0], wrong), "to")):
        with pytest.raises(InvalidArgument) as caught:
            getattr(memory, verb)(*arguments, "knows")
        assert caught.value.field == field


@pytest.mark.parametrize("label", ["", " ", "\u0085\u3000", "a\tb", "\x7f", "é" * 257, None])
@pytest.mark.parametrize("verb", ["relate", "unrelate"])
def test_D8_a_bad_label_is_refused_before_anything_else(memory: MemoryService, verb: str, label: Any) -> None:
    with pytest.raises(InvalidRelation) as caught:
        getattr(memory, verb)(MISSING, MISSING, label)
    assert isinstance(caught.value, ValueError) and caught.value.field == "relation"
    assert caught.value.limit == (512 if label == "é" * 257 else None)


@pytest.mark.parametrize("verb", ["relate", "unrelate"])
def test_C41_a_memory_cannot_be_related_to_itself_whether_it_exists_or_not(memory: MemoryService, verb: str) -> None:
    with pytest.raises(SelfRelation, match=str(MISSING)) as caught:
        getattr(memory, verb)(MISSING, MISSING, "is")
    assert isinstance(caught.value, ValueError)


def test_both_ends_must_exist_and_the_first_missing_one_is_named(memory: MemoryService, pair: tuple[int, int]) -> None:
    before = everything(memory)
    for arguments, field, missing in (
        ((MISSING, pair[1]), "from", MISSING),
        ((pair[0], MISSING), "to", MISSING),
        ((MISSING, MISSING + 1), "from", MISSING),
    ):
        with pytest.raises(UnknownMemory) as caught:
            memory.relate(*arguments, "knows")
        assert (caught.value.field, caught.value.memory_id) == (field, missing)
        assert isinstance(caught.value, KeyError)
    assert everything(memory) == before


def test_unrelate_removes_the_one_edge_that_was_named(memory: MemoryService, pair: tuple[int, int]) -> None:
    memory.relate(*pair, "knows")
    memory.relate(*pair, "likes")
    memory.relate(*reversed(pair), "knows")
    assert memory.unrelate(*pair, "knows") == Unrelated(True, 1)
    assert memory.unrelate(*pair, "knows") == Unrelated(False, 0)
    left = [(edge.source, edge.relation) for edge in memory.why("alpha", direction="both").edges]
    assert left == [(pair[0], "likes"), (pair[1], "knows")]
    assert_sound(memory)


def test_unrelate_of_what_never_was_is_no_error(memory: MemoryService) -> None:
    assert memory.unrelate(MISSING, MISSING + 1, "knows") == Unrelated(False, 0)


@pytest.mark.parametrize("expired", [0, 1])
def test_D8_an_edge_with_an_expired_end_is_absent(memory: MemoryService, clock: FixedClock, expired: int) -> None:
    ends = [memory.remember("alpha", ttl_seconds=10 if expired == 0 else 0)]
    ends.append(memory.remember("beta", ttl_seconds=10 if expired == 1 else 0))
    memory.relate(*ends, "knows")
    assert memory.memory_status().memory.edges == 1
    clock.advance(10)
    assert memory.memory_status().memory.edges == 0
    assert memory.unrelate(*ends, "knows") == Unrelated(False, 0)
    with pytest.raises(UnknownMemory) as caught:
        memory.relate(*ends, "knows")
    assert caught.value.field == ("from", "to")[expired]


def test_C23_a_fact_that_supersedes_another_leaves_it_readable(memory: MemoryService) -> None:
    old = memory.remember("Ada loves tea")
    new = memory.remember("Ada hates tea")
    memory.relate(new, old, "supersedes")
    assert {hit.id for hit in memory.recall("tea")} == {old, new}
    assert memory.why("Ada hates tea").edges[0].relation == "supersedes"
