"""The migration of the SQLite store: see store/migrating.py. Places are slots of records and ordinals of edges."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ...errors import StorageError
from ...ids import edge_id
from ...machine import boot_id
from ..base import Space
from ..migrating import JOURNAL_RECORD_BYTES, MigrationRecord, Watermarks
from . import journal, lexical
from .codes import CodeFiles
from .journal import Journal
from .search import unpack
from .spaces import SPACE_SHIFT, SpaceRow, Spaces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHIFT: Final = 2**63


class SqliteMigrating:
    """The verbs of a migration in one snapshot or transaction; see MigrationTransaction."""

    def __init__(self, connection: sqlite3.Connection, spaces: Spaces, capture: Journal | None) -> None:
        self._connection = connection
        self._spaces = spaces
        self._journal = capture

    # -- looking ------------------------------------------------------------------------------------------------

    def job(self) -> MigrationRecord | None:
        row = self._connection.execute("SELECT body FROM migration").fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=MigrationRecord)

    def _target(self) -> SpaceRow:
        space = self._spaces.in_state(self._connection, "target")
        if space is None:
            raise StorageError("the migration's target space is gone")
        return space

    def witness(self) -> NDArray[np.float32] | None:
        row = self._connection.execute("SELECT witness, dimension FROM space WHERE state = 'target'").fetchone()
        return None if row is None or row[0] is None else unpack([row[0]], row[1])[0]

    def watermarks(self) -> Watermarks:
        return journal.watermarks(self._connection)

    def dirty(self) -> tuple[int, int]:
        rows = self._connection.execute("SELECT kind, count(DISTINCT memory) FROM dirty GROUP BY kind").fetchall()
        found = dict(rows)
        return found.get(journal.FACT, 0), found.get(journal.EDGE_SOURCE, 0)

    def ends(self) -> tuple[int, int]:
        fact = self._connection.execute("SELECT max(slot) FROM memory").fetchone()[0]
        edge = self._connection.execute("SELECT max(ordinal) FROM edge").fetchone()[0]
        return fact or 0, edge or 0

    def facts_above(self, place: int, limit: int) -> list[tuple[int, str]]:
        return self._connection.execute(
            "SELECT slot, content FROM memory WHERE slot > ? AND kind = 0 ORDER BY slot LIMIT ?", (place, limit)
        ).fetchall()

    def edges_above(self, place: int, limit: int) -> tuple[int, int, int | None]:
        rows = self._connection.execute(
            "SELECT e.ordinal, e.id, e.src, e.dst, e.relation,"
            " EXISTS (SELECT 1 FROM memory AS m WHERE m.id = e.src) AND EXISTS (SELECT 1 FROM memory AS m"
            " WHERE m.id = e.dst) FROM edge AS e WHERE e.ordinal > ? ORDER BY e.ordinal LIMIT ?",
            (place, limit),
        ).fetchall()
        for _, number, source, target, relation, joined in rows:
            if not joined or number + _SHIFT != edge_id(source + _SHIFT, target + _SHIFT, relation):
                return place, 0, number + _SHIFT
        return (rows[-1][0] if rows else place), len(rows), None

    def uncovered(self) -> int:
        record, space = self.job(), self._target()
        return self._connection.execute(
            "SELECT count(*) FROM memory AS m WHERE m.kind = 0 AND m.slot <= ?"
            " AND NOT EXISTS (SELECT 1 FROM embedding AS e WHERE e.key = m.slot + ?)",
            (record.fact_place if record else 0, space.key(0)),
        ).fetchone()[0]

    def tallies(self) -> tuple[int, int]:
        space = self._target()
        return lexical.totals(self._connection)[0], space.rows - space.dead

    def leftovers(self) -> int:
        return self._connection.execute("SELECT count(*) FROM space WHERE state = 'given up'").fetchone()[0]

    def former(self) -> Space | None:
        row = self._spaces.in_state(self._connection, "former")
        return None if row is None else Space(row.model, row.dimension)

    # -- changing -----------------------------------------------------------------------------------------------

    def begin(self, record: MigrationRecord, witness: NDArray[np.float32]) -> None:
        self._connection.execute("UPDATE space SET state = 'given up' WHERE state = 'former'")
        self._connection.execute("DELETE FROM migration")
        self.clear_journal()
        space = self._spaces.create(self._connection, Space(record.model, record.dimension), "target", witness)
        record.destination = str(self._spaces.folder / f"codes-{space.codes}.i8")
        self._connection.execute(
            "INSERT INTO migration (epoch, phase, target, journal_max, body) VALUES (?, ?, ?, ?, ?)",
            (record.epoch, record.phase, space.id, record.limits.journal_max_bytes // JOURNAL_RECORD_BYTES, b""),
        )
        self.save(record)

    def save(self, record: MigrationRecord) -> None:
        changed = self._connection.execute(
            "UPDATE migration SET phase = ?, body = ? WHERE epoch = ?",
            (record.phase, msgspec.json.encode(record), record.epoch),
        ).rowcount
        if not changed:
            raise StorageError("the migration was replaced by another one")
        if self._journal is not None:
            self._journal.forget_state()

    def fill(self, vectors: Sequence[tuple[int, NDArray[np.float32]]]) -> int:
        rows = self._connection.execute(
            "SELECT m.slot FROM json_each(?) AS wanted CROSS JOIN memory AS m ON m.slot = wanted.value"
            " WHERE m.kind = 0",
            (json.dumps([slot for slot, _ in vectors]),),
        )
        present = {row[0] for row in rows}
        held = [(slot, vector) for slot, vector in vectors if slot in present]
        if held:
            self._spaces.append(self._connection, held, "target")
        return len(held)

    def retire(self, limit: int, record: MigrationRecord) -> int:
        return self._connection.execute(
            "DELETE FROM dirty WHERE ordinal IN (SELECT d.ordinal FROM (SELECT * FROM dirty ORDER BY ordinal LIMIT ?1)"
            " AS d WHERE CASE d.kind WHEN 0"
            " THEN NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.id = d.memory AND m.slot > ?2 AND m.kind = 0)"
            " ELSE NOT EXISTS (SELECT 1 FROM edge AS e WHERE e.src = d.memory AND e.ordinal > ?3) END)",
            (limit, record.fact_place, record.edge_place),
        ).rowcount

    def clear_journal(self) -> None:
        self._connection.execute("DELETE FROM dirty")
        self._connection.execute("DELETE FROM sqlite_sequence WHERE name = 'dirty'")

    def settle_files(self) -> None:
        space = self._target()
        if space.boot != boot_id() and space.rows != space.synced:
            # what was not synced before the machine went down is not to be trusted: under a name that no file has, the
            # next search writes them anew
            self._connection.execute("UPDATE space SET codes = hex(randomblob(6)) WHERE id = ?", (space.id,))
            return
        self._spaces.sync(space)
        self._connection.execute(
            "UPDATE space SET synced = rows, boot = ? WHERE id = ?", (boot_id(), space.id)
        )

    def activate(self) -> None:
        target = self._target()
        self._spaces.forget_files("target")
        self._connection.execute("UPDATE space SET state = 'former' WHERE state = 'active'")
        self._connection.execute("UPDATE space SET state = 'active' WHERE id = ?", (target.id,))

    def discard(self, record: MigrationRecord) -> None:
        epoch, number = self._connection.execute("SELECT epoch, target FROM migration").fetchone()
        space = self._spaces.in_state(self._connection, "target")
        wanted = (record.epoch, record.model, record.dimension)
        if space is None or (epoch, space.model, space.dimension) != wanted or space.id != number:
            raise StorageError(
                f"the target space is not that of migration {record.epoch}: nothing was removed; run `velesdb-memory "
                "doctor`"
            )
        self._connection.execute("UPDATE space SET state = 'given up' WHERE id = ?", (space.id,))
        self.clear_journal()

    def give_up_former(self) -> bool:
        return bool(
            self._connection.execute("UPDATE space SET state = 'given up' WHERE state = 'former'").rowcount
        )

    def purge(self, limit: int) -> bool:
        space = self._spaces.in_state(self._connection, "given up")
        if space is None:
            return False
        gone = self._connection.execute(
            "DELETE FROM embedding WHERE key IN (SELECT key FROM embedding WHERE key BETWEEN ? AND ? LIMIT ?)",
            (space.key(0), space.key(2**SPACE_SHIFT - 1), limit),
        ).rowcount
        if gone < limit:
            self._spaces.forget_files("target")
            self._connection.execute("DELETE FROM space WHERE id = ?", (space.id,))
            # files that no space names are swept when this fails or is rolled back: they are derived
            CodeFiles(self._spaces.folder, space.codes, space.dimension).unlink()
        return bool(self.leftovers())
