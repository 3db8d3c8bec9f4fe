"""Work that nobody waits for any more is given up, and leaves nothing behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from velesdb_memory import MemoryService, cancel
from velesdb_memory.errors import Cancelled
from velesdb_memory.store.sqlite.connection import Database

ENDLESS = "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number) SELECT max(n) FROM number"


def after(count: int) -> Callable[[], bool]:
    """Unwanted once it was asked so many times."""
    asked = iter(range(count))
    return lambda: next(asked, None) is None


def test_nothing_begins_that_is_unwanted(memory: MemoryService) -> None:
    with cancel.withdrawn_when(lambda: True):
        for call in (lambda: memory.remember("x"), lambda: memory.recall("x"), memory.list_memories):
            with pytest.raises(Cancelled):
                call()
        with cancel.regardless():
            memory.remember("wanted by others")
    assert [each.content for each in memory.list_memories().memories] == ["wanted by others"]


def test_a_write_that_waits_for_another_writer_is_given_up(memory: MemoryService, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with cancel.withdrawn_when(after(20)), pytest.raises(Cancelled):
            memory.remember("too late")
        other.execute("ROLLBACK")
    assert memory.list_memories().memories == []
    memory.remember("in time")


def test_a_query_that_runs_is_interrupted_and_its_connection_goes_on(tmp_path: Path) -> None:
    database = Database(tmp_path / "any.db", "full")
    with cancel.withdrawn_when(after(1)), pytest.raises(Cancelled), database.reading() as connection:
        connection.execute(ENDLESS).fetchone()
    with database.reading() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    database.close()


def test_a_write_that_is_interrupted_is_rolled_back(tmp_path: Path) -> None:
    database = Database(tmp_path / "any.db", "full")
    with database.writing() as connection:
        connection.execute("CREATE TABLE kept (n)")
    with cancel.withdrawn_when(after(1)), pytest.raises(Cancelled), database.writing() as connection:
        connection.execute("INSERT INTO kept VALUES (1)")
        connection.execute(ENDLESS).fetchone()
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    database.close()
