"""Stored facts in a compilation: which, in what order, and why (D40; context.md §20)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from conftest import Opener
from support.compiling import compiled, noted, request_for
from support.stores import everything, learn
from velesdb_memory import (
    CompiledContext,
    ContextFragment,
    Decision,
    FusionOptions,
    Importance,
    Link,
    MemoryScope,
    MemoryService,
    Recollection,
)
from velesdb_memory.errors import ContextBudget, ContextOverLimit, InvalidArgument, ProvenanceMismatch, RerankError
from velesdb_memory.ids import fact_id
from velesdb_memory.testing import FixedClock, FixedEmbedder

QUERY = "why did checkout time out"
NEUTRAL = Importance(0.0, 0.0)


def pulled(context: CompiledContext) -> list[Decision]:
    return [decision for decision in context.decisions if isinstance(decision.memory_id, int)]


def ids(context: CompiledContext) -> list[int]:
    return [decision.memory_id for decision in pulled(context) if isinstance(decision.memory_id, int)]


@pytest.fixture
def shop(memory: MemoryService) -> MemoryService:
    """Two projects; in one, a cause that only a link leads to."""
    cause = memory.remember("the audit hook held every worker", metadata={"project": "shop", "seen": 30})
    memory.remember(
        "checkout requests time out at the evening peak",
        metadata={"project": "shop", "seen": 10},
        links=[Link(cause, "caused_by")],
    )
    memory.remember("checkout has a new button", metadata={"project": "shop", "seen": 20})
    memory.remember("checkout requests time out in the mobile app", metadata={"project": "mobile", "seen": 40})
    return memory


def test_memories_are_pulled_as_recall_fused_ranks_them(shop: MemoryService) -> None:
    context = compiled(shop, "a caller's line", query=QUERY, scope=MemoryScope(k=4), importance=NEUTRAL)
    # graph_boost is relative to a whole match, in which words weigh as much as similarity here
    ranked = shop.recall_fused(QUERY, 4, None, FusionOptions(2, 0.15 * 2))
    assert ids(context) == [hit.id for hit in ranked]
    assert context.decisions[0].memory_id is not None and len(context.decisions) == 1 + len(ranked)
    assert context.content.startswith("a caller's line\n\n")
    for hit in ranked:
        assert hit.content in context.content


def test_the_best_of_the_batch_has_relevance_one_and_the_rest_their_share(shop: MemoryService) -> None:
    context = compiled(shop, query=QUERY, scope=MemoryScope(k=4), importance=NEUTRAL)
    relevances = [decision.relevance for decision in pulled(context)]
    assert relevances[0] == 1.0
    assert relevances == sorted(relevances, reverse=True)
    assert all(0.0 <= relevance <= 1.0 for relevance in relevances)


@pytest.mark.parametrize("semantic", [True, False])
@pytest.mark.parametrize("graph_boost", [0.15, 0.6, 0.9])
def test_what_only_links_reach_has_the_share_of_a_match_that_was_asked_for(
    open_memory: Opener, semantic: bool, graph_boost: float
) -> None:
    """Whatever words weigh beside the vectors of the embedder."""
    memory = open_memory(embedder=FixedEmbedder({"slow checkout": [1, 0], "the hook": [0, 1]}, semantic=semantic))
    cause = memory.remember("the hook")
    memory.remember("slow checkout", links=[Link(cause, "caused_by")])
    scope = MemoryScope(k=2, graph_boost=graph_boost)
    context = compiled(memory, query="slow checkout", scope=scope, importance=NEUTRAL)
    assert [decision.relevance for decision in pulled(context)] == [1.0, pytest.approx(graph_boost, abs=1e-6)]


def test_the_reason_names_the_memory_and_what_found_it(shop: MemoryService) -> None:
    plain = compiled(shop, query=QUERY, scope=MemoryScope(k=1), importance=NEUTRAL)
    (decision,) = pulled(plain)
    assert str(decision.memory_id) in decision.reason
    assert "vector 1.00" in decision.reason and "graph 0.00" in decision.reason
    assert "confidence" not in decision.reason
    (blended,) = pulled(compiled(shop, query=QUERY, scope=MemoryScope(k=1)))
    assert "confidence 0.50" in blended.reason and "recency 0.00" in blended.reason


def test_d40_what_only_a_link_reached_is_packed_by_its_blended_rank(shop: MemoryService) -> None:
    """The cause shares no word with the question; a caller's line that shares one must not push it out."""
    cause = fact_id("the audit hook held every worker")
    line = ContextFragment("time flies " + "like an arrow and a banana " * 5)
    scope = MemoryScope(project="shop", k=2, graph_boost=9.0)
    context = compiled(shop, line, query=QUERY, scope=scope, budget=40, importance=NEUTRAL)
    (decision,) = [each for each in pulled(context) if each.memory_id == cause]
    assert decision.action == "preserve" and "the audit hook" in context.content
    assert context.decisions[0].action == "retrieve"


