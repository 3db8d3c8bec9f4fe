"""The SQLite store: views and transactions over one database."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ...errors import StoreUnwritable
from ..base import Finding, StoreTransaction, StoreView
from . import check
from .connection import Database, Synchronous, prepare
from .spaces import Spaces
from .transaction import SqliteTransaction
from .view import SqliteView

DATABASE_NAME: Final = "memory.db"


class SqliteStore:
    """Memories in ``folder``/memory.db. Any number of processes and threads may use the same folder at once.

    ``synchronous`` "full" makes every acknowledged write survive a power loss; "normal" only a crash of the process.
    Raises StoreUnwritable, StoreForeign, StoreCorrupt or StoreTooNew, and changes nothing then.
    """

    backend = "sqlite"

    def __init__(self, folder: str | os.PathLike[str], *, synchronous: Synchronous = "full") -> None:
        self.folder = Path(folder).absolute()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnwritable(f"store directory {self.folder} cannot be created: {error.strerror}") from error
        self._database = Database(self.folder / DATABASE_NAME, synchronous)
        try:
            prepare(self._database)
            check.match_analyser(self._database)
        except BaseException:
            self._database.close()
            raise
        self._spaces = Spaces(self._database, self.folder)

    @property
    def location(self) -> str:
        """The store's directory, absolute."""
        return str(self.folder)

    @contextmanager
    def view(self, now: int) -> Generator[StoreView]:
        """A snapshot of what is live at ``now``."""
        with self._database.reading() as connection:
            yield SqliteView(connection, self._spaces, now)

    @contextmanager
    def transaction(self, now: int) -> Generator[StoreTransaction]:
        """A change that happens whole, durably, when the block ends, or not at all when it raises."""
        with self._database.writing() as connection:
            transaction = SqliteTransaction(connection, self._spaces, now)
            yield transaction
            transaction.flush()
        if transaction.deleted:
            with self._database.reading() as connection:
                self._spaces.compact(connection)

    def size(self) -> int:
        """Bytes of the database, its log, and the derived files."""
        total = 0
        for path in self.folder.iterdir():
            try:
                found = path.stat()
                # code files are sparse: count what they occupy where the system tells
                total += found.st_blocks * 512 if hasattr(found, "st_blocks") else found.st_size
            except FileNotFoundError:
                continue
        return total

    def check(
        self, now: int, repair: bool, progress: Callable[[str, int, int], None] | None = None
    ) -> list[Finding]:
        """Compare everything derived with what it is derived from; ``repair`` rebuilds what differs."""
        return check.run(self._database, self._spaces, now, repair, progress)

    def close(self) -> None:
        """Close every connection of this process. Idempotent."""
        self._spaces.close()
        self._database.close()
