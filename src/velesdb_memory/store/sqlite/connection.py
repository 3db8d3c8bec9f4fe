"""Connections to the database: never shared at one time, never carried across a fork, errors in our own words."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from ... import cancel
from ...errors import Cancelled, StorageError, StoreCorrupt, StoreForeign, StoreFull, StoreTooNew, StoreUnwritable

Synchronous = Literal["full", "normal"]

APPLICATION_ID: Final = 0x564D454D  # "VMEM"
BUSY_SECONDS: Final = 30
_FORK_PATIENCE: Final = 5  # seconds that a fork waits for other threads
_CACHE_KIB: Final = 32_768
_MAPPED_BYTES: Final = 100_000_000  # of the file: reads there cost no copy; more would look like memory of ours
_CHECKPOINT_PAGES: Final = 4_000
_CANTOPEN: Final = 14
_INTERRUPT: Final = 9
_STEPS: Final = 200_000  # of SQLite's, some milliseconds, between two looks at whether the call is still wanted
_HEADER: Final = b"SQLite format 3\0"


def translate(error: sqlite3.Error, path: Path) -> StorageError | Cancelled:
    """An error of SQLite as one of ours, which says what to do about it."""
    # the low byte is the primary result code; an error raised by the Python module itself has none
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code == _INTERRUPT and cancel.unwanted():
        return Cancelled()
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"no room left for {path}: free disk space and try again; nothing was written")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupt(f"{path} is damaged or is not a database ({error}); run `velesdb-memory doctor`")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, _CANTOPEN):
        return StoreUnwritable(f"{path} cannot be written ({error}): check the permissions of the file and its folder")
    if code == sqlite3.SQLITE_BUSY:
        return StorageError(f"{path} was held by another writer for {BUSY_SECONDS} seconds; try again")
    return StorageError(f"storage failed on {path}: {error}")


class Database:
    """The connections of one process to one database file.

    Each snapshot and each transaction has a connection to itself while it lasts, so that one may stay open (an export
    that is read slowly) while the same thread does something else. Reading needs no lock (WAL). Writing takes a lock of
    this process before SQLite's own.

    SQLite's state must not cross a fork, not even to be closed in the child, so a fork waits for what is under way and
    finds no connection open. One that finds a snapshot open all the same leaves the child without this file.
    """

    def __init__(self, path: Path, synchronous: Synchronous) -> None:
        self.path = path
        self._synchronous = synchronous
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._idle: list[sqlite3.Connection] = []
        self._lent: dict[int, tuple[sqlite3.Connection, int]] = {}  # with the thread that has it
        self._closed = False
        _databases.add(self)

    @contextmanager
    def _borrowed(self) -> Generator[sqlite3.Connection]:
        connection, process = self._take(), os.getpid()
        try:
            yield connection
        finally:
            # what the child of a fork finds lent out is not its own
            if process == os.getpid():
                with self._changed:
                    self._lent.pop(id(connection), None)
                    if self._closed or connection.in_transaction:
                        connection.close()
                    else:
                        self._idle.append(connection)
                    self._changed.notify_all()

    def _take(self) -> sqlite3.Connection:
        with self._changed:
            if self._closed:
                raise StorageError("the store is closed")
            if self.path in _left_behind:
                raise StorageError(
                    f"{self.path} was being read when this process was forked, and SQLite cannot use it here any more: "
                    "fork before the store is opened, or start the process afresh"
                )
            connection = self._idle.pop() if self._idle else self._connect()
            self._lent[id(connection)] = connection, threading.get_ident()
            return connection

    def before_fork(self) -> None:
        """Let what is under way in other threads end, and close all connections."""
        self._writing.acquire()
        self._changed.acquire()
        mine = threading.get_ident()
        self._changed.wait_for(lambda: all(thread == mine for _, thread in self._lent.values()), _FORK_PATIENCE)
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def after_fork(self, *, child: bool) -> None:
        """Go on; in the child with locks of its own, and without the file where a snapshot was left open."""
        if not child:
            self._changed.release()
            self._writing.release()
            return
        self._writing, self._changed = threading.Lock(), threading.Condition()
        if self._lent:
            _left_behind[self.path] = list(self._lent.values())
            self._lent = {}

    def _connect(self) -> sqlite3.Connection:
        with self.translated():
            connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            try:
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
                connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
                connection.execute("PRAGMA temp_store = memory")
                connection.set_progress_handler(cancel.unwanted, _STEPS)
            except BaseException:
                connection.close()
                raise
            return connection

    @contextmanager
    def translated(self) -> Generator[None]:
        """Raise SQLite's errors, and those of the file system, as ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        except UnicodeEncodeError as error:
            raise StorageError(f"text that UTF-8 cannot carry reached the store: {error.reason}") from error

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """A snapshot: everything read in the block is of one moment."""
        cancel.check()
        with self.translated(), self._borrowed() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """A write transaction: committed, durably, at the end of the block; rolled back when it raises."""
        with self.translated(), self._writing, self._borrowed() as connection:
            _begin_writing(connection)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def outside(self) -> Generator[sqlite3.Connection]:
        """A connection with no transaction open, for what SQLite does only there."""
        with self.translated(), self._borrowed() as connection:
            yield connection

    def close(self) -> None:
        """Close every connection that is not in use; those that are close when they are given back. Idempotent."""
        with self._changed:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()