def test_only_the_project_that_was_named_is_pulled_even_over_links(shop: MemoryService) -> None:
    shop.relate(
        fact_id("checkout requests time out at the evening peak"),
        fact_id("checkout requests time out in the mobile app"),
        "like",
    )
    texts = [
        decision.reason for decision in pulled(compiled(shop, query=QUERY, scope=MemoryScope(project="shop", k=10)))
    ]
    assert len(texts) == 3
    assert ids(compiled(shop, query=QUERY, scope=MemoryScope(project="mobile"))) == [
        fact_id("checkout requests time out in the mobile app")
    ]
    assert ids(compiled(shop, query=QUERY, scope=MemoryScope(project="SHOP"))) == []
    assert ids(compiled(shop, query=QUERY, scope=MemoryScope(project=""))) == []


def test_c30_projects_never_leak_into_each_other(memory: MemoryService) -> None:
    for index in range(20):
        memory.remember(f"checkout note {index}", metadata={"project": f"p{index % 2}"})
    for project, parity in (("p0", 0), ("p1", 1)):
        context = compiled(memory, query="checkout note", scope=MemoryScope(project=project, k=20), project=project)
        numbers = {int(line.rsplit(" ", 1)[1]) for line in context.content.split("\n\n")}
        assert numbers == {index for index in range(20) if index % 2 == parity}
        assert memory.context_savings(project).events == 1


@pytest.mark.parametrize("query", ["", " ", "\n\u2003"])
def test_a_blank_query_pulls_nothing(shop: MemoryService, query: str) -> None:
    assert ids(compiled(shop, "x", query=query, scope=MemoryScope())) == []


def test_k_is_five_unless_given_and_zero_pulls_nothing(memory: MemoryService) -> None:
    for index in range(12):
        memory.remember(f"checkout note {index}")
    assert len(ids(compiled(memory, query="checkout", scope=MemoryScope()))) == 5
    assert ids(compiled(memory, query="checkout", scope=MemoryScope(k=0))) == []
    assert len(ids(compiled(memory, query="checkout", scope=MemoryScope(k=5_000)))) == 12


def test_memories_take_only_the_room_that_fragments_leave(memory: MemoryService) -> None:
    for index in range(5):
        memory.remember(f"checkout note {index}")
    request = [f"line {index}" for index in range(1_022)]
    context = compiled(memory, *request, query="checkout", scope=MemoryScope(), budget=10**6)
    assert len(ids(context)) == 2 and len(context.decisions) == 1_024
    assert ids(compiled(memory, *request, "a", "b", query="checkout", scope=MemoryScope(), budget=10**6)) == []


def test_hops_and_graph_boost_are_used(shop: MemoryService) -> None:
    cause = fact_id("the audit hook held every worker")
    scope = {"project": "shop", "k": 2}
    near = compiled(shop, query=QUERY, scope=MemoryScope(**scope, hops=0, graph_boost=9.0), importance=NEUTRAL)
    far = compiled(shop, query=QUERY, scope=MemoryScope(**scope, hops=50, graph_boost=9.0), importance=NEUTRAL)
    off = compiled(shop, query=QUERY, scope=MemoryScope(**scope, graph_boost=math.nan), importance=NEUTRAL)
    assert cause not in ids(near) and cause in ids(far)
    assert ids(off) == ids(compiled(shop, query=QUERY, scope=MemoryScope(**scope), importance=NEUTRAL))


def test_a_memory_goes_through_all_rules(memory: MemoryService) -> None:
    memory.remember("never purge the queue")
    memory.remember("the queue is deep")
    context = compiled(memory, "the queue is deep", query="queue", scope=MemoryScope())
    rules = {decision.memory_id: decision.rule_id for decision in pulled(context)}
    assert rules == {
        fact_id("never purge the queue"): "preserve.negative_constraint",
        fact_id("the queue is deep"): "drop.duplicate",
    }


