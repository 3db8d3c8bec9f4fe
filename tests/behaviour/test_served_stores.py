"""What a store makes of embedders that ask a model server: provenance, models that change, servers that are down (C40,
D30)."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Any

import pytest

from conftest import Opener
from support.model_server import ModelServer
from support.served import BOTH, FACT, Build, ollama, openai
from support.stores import assert_sound, contents, everything, listed
from velesdb_memory import ColumnFilter, HashEmbedder, Link, MemoryService, OllamaEmbedder
from velesdb_memory.errors import EmbedderUnavailable, ProvenanceMismatch
from velesdb_memory.extract.outline import OutlineExtractor
from velesdb_memory.memory import core
from velesdb_memory.work import worker


@BOTH
def test_facts_are_found_by_the_servers_vectors(server: ModelServer, open_memory: Opener, build: Build) -> None:
    memory = open_memory(embedder=build(server.url))
    first = memory.remember("tea in the morning", metadata={"k": 1})
    memory.remember("the mill burned down", links=[Link(first, "after")])
    assert contents(memory.recall("morning tea", 1)) == ["tea in the morning"]
    assert contents(memory.recall_where("mill", [ColumnFilter("k", "eq", 1)])) == ["tea in the morning"]
    assert len(memory.why("the mill burned down").nodes) == 2
    status = memory.memory_status()
    assert (status.embedder.model, status.embedder.dimension, status.embedder.semantic) == ("tiny", 8, True)
    assert (status.provenance.model, status.provenance.dimension) == ("tiny", 8)
    assert status.embedder.error is None
    assert memory.check_embedder().sound


def test_the_same_model_may_be_served_by_another_backend(server: ModelServer, open_memory: Opener) -> None:
    memory = open_memory(embedder=ollama(server.url, "tiny:latest"))
    memory.remember(FACT)
    memory.close()
    assert contents(open_memory(embedder=openai(server.url)).recall(FACT)) == [FACT]


@BOTH
def test_c40_d30_another_model_is_refused_before_its_server_is_asked(
    server: ModelServer, open_memory: Opener, build: Build
) -> None:
    memory = open_memory(embedder=build(server.url))
    memory.remember(FACT)
    memory.close()
    server.script({})
    memory = open_memory(embedder=build(server.url, model="large"))
    with pytest.raises(ProvenanceMismatch) as caught:
        memory.recall("Oslo")
    for told in ("tiny (8 dimensions)", "large", "migrate-embeddings"):
        assert told in str(caught.value)
    assert server.seen() == []
    found = memory.check_embedder()
    assert not found.sound and "migrate-embeddings" in found.advice


@pytest.mark.parametrize("changed", [{"salt": "new"}, {"salt": "new", "dimension": 12}], ids=["as wide", "wider"])
@BOTH
def test_c40_d30_a_model_that_was_updated_in_place_is_noticed_before_anything_is_mixed(
    server: ModelServer, open_memory: Opener, build: Build, changed: dict[str, Any]
) -> None:
    memory = open_memory(embedder=build(server.url))
    memory.remember(FACT)
    before = everything(memory)
    memory.close()
    server.script(changed)
    memory = open_memory(embedder=build(server.url))
    for call in (lambda: memory.recall("Oslo"), lambda: memory.remember("another"), lambda: memory.recall("Oslo")):
        with pytest.raises(ProvenanceMismatch) as caught:
            call()
        assert "tiny" in str(caught.value) and "migrate-embeddings" in str(caught.value)
        status = memory.memory_status()
        # another width is plain to see, another model of that width is not
        assert status.embedder.error == str(caught.value) or status.embedder.dimension != status.provenance.dimension
    assert everything(memory) == before
    assert contents(memory.recall_fused("oslo")) == [FACT]
    server.script({})
    assert contents(open_memory(embedder=build(server.url)).recall("Oslo")) == [FACT]


def test_a_model_that_is_updated_while_the_service_runs_is_noticed_in_time(
    server: ModelServer, open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(embedder=ollama(server.url))
    memory.remember(FACT)
    memory.recall("Oslo")
    server.script({"salt": "new"})
    memory.recall("Oslo")
    assert [len(request["body"]["input"]) for request in server.seen()] == [1]
    monkeypatch.setattr(core, "COMPARE_EVERY", -1.0)
    with pytest.raises(ProvenanceMismatch):
        memory.recall("Oslo")
    server.script({})
    assert contents(memory.recall("Oslo")) == [FACT]


# --- a server that is down


@pytest.fixture
def filled(server: ModelServer, open_memory: Opener) -> None:
    memory = open_memory(embedder=ollama(server.url))
    first = memory.remember(FACT, metadata={"town": "Oslo"})
    memory.remember("the mill burned down", links=[Link(first, "after")])
    memory.close()


def test_c40_with_the_server_down_all_but_vectors_works_and_nothing_is_dropped(
    filled: None, open_memory: Opener, nowhere: str
) -> None:
    memory = open_memory(embedder=ollama(nowhere))
    before = everything(memory)
    status = memory.memory_status()
    assert (status.embedder.dimension, status.provenance.dimension, status.memory.facts) == (8, 8, 2)
    [fact] = listed(memory, filter={"town": "Oslo"})
    for call in (
        lambda: memory.recall("Oslo"),
        lambda: memory.recall_where("Oslo", [ColumnFilter("town", "eq", "Oslo")]),
        lambda: memory.why("Oslo"),
        lambda: memory.remember("another"),
    ):
        with pytest.raises(EmbedderUnavailable) as caught:
            call()
        for told in (nowhere, "tiny", "3 attempts", "VELESDB_MEMORY_EMBEDDER_URL"):
            assert told in str(caught.value)
    assert nowhere in (memory.memory_status().embedder.error or "")
    assert everything(memory) == before
    found = memory.recall_fused("oslo", filter={"town": "Oslo"})
    assert contents(found) == [FACT]
    assert nowhere in found.warnings[0]
    assert memory.entity("nobody").found is False
    assert memory.feedback(fact.id, True) > 0.5
    [other] = [entry.id for entry in listed(memory) if entry.id != fact.id]
    memory.relate(fact.id, other, "before")
    assert memory.unrelate(fact.id, other, "before").found
    assert memory.forget(other)
    finding = memory.check_embedder()
    assert not finding.sound and nowhere in finding.detail
    assert_sound(memory)


def test_a_new_store_opens_with_the_server_down_and_learns_the_dimension_when_it_is_up(
    server: ModelServer, open_memory: Opener
) -> None:
    server.script({"status": 503})
    memory = open_memory(embedder=ollama(server.url))
    status = memory.memory_status()
    assert (status.embedder.model, status.embedder.dimension, status.provenance.recorded) == ("tiny", None, False)
    with pytest.raises(EmbedderUnavailable):
        memory.remember(FACT)
    assert memory.recall_fused("oslo") == []
    assert memory.memory_status().memory.facts == 0
    server.script({})
    memory.remember(FACT)
    assert contents(memory.recall("Oslo")) == [FACT]
    status = memory.memory_status()
    assert (status.embedder.dimension, status.provenance.model, status.embedder.error) == (8, "tiny", None)


def test_d30_an_empty_store_of_another_model_is_taken_over_at_the_first_answer(
    server: ModelServer, open_memory: Opener
) -> None:
    open_memory(embedder=HashEmbedder()).close()
    memory = open_memory(embedder=ollama(server.url))
    assert memory.recall("anything") == []
    memory.remember(FACT)
    assert memory.memory_status().provenance.model == "tiny"
    assert_sound(memory)


def test_d30_a_store_of_another_model_is_refused_while_the_server_is_down(
    open_memory: Opener, nowhere: str
) -> None:
    memory = open_memory(embedder=HashEmbedder())
    memory.remember(FACT)
    memory.close()
    with pytest.raises(ProvenanceMismatch, match="unknown dimensions"):
        open_memory(embedder=ollama(nowhere)).recall("Oslo")


def test_a_garbled_answer_leaves_the_words_to_find(server: ModelServer, filled: None, open_memory: Opener) -> None:
    server.script({"body": "{}"})
    found = open_memory(embedder=ollama(server.url)).recall_fused("oslo")
    assert contents(found) == [FACT]
    assert "embeddings" in found.warnings[0]


def test_a_passage_waits_for_the_embedder_and_is_not_lost(server: ModelServer, folder: Any) -> None:
    server.script({"status": 503})
    with MemoryService(folder, ollama(server.url), extractor=OutlineExtractor()) as memory:
        receipt = memory.accept_extraction("fact: Camille ships the parser. | Camille")
        for _ in range(7):
            with pytest.raises(EmbedderUnavailable):
                memory.work()
        assert memory.extraction_status(receipt.request_id).state in ("accepted", "running")
        server.script({})
        assert memory.work() == 1
        assert memory.extraction_status(receipt.request_id).state == "committed"
        assert contents(memory.recall("parser")) == ["Camille ships the parser."]


def test_the_worker_goes_on_when_the_server_is_back(
    server: ModelServer, folder: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, again = threading.Event(), threading.Event()

    class Waits(OllamaEmbedder):
        def embed(self, texts: Any) -> Any:
            try:
                return super().embed(texts)
            except EmbedderUnavailable:
                asked.set()
                again.wait(20)
                raise

    monkeypatch.setattr(worker, "_PAUSE_SECONDS", 0.0)
    server.script({"status": 503})
    with MemoryService(folder, Waits("tiny", server.url, waits=()), extractor=OutlineExtractor()) as memory:
        memory.start_worker()
        receipt = memory.accept_extraction("fact: Camille ships the parser. | Camille")
        assert asked.wait(20)
        server.script({})
        again.set()
        until = monotonic() + 20
        while memory.extraction_status(receipt.request_id).state != "committed":
            assert monotonic() < until
    assert server.url in capsys.readouterr().err
