"""What the tests of the queue share: an extractor, and a look at its rows."""


from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from velesdb_memory import ExtractionSnapshot, MemoryService
from velesdb_memory.extract.base import ExtractedFact, Extraction

Opener = Callable[..., MemoryService]
PASSAGE = "Ada rows. | ada\nedge: ada | knows | bob\nattr: ada | age | 15"
SECRET = "the vault code is 4711"
PENDING = ([], [], None, None, None)
PATIENCE = 20.0  # seconds before a wait for a thread fails a test


class Reads:
    """An extractor that makes one fact of each passage and does ``before`` first."""

    def __init__(self, before: Callable[[str], Any] = lambda text: None, name: str = "reads") -> None:
        self.before = before
        self.name = name
        self.read: list[str] = []

    def extract(self, text: str) -> Extraction:
        self.read.append(text)
        self.before(text)
        return Extraction([ExtractedFact(f"read: {text}"[:100], ["reading"])])


def rows(folder: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM job ORDER BY rowid")]


def fields(snapshot: ExtractionSnapshot) -> tuple[Any, ...]:
    return (snapshot.ids, snapshot.ids_str, snapshot.skipped_over_cap, snapshot.error, snapshot.skipped)


def raises(error: Exception) -> Callable[[str], None]:
    def fail(text: str) -> None:
        raise error

    return fail
