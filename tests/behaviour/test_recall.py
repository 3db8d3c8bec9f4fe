"""recall (memory.md §4; D10, D11, D12, D20)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Opener
from support import oracle
from support.stores import learn, listed, scratch
from velesdb_memory import ColumnFilter, MemoryService
from velesdb_memory.errors import InvalidArgument, InvalidMetadata, QueryTooLarge, ReservedKey
from velesdb_memory.store.sqlite import search
from velesdb_memory.testing import FixedClock, FixedEmbedder


def exact(embedder: FixedEmbedder, query: str, memory: MemoryService) -> list[tuple[float, int]]:
    """Every live fact with its cosine to ``query``, the best first: a scan of everything, in double precision."""
    facts = listed(memory)
    vectors = embedder.embed([query, *(fact.content for fact in facts)]).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return sorted(((score, fact.id) for score, fact in zip(vectors[1:] @ vectors[0], facts, strict=True)), reverse=True)


def assert_exact(hits: list[Any], ranking: list[tuple[float, int]], k: int) -> None:
    """The hits are those of the ranking; where two scores differ by less than single precision shows, either goes."""
    assert len(hits) == min(k, len(ranking)) == len({hit.id for hit in hits})
    score_of = {number: score for score, number in ranking}
    for hit, (score, _) in zip(hits, ranking, strict=False):
        assert hit.score == pytest.approx(score_of[hit.id], abs=1e-5)
        assert hit.score == pytest.approx(score, abs=1e-5)


def test_a_hit_carries_the_cosine_the_text_and_the_metadata(open_memory: Opener) -> None:
    memory = open_memory(embedder=FixedEmbedder({"q": [1, 0], "same": [2, 0], "across": [0, 1], "against": [-1, 0]}))
    numbers = [memory.remember(text, metadata={"k": [1]}) for text in ("against", "same", "across")]
    hits = memory.recall(" q\u2003")
    assert [(hit.id, hit.content, hit.score) for hit in hits] == [
        (numbers[1], "same", 1.0),
        (numbers[2], "across", 0.0),
        (numbers[0], "against", -1.0),
    ]
    assert hits[0].metadata == {"_veles_date": 20231114, "k": [1]}


@pytest.mark.parametrize("query", ["", " ", "\u3000\n"])
def test_a_blank_query_finds_nothing_even_with_a_bad_filter(memory: MemoryService, query: str) -> None:
    memory.remember("x")
    assert memory.recall(query) == memory.recall(query, filter={"content": 1}) == []


def test_k_zero_finds_nothing_and_k_has_a_default_of_ten_and_a_ceiling_of_a_thousand(memory: MemoryService) -> None:
    for n in range(12):
        memory.remember(f"fact {n}")
    assert [len(memory.recall("fact", k)) for k in (0, 3, 12, 5_000, 10**30)] == [0, 3, 12, 12, 12]
    assert len(memory.recall("fact")) == 10


@pytest.mark.parametrize("k", [-1, 1.0, "5", True, None])
def test_k_that_is_no_count_is_refused(memory: MemoryService, k: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        memory.recall("x", k)
    assert caught.value.field == "k"


def test_D20_a_query_over_64_KiB_is_refused(memory: MemoryService) -> None:
    memory.remember("x")
    assert len(memory.recall("x " * 32_768)) == 1
    with pytest.raises(QueryTooLarge) as caught:
        memory.recall("x" * 65_537)
    assert (caught.value.field, caught.value.limit) == ("query", 65_536)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("query", [None, 5, b"x", "\ud800"])
def test_a_query_is_text(memory: MemoryService, query: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        memory.recall(query)
    assert caught.value.field == "query"


def test_a_reserved_filter_key_is_refused_but_the_date_may_be_filtered(memory: MemoryService) -> None:
    memory.remember("x")
    with pytest.raises(ReservedKey) as caught:
        memory.recall("x", filter={"_veles_hub": True})
    assert caught.value.field == "filter"
    assert len(memory.recall("x", filter={"_veles_date": 20231114})) == 1
    assert memory.recall("x", filter={"_veles_date": 20231114.0}) == []


def test_C38_a_filter_value_that_json_cannot_carry_is_refused(memory: MemoryService) -> None:
    for value in (float("nan"), 2**64, {1}):
        with pytest.raises(InvalidMetadata) as caught:
            memory.recall("x", filter={"a": value})
        assert caught.value.field == "filter"


def test_an_empty_filter_is_none(memory: MemoryService) -> None:
    memory.remember("x")
    assert memory.recall("x", filter={}) == memory.recall("x") != []


def test_a_filter_takes_any_key_and_does_not_look_inside(memory: MemoryService) -> None:
    number = memory.remember("x", metadata={"a.b": 1, "": 2, "é\0": 3, "n": {"a": 1}})
    for wanted in ({"a.b": 1}, {"": 2}, {"é\0": 3}, {"n": {"a": 1}}, {"a.b": 1, "": 2}):
        assert [hit.id for hit in memory.recall("x", filter=wanted)] == [number]
    for wanted in ({"n.a": 1}, {"n": {}}, {"a": {"b": 1}}, {"a.b": 1, "": 3}):
        assert memory.recall("x", filter=wanted) == []


METADATA = st.dictionaries(st.sampled_from(["a", "b", "c.d"]), oracle.VALUES, max_size=3)


@settings(max_examples=25, deadline=None)
@given(facts=st.lists(METADATA, min_size=1, max_size=8), data=st.data())
def test_D11_strict_equality_finds_all_and_only_what_the_rules_say(facts: list[dict[str, Any]], data: Any) -> None:
    with scratch() as memory:
        for n, metadata in enumerate(facts):
            memory.remember(f"fact {n}", metadata=metadata)
        stored = {entry.id: entry.metadata for entry in listed(memory)}
        known = [{key: value} for metadata in facts for key, value in metadata.items()]
        for wanted in data.draw(
            st.lists(st.sampled_from(known) if known else METADATA, max_size=4) | st.lists(METADATA, max_size=4)
        ):
            expected = {number for number, metadata in stored.items() if oracle.holds(metadata, wanted)}
            assert {hit.id for hit in memory.recall("fact", filter=wanted)} == expected
            assert {entry.id for entry in listed(memory, filter=wanted)} == expected


def test_D11_a_filtered_search_is_complete_at_every_selectivity(memory: MemoryService, embedder: FixedEmbedder) -> None:
    for n in range(400):
        memory.remember(f"noise about {n} things", metadata={"rare": n == 250, "half": n % 2, "all": "yes"})
    ranking = exact(embedder, "noise", memory)
    flags = {entry.id: entry.metadata for entry in listed(memory)}
    for wanted in (
        {"rare": True},
        {"half": 1},
        {"all": "yes"},
        {"half": 0, "rare": True},
        {"half": 1, "rare": True},
        {"all": 1},
    ):
        matching = [pair for pair in ranking if oracle.holds(flags[pair[1]], wanted)]
        for k in (1, 10, 300, 1_000):
            assert_exact(memory.recall("noise", k, wanted), matching, k)


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The widths of a search as they would be in a store a hundred times as large."""
    for name, value in {
        "broad_from": lambda rows: 10,
        "_RERANK_ALL": 4,
        "_WALK": 128,
    }.items():
        monkeypatch.setattr(search, name, value)


