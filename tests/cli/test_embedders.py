"""Commands with a model server that is there, is down, or serves another model (D30, C40)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import errors, parsed, run
from support.model_server import ModelServer
from velesdb_memory import MemoryService, OllamaEmbedder

FACT = "Nora moved to Oslo"


@pytest.fixture
def variables(model: ModelServer) -> dict[str, str]:
    return {
        "VELESDB_MEMORY_EMBEDDER": "ollama",
        "VELESDB_MEMORY_EMBEDDER_URL": model.url,
        "VELESDB_MEMORY_EMBEDDER_MODEL": "tiny",
    }


@pytest.fixture
def store(tmp_path: Path, model: ModelServer) -> Path:
    with MemoryService(tmp_path / "store", OllamaEmbedder("tiny", model.url)) as memory:
        memory.remember(FACT)
    return tmp_path / "store"


def embedder_lines(report: str) -> str:
    """What doctor says of the embedder, with its advice."""
    lines = report.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.split()[1:2] == ["embedder"]]
    return "\n".join(lines[at : at + 2])


def test_doctor_asks_the_embedder_and_names_it(store: Path, variables: dict[str, str]) -> None:
    done = run("doctor", store=store, **variables)
    assert done.returncode == 0
    assert embedder_lines(done.stdout.decode()).startswith("ok        embedder   tiny (8 dimensions)")


def test_doctor_tells_of_a_server_that_is_down_and_still_checks_the_store(
    store: Path, model: ModelServer, variables: dict[str, str]
) -> None:
    model.script({"status": 503})
    done = run("doctor", store=store, **variables)
    assert done.returncode == 1
    told = embedder_lines(done.stdout.decode())
    for part in ("BAD", model.url, "'tiny'", "VELESDB_MEMORY_EMBEDDER_URL", "what to do"):
        assert part in told
    assert "ok        database" in done.stdout.decode()


def test_doctor_tells_of_a_model_that_was_updated_in_place(
    store: Path, model: ModelServer, variables: dict[str, str]
) -> None:
    model.script({"salt": "new"})
    done = run("doctor", store=store, **variables)
    assert done.returncode == 1
    told = embedder_lines(done.stdout.decode())
    for part in ("BAD", "tiny", "not the one any more", "migrate-embeddings", "what to do"):
        assert part in told


def test_doctor_explains_another_model_with_both_names(store: Path, model: ModelServer) -> None:
    model.script({})
    done = run("doctor", store=store)
    told = embedder_lines(done.stdout.decode())
    for part in ("BAD", "tiny (8 dimensions)", "hash-", "migrate-embeddings", "VELESDB_MEMORY_EMBEDDER"):
        assert part in told
    assert model.seen() == []


def test_doctor_that_only_looks_mends_nothing_although_it_asks_the_embedder(
    store: Path, variables: dict[str, str]
) -> None:
    for path in store.glob("slots-*"):
        path.unlink()
    for _ in range(2):
        done = run("doctor", "--no-repair", store=store, **variables)
        assert "BAD       codes" in done.stdout.decode()


def test_c40_an_export_needs_no_model_and_an_import_that_has_none_changes_nothing(
    store: Path, model: ModelServer, variables: dict[str, str], tmp_path: Path
) -> None:
    model.script({"status": 503})
    lines = run("export", store=store, **variables).stdout
    assert [line["content"] for line in parsed(lines) if "content" in line] == [FACT]
    done = run("import", "-", store=tmp_path / "other", input=lines, **variables)
    assert done.returncode == 1
    assert model.url in errors(done) and "Nora" not in errors(done)
    assert [line for line in parsed(run("export", store=tmp_path / "other").stdout) if "content" in line] == []


def test_the_queue_waits_for_the_model(store: Path, model: ModelServer, variables: dict[str, str]) -> None:
    with MemoryService(store, OllamaEmbedder("tiny", model.url)) as memory:
        memory.accept_extraction("fact: Camille ships the parser. | Camille", extractor="outline")
    model.script({"status": 503})
    done = run("work", store=store, **variables)
    assert done.returncode == 1
    assert model.url in errors(done) and "Camille" not in errors(done)
    model.script({})
    done = run("work", store=store, **variables)
    assert done.returncode == 0
    assert "1 done" in errors(done)