def test_a_callers_own_line_is_not_said_to_be_pulled(memory: MemoryService) -> None:
    memory.remember("the queue is deep")
    context = compiled(memory, "the queue is deep", query="queue", scope=MemoryScope())
    assert not isinstance(context.decisions[0].memory_id, int)
    assert "pulled" not in context.decisions[0].reason
    assert all(not isinstance(source.memory_id, int) for source in context.sources)


# Importance


@pytest.fixture
def equals(open_memory: Opener) -> MemoryService:
    """Three facts that match the question equally, and so come in the order of their ids; oldest first."""
    memory = open_memory(embedder=FixedEmbedder({name: [1.0, 0.0] for name in ("one", "two", "three", "what")}))
    for name, seen in (("one", 10), ("two", 20), ("three", 30)):
        memory.remember(name, metadata={"seen": seen, "text": "10", "flag": True})
    return memory


def weighed(memory: MemoryService, **importance: Any) -> dict[str, float]:
    """Relevance by content, in the order pulled."""
    context = compiled(memory, query="what", scope=MemoryScope(k=3), importance=Importance(**importance), budget=10**6)
    names = {fact_id(name): name for name in ("one", "two", "three")}
    return {names[d.memory_id]: d.relevance for d in pulled(context) if isinstance(d.memory_id, int)}


def test_learned_confidence_lifts_and_lowers(equals: MemoryService) -> None:
    assert list(weighed(equals)) == ["one", "two", "three"]
    equals.feedback(fact_id("three"), True)
    equals.feedback(fact_id("one"), False)
    assert list(weighed(equals)) == ["three", "two", "one"]
    relevance = weighed(equals, confidence=0.5)
    assert relevance["three"] == 1.0 and relevance["two"] == 1.0
    assert relevance["one"] == pytest.approx(1.0 + 0.5 * (0.45 - 0.5) * 2, abs=1e-6)
    assert list(weighed(equals, confidence=-1.0)) == ["one", "two", "three"]
    assert list(weighed(equals, confidence=0.0)) == ["one", "two", "three"]


def test_recency_is_the_place_between_the_oldest_and_the_newest_of_the_batch(equals: MemoryService) -> None:
    assert list(weighed(equals, recency=0.3, recency_field="seen")) == ["three", "two", "one"]
    down = weighed(equals, recency=-0.4, recency_field="seen")
    assert list(down) == ["one", "two", "three"]
    assert list(down.values()) == [pytest.approx(value, abs=1e-6) for value in (1.0, 0.8, 0.6)]


@pytest.mark.parametrize("field", [None, "nothing", "text", "flag", "_veles_date", "_veles_ctx_used_at"])
def test_what_has_no_different_numbers_there_is_equally_recent(equals: MemoryService, field: str | None) -> None:
    assert list(weighed(equals, recency=0.5, recency_field=field)) == ["one", "two", "three"]


def test_a_memory_without_the_date_counts_as_the_oldest(equals: MemoryService) -> None:
    equals.remember("three", metadata={})
    relevance = weighed(equals, recency=-0.5, recency_field="seen")
    assert relevance == {"one": 1.0, "three": 1.0, "two": 0.5}


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_not_finite_counts_as_the_default(equals: MemoryService, weight: float) -> None:
    equals.feedback(fact_id("three"), True)
    assert weighed(equals, confidence=weight, recency=weight, recency_field="seen") == weighed(
        equals, recency_field="seen"
    )


def test_huge_weights_leave_relevance_between_zero_and_one(equals: MemoryService) -> None:
    relevance = weighed(equals, recency=1e308, confidence=1e308, recency_field="seen")
    assert all(0.0 <= value <= 1.0 for value in relevance.values())


# Determinism, other embedders, faults


def test_the_same_request_gives_the_same_answer_although_originals_are_kept(memory: MemoryService) -> None:
    """What a compilation stores must not change how the next one ranks."""
    for index in range(6):
        learn(memory, f"checkout note {index}", topics=["checkout", f"topic {index % 2}"])
    first = compiled(memory, *(f"line {n}" for n in range(30)), query="checkout note 3", scope=MemoryScope(k=6))
    again = compiled(memory, *(f"line {n}" for n in range(30)), query="checkout note 3", scope=MemoryScope(k=6))
    assert first == again


def test_d30_a_store_of_another_embedder_is_searched_by_words_and_a_warning_says_so(
    shop: MemoryService, open_memory: Opener
) -> None:
    other = open_memory(embedder=FixedEmbedder(model="another"))
    context = compiled(other, query=QUERY, scope=MemoryScope(project="shop"))
    assert fact_id("checkout requests time out at the evening peak") in ids(context)
    (words,) = noted(context)
    assert "fixed" in words and "another" in words
    with pytest.raises(ProvenanceMismatch):
        other.recall(QUERY)


