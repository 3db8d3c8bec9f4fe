"""recall_fused: meaning, words and links in one ranking (memory.md §6; D10, D11, D13, D20, D30; C09)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.stores import contents, learn, scratch
from velesdb_memory import FusionOptions, Link, MemoryService
from velesdb_memory.errors import (
    InvalidArgument,
    QueryTooLarge,
    ReservedKey,
)
from velesdb_memory.ids import fact_id, hub_id
from velesdb_memory.model import Signals
from velesdb_memory.testing import FixedEmbedder

SEED_ONLY = {"lexical_boost": 0.0}
WORDS = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron"]


class World(NamedTuple):
    """A small store: facts with their project, links between them, what each is about, links between entities."""

    facts: list[tuple[str, str]]
    links: list[tuple[int, int, str]]
    topics: list[tuple[int, str]]
    relations: list[tuple[str, str]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    texts = draw(
        st.lists(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True).map(" ".join),
            min_size=1,
            max_size=9,
            unique=True,
        )
    )
    number = st.integers(0, len(texts) - 1)
    entity = st.sampled_from(["ada", "bob", "cy"])
    return World(
        [(text, draw(st.sampled_from("pq"))) for text in texts],
        draw(st.lists(st.tuples(number, number, st.sampled_from(["led to", "mentions"])), max_size=8)),
        draw(st.lists(st.tuples(number, entity), max_size=8)),
        draw(st.lists(st.tuples(entity, entity), max_size=3)),
    )


def build(memory: MemoryService, world: World) -> dict[int, list[tuple[int, str]]]:
    """Store ``world``; the outgoing edges of each record, in the order they were made."""
    out: dict[int, list[tuple[int, str]]] = {}

    def note(source: int, target: int, label: str) -> None:
        out.setdefault(target, [])
        if (target, label) not in out.setdefault(source, []):
            out[source].append((target, label))

    ids = [memory.remember(text, metadata={"project": project}) for text, project in world.facts]
    for source, target, label in world.links:
        if source != target:
            memory.relate(ids[source], ids[target], label)
            note(ids[source], ids[target], label)
    for fact, entity in world.topics:
        learn_more(memory, ids[fact], topics=[entity])
        note(ids[fact], hub_id(entity), "about")
        note(hub_id(entity), ids[fact], "mentions")
    for subject, target in world.relations:
        if subject != target:
            learn_more(memory, ids[0], relations=[(subject, "knows", target)])
            note(hub_id(subject), hub_id(target), "knows")
    return out


def learn_more(memory: MemoryService, fact: int, **found: Any) -> None:
    """Wire more to a stored fact, and leave its metadata alone."""
    from velesdb_memory.memory import wiring

    with memory._core.store.transaction(memory._core.clock.now()) as tx:
        wiring.wire_topics(tx, fact, found.get("topics", ()), fact)
        for subject, label, target in found.get("relations", ()):
            wiring.wire_relation(tx, subject, label, target, fact)


def by_the_seed(
    memory: MemoryService,
    world: World,
    out: dict[int, list[tuple[int, str]]],
    query: str,
    k: int,
    project: str | None,
    hops: int,
    boost: float,
    pool: int | None,
) -> list[tuple[int, float]]:
    """The seed's formula (memory.md §6), written down a second time over what the public searches say."""
    project_of = {fact_id(text): name for text, name in world.facts}
    wanted = {} if project is None else {"project": project}
    depth = min(1000, max(1, max(8 * k, 64) if pool is None else pool))
    # nothing has learned confidence here: recall is similarity, ties by id
    near = [(hit.id, hit.score) for hit in memory.recall(query, 1000, wanted)][:depth]
    if not near or not k:
        return []
    hop_of, edges, queue = {near[0][0]: 0}, [], [near[0][0]]
    for record in queue:
        if hop_of[record] < hops:
            for target, label in out.get(record, ()):
                if target not in hop_of:
                    hop_of[target] = hop_of[record] + 1
                    queue.append(target)
                edges.append((record, target, label))
    total = len(project_of.keys() | out.keys())

    def rarity(record: int) -> float:
        return math.log(total / len(out[record])) / math.log(total) if total > 1 else 0.0

    def weight(record: int) -> float:
        mentions = [rarity(source) for source, target, label in edges if (target, label) == (record, "mentions")]
        return max(mentions) if mentions else 1.0

    reached = [
        record for record in queue[1:] if record in project_of and (project is None or project_of[record] == project)
    ]
    score_of = dict(near) | {record: 0.0 for record in reached if record not in dict(near)}
    best = max([2.22e-16, *(score for _, score in near)])
    fused = {
        record: max(score, 0.0) / best + (boost * weight(record) if record in reached else 0.0)
        for record, score in score_of.items()
    }
    ranked = sorted(score_of, key=lambda record: -fused[record])[:k]
    return [(record, score_of[record]) for record in ranked]