_databases: weakref.WeakSet[Database] = weakref.WeakSet()
# Connections that a fork found open, by file: the child keeps them from being closed, and stays away from the file
_left_behind: dict[Path, object] = {}
_at_fork: list[Database] = []


def _before_fork() -> None:
    _at_fork.extend(_databases)
    for database in _at_fork:
        database.before_fork()


def _after_fork(child: bool) -> None:
    for database in reversed(_at_fork):
        database.after_fork(child=child)
    _at_fork.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(child=False),
        after_in_child=lambda: _after_fork(child=True),
    )


def _begin_writing(connection: sqlite3.Connection) -> None:
    """Take SQLite's write lock. Its own waiting sleeps ever longer, up to a tenth of a second, so that among several
    writers some wait for seconds; short, random sleeps share the lock evenly."""
    deadline = time.monotonic() + BUSY_SECONDS
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            cancel.check()
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if (error.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.0002, 0.002))
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")


def _scripts() -> list[tuple[int, str]]:
    folder = resources.files("velesdb_memory.store.sqlite") / "migrations"
    found = [(int(entry.name[:4]), entry) for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return [(number, entry.read_text(encoding="utf-8")) for number, entry in sorted(found, key=lambda pair: pair[0])]


def prepare(database: Database) -> None:
    """Create the schema or bring it up to date. Safe when several processes do it at once.

    Raises StoreForeign, StoreCorrupt or StoreTooNew and changes nothing when the file is not ours to change.
    """
    path = database.path
    try:
        with path.open("rb") as file:
            head = file.read(len(_HEADER))
    except FileNotFoundError:
        head = b""
        _create(path)
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be read: {error.strerror}") from error
    foreign = StoreForeign(f"{path} is not a database: move it away, or choose another store directory")
    # zeros: another process may be writing the file for the first time, and its later pages came first
    if head != _HEADER and any(head):
        raise foreign
    try:
        _prepare(database)
    except StoreCorrupt:
        if head and not any(head):
            raise foreign from None
        raise


def _prepare(database: Database) -> None:
    path = database.path
    scripts = _scripts()
    with database.outside() as connection:
        # one snapshot: another process may be creating the schema just now
        connection.execute("BEGIN")
        application = _pragma(connection, "application_id")
        version = _pragma(connection, "user_version")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        connection.execute("COMMIT")
        if application == APPLICATION_ID and version == scripts[-1][0]:
            return
        if application != APPLICATION_ID and (application or version or tables):
            raise StoreForeign(
                f"{path} belongs to another program (application id {application:#x}): choose another store directory"
            )
        if version > scripts[-1][0]:
            raise StoreTooNew(
                f"{path} has schema {version}, newer than {scripts[-1][0]} of this version: upgrade velesdb-memory"
            )
        _enter_wal(connection)
    with database.writing():
        version = _pragma(connection, "user_version")
        for number, script in scripts:
            if number > version:
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _create(path: Path) -> None:
    # SQLite gives its other files the permissions of this one; what an agent remembers is its user's business only
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be created: {error.strerror}") from error


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _statements(script: str) -> Iterator[str]:
    # executescript() would commit the transaction that the migration runs in
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _enter_wal(connection: sqlite3.Connection) -> None:
    # the change to WAL does not wait for other openers as other statements do
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = wal")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
