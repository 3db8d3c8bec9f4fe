"""Capture: one row for each change that a running migration must carry over, written with the change itself."""

from __future__ import annotations

import sqlite3
from typing import Final

from ...errors import JournalFull
from ..migrating import JOURNAL_RECORD_BYTES, Watermarks

FACT: Final = 0
EDGE_SOURCE: Final = 1

_CAPTURED: Final = "('capturing', 'base_copied', 'catching_up', 'non_converging', 'cutover_ready', 'quiescing')"


class Journal:
    """The journal as one write transaction sees it. Without a migration it costs one look at an empty table."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._room: int | None = None  # how many more changes may be captured; -1: nothing is
        self._limit = 0

    def note(self, kind: int, key: int) -> None:
        """Capture a change, before it is made. Raises JournalFull, and nothing was changed then."""
        if self._room is None:
            self._room = self._find_room()
        if self._room < 0:
            return
        if self._room == 0:
            raise JournalFull(self._limit * JOURNAL_RECORD_BYTES)
        self._connection.execute("INSERT INTO dirty (kind, memory) VALUES (?, ?)", (kind, key))
        self._room -= 1

    def forget_state(self) -> None:
        """Look again: the migration itself was changed."""
        self._room = None

    def _find_room(self) -> int:
        row = self._connection.execute(
            f"SELECT journal_max FROM migration WHERE phase IN {_CAPTURED}"
        ).fetchone()
        if row is None:
            return -1
        self._limit = row[0]
        return max(0, self._limit - watermarks(self._connection).pending)


def watermarks(connection: sqlite3.Connection) -> Watermarks:
    """From the first row to the last: a few in between may be gone, and count all the same."""
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'dirty'").fetchone()
    first = connection.execute("SELECT min(ordinal) FROM dirty").fetchone()[0]
    number = last[0] if last else 0
    return Watermarks(number, number if first is None else first - 1)