@settings(max_examples=50, deadline=None)
@given(
    world=worlds(),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join),
    k=st.sampled_from([1, 3, 10]),
    project=st.sampled_from([None, "p"]),
    hops=st.integers(0, 4),
    boost=st.sampled_from([0.15, 1.0, -0.5, 0.0]),
    pool=st.sampled_from([None, 0, 1, 2]),
)
def test_D13_a_lexical_boost_of_zero_is_exactly_the_seeds_formula(
    world: World, query: str, k: int, project: str | None, hops: int, boost: float, pool: int | None
) -> None:
    with scratch() as memory:
        out = build(memory, world)
        options = FusionOptions(hops, boost, pool, lexical_boost=0.0)
        found = memory.recall_fused(query, k, None if project is None else {"project": project}, options)
        expected = by_the_seed(memory, world, out, query, k, project, hops, boost, pool)
        assert [(hit.id, hit.score) for hit in found] == expected
        texts = {fact_id(text): text for text, _ in world.facts}
        assert contents(found) == [texts[hit.id] for hit in found]


@settings(max_examples=25, deadline=None)
@given(world=worlds(), query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join))
def test_D13_the_ranking_is_the_weighted_sum_of_its_signals(world: World, query: str) -> None:
    with scratch() as memory:
        build(memory, world)
        options = FusionOptions(graph_boost=0.4, lexical_boost=0.7, explain=True)
        found = memory.recall_fused(query, 1000, None, options)
        signals = [hit.signals for hit in found if hit.signals]
        assert len(signals) == len(found) == len(world.facts)
        fused = [each.vector + 0.4 * each.graph + 0.7 * each.lexical for each in signals]
        assert fused == sorted(fused, reverse=True)
        assert all(0 <= part <= 1 for each in signals for part in (each.vector, each.lexical, each.graph))
        words = set(query.split())
        assert all(bool(each.lexical) == bool(words & set(hit.content.split())) for each, hit in
                   zip(signals, found, strict=True))  # fmt: skip
        if any(words & set(text.split()) for text, _ in world.facts):
            assert max(each.lexical for each in signals) == 1.0


@pytest.fixture
def plain() -> FixedEmbedder:
    """What the example's scores are from, made explicit: cosines .632, .5, .408 and 0."""
    return FixedEmbedder(
        {
            "deploy pipeline": [1, 0, 0, 0],
            "deploy pipeline broke on friday": [0.632, math.sqrt(1 - 0.632**2), 0, 0],
            "deploy checklist": [0.5, 0, math.sqrt(0.75), 0],
            "pipeline color scheme": [0.408, 0, 0, math.sqrt(1 - 0.408**2)],
            "zebra unrelated words": [0, 1, 0, 0],
        }
    )