@pytest.mark.usefixtures("tight")
def test_D11_the_ways_that_large_stores_take_are_complete_too(memory: MemoryService, embedder: FixedEmbedder) -> None:
    for n in range(300):
        memory.remember(f"fact number {n}", metadata={"n": n, "even": n % 2 == 0, "third": n % 3 == 0})
    ranking = exact(embedder, "fact", memory)
    fields = {entry.id: entry.metadata for entry in listed(memory)}
    for filters in (
        [("n", "ge", 0)],
        [("n", "ge", 20), ("n", "lt", 290)],
        [("even", "eq", True), ("third", "eq", True)],
        [("n", "lt", 151), ("n", "gt", 148)],
        [("n", "lt", 20), ("n", "gt", 280)],
        [("n", "eq", 7)],
        [("n", "ge", 5), ("n", "eq", 7)],
    ):
        matching = [pair for pair in ranking if all(oracle.satisfies(fields[pair[1]], *f) for f in filters)]
        for k in (1, 5, 40, 300):
            hits = memory.recall_where("fact", [ColumnFilter(*f) for f in filters], k)  # type: ignore[arg-type]
            assert_exact(hits, matching, k)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    dimension=st.sampled_from([1, 2, 3, 16, 96]),
    size=st.integers(1, 400),
    spread=st.sampled_from([1.0, 0.1, 1e-3]),
    k=st.integers(1, 50),
)
def test_D11_the_ranking_equals_an_exact_scan(seed: int, dimension: int, size: int, spread: float, k: int) -> None:
    random = np.random.default_rng(seed)
    # clusters: the closer the facts, the less a rough score can tell them apart
    centres = random.standard_normal((3, dimension))
    vectors = centres[random.integers(0, 3, size)] + spread * random.standard_normal((size, dimension))
    chosen = {f"f{n}": vector for n, vector in enumerate(vectors.tolist())} | {"q": centres[0].tolist()}
    embedder = FixedEmbedder(chosen, dimension=dimension)
    with scratch(embedder) as memory:
        for n in range(size):
            memory.remember(f"f{n}", metadata={"k": n % 2})
        ranking = exact(embedder, "q", memory)
        # a pool of 64 at least is ranked anew by confidence, which all share
        assert_exact(memory.recall("q", k), ranking, k)
        odd = {entry.id for entry in listed(memory, filter={"k": 1})}
        matching = [pair for pair in ranking if pair[1] in odd]
        assert_exact(memory.recall_where("q", [ColumnFilter("k", "eq", 1)], k), matching, k)


