"""A server with a model of its own or of others: it answers first and loads later, and it serves what it can when the
model is down (D26, D30, C40)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.model_server import ModelServer
from velesdb_memory import LocalEmbedder, MemoryService, OllamaEmbedder
from wire.client import INTERNAL_ERROR, SERVER, Server, ToolError

FACT = "Nora moved to Oslo"


def served(store: Path, model: ModelServer, command: Sequence[str] = SERVER, **extra: str) -> Server:
    variables = {"VELESDB_MEMORY_EMBEDDER": "ollama", "VELESDB_MEMORY_EMBEDDER_URL": model.url}
    return Server(store, command, **{**variables, "VELESDB_MEMORY_EMBEDDER_MODEL": "tiny", **extra})


@pytest.fixture
def store(tmp_path: Path, model: ModelServer) -> Path:
    with MemoryService(tmp_path / "store", OllamaEmbedder("tiny", model.url)) as memory:
        memory.remember(FACT, metadata={"town": "Oslo"})
    return tmp_path / "store"


def test_c40_a_server_whose_model_is_down_serves_all_but_vectors_and_says_so(store: Path, model: ModelServer) -> None:
    model.script({"status": 503})
    with served(store, model) as server:
        server.initialize()
        server.tools()
        assert server.call("memory_status")["embedder"]["model"] == "tiny"
        [fact] = server.call("list_memories", filter={"town": "Oslo"})["memories"]
        assert fact["content"] == FACT
        with pytest.raises(ToolError) as caught:
            server.call("recall", query="Oslo")
        assert caught.value.code == INTERNAL_ERROR
        for told in (model.url, "'tiny'", "3 attempts", "VELESDB_MEMORY_EMBEDDER_URL"):
            assert told in caught.value.message
        status = server.call("memory_status")
        assert model.url in status["embedder"]["error"]
        assert (status["embedder"]["dimension"], status["provenance"]["dimension"]) == (8, 8)
        found = server.call("recall_fused", query="oslo")
        assert [hit["content"] for hit in found["memories"]] == [FACT]
        assert model.url in found["warnings"][0]
        assert server.call("feedback", id=fact["id_str"], success=True)["confidence"] > 0.5
        model.script({})
        assert [hit["content"] for hit in server.call("recall", query="Oslo")["memories"]] == [FACT]
        assert server.call("memory_status")["embedder"]["error"] is None


def test_a_notice_on_standard_error_tells_of_a_model_that_is_down(store: Path, model: ModelServer) -> None:
    model.script({"status": 503})
    # QUIET is set by being there, so it must go
    program = (
        "import os, runpy; del os.environ['VELESDB_MEMORY_QUIET']; runpy.run_module('velesdb_memory', alter_sys=True)"
    )
    command = (sys.executable, "-c", program)
    with served(store, model, command, VELESDB_MEMORY_OLLAMA_MODEL="elder") as server:
        server.initialize()
        server.tools()
        while len(model.seen()) < 3:
            server.ask("ping")
        server.call("list_memories")
        server.end_input()
        server.rest()
        server.process.wait(10)
        server._threads[1].join(10)
    told = server.errors.decode()
    assert model.url in told and "searches by meaning do not work yet" in told
    assert "VELESDB_MEMORY_OLLAMA_MODEL differ" in told
    assert "Nora" not in told


def test_d26_initialize_and_the_tools_do_not_wait_for_the_model(store: Path, model: ModelServer) -> None:
    model.script({"fault": "hang"})
    with served(store, model) as server:
        assert server.initialize()["serverInfo"]["name"] == "velesdb-memory"
        assert "recall" in server.tools()
        while not model.seen():
            server.ask("ping")
        # the model is being asked, and whoever does not need it does not wait
        assert server.call("list_memories")["memories"][0]["content"] == FACT
        model.script({})


def test_a_client_that_asks_for_it_hears_how_a_call_gets_on(store: Path, model: ModelServer) -> None:
    model.script({"fault": "hang"})
    with served(store, model, VELESDB_MEMORY_EMBEDDER_TIMEOUT="3") as server:
        server.initialize()
        request: dict[str, Any] = {"name": "recall", "arguments": {"query": "Oslo"}, "_meta": {"progressToken": "t"}}
        number = server.request("tools/call", request)
        told = [server.receive() for _ in range(2)]
        assert [message["method"] for message in told] == ["notifications/progress"] * 2
        assert [message["params"]["progressToken"] for message in told] == ["t", "t"]
        assert told[0]["params"]["progress"] < told[1]["params"]["progress"]
        answer = server.answer(number)
        assert answer["error"]["code"] == INTERNAL_ERROR and "within 3 s" in answer["error"]["message"]


@pytest.mark.skipif(LocalEmbedder().missing() is not None, reason="the extra semantic is not installed")
def test_d26_the_first_recall_waits_for_a_model_that_is_loaded_after_the_tools_are_told(tmp_path: Path) -> None:
    with Server(tmp_path / "store", VELESDB_MEMORY_EMBEDDER="local") as server:
        server.initialize()
        server.tools()
        server.call("remember", fact="Camille bought a second-hand bicycle")
        [hit] = server.call("recall", query="who purchased a used bike")["memories"]
        assert hit["content"] == "Camille bought a second-hand bicycle"
        embedder = {"model": "all-minilm-l6-v2", "dimension": 384, "semantic": True, "error": None}
        assert server.call("memory_status")["embedder"] == embedder


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"VELESDB_MEMORY_EMBEDDER": "openai"}, b"VELESDB_MEMORY_EMBEDDER_URL"),
        ({"VELESDB_MEMORY_EMBEDDER": "local", "VELESDB_MEMORY_EMBEDDER_MODEL": "x"}, b"VELESDB_MEMORY_EMBEDDER_MODEL"),
    ],
)
def test_d58_a_setting_that_cannot_be_used_ends_the_server_at_once(
    tmp_path: Path, variables: dict[str, str], named: bytes
) -> None:
    with Server(tmp_path / "store", **variables) as server:
        assert server.process.wait(30) == 1
        server._threads[1].join(10)
        assert named in server.errors