SEED, CHECKLIST, COLOR, ZEBRA = (
    "deploy pipeline broke on friday",
    "deploy checklist",
    "pipeline color scheme",
    "zebra unrelated words",
)


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, [SEED, CHECKLIST, COLOR, ZEBRA]),
        ({"graph_boost": 0.9}, [SEED, ZEBRA, CHECKLIST, COLOR]),
        ({"pool": 1}, [SEED, ZEBRA]),
        ({"pool": 1, "graph_boost": 5.0}, [ZEBRA, SEED]),
        ({"pool": 0}, [SEED, ZEBRA]),
        ({"pool": 1, "hops": 0}, [SEED]),
    ],
)
def test_the_references_examples_hold(
    open_memory: Callable[..., MemoryService], plain: FixedEmbedder, options: dict[str, Any], order: list[str]
) -> None:
    memory = open_memory(embedder=plain)
    zebra = memory.remember(ZEBRA)
    memory.remember(SEED, links=[Link(zebra, "caused_by")])
    memory.remember(CHECKLIST)
    memory.remember(COLOR)
    found = memory.recall_fused("deploy pipeline", 10, None, FusionOptions(**SEED_ONLY, **options))
    assert contents(found) == order
    scores = {hit.content: hit.score for hit in found}
    assert scores[SEED] == pytest.approx(0.632)
    assert scores.get(ZEBRA, 0.0) == 0.0


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_C09_hops_is_how_far_the_links_are_walked(memory: MemoryService, hops: int) -> None:
    before = memory.remember("fourth wall")
    for text in ("third rail", "second wind", "first light"):
        before = memory.remember(text, links=[Link(before, "then")])
    found = memory.recall_fused("first light", 10, None, FusionOptions(hops=hops, pool=1, lexical_boost=0.0))
    assert contents(found) == ["first light", "second wind", "third rail", "fourth wall"][: hops + 1]


@pytest.mark.parametrize("hops", [10, 11, 10**9])
def test_hops_beyond_ten_mean_ten(memory: MemoryService, hops: int) -> None:
    before = memory.remember("stop 13")
    for number in range(12, 0, -1):
        before = memory.remember(f"stop {number}", links=[Link(before, "then")])
    found = memory.recall_fused("stop 1", 20, None, FusionOptions(hops=hops, pool=1, lexical_boost=0.0))
    assert len(found) == 11


def test_C09_pool_bounds_the_candidates(memory: MemoryService) -> None:
    for number in range(5):
        memory.remember(f"{WORDS[number]} note")
    for pool in (2, 4):
        assert len(memory.recall_fused("note", 10, None, FusionOptions(pool=pool, lexical_boost=0.0))) == pool
    # so many of each kind: one by meaning and one by words
    assert 1 <= len(memory.recall_fused("note", 10, None, FusionOptions(pool=1))) <= 2
    assert len(memory.recall_fused("note", 10)) == 5


def test_C09_graph_boost_moves_what_links_reach(friday: MemoryService) -> None:
    ranks = [
        contents(friday.recall_fused("deploy pipeline", 10, None, FusionOptions(graph_boost=boost))).index(ZEBRA)
        for boost in (-5.0, 5.0)
    ]
    assert ranks[0] > ranks[1] == 0


def test_C09_lexical_boost_moves_what_holds_the_words(open_memory: Callable[..., MemoryService]) -> None:
    memory = open_memory(
        embedder=FixedEmbedder({"parrot": [1, 0], "a talking bird": [1, 0.1], "parrot cage": [0.2, 1]})
    )
    memory.remember("a talking bird")
    memory.remember("parrot cage")
    first = [
        memory.recall_fused("parrot", 1, None, FusionOptions(lexical_boost=boost))[0].content for boost in (0.0, 5.0)
    ]
    assert first == ["a talking bird", "parrot cage"]


