"""Embedding spaces: the exact vectors in the database and the code files derived from them."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ...errors import StorageError
from ...machine import boot_id
from ..base import Space
from .codes import Codec, CodeFiles, Rows
from .connection import Database
from .search import Damaged, Ranked, Search, unpack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..base import Predicate

SPACE_SHIFT: Final = 40  # embedding keys: space * 2^40 + slot
SYNC_ROWS: Final = 16_384  # rows written before the code files are synced
_LEFT_OVER: Final = 86_400  # seconds since anybody wrote to a file that no space names
_BATCH: Final = 4_096  # vectors encoded at a time
_SAMPLE: Final = 48  # rows checked, besides the last ones, when a process first uses the files
_ROW: Final = "SELECT id, model, dimension, seed, codes, rows, dead, synced, boot, state FROM space"

State = Literal["active", "target", "former", "given up"]


class SpaceRow(NamedTuple):
    """A row of the table ``space``."""

    id: int
    model: str
    dimension: int
    seed: int
    codes: str
    rows: int
    dead: int
    synced: int
    boot: str
    state: State

    def key(self, slot: int) -> int:
        return (self.id << SPACE_SHIFT) + slot


class Spaces:
    """The embedding spaces of a store, as one process uses them: the active one, and the target of a migration."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self.folder = folder
        self._guard = threading.Lock()  # held for moments only, also by writers inside their transaction
        self._rebuilding = threading.Lock()
        _in_use.add(self)
        self._files: dict[State, CodeFiles] = {}
        self._sound: set[str] = set()
        self._replaced: dict[str, SpaceRow] = {}
        self._wrote = False

    def after_fork(self) -> None:
        """In the child: locks that another thread held at the fork would never be released."""
        self._guard, self._rebuilding, self._files = threading.Lock(), threading.Lock(), {}

    # -- the active space ---------------------------------------------------------------------------------------

    def active(self, connection: sqlite3.Connection) -> SpaceRow | None:
        """The space that searches use."""
        return self.in_state(connection, "active")

    def in_state(self, connection: sqlite3.Connection, state: State) -> SpaceRow | None:
        """A space in ``state``: there is never more than one but of those given up."""
        row = connection.execute(f"{_ROW} WHERE state = ? LIMIT 1", (state,)).fetchone()
        return None if row is None else SpaceRow(*row)

    def _again(self, connection: sqlite3.Connection, space: SpaceRow) -> SpaceRow | None:
        row = connection.execute(f"{_ROW} WHERE id = ?", (space.id,)).fetchone()
        return None if row is None else SpaceRow(*row)

    def record(self, connection: sqlite3.Connection, space: Space) -> bool:
        """Make ``space`` the active one, unless a vector is stored already or a migration is about to change it."""
        if connection.execute("SELECT 1 FROM embedding LIMIT 1").fetchone() or self.in_state(connection, "target"):
            return False
        stale = {row[0] for row in connection.execute("SELECT codes FROM space")}
        connection.execute("DELETE FROM space")
        self._sweep_files(stale, set())
        self.create(connection, space, "active", None)
        return True

    def create(
        self, connection: sqlite3.Connection, space: Space, state: State, witness: NDArray[np.float32] | None
    ) -> SpaceRow:
        """Add an empty space with its files."""
        name = secrets.token_hex(6)
        CodeFiles(self.folder, name, space.dimension).create()
        connection.execute(
            "INSERT INTO space (model, dimension, state, seed, codes, boot, witness) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (space.model, space.dimension, state, secrets.randbits(31), name, boot_id(),
             None if witness is None else witness.astype("<f4").tobytes()),
        )  # fmt: skip
        created = self.in_state(connection, state)
        assert created is not None
        return created

    def append(
        self, connection: sqlite3.Connection, vectors: Sequence[tuple[int, NDArray[np.float32]]],
        state: State = "active",
    ) -> None:  # fmt: skip
        """Store the vectors of new slots, ascending, in the caller's write transaction."""
        import numpy as np

        space = self.in_state(connection, state)
        if space is None:
            raise StorageError("no embedding space is recorded")
        connection.executemany(
            "INSERT INTO embedding VALUES (?, ?)",
            [(space.key(slot), np.ascontiguousarray(vector, "<f4").tobytes()) for slot, vector in vectors],
        )
        codes, scales = Codec(space.dimension, space.seed).encode(np.stack([vector for _, vector in vectors]))
        slots = np.array([slot for slot, _ in vectors], dtype=np.uint32)
        files = self._open(space)
        if files.present(space.rows):
            files.write(space.rows, Rows(codes, scales, slots))
            self._wrote |= state == "active"
            name = space.codes
        else:
            # a rebuild would wait for this very transaction; under a new name the next search finds none and rebuilds
            name = secrets.token_hex(6)
        rows = space.rows + len(vectors)
        synced = space.synced
        if rows - synced >= SYNC_ROWS and name == space.codes and space.boot == boot_id():
            files.sync()
            synced = rows
        connection.execute(
            "UPDATE space SET codes = ?, rows = ?, synced = ? WHERE id = ?", (name, rows, synced, space.id)
        )

    def remove(self, connection: sqlite3.Connection, slot: int) -> None:
        """Delete the vectors of a slot; its rows in the code files stay until the next generation."""
        for (space,) in connection.execute("SELECT id FROM space").fetchall():
            gone = connection.execute("DELETE FROM embedding WHERE key = ?", ((space << SPACE_SHIFT) + slot,)).rowcount
            if gone:
                connection.execute("UPDATE space SET dead = dead + 1 WHERE id = ?", (space,))

    def vectors(
        self, connection: sqlite3.Connection, space: SpaceRow, slots: Sequence[int]
    ) -> tuple[list[int], NDArray[np.float32]]:
        """The exact vectors among ``slots``: the slots found, and an array of shape (found, dimension)."""
        rows = connection.execute(
            "SELECT wanted.value, e.vector FROM json_each(?) AS wanted"
            " CROSS JOIN embedding AS e ON e.key = wanted.value + ?",
            (json.dumps(slots), space.key(0)),
        ).fetchall()
        return [row[0] for row in rows], unpack([row[1] for row in rows], space.dimension)

    # -- searching ----------------------------------------------------------------------------------------------

    def nearest(
        self,
        connection: sqlite3.Connection,
        vector: NDArray[np.float32],
        limit: int,
        where: Sequence[Predicate],
        now: int,
    ) -> Ranked:
        """The ``limit`` live facts nearest to ``vector`` among those that satisfy ``where``; complete and exact."""
        space = self.active(connection)
        if space is None or limit < 1:
            return Ranked([], [], [])
        for suspicious in (True, False):
            space, rows = self.rows(connection, space)
            if not len(rows.slots):
                return Ranked([], [], [])
            search = Search(connection, space, vector, limit, now)
            # what does not add up after a rebuild is no damage of the files
            search.suspicious = suspicious
            try:
                return search.run(rows, where)
            except Damaged:
                self.rebuild(space)
        raise StorageError(f"the vectors in {self._database.path} are damaged; run `velesdb-memory doctor`")

    def rows(self, connection: sqlite3.Connection, space: SpaceRow) -> tuple[SpaceRow, Rows]:
        """The code rows of a snapshot, rebuilt first where they are missing, short, stale or damaged.

        Also the row that describes them: a rebuild inside the snapshot is newer than what the snapshot shows. It may
        hold rows that the snapshot does not, which ranking drops.
        """
        for _ in range(3):
            space = self._latest(space)
            files = self._open(space)
            rows = files.map(space.rows)
            if rows is not None and (files.name in self._sound or self._verify(connection, space, files, rows)):
                return space, rows
            self.rebuild(space)
        raise StorageError(f"the vector codes in {self.folder} cannot be rebuilt; run `velesdb-memory doctor`")

    def mapped(self, space: SpaceRow) -> Rows | None:
        """The code rows as they are, unchecked; None when a file is missing or short."""
        return self._open(space).map(space.rows)

    def _latest(self, space: SpaceRow) -> SpaceRow:
        """``space``, or what a rebuild that its snapshot does not show made of it."""
        while space.codes in self._replaced:
            space = self._replaced[space.codes]
        return space

    def _open(self, space: SpaceRow) -> CodeFiles:
        with self._guard:
            files = self._files.get(space.state)
            if files is None or files.name != space.codes:
                # searches that still run on the former files keep their maps
                if files is not None:
                    files.close()
                files = self._files[space.state] = CodeFiles(self.folder, space.codes, space.dimension)
            return files

    def sync(self, space: SpaceRow) -> None:
        """Make what was written to a space's files survive a power loss, where they are all there."""
        files = self._open(space)
        if files.present(space.rows):
            files.sync()

    def forget_files(self, state: State) -> None:
        """Let go of the files of the space in ``state``."""
        with self._guard:
            files = self._files.pop(state, None)
        if files is not None:
            files.close()

    # -- damage -------------------------------------------------------------------------------------------------

    def _verify(self, connection: sqlite3.Connection, space: SpaceRow, files: CodeFiles, rows: Rows) -> bool:
        """Whether the files look like those of this space; the first use in a process, not every one."""
        import numpy as np

        boot = boot_id()
        if space.boot != boot:
            # rows that were not synced before the machine went down may be anything
            if space.rows != space.synced:
                return False
            self._update("UPDATE space SET boot = ? WHERE id = ? AND codes = ?", (boot, space.id, files.name))
        count = len(rows.slots)
        if count:
            if not (np.diff(rows.slots.astype(np.int64)) > 0).all():
                return False
            if not (np.isfinite(rows.scales).all() and (rows.scales > 0).all() and (rows.scales < 0.01).all()):
                return False
            picked = np.unique(np.concatenate([
                np.random.default_rng().integers(0, count, _SAMPLE), np.arange(max(0, count - 16), count)
            ]))
            if len(self.differing(connection, space, rows, picked)):
                return False
        self._sound.add(files.name)
        return True

    def differing(
        self, connection: sqlite3.Connection, space: SpaceRow, rows: Rows, picked: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Those of the ``picked`` rows whose codes are not those of their vectors. Deleted vectors are passed over."""
        import numpy as np

        slots, vectors = self.vectors(connection, space, rows.slots[picked].tolist())
        if not slots:
            return np.empty(0, np.intp)
        codes, scales = Codec(space.dimension, space.seed).encode(vectors)
        held = picked[np.isin(rows.slots[picked], np.array(slots, np.uint32))]
        # machines may round the last bit of a turned vector differently
        off = np.abs(rows.codes[held].astype(np.int16) - codes).max(axis=1) > 1
        off |= ~np.isclose(rows.scales[held], scales, rtol=1e-4)
        return held[off]

    def _encoded(
        self, connection: sqlite3.Connection, space: SpaceRow, slots: Sequence[int], first: int
    ) -> Iterator[tuple[int, Rows]]:
        import numpy as np

        codec = Codec(space.dimension, space.seed)
        for start in range(0, len(slots), _BATCH):
            found, vectors = self.vectors(connection, space, slots[start : start + _BATCH])
            if found:
                yield first, Rows(*codec.encode(vectors), np.array(found, np.uint32))
                first += len(found)

    def rebuild(self, stale_space: SpaceRow, progress: Callable[[int, int], None] | None = None) -> None:
        """Write a new generation of a space's code files from the vectors, unless another process just did.

        Uses a connection of its own, so that it may be called while a snapshot is open.
        """
        stale = stale_space.codes
        with self._rebuilding:
            database = Database(self._database.path, "full")
            try:
                with database.reading() as connection:
                    space = self._again(connection, stale_space)
                    if space is None:
                        return
                    if space.codes != stale:
                        self._replaced[stale] = space
                        return
                    slots = self.stored(connection, space, 0)
                    files = CodeFiles(self.folder, secrets.token_hex(6), space.dimension)
                    try:
                        files.create()
                        written = self._fill(connection, space, files, slots, 0, progress)
                    except BaseException:
                        files.unlink()
                        raise
                with database.writing() as connection:
                    current = self._again(connection, stale_space)
                    if current is None or current.codes != stale:
                        # another process was quicker
                        files.unlink()
                        if current is not None:
                            self._replaced[stale] = current
                        return
                    # what was committed meanwhile; slots only grow, so it comes after all the rest
                    later = self.stored(connection, space, slots[-1] + 1 if slots else 0)
                    written = self._fill(connection, space, files, later, written, None)
                    files.sync()
                    connection.execute(
                        "UPDATE space SET codes = ?, rows = ?, synced = ?, boot = ?,"
                        " dead = ? - (SELECT count(*) FROM embedding WHERE key BETWEEN ? AND ?)"
                        " WHERE id = ?",
                        (files.name, written, written, boot_id(), written, space.key(0), space.key(2**SPACE_SHIFT - 1),
                         space.id),
                    )  # fmt: skip
                    renewed = self._again(connection, stale_space)
                    named = {row[0] for row in connection.execute("SELECT codes FROM space")}
            finally:
                database.close()
            if renewed is not None:
                self._replaced[stale] = renewed
            self._sound.add(files.name)
            files.close()
            self._sweep_files({stale}, named)

    def _fill(
        self,
        connection: sqlite3.Connection,
        space: SpaceRow,
        files: CodeFiles,
        slots: Sequence[int],
        first: int,
        progress: Callable[[int, int], None] | None,
    ) -> int:
        """Write the codes of ``slots`` from row ``first`` on; the row after the last one."""
        for row, batch in self._encoded(connection, space, slots, first):
            files.write(row, batch)
            first = row + len(batch.slots)
            if progress:
                progress(first, len(slots))
        return first

    def stored(self, connection: sqlite3.Connection, space: SpaceRow, first: int) -> list[int]:
        low = space.key(0)
        rows = connection.execute(
            "SELECT key - ? FROM embedding WHERE key BETWEEN ? AND ? ORDER BY key",
            (low, low + first, space.key(2**SPACE_SHIFT - 1)),
        )
        return [row[0] for row in rows]

    def _sweep_files(self, stale: set[str], named: set[str]) -> None:
        """Remove the ``stale`` generations, and what an interrupted rebuild left long ago and no space names. Others
        may be new ones that another process is just writing."""
        for pattern in ("codes-*.i8", "scales-*.f4", "slots-*.u4"):
            for path in self.folder.glob(pattern):
                # Windows keeps a file that another process maps; a later rebuild tries again
                with suppress(OSError):
                    name = path.stem.partition("-")[2]
                    left = name not in named | self._sound and time.time() - path.stat().st_mtime > _LEFT_OVER
                    if name in stale or left:
                        path.unlink()

    def _update(self, statement: str, values: tuple[object, ...]) -> None:
        database = Database(self._database.path, "full")
        try:
            with database.writing() as connection:
                connection.execute(statement, values)
        finally:
            database.close()

    def compact(self, connection: sqlite3.Connection) -> None:
        """Start a new generation when more than three rows in ten belong to no record."""
        space = self.active(connection)
        if space is not None and space.dead > max(SYNC_ROWS, 0.3 * space.rows):
            self.rebuild(space)

    def close(self) -> None:
        """Sync what this process wrote, so that a later power loss costs no rebuild, and let go of the files."""
        files = self._files.get("active")
        if files is not None and self._wrote:
            with suppress(StorageError):
                self._settle(files)
        for state in tuple(self._files):
            self.forget_files(state)

    def _settle(self, files: CodeFiles) -> None:
        with self._database.reading() as connection:
            space = self.active(connection)
        # rows that others add meanwhile may miss the sync, so they are not counted
        if space is not None and space.codes == files.name:
            files.sync()
            self._update(
                "UPDATE space SET synced = max(synced, ?), boot = ? WHERE id = ? AND codes = ?",
                (space.rows, boot_id(), space.id, files.name),
            )


_in_use: weakref.WeakSet[Spaces] = weakref.WeakSet()


def _after_fork() -> None:
    for spaces in _in_use:
        spaces.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