def test_D11_facts_that_differ_by_less_than_their_codes_show_are_ranked_exactly(open_memory: Opener) -> None:
    random = np.random.default_rng(5)
    centre = random.standard_normal(64)
    vectors = {f"f{n}": (centre + 1e-3 * random.standard_normal(64)).tolist() for n in range(500)}
    embedder = FixedEmbedder(vectors | {"q": (centre + 1e-2 * random.standard_normal(64)).tolist()})
    memory = open_memory(embedder=embedder)
    for text in vectors:
        memory.remember(text, metadata={"k": 1})
    ranking = [number for _, number in exact(embedder, "q", memory)]
    found = [hit.id for hit in memory.recall_where("q", [ColumnFilter("k", "eq", 1)], 10)]
    # neighbours in the exact ranking may change places where single precision cannot tell them apart
    assert len(set(found) & set(ranking[:12])) >= 9
    assert len({hit.id for hit in memory.recall("q", 10)} & set(ranking[:12])) >= 9


@pytest.mark.parametrize("filtered", [False, True])
def test_D11_D12_ties_at_the_cut_go_to_the_smaller_id_however_many_there_are(
    open_memory: Opener, filtered: bool
) -> None:
    texts = [f"same {n}" for n in range(500)]
    memory = open_memory(embedder=FixedEmbedder({"q": [1, 0]} | {text: [1, 1] for text in texts}))
    ids = sorted(memory.remember(text, metadata={"k": 1}) for text in texts)
    where = [ColumnFilter("k", "eq", 1)] if filtered else []
    assert [hit.id for hit in memory.recall_where("q", where, 5)] == ids[:5]


def test_no_fact_is_too_far_away_to_be_found(open_memory: Opener) -> None:
    memory = open_memory(embedder=FixedEmbedder({"q": [1, 0], "against": [-1, 0]}))
    memory.remember("against")
    assert memory.recall("q")[0].score == -1.0


def test_expired_facts_do_not_shrink_the_result(memory: MemoryService, clock: FixedClock) -> None:
    for n in range(200):
        memory.remember(f"needle {n}", metadata={"k": 1}, ttl_seconds=5)
    last = [memory.remember(text, metadata={"k": 1}) for text in ("hay one", "hay two")]
    clock.advance(5)
    assert {hit.id for hit in memory.recall("needle", 2)} == set(last)
    assert {hit.id for hit in memory.recall("needle", 2, {"k": 1})} == set(last)
    assert {hit.id for hit in memory.recall_where("needle", [ColumnFilter("k", "eq", 1)], 2)} == set(last)


def test_D10_entities_never_come_back_whatever_the_filter(memory: MemoryService) -> None:
    fact = learn(memory, "Theo is 15", ["Theo"], [("Theo", "brother of", "Camille")], [("Theo", "age", 15)])
    assert [hit.id for hit in memory.recall("Entity: theo")] == [fact]
    assert memory.recall("theo", filter={"age": 15}) == []
    assert memory.recall_where("theo", [ColumnFilter("age", "eq", 15)]) == []
    assert memory.why("theo", filter={"age": 15}).nodes == []
    assert [node.id for node in memory.why("Entity: theo", 0).nodes] == [fact]


def test_C30_two_projects_in_one_store_do_not_leak_into_each_other(memory: MemoryService) -> None:
    for n in range(60):
        memory.remember(f"note {n}", metadata={"project": "ab"[n % 2]})
    for project in "ab":
        hits = memory.recall("note", 100, {"project": project})
        assert len(hits) == 30 and all(hit.metadata and hit.metadata["project"] == project for hit in hits)


def test_C52_with_no_namespace_everything_is_found_by_everything(memory: MemoryService) -> None:
    number = memory.remember("plain")
    assert memory.recall("plain")[0].id == listed(memory)[0].id == memory.why("plain").nodes[0].id == number