def test_C09_explain_adds_the_signals_and_nothing_else(friday: MemoryService) -> None:
    bare = friday.recall_fused("deploy pipeline")
    told = friday.recall_fused("deploy pipeline", options=FusionOptions(explain=True))
    assert [hit.signals for hit in bare] == [None] * 4
    assert [(hit.id, hit.score, hit.metadata) for hit in told] == [(hit.id, hit.score, hit.metadata) for hit in bare]
    assert all(isinstance(hit.signals, Signals) for hit in told)
    assert told[0].signals == Signals(1.0, 1.0, 0.0)
    assert next(hit.signals.graph for hit in told if hit.content == ZEBRA and hit.signals) == 1.0


def test_C09_k_is_how_many_come_back(friday: MemoryService) -> None:
    assert [len(friday.recall_fused("deploy pipeline", k)) for k in (0, 1, 2, 10)] == [0, 1, 2, 4]


def test_C09_filter_keeps_what_matches(memory: MemoryService) -> None:
    memory.remember("amber note", metadata={"n": 1})
    memory.remember("amber memo", metadata={"n": 1.0})
    assert contents(memory.recall_fused("amber", filter={"n": 1.0})) == ["amber memo"]


def test_D13_a_fact_that_only_its_words_find_is_found(open_memory: Callable[..., MemoryService]) -> None:
    vectors = {f"note {n}": [1.0, n / 1000] for n in range(80)}
    memory = open_memory(embedder=FixedEmbedder(vectors | {"where is ticket zq81": [1, 0], "zq81 was closed": [-1, 0]}))
    for text in vectors:
        memory.remember(text)
    memory.remember("zq81 was closed")
    query = "where is ticket zq81"
    assert "zq81 was closed" not in contents(memory.recall_fused(query, 3, None, FusionOptions(lexical_boost=0.0)))
    found = memory.recall_fused(query, 80, None, FusionOptions(pool=5, lexical_boost=3.0, explain=True))
    assert len(found) == 6
    assert found[0].content == "zq81 was closed"
    assert found[0].signals == Signals(0.0, 1.0, 0.0)
    # the score is the similarity, which the words have nothing to do with
    assert found[0].score == pytest.approx(-1.0)


def test_a_fact_that_only_links_reach_has_a_score_of_zero(friday: MemoryService) -> None:
    found = friday.recall_fused("deploy pipeline", 10, None, FusionOptions(pool=1))
    assert found[-1].content == ZEBRA
    assert found[-1].score == 0.0


@pytest.mark.parametrize("filter", [None, {"age": 15}])
@pytest.mark.parametrize("options", [{}, {"graph_boost": 50.0, "hops": 10}, {"lexical_boost": 0.0}])
def test_D10_hubs_never_come_back(
    memory: MemoryService, filter: dict[str, Any] | None, options: dict[str, Any]
) -> None:
    one = learn(memory, "Theo rows", ["theo"], [("theo", "brother of", "camille")], [("theo", "age", 15)])
    other = learn(memory, "Camille sails", ["camille", "theo"])
    found = memory.recall_fused("Entity: theo", 10, filter, FusionOptions(**options))
    assert {hit.id for hit in found} == ({one, other} if filter is None else set())


def test_the_walk_goes_through_hubs_and_the_rarer_one_weighs_more(memory: MemoryService) -> None:
    learn(memory, "the seed question", ["rare", "common"])
    rare = learn(memory, "alone", ["rare"])
    common = [learn(memory, f"crowd {number}", ["common"]) for number in range(6)]
    found = memory.recall_fused("the seed question", 10, None, FusionOptions(pool=1, lexical_boost=0.0, explain=True))
    weight = {hit.id: hit.signals.graph for hit in found if hit.signals}
    records = 8 + 2
    assert weight[rare] == pytest.approx(math.log(records / 2) / math.log(records))
    assert [weight[number] for number in common] == [pytest.approx(math.log(records / 7) / math.log(records))] * 6
    assert found[1].id == rare


