"""``purge-sources``, as a process over a real store."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cli.command import errors, run
from velesdb_memory import MemoryService
from velesdb_memory.context.compiler import ContextCompiler
from velesdb_memory.context.model import CompileRequest, ContextFragment
from velesdb_memory.errors import UnknownHandle
from velesdb_memory.testing import FixedClock

DAY = 86_400
TEXTS = {"old": "what nobody asked for in a month", "kept": "what was used a day ago", "other": "of another project"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with originals of two projects: 40 days old, and as of now."""
    now = int(time.time())
    for name, age, project in (("old", 40, "shop"), ("other", 40, "blog"), ("kept", 0, "shop")):
        with MemoryService(tmp_path / "store", clock=FixedClock(now - age * DAY)) as memory:
            memory.compile_context(CompileRequest("anything", [ContextFragment(TEXTS[name])], 1_000, project))
    return tmp_path / "store"


def left(store: Path) -> set[str]:
    """The names of the originals that their handles still lead to."""
    found = set()
    with MemoryService(store) as memory:
        for name, text in TEXTS.items():
            request = CompileRequest("anything", [ContextFragment(text)], 1_000)
            [source] = ContextCompiler().compile(request).sources
            try:
                assert memory.retrieve_context_source(source.handle).content == text
            except UnknownHandle:
                continue
            found.add(name)
    return found


@pytest.mark.parametrize(
    ("arguments", "removed"),
    [
        (("--older-than", "30d"), {"old", "other"}),
        (("--older-than", "4w"), {"old", "other"}),
        (("--older-than=30d", "--project", "shop"), {"old"}),
        (("--older-than", "30d", "--project", "nosuch"), set()),
        (("--older-than", "50d"), set()),
        (("--older-than", "1400h"), set()),
        (("--older-than", "0s"), {"old", "other", "kept"}),
    ],
)
def test_originals_not_used_for_so_long_are_removed_and_counted(
    arguments: tuple[str, ...], removed: set[str], store: Path
) -> None:
    done = run("purge-sources", *arguments, "--dry-run", store=store)
    assert done.returncode == 0, errors(done)
    assert done.stdout.startswith(f"{len(removed)} ".encode()) and b"would be removed" in done.stdout
    assert left(store) == set(TEXTS)
    done = run("purge-sources", *arguments, store=store)
    assert done.returncode == 0, errors(done)
    assert done.stdout.startswith(f"{len(removed)} ".encode()) and str(store).encode() in done.stdout
    assert left(store) == set(TEXTS) - removed


@pytest.mark.parametrize("given", ["", "30", "d", "30D", "-1d", "1.5h", "1 d", "1mo", "٣d", "9" * 30 + "w", "30d12h"])
def test_a_time_that_is_no_duration_exits_2_and_shows_how_to_write_one(given: str, tmp_path: Path) -> None:
    done = run("purge-sources", f"--older-than={given}", store=tmp_path / "store")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "--older-than" in errors(done) and "30d" in errors(done)
    assert not (tmp_path / "store").exists()


def test_d58_help_says_what_it_takes(tmp_path: Path) -> None:
    done = run("purge-sources", "--help", store=tmp_path / "store")
    assert (done.returncode, done.stderr) == (0, b"")
    assert {b"--older-than", b"--project", b"--dry-run", b"--path"} <= set(done.stdout.split())
    assert b"purge-sources" in run("--help").stdout
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("arguments", [(), ("--older-than",), ("--older-than", "1d", "--frobnicate"), ("30d",)])
def test_d58_misuse_exits_2_and_nothing_is_opened(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run("purge-sources", *arguments, store=tmp_path / "store")
    assert (done.returncode, done.stdout) == (2, b"")
    assert not (tmp_path / "store").exists()


def test_settings_are_checked_before_anything_is_removed(store: Path) -> None:
    done = run("purge-sources", "--older-than", "0s", store=store, VELESDB_MEMORY_DEFAULT_TTL="soon")
    assert done.returncode == 1
    assert "VELESDB_MEMORY_DEFAULT_TTL" in errors(done)
    assert left(store) == set(TEXTS)
