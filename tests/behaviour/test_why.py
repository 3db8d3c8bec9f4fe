"""why (memory.md §8.4; D15)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from support.stores import learn
from velesdb_memory import Link, MemoryService
from velesdb_memory.errors import InvalidArgument, QueryTooLarge, ReservedKey
from velesdb_memory.ids import fact_id
from velesdb_memory.model import Explanation
from velesdb_memory.testing import FixedClock


def chain(memory: MemoryService, length: int) -> list[int]:
    ids = [memory.remember(f"step {n}") for n in range(length)]
    for source, target in pairwise(ids):
        memory.relate(source, target, "next")
    return ids


def test_the_seed_comes_first_with_its_score_and_the_rest_in_order_of_discovery(memory: MemoryService) -> None:
    leaf, other = memory.remember("leaf"), memory.remember("other")
    middle = memory.remember("middle", links=[Link(leaf, "from")])
    seed = memory.remember("seed", links=[Link(other, "see"), Link(middle, "by")])
    found = memory.why("seed")
    assert [(node.id, node.content, node.hop) for node in found.nodes] == [
        (seed, "seed", 0), (other, "other", 1), (middle, "middle", 1), (leaf, "leaf", 2),
    ]  # fmt: skip
    assert [(edge.source, edge.target, edge.relation) for edge in found.edges] == [
        (seed, other, "see"), (seed, middle, "by"), (middle, leaf, "from"),
    ]  # fmt: skip
    assert found.nodes[0].score == pytest.approx(1.0)
    assert [node.score for node in found.nodes[1:]] == [None] * 3
    assert not found.truncated


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_the_walk_ends_at_the_hop_limit_and_that_is_no_cut(memory: MemoryService, hops: int) -> None:
    ids = chain(memory, 5)
    found = memory.why("step 0", hops)
    assert [node.id for node in found.nodes] == ids[: hops + 1]
    assert not found.truncated


def test_the_default_is_two_hops_and_ten_are_the_most(memory: MemoryService) -> None:
    chain(memory, 14)
    assert len(memory.why("step 0").nodes) == 3
    assert len(memory.why("step 0", 10).nodes) == len(memory.why("step 0", 999).nodes) == 11


def test_D15_the_direction_can_be_chosen(memory: MemoryService) -> None:
    ids = chain(memory, 5)
    for direction, expected in {
        "out": ids[2:],
        "in": ids[2::-1],
        "both": [ids[2], ids[3], ids[1], ids[4], ids[0]],
    }.items():
        found = memory.why("step 2", 9, direction=direction)  # type: ignore[arg-type]
        assert [node.id for node in found.nodes] == expected
        assert {(edge.source, edge.target) for edge in found.edges} <= set(pairwise(ids))
        assert len(found.edges) == len(expected) - 1


def test_edges_back_and_parallel_edges_are_told_once_each(memory: MemoryService) -> None:
    a, b = memory.remember("a"), memory.remember("b")
    for ends, label in (((a, b), "x"), ((a, b), "y"), ((b, a), "back")):
        memory.relate(*ends, label)
    for direction in ("out", "both"):
        edges = memory.why("a", 5, direction=direction).edges  # type: ignore[arg-type]
        assert sorted(edge.relation for edge in edges) == ["back", "x", "y"]


def test_the_filter_scopes_the_seed_and_not_the_walk(memory: MemoryService) -> None:
    plain = memory.remember("plain words")
    tagged = memory.remember("other words", metadata={"k": 1}, links=[Link(plain, "to")])
    assert [node.id for node in memory.why("plain words", filter={"k": 1}).nodes] == [tagged, plain]
    assert memory.why("plain words", filter={"k": 2}) == Explanation([], [], False)


@pytest.mark.parametrize("decision", ["", "  ", "\u3000"])
def test_a_blank_decision_explains_nothing(memory: MemoryService, decision: str) -> None:
    memory.remember("x")
    assert memory.why(decision) == memory.why(decision, filter={"content": 1}) == Explanation([], [], False)


def test_an_empty_store_explains_nothing(memory: MemoryService) -> None:
    assert memory.why("anything") == Explanation([], [], False)


def test_what_has_expired_is_not_on_the_way(memory: MemoryService, clock: FixedClock) -> None:
    far = memory.remember("far")
    short = memory.remember("short", links=[Link(far, "to")], ttl_seconds=5)
    memory.remember("seed", links=[Link(short, "to")])
    assert len(memory.why("seed").nodes) == 3
    clock.advance(5)
    assert [node.content for node in memory.why("seed").nodes] == ["seed"]


@pytest.mark.parametrize(("degree", "cut"), [(64, False), (65, True)])
def test_at_most_64_edges_of_a_memory_are_followed_the_oldest_first(
    memory: MemoryService, degree: int, cut: bool
) -> None:
    seed = memory.remember("the very seed")
    targets = [memory.remember(f"target {n}") for n in range(degree)]
    for target in targets:
        memory.relate(seed, target, "to")
    found = memory.why("the very seed")
    assert [node.id for node in found.nodes[1:]] == targets[:64]
    assert found.truncated is cut


def test_a_walk_meets_at_most_500_memories(memory: MemoryService) -> None:
    texts = [f"n{n}" for n in range(700)]
    lines = [json.dumps({"id_str": str(fact_id(text)), "content": text}) for text in texts]
    for n in range(1, 700):
        ends = {"from_str": str(fact_id(texts[(n - 1) // 10])), "to_str": str(fact_id(texts[n]))}
        lines.append(json.dumps({"edge": ends | {"relation": "to"}}))
    assert memory.import_(lines).problems == []
    found = memory.why("n0", 10)
    assert (len(found.nodes), found.truncated) == (500, True)
    assert [node.content for node in found.nodes] == texts[:500]


def test_entities_are_met_on_the_way(memory: MemoryService) -> None:
    first = learn(memory, "Theo plays chess", ["Theo"])
    second = learn(memory, "He lives in Lyon", ["Theo"])
    found = memory.why("Theo plays chess", 2)
    assert [(node.id, node.content) for node in found.nodes][1:] == [
        (found.nodes[1].id, "Entity: theo"),
        (second, "He lives in Lyon"),
    ]
    assert found.nodes[0].id == first


@pytest.mark.parametrize(
    ("arguments", "kind", "field"),
    [
        ({"max_hops": -1}, InvalidArgument, "max_hops"),
        ({"max_hops": 1.0}, InvalidArgument, "max_hops"),
        ({"direction": "up"}, InvalidArgument, "direction"),
        ({"direction": None}, InvalidArgument, "direction"),
        ({"filter": {"content": 1}}, ReservedKey, "filter"),
        ({"decision": "x" * 65_537}, QueryTooLarge, "decision"),
        ({"decision": None}, InvalidArgument, "decision"),
    ],
)
def test_bad_arguments_are_refused_by_name(memory: MemoryService, arguments: Any, kind: Any, field: str) -> None:
    with pytest.raises(kind) as caught:
        memory.why(**({"decision": "x"} | arguments))
    assert caught.value.field == field


def test_D15_many_edges_from_one_memory_to_another_are_within_the_budget_of_edges(memory: MemoryService) -> None:
    ids = [memory.remember(f"node {n}") for n in range(40)]
    for source in ids:
        for target in ids:
            if source != target:
                memory.relate(source, target, "a")
    found = memory.why("node 0", 10)
    assert len(found.nodes) == 40 and len(found.edges) == 40 * 39 and not found.truncated
