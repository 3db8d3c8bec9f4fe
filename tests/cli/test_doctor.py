"""What ``doctor`` finds, what it mends, and what it says about the rest (D29)."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from cli.command import errors, run
from velesdb_memory import MemoryService


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    with MemoryService(folder) as memory:
        first = memory.remember("the mill burned down in May", metadata={"town": "Ulm"})
        for number in range(60):
            memory.relate(memory.remember(f"barrel {number} holds rye number {number}"), first, "stored_in")
    return folder


def unsound(store: Path) -> list[str]:
    with MemoryService(store) as memory:
        return [finding.subject for finding in memory.check() if not finding.sound]


def execute(store: Path, statement: str) -> None:
    connection = sqlite3.connect(store / "memory.db")
    try:
        with connection:
            connection.execute(statement)
    finally:
        connection.close()


def test_a_sound_store_is_described_and_exits_0(store: Path) -> None:
    done = run("doctor", store=store)
    assert (done.returncode, done.stderr) == (0, b"")
    report = done.stdout.decode()
    for told in (str(store), "61 facts, 60 edges", "SQLite", "full", "384 dimensions", "everything is sound"):
        assert told in report
    assert "BAD" not in report
    # progress is for terminals
    assert b"\r" not in done.stdout + done.stderr and b"\x1b" not in done.stdout + done.stderr


def test_the_durability_that_is_set_is_told(store: Path) -> None:
    done = run("doctor", store=store, VELESDB_MEMORY_SYNCHRONOUS="normal")
    assert done.returncode == 0
    assert "normal" in done.stdout.decode()


def damage_codes(store: Path) -> None:
    [codes] = store.glob("codes-*.i8")
    with codes.open("r+b") as file:
        file.write(b"\x55" * 384 * 30)


def delete_codes(store: Path) -> None:
    for path in store.glob("slots-*"):
        path.unlink()


def shorten_codes(store: Path) -> None:
    [codes] = store.glob("codes-*.i8")
    with codes.open("r+b") as file:
        file.truncate(384 * 10)


def lose_facets(store: Path) -> None:
    execute(store, "DELETE FROM facet WHERE field = 'town'")


def lose_words(store: Path) -> None:
    execute(store, "DELETE FROM posting WHERE term = 'mill'")


def dangle_edges(store: Path) -> None:
    execute(store, "UPDATE edge SET dst = 12345 WHERE ordinal = 1")


@pytest.mark.parametrize(
    ("damage", "subject"),
    [
        (damage_codes, "codes"),
        (delete_codes, "codes"),
        (shorten_codes, "codes"),
        (lose_facets, "facets"),
        (lose_words, "words"),
        (dangle_edges, "edges"),
    ],
)
def test_d29_what_is_derived_is_rebuilt_where_it_is_damaged(store: Path, damage, subject: str) -> None:
    damage(store)
    mended = run("doctor", store=store)
    assert mended.returncode == 0, mended.stdout.decode()
    assert any(line.split()[:2] == ["repaired", subject] for line in mended.stdout.decode().splitlines())
    assert unsound(store) == []
    with MemoryService(store) as memory:
        assert memory.recall("barrel 17 holds rye number 17", k=1)[0].content == "barrel 17 holds rye number 17"
        [mill] = memory.recall("who burned", filter={"town": "Ulm"})
        assert mill.content == "the mill burned down in May"


def test_doctor_that_only_looks_tells_of_damage_and_leaves_it(store: Path) -> None:
    lose_facets(store)
    for _ in range(2):
        done = run("doctor", "--no-repair", store=store)
        assert done.returncode == 1
        assert any(line.split()[:2] == ["BAD", "facets"] for line in done.stdout.decode().splitlines())
        assert "what to do" in done.stdout.decode()
    assert unsound(store) == ["facets"]


def test_a_damaged_database_gets_advice_and_is_not_touched(store: Path) -> None:
    database = store / "memory.db"
    data = bytearray(database.read_bytes())
    chance = random.Random(7)
    for place in range(4096 * 3, len(data), 4096):
        data[place : place + 2048] = chance.randbytes(len(data[place : place + 2048]))
    database.write_bytes(data)
    done = run("doctor", store=store)
    assert done.returncode == 1
    told = done.stdout.decode() + errors(done)
    assert "BAD" in told and "damaged" in told
    assert "what to do" in told
    assert database.read_bytes() == bytes(data)


def test_one_damaged_page_is_found_and_told_with_advice(store: Path) -> None:
    connection = sqlite3.connect(store / "memory.db")
    [page] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'edge_src'").fetchone()
    connection.close()
    with (store / "memory.db").open("r+b") as file:
        file.seek((page - 1) * 4096 + 100)
        file.write(b"\xee" * 3900)
    done = run("doctor", store=store)
    assert done.returncode == 1
    told = done.stdout.decode() + errors(done)
    assert "BAD       database" in told and "what to do" in told


FOREIGN = [b"not a database at all, just some notes\n" * 40, b"SQLite format 3\0 and then nonsense"]


@pytest.mark.parametrize("content", FOREIGN, ids=["text", "header"])
def test_a_file_that_is_no_database_of_ours_is_told_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "memory.db").write_bytes(content)
    done = run("doctor", store=tmp_path)
    assert done.returncode == 1
    assert "BAD" in done.stdout.decode() and str(tmp_path / "memory.db") in done.stdout.decode()
    assert (tmp_path / "memory.db").read_bytes() == content


def test_the_database_of_another_program_is_told_and_left_alone(tmp_path: Path) -> None:
    execute(tmp_path, "CREATE TABLE theirs (x)")
    before = (tmp_path / "memory.db").read_bytes()
    done = run("doctor", store=tmp_path)
    assert done.returncode == 1
    assert "another program" in done.stdout.decode()
    assert (tmp_path / "memory.db").read_bytes() == before


def test_a_store_of_a_newer_version_is_told_and_left_alone(store: Path) -> None:
    execute(store, "PRAGMA user_version = 99")
    for command in (("doctor",), ("export",), ("import", "-")):
        done = run(*command, store=store)
        told = done.stdout.decode() + errors(done)
        assert done.returncode == 1
        assert "99" in told and "upgrade" in told
    connection = sqlite3.connect(store / "memory.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (99,)
    connection.close()


def test_d30_a_store_filled_by_another_model_is_told_and_can_still_be_exported(store: Path) -> None:
    execute(store, "UPDATE space SET model = 'other-model'")
    done = run("doctor", store=store)
    assert done.returncode == 1
    report = done.stdout.decode()
    assert "other-model" in report and "hash" in report
    assert any(line.split()[:2] == ["BAD", "embedder"] for line in report.splitlines())
    assert run("export", store=store).stdout.count(b"\n") == 122


def test_expired_facts_that_wait_to_be_swept_are_no_trouble(tmp_path: Path) -> None:
    with MemoryService(tmp_path) as memory:
        memory.remember("gone soon", ttl_seconds=1_000)
    execute(tmp_path, "UPDATE memory SET expires_at = 1")
    done = run("doctor", store=tmp_path)
    assert done.returncode == 0
    assert "1 expired" in done.stdout.decode()