def test_nothing_is_searched_for_a_request_that_cannot_be_compiled(
    shop: MemoryService, embedder: FixedEmbedder
) -> None:
    before, asked = everything(shop), list(embedder.asked)
    for error, more in (
        (ContextBudget, {"budget": 0}),
        (ContextOverLimit, {"fragments": ["x" * 1_048_577]}),
        (ContextOverLimit, {"fragments": ["x"] * 1_025}),
        (InvalidArgument, {"scope": MemoryScope(k=-1)}),
    ):
        arguments: dict[str, Any] = {"query": QUERY, "scope": MemoryScope()} | more
        with pytest.raises(error):
            compiled(shop, *arguments.pop("fragments", ()), **arguments)
    assert (everything(shop), embedder.asked) == (before, asked)


# Rerankers


class Backwards:
    """Orders candidates by their text, last first."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[str]]] = []

    def rerank(self, query: str, candidates: Sequence[Recollection]) -> Sequence[Recollection]:
        self.seen.append((query, [candidate.content for candidate in candidates]))
        return sorted(candidates, key=lambda candidate: candidate.content, reverse=True)


def test_a_reranker_gets_all_candidates_and_chooses(memory: MemoryService) -> None:
    for index in range(30):
        memory.remember(f"checkout note {index:02}")
    reranker = Backwards()
    request = request_for(query=" checkout ", scope=MemoryScope(k=4), importance=NEUTRAL)
    context = memory.compile_context_reranked(request, reranker)
    assert context.content.split("\n\n") == [f"checkout note {index}" for index in (29, 28, 27, 26)]
    assert [decision.relevance for decision in pulled(context)] == [1.0, 0.75, 0.5, 0.25]
    assert "place 2 of 4" in pulled(context)[1].reason
    ((query, seen),) = reranker.seen
    assert query == "checkout" and len(seen) == 30


def test_importance_applies_on_top_of_a_reranker(memory: MemoryService) -> None:
    for index in range(4):
        memory.remember(f"checkout note {index}", metadata={"n": -index})
    request = request_for(
        query="checkout", scope=MemoryScope(k=4), importance=Importance(0.0, 5.0, "n")
    )
    context = memory.compile_context_reranked(request, Backwards())
    assert context.content.split("\n\n") == [f"checkout note {index}" for index in (0, 1, 2, 3)]


def test_a_reranker_that_repeats_itself_gains_nothing(memory: MemoryService) -> None:
    for index in range(3):
        memory.remember(f"checkout note {index}")

    class Repeating:
        def rerank(self, query: str, candidates: Sequence[Recollection]) -> Sequence[Recollection]:
            return [candidates[0], candidates[0], candidates[1]]

    context = memory.compile_context_reranked(request_for(query="checkout", scope=MemoryScope(k=3)), Repeating())
    assert len(ids(context)) == 2


def test_a_reranker_that_fails_or_invents_is_reported_and_nothing_is_stored(memory: MemoryService) -> None:
    memory.remember("checkout")

    class Failing:
        def rerank(self, query: str, candidates: Sequence[Recollection]) -> Sequence[Recollection]:
            raise RuntimeError("no model")

    class Inventing:
        def rerank(self, query: str, candidates: Sequence[Recollection]) -> Sequence[Recollection]:
            return [Recollection(5, 1.0, "made up")]

    before = everything(memory)
    for reranker in (Failing(), Inventing()):
        with pytest.raises(RerankError):
            memory.compile_context_reranked(request_for(query="checkout", scope=MemoryScope()), reranker)
    assert everything(memory) == before


def test_a_reranker_is_not_asked_when_there_is_nothing_to_order(memory: MemoryService) -> None:
    reranker = Backwards()
    memory.compile_context_reranked(request_for("x", query="checkout", scope=MemoryScope()), reranker)
    memory.compile_context_reranked(request_for("x", query="checkout"), reranker)
    assert reranker.seen == []


def test_expired_memories_are_not_pulled(memory: MemoryService, clock: FixedClock) -> None:
    memory.remember("checkout is slow", ttl_seconds=10)
    assert len(ids(compiled(memory, query="checkout", scope=MemoryScope()))) == 1
    clock.advance(10)
    assert ids(compiled(memory, query="checkout", scope=MemoryScope())) == []