def test_D11_a_filtered_search_is_complete(memory: MemoryService) -> None:
    for number in range(120):
        memory.remember(f"amber note {number}", metadata={"project": "other"})
    wanted = {memory.remember(f"unlike {WORDS[number]}", metadata={"project": "mine"}) for number in range(5)}
    for options in (FusionOptions(), FusionOptions(lexical_boost=0.0)):
        found = memory.recall_fused("amber note", 5, {"project": "mine"}, options)
        assert {hit.id for hit in found} == wanted


def test_what_the_graph_reaches_must_satisfy_the_filter_too_but_is_walked_through(memory: MemoryService) -> None:
    end = memory.remember("journey end", metadata={"project": "mine"})
    middle = memory.remember("middle stop", metadata={"project": "other"}, links=[Link(end, "then")])
    memory.remember("start here", metadata={"project": "mine"}, links=[Link(middle, "then")])
    found = memory.recall_fused("start here", 10, {"project": "mine"}, FusionOptions(pool=1))
    assert contents(found) == ["start here", "journey end"]


def test_k_and_pool_are_capped_at_a_thousand() -> None:
    with scratch() as memory:
        with memory._core.store.transaction(1_700_000_000) as tx:
            from velesdb_memory.memory.remember import put_fact

            vectors = memory._core.embed([f"note {number}" for number in range(1_010)])
            for number, vector in enumerate(vectors):
                put_fact(tx, fact_id(f"note {number}"), f"note {number}", {}, vector, None)
        assert len(memory.recall_fused("note", 5_000)) == 1_000
        assert len(memory.recall_fused("note", 5_000, None, FusionOptions(pool=5_000, lexical_boost=0.0))) == 1_000


def test_ties_keep_the_order_of_the_pool_which_is_by_id(open_memory: Callable[..., MemoryService]) -> None:
    texts = [f"note {number}" for number in range(12)]
    memory = open_memory(embedder=FixedEmbedder({text: [1.0, 0.0] for text in [*texts, "query"]}))
    ids = [memory.remember(text) for text in texts]
    for options in (FusionOptions(), FusionOptions(lexical_boost=0.0)):
        assert [hit.id for hit in memory.recall_fused("query", 12, None, options)] == sorted(ids)
    for number in ids:
        memory.feedback(number, True)
    # confidence does not enter, and touching a fact does not move it
    assert [hit.id for hit in memory.recall_fused("query", 12)] == sorted(ids)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("weight", ["graph_boost", "lexical_boost"])
def test_a_weight_that_is_not_finite_means_the_default(friday: MemoryService, weight: str, number: float) -> None:
    options = FusionOptions(**{weight: number}, explain=True)
    assert friday.recall_fused("deploy pipeline", 10, None, options) == friday.recall_fused(
        "deploy pipeline", 10, None, FusionOptions(explain=True)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"hops": -1},
        {"hops": 1.0},
        {"hops": True},
        {"pool": -1},
        {"pool": "3"},
        {"graph_boost": "1"},
        {"lexical_boost": True},
    ],
)
def test_options_of_another_kind_are_refused_by_name(friday: MemoryService, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        friday.recall_fused("deploy", 10, None, FusionOptions(**options))
    assert caught.value.field == next(iter(options))


@pytest.mark.parametrize("query", ["", " \u3000\n"])
def test_a_blank_query_finds_nothing_and_asks_nobody(
    friday: MemoryService, embedder: FixedEmbedder, query: str
) -> None:
    asked = len(embedder.asked)
    found = friday.recall_fused(query, filter={"content": "never looked at"})
    assert found == [] and found.warnings == []
    assert len(embedder.asked) == asked


def test_D20_a_query_over_64_kib_is_refused(friday: MemoryService) -> None:
    with pytest.raises(QueryTooLarge):
        friday.recall_fused("é" * 32_769)


@pytest.mark.parametrize("key", ["content", "_veles_hub"])
def test_a_reserved_key_in_the_filter_is_refused(friday: MemoryService, key: str) -> None:
    with pytest.raises(ReservedKey):
        friday.recall_fused("deploy", filter={key: True})
