"""recall_fused with a reranker, in a store that another embedder filled, and with two projects (D13, D30; C30)."""


from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support.stores import contents, everything, scratch
from velesdb_memory import FusionOptions, MemoryService, Recollection
from velesdb_memory.errors import (
    InvalidArgument,
    ProvenanceMismatch,
    RerankError,
)
from velesdb_memory.testing import FixedEmbedder

SEED, CHECKLIST, COLOR, ZEBRA = (
    "deploy pipeline broke on friday",
    "deploy checklist",
    "pipeline color scheme",
    "zebra unrelated words",
)

# -- reranking ---------------------------------------------------------------------------------------------------------


class Backwards:
    """A reranker that turns everything round and remembers what it was given."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def rerank(self, query: str, candidates: Sequence[Recollection]) -> Sequence[Recollection]:
        self.asked.append((query, contents(list(candidates))))
        return list(reversed(candidates))


class Broken:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def rerank(self, query: str, candidates: Sequence[Recollection]) -> Sequence[Recollection]:
        raise self.error


def test_a_reranker_gets_the_whole_pool_and_its_order_decides(friday: MemoryService) -> None:
    whole = contents(friday.recall_fused("deploy pipeline", 10))
    reranker = Backwards()
    found = friday.recall_fused_reranked("  deploy pipeline ", 2, None, None, reranker)
    assert reranker.asked == [("deploy pipeline", whole)]
    assert contents(found) == whole[::-1][:2]


def test_a_reranker_may_leave_out_but_not_exceed(friday: MemoryService) -> None:
    class Picky:
        def rerank(self, query: str, candidates: Sequence[Recollection]) -> Sequence[Recollection]:
            return tuple(hit for hit in candidates if "deploy" in hit.content)

    assert len(friday.recall_fused_reranked("deploy pipeline", 3, None, None, Picky())) == 2


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("x"), InvalidArgument("inner")])
def test_a_reranker_that_fails_is_a_rerank_error(friday: MemoryService, error: Exception) -> None:
    with pytest.raises(RerankError) as caught:
        friday.recall_fused_reranked("deploy", 2, None, None, Broken(error))
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(("query", "k"), [("", 3), ("deploy", 0)])
def test_a_reranker_is_not_asked_about_nothing(friday: MemoryService, query: str, k: int) -> None:
    assert friday.recall_fused_reranked(query, k, None, None, Broken(AssertionError("asked"))) == []


# -- a store that another embedder filled ------------------------------------------------------------------------------


@pytest.fixture
def foreign(friday: MemoryService, open_memory: Callable[..., MemoryService], folder: Path) -> MemoryService:
    """The same store, opened with another model of the same width."""
    return open_memory(folder, FixedEmbedder(model="other-model"))


def test_D30_words_and_links_still_find_under_another_embedder(foreign: MemoryService) -> None:
    found = foreign.recall_fused("deploy pipeline", 10, None, FusionOptions(explain=True))
    assert found[0].content == SEED
    assert {ZEBRA, CHECKLIST, COLOR} == set(contents(found)[1:])
    assert [hit.score for hit in found] == [0.0] * 4
    assert all(hit.signals and hit.signals.vector == 0 for hit in found)
    [warning] = found.warnings
    assert "fixed" in warning and "other-model" in warning and "migrate-embeddings" in warning


def test_D30_the_dated_and_the_reranked_search_carry_the_warning(foreign: MemoryService) -> None:
    found, dated = foreign.recall_fused_dated("deploy pipeline")
    assert dated is not None and dated.now == "2023-11-14"
    assert len(found.warnings) == 1
    assert len(foreign.recall_fused_reranked("deploy pipeline", 2, None, None, Backwards()).warnings) == 1


def test_D30_without_words_the_search_is_refused_and_names_both_models(foreign: MemoryService) -> None:
    before = everything(foreign)
    with pytest.raises(ProvenanceMismatch, match=r"(?s)fixed.*other-model.*migrate-embeddings"):
        foreign.recall_fused("deploy pipeline", 10, None, FusionOptions(lexical_boost=0.0))
    assert everything(foreign) == before


# -- two projects in one store -----------------------------------------------------------------------------------------


def test_C30_two_projects_written_at_once_do_not_leak_through_filters() -> None:
    from concurrent.futures import ThreadPoolExecutor

    from velesdb_memory import ColumnFilter
    from velesdb_memory.extract.outline import OutlineExtractor

    def write(project: str) -> None:
        for number in range(15):
            metadata = {"project": project}
            memory.remember(f"{project} keeps amber note {number}", metadata=metadata)
            memory.remember_extracted(
                f"{project} shares basil {number} | shared topic", OutlineExtractor(), metadata=metadata
            )

    with scratch() as memory:
        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(write, project) for project in ("alpha", "omega")]:
                done.result()
        for project in ("alpha", "omega"):
            wanted = {"project": project}
            searches = [
                memory.recall("amber basil", 100, wanted),
                memory.recall_where("amber basil", [ColumnFilter("project", "eq", project)], 100),
                memory.recall_fused("amber basil", 100, wanted, FusionOptions(graph_boost=9.0)),
                memory.recall_fused("amber basil", 100, wanted, FusionOptions(lexical_boost=0.0)),
                memory.list_memories(limit=100, filter=wanted).memories,
            ]
            for found in searches:
                assert len(found) == 30
                assert all(hit.content.startswith(project) for hit in found)
        assert memory.memory_status().memory.facts == 60
