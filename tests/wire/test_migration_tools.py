"""The four migration tools over a real server, whose target is a model behind HTTP (D52, D55)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.migrations import assert_nothing_is_left, rows
from support.model_server import ModelServer
from velesdb_memory.limits import DEFAULT_JOURNAL_BYTES
from wire.client import INTERNAL_ERROR, Call, Server, ToolError, refusal

JOB = {
    "epoch_id", "phase", "running", "target_backend", "target_model", "target_dimension", "destination",
    "cancellation_requested", "last_error", "recovery_action", "progress",
}  # fmt: skip
PROGRESS = {
    "base_facts", "base_edges", "base_batches", "input_watermark", "output_watermark", "dirty_facts",
    "dirty_edge_sources", "pending_journal_bytes", "estimated_pause_ms", "measured_cutover_ms",
}  # fmt: skip
PHASES = [
    "prepared", "capturing", "base_copied", "catching_up", "non_converging", "cutover_ready", "quiescing", "activated",
    "committed", "cancelled",
]  # fmt: skip
FACTS = ["Nora moved to Oslo", "the ledger runs in Bergen", "crates leave at noon"]
TOKEN = "token-that-nobody-may-see"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def server(store: Path, model: ModelServer) -> Iterator[Server]:
    """Configured for hash, with an openai model to migrate to."""
    with Server(
        store,
        VELESDB_MEMORY_MIGRATION_URL=model.url,
        VELESDB_MEMORY_MIGRATION_MODEL="tiny",
        VELESDB_MEMORY_MIGRATION_API_TOKEN=TOKEN,
    ) as running:
        running.initialize()
        yield running


@pytest.fixture
def call(server: Server) -> Call:
    """Every answer is checked against the schema that was published."""
    tools = server.tools()

    def checked(tool: str, /, **arguments: Any) -> dict[str, Any]:
        result = server.call_with(tool, arguments)
        jsonschema.validate(result, tools[tool]["outputSchema"])
        return result

    return checked


def ended(call: Call) -> dict[str, Any]:
    """The job once nobody works on it; each question is answered at once, so asking is waiting."""
    while (job := call("migration_status")["job"])["running"]:
        assert job.keys() == JOB and job["phase"] in PHASES
    return job


def test_the_tools_say_what_they_do_to_the_store(server: Server) -> None:
    tools = server.tools()
    start = tools["migration_start"]["inputSchema"]
    assert set(start["required"]) == {"target_backend", "pause_budget_ms"}
    limits = {"journal_max_bytes", "fact_batch", "replay_batch", "edge_cap", "observation_window"}
    assert set(start["properties"]) == {*start["required"], *limits, "verification_reserve_ms"}
    for name in ("migration_status", "migration_cancel", "migration_recover"):
        assert tools[name]["inputSchema"].get("properties", {}) == {}
    hints = {name: tools[name]["annotations"] for name in tools if name.startswith("migration_")}
    assert [name for name, hint in hints.items() if hint["readOnlyHint"]] == ["migration_status"]
    assert [name for name, hint in hints.items() if hint["destructiveHint"]] == ["migration_cancel"]
    job = tools["migration_status"]["outputSchema"]["properties"]["job"]
    assert set(job["properties"]["phase"]["enum"]) == set(PHASES)


def test_a_migration_from_start_to_the_next_start_of_the_server(
    server: Server, call: Call, store: Path, model: ModelServer
) -> None:
    for fact in FACTS:
        call("remember", fact=fact)
    assert call("migration_status") == {"configured": True, "job": None}
    begun = call("migration_start", target_backend="openai", pause_budget_ms="5000", observation_window=1)
    assert begun["configured"] is True
    assert begun["job"].keys() == JOB and begun["job"]["progress"].keys() == PROGRESS
    assert (begun["job"]["target_model"], begun["job"]["target_dimension"]) == ("tiny", 8)
    job = ended(call)
    assert (job["phase"], job["last_error"]) == ("committed", None)
    assert job["epoch_id"] == begun["job"]["epoch_id"] and len(job["epoch_id"]) == 32
    assert job["progress"]["base_facts"] == 3 and job["progress"]["measured_cutover_ms"] <= 5_000
    assert "VELESDB_MEMORY_EMBEDDER=openai" in job["recovery_action"]
    # without a restart
    assert call("recall", query="Oslo", k=1)["memories"][0]["content"] == FACTS[0]
    call("remember", fact="new since the switch")
    status = call("memory_status")
    assert status["embedder"]["model"] == status["provenance"]["model"] == "tiny"
    assert status["migration"] == {"phase": "committed", "running": False, "advice": None}
    assert model.seen()[-1]["headers"]["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN.encode() not in b"".join(path.read_bytes() for path in store.iterdir())
    # a server that is still set up for the former model
    with Server(store) as late:
        late.initialize()
        with pytest.raises(ToolError, match=r"filled by tiny.*migrate-embeddings") as caught:
            late.call("recall", query="Oslo")
        assert caught.value.code == INTERNAL_ERROR
        assert "migration_start" in late.call("memory_status")["migration"]["advice"]
    # and one that is not
    with Server(
        store,
        VELESDB_MEMORY_EMBEDDER="openai",
        VELESDB_MEMORY_EMBEDDER_URL=model.url,
        VELESDB_MEMORY_EMBEDDER_MODEL="tiny",
    ) as next_one:
        next_one.initialize()
        assert next_one.call("recall", query="Bergen", k=1)["memories"][0]["content"] == FACTS[1]
        assert next_one.call("migration_status")["job"]["recovery_action"] is None


def test_a_model_that_fails_stops_the_migration_and_it_is_recovered_or_cancelled(
    call: Call, store: Path, model: ModelServer
) -> None:
    for fact in FACTS:
        call("remember", fact=fact)
    # the witness, then nothing more
    model.script({}, {"status": 400, "body": '{"error": {"message": "out of credit"}}'})
    call("migration_start", target_backend="openai", pause_budget_ms=5_000)
    job = ended(call)
    assert (job["phase"], job["running"]) == ("capturing", False)
    assert "out of credit" in job["last_error"] and "migration_recover" in job["recovery_action"]
    assert call("memory_status")["migration"]["advice"] == job["recovery_action"]
    assert "has stopped" in refusal(call, "migration_start", target_backend="openai", pause_budget_ms=100)
    model.script({"salt": "another model"})
    assert "replaced under its name" in refusal(call, "migration_recover")
    model.script({"dimension": 9})
    assert "9 dimensions" in refusal(call, "migration_recover")
    model.script({})
    assert call("migration_recover")["job"]["last_error"] is None
    assert ended(call)["phase"] == "committed"
    # back to hash, and half of it undone
    call("migration_start", target_backend="hash", pause_budget_ms=1)
    assert ended(call)["phase"] == "non_converging"
    assert call("migration_cancel")["job"]["phase"] == "cancelled"
    assert_nothing_is_left(store)
    assert "cancelled" in refusal(call, "migration_recover")
    assert rows(store, "SELECT model FROM space") == [("tiny",)]


def test_what_cannot_be_started_is_refused_and_nothing_is_begun(call: Call, store: Path, model: ModelServer) -> None:
    for backend in ("nobody", "", "OPENAI"):
        told = refusal(call, "migration_start", target_backend=backend, pause_budget_ms=100)
        assert "target_backend" in told and "hash, local, ollama, openai" in told
    assert "already filled by hash" in refusal(call, "migration_start", target_backend="hash", pause_budget_ms=100)
    assert "pause_budget_ms" in refusal(call, "migration_start", target_backend="openai")
    for field in ("pause_budget_ms", "fact_batch", "replay_batch", "edge_cap", "observation_window"):
        arguments = {"target_backend": "openai", "pause_budget_ms": 100, field: 0}
        assert field in refusal(call, "migration_start", **arguments)
    too_much = {"target_backend": "openai", "pause_budget_ms": 100, "journal_max_bytes": DEFAULT_JOURNAL_BYTES**2}
    assert "journal_max_bytes" in refusal(call, "migration_start", **too_much)
    assert "no migration" in refusal(call, "migration_cancel")
    assert "no migration" in refusal(call, "migration_recover")
    assert "force" in refusal(call, "migration_status", force=True)
    model.script({"status": 503})
    with pytest.raises(ToolError, match="VELESDB_MEMORY_MIGRATION_URL") as caught:
        call("migration_start", target_backend="openai", pause_budget_ms=100)
    assert caught.value.code == INTERNAL_ERROR and TOKEN not in caught.value.message
    assert call("migration_status") == {"configured": True, "job": None}


BARE = """
import sys
from velesdb_memory.server.stdio import serve_stdio

def open_service():
    from velesdb_memory import MemoryService
    return MemoryService(sys.argv[1])

sys.exit(serve_stdio(open_service))
"""


def test_a_host_without_a_control_plane_answers_that_it_has_none(store: Path) -> None:

    with Server(store, (sys.executable, "-c", BARE, str(store))) as bare:
        bare.initialize()
        nothing = {"configured": False, "job": None}
        assert bare.call("migration_status") == nothing
        assert bare.call("migration_start", target_backend="hash", pause_budget_ms=100) == nothing
        assert bare.call("migration_cancel") == nothing
        assert bare.call("migration_recover") == nothing
