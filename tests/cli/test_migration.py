"""``migrate-embeddings`` as a person runs it (D52, D55)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import errors, run
from support.migrations import assert_nothing_is_left, fill, rows
from support.model_server import ModelServer
from velesdb_memory import MemoryService


@pytest.fixture
def to_ollama(model: ModelServer) -> dict[str, str]:
    return {"VELESDB_MEMORY_MIGRATION_URL": model.url, "VELESDB_MEMORY_MIGRATION_MODEL": "tiny"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with MemoryService(tmp_path / "store") as memory:
        fill(memory, 40)
    return tmp_path / "store"


def active(store: Path) -> str:
    [(model,)] = rows(store, "SELECT model FROM space WHERE state = 'active'")
    return model


def test_a_dry_run_estimates_and_changes_nothing(store: Path, to_ollama: dict[str, str]) -> None:
    done = run("migrate-embeddings", "--to", "ollama", "--dry-run", store=store, **to_ollama)
    assert done.returncode == 0, errors(done)
    [line] = done.stdout.decode().splitlines()
    assert line.startswith("40 facts to embed with tiny (8 dimensions): about ") and "facts/s" in line and "MB" in line
    assert active(store) == "hash-1.1"
    assert rows(store, "SELECT * FROM migration") == []


def test_a_migration_says_what_it_takes_what_it_did_and_what_to_do_next(store: Path, to_ollama: dict[str, str]) -> None:
    done = run("migrate-embeddings", "--to", "ollama", store=store, **to_ollama)
    assert done.returncode == 0, errors(done)
    told = done.stdout.decode()
    assert told.startswith("40 facts to embed with tiny (8 dimensions)")
    assert "40 facts embedded in " in told and "facts/s" in told
    assert "migration to tiny (8 dimensions): committed, writers waited " in told
    assert "VELESDB_MEMORY_EMBEDDER=ollama" in told and "--drop-old" in told
    assert active(store) == "tiny"
    dropped = run("migrate-embeddings", "--drop-old", store=store)
    assert (dropped.returncode, dropped.stdout) == (0, b"the former vectors are removed\n")
    assert_nothing_is_left(store)
    assert run("migrate-embeddings", "--drop-old", store=store).stdout == b"there are no former vectors\n"


def test_without_a_target_it_goes_to_the_embedder_that_is_set(store: Path, model: ModelServer) -> None:
    settings = {
        "VELESDB_MEMORY_EMBEDDER": "ollama",
        "VELESDB_MEMORY_EMBEDDER_URL": model.url,
        "VELESDB_MEMORY_EMBEDDER_MODEL": "tiny",
    }
    # what the refusal of a search names is what then runs
    done = run("migrate-embeddings", store=store, **settings)
    assert done.returncode == 0 and "what to do" not in done.stdout.decode()
    assert active(store) == "tiny"
    again = run("migrate-embeddings", store=store, **settings)
    assert again.returncode == 1 and "already filled by tiny" in errors(again)
    assert again.stdout == b""


def test_one_model_of_a_backend_is_migrated_to_another_of_its_own(store: Path, model: ModelServer) -> None:
    settings = {
        "VELESDB_MEMORY_EMBEDDER": "ollama",
        "VELESDB_MEMORY_EMBEDDER_URL": model.url,
        "VELESDB_MEMORY_EMBEDDER_MODEL": "tiny",
    }
    assert run("migrate-embeddings", store=store, **settings).returncode == 0
    model.script({"dimension": 12, "salt": "two"})
    done = run("migrate-embeddings", store=store, VELESDB_MEMORY_MIGRATION_MODEL="tiny-2", **settings)
    assert done.returncode == 0, errors(done)
    assert active(store) == "tiny-2"


def test_one_that_does_not_converge_is_recovered_with_a_larger_budget(store: Path, to_ollama: dict[str, str]) -> None:
    done = run("migrate-embeddings", "--to", "ollama", "--pause-budget", "1", store=store, **to_ollama)
    assert done.returncode == 1
    assert "non_converging" in done.stdout.decode() and "--recover" in done.stdout.decode()
    with MemoryService(store) as memory:
        fill(memory, 3, first=90)
    recovered = run("migrate-embeddings", "--recover", "--pause-budget", "5000", store=store, **to_ollama)
    assert recovered.returncode == 0, errors(recovered)
    assert active(store) == "tiny"
    assert len(rows(store, "SELECT * FROM embedding")) == 86


def test_one_that_has_stopped_is_cancelled(store: Path, to_ollama: dict[str, str]) -> None:
    run("migrate-embeddings", "--to", "ollama", "--pause-budget", "1", store=store, **to_ollama)
    done = run("migrate-embeddings", "--cancel", store=store)
    assert done.returncode == 0 and "cancelled" in done.stdout.decode()
    assert active(store) == "hash-1.1"
    assert_nothing_is_left(store)
    nothing = run("migrate-embeddings", "--recover", store=store)
    assert nothing.returncode == 1 and "nothing to recover" in errors(nothing)


def test_a_model_that_fails_half_way_is_told_with_what_to_do(
    store: Path, model: ModelServer, to_ollama: dict[str, str]
) -> None:
    # the witness and the sample of the estimate (40 facts, 32 a request), the witness of the start, then nothing
    model.script({}, {}, {}, {}, {"status": 404})
    done = run("migrate-embeddings", "--to", "ollama", store=store, **to_ollama)
    assert done.returncode == 1
    assert "capturing" in done.stdout.decode() and "migration_recover" in done.stdout.decode()
    assert model.url in errors(done)
    model.script({})
    assert run("migrate-embeddings", "--recover", store=store, **to_ollama).returncode == 0


@pytest.mark.parametrize(
    "arguments", [["--to", "nobody"], ["--dry-run", "--cancel"], ["--pause-budget", "soon"], ["--force"]]
)
def test_options_that_make_no_sense_are_misuse(store: Path, arguments: list[str]) -> None:
    assert run("migrate-embeddings", *arguments, store=store).returncode == 2
