"""Changing the SQLite store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ...analysis import terms
from ...errors import IdCollision
from ...ids import edge_id
from ..base import PROJECT, Attribute, Edge, JobRecord, Kind, Record, Refusal, Space
from . import bodies, facets, lexical
from .journal import EDGE_SOURCE, FACT, Journal
from .migrating import SqliteMigrating
from .spaces import Spaces
from .view import JOB, LIVE, RECORD, SHIFT, JobBody, SqliteView, edge_of, job_of, record_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class SqliteTransaction(SqliteView):
    """A snapshot that can be changed; see StoreTransaction."""

    def __init__(self, connection: sqlite3.Connection, spaces: Spaces, now: int) -> None:
        super().__init__(connection, spaces, now)
        self._postings = lexical.Pending()
        self._vectors: dict[int, NDArray[np.float32]] = {}
        self._journal = Journal(connection)
        self.deleted = False

    @property
    def migrating(self) -> SqliteMigrating:
        return SqliteMigrating(self._connection, self._spaces, self._journal)

    def flush(self) -> None:
        """Write the postings and vectors that ``put`` queued."""
        self._postings.flush(self._connection)
        if self._vectors:
            self._spaces.append(self._connection, list(self._vectors.items()))
            self._vectors.clear()

    def record_space(self, space: Space) -> bool:
        return self._spaces.record(self._connection, space)

    # -- records ------------------------------------------------------------------------------------------------

    def put(self, record: Record, vector: NDArray[np.float32] | None) -> None:
        if record.kind is Kind.FACT:
            self._journal.note(FACT, record.id - SHIFT)
        row = self._connection.execute(
            "SELECT slot, kind, content, metadata, expires_at FROM memory WHERE id = ?", (record.id - SHIFT,)
        ).fetchone()
        if row is not None:
            slot, kind, content, metadata, expires_at = row
            if expires_at is not None and expires_at <= self.now:
                self.delete(record.id)
            elif kind != record.kind or (kind in (Kind.FACT, Kind.HUB) and content != record.content):
                raise IdCollision(
                    f"id {record.id} already belongs to another text: both hash to it. Nothing was overwritten; "
                    "word this one differently"
                )
            elif self._keep_slot(slot, vector):
                self._update(slot, record, json.loads(metadata))
                return
            else:
                self._drop(slot, Kind(kind), content, json.loads(metadata))
        self._insert(record, vector)

    def _keep_slot(self, slot: int, vector: NDArray[np.float32] | None) -> bool:
        # the code of a slot is never re-written (another process may be reading it), so a new vector needs a new slot
        if vector is None:
            return True
        if slot in self._vectors:
            self.flush()
        space = self._spaces.active(self._connection)
        if space is None:
            return False
        row = self._connection.execute("SELECT vector FROM embedding WHERE key = ?", (space.key(slot),)).fetchone()
        return row is not None and row[0] == vector.astype("<f4").tobytes()

    def _insert(self, record: Record, vector: NDArray[np.float32] | None) -> None:
        content, metadata = bodies.rest(record)
        slot = self._connection.execute(
            "INSERT INTO memory (id, kind, content, metadata, dated, confidence, successes, failures, expires_at,"
            " project) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                record.id - SHIFT,
                record.kind,
                content,
                facets.canonical_json(metadata),
                record.dated,
                record.confidence,
                record.successes,
                record.failures,
                record.expires_at,
                record.metadata.get(PROJECT) if record.kind in (Kind.EVENT, Kind.WORKING) else None,
            ),
        ).lastrowid
        assert slot is not None
        if record.kind in bodies.KINDS:
            bodies.write(self._connection, slot, bodies.of(record))
        if record.kind is Kind.FACT:
            assert vector is not None
            facets.write(self._connection, slot, record.metadata)
            self._postings.add(slot, terms(record.content))
            self._vectors[slot] = vector

    def _update(self, slot: int, record: Record, former: dict[str, object]) -> None:
        if record.kind is Kind.FACT and facets.canonical_json(former) != facets.canonical_json(record.metadata):
            facets.remove(self._connection, slot, former)
            facets.write(self._connection, slot, record.metadata)
        if record.kind in bodies.KINDS and bodies.read(self._connection, slot) != bodies.of(record):
            bodies.write(self._connection, slot, bodies.of(record))
        content, metadata = bodies.rest(record)
        self._connection.execute(
            "UPDATE memory SET content = ?, metadata = ?, dated = ?, confidence = ?, successes = ?, failures = ?,"
            " expires_at = ? WHERE slot = ?",
            (
                content,
                facets.canonical_json(metadata),
                record.dated,
                record.confidence,
                record.successes,
                record.failures,
                record.expires_at,
                slot,
            ),
        )

    def _drop(self, slot: int, kind: Kind, content: str, metadata: dict[str, object]) -> None:
        """Remove a row with its facets, postings and vectors; its edges and what it taught stay."""
        self.flush()
        if kind is Kind.FACT:
            facets.remove(self._connection, slot, metadata)
            lexical.remove(self._connection, slot, terms(content))
            self._spaces.remove(self._connection, slot)
        elif kind in bodies.KINDS:
            self._connection.execute("DELETE FROM body WHERE slot = ?", (slot,))
        self._connection.execute("DELETE FROM memory WHERE slot = ?", (slot,))
        self.deleted = True

    def set_confidence(self, memory_id: int, confidence: float, successes: int, failures: int) -> None:
        self._connection.execute(
            "UPDATE memory SET confidence = ?, successes = ?, failures = ? WHERE id = ?",
            (confidence, successes, failures, memory_id - SHIFT),
        )

    def delete(self, memory_id: int) -> bool:
        key = memory_id - SHIFT
        row = self._connection.execute(
            "SELECT slot, kind, content, metadata, expires_at FROM memory WHERE id = ?", (key,)
        ).fetchone()
        if row is None:
            return False
        slot, kind, content, metadata, expires_at = row
        if kind == Kind.FACT:
            self._journal.note(FACT, key)
        self._drop(slot, Kind(kind), content, json.loads(metadata))
        one = self._connection.execute
        hubs = self._hubs_around(key)
        # what only this record taught, then what hung on it
        one("DELETE FROM attribute WHERE fact = ?1 OR hub = ?1", (key,))
        taught = one("SELECT edge FROM edge_source WHERE fact = ?", (key,)).fetchall()
        one("DELETE FROM edge_source WHERE fact = ?", (key,))
        for edge in taught:
            one(
                "DELETE FROM edge WHERE id = ?1 AND NOT stated"
                " AND NOT EXISTS (SELECT 1 FROM edge_source WHERE edge = ?1)",
                edge,
            )
        for near in ("src", "dst"):
            one(f"DELETE FROM edge_source WHERE edge IN (SELECT id FROM edge WHERE {near} = ?)", (key,))
            one(f"DELETE FROM edge WHERE {near} = ?", (key,))
        one("DELETE FROM edge_refused WHERE fact = ?1 OR src = ?1 OR dst = ?1", (key,))
        one("DELETE FROM enrichment WHERE fact = ?", (key,))
        for hub in hubs - {key}:
            self._collect(hub)
        return expires_at is None or expires_at > self.now

    def _hubs_around(self, key: int) -> set[int]:
        """The hubs that a record points at, is pointed at by, or taught something about."""
        rows = self._connection.execute(
            "WITH near (id) AS (SELECT dst FROM edge WHERE src = ?1 UNION SELECT src FROM edge WHERE dst = ?1"
            " UNION SELECT hub FROM attribute WHERE fact = ?1"
            " UNION SELECT e.src FROM edge_source AS s JOIN edge AS e ON e.id = s.edge WHERE s.fact = ?1"
            " UNION SELECT e.dst FROM edge_source AS s JOIN edge AS e ON e.id = s.edge WHERE s.fact = ?1"
            " UNION SELECT src FROM edge_refused WHERE fact = ?1 UNION SELECT dst FROM edge_refused WHERE fact = ?1)"
            " SELECT near.id FROM near JOIN memory AS m ON m.id = near.id WHERE m.kind = ?2",
            (key, Kind.HUB),
        )
        return {row[0] for row in rows}

    def _collect(self, key: int) -> None:
        """Remove a hub that nothing holds any more: no edge, no attribute."""
        self._connection.execute(
            "DELETE FROM memory WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM edge WHERE src = ?1)"
            " AND NOT EXISTS (SELECT 1 FROM edge WHERE dst = ?1)"
            " AND NOT EXISTS (SELECT 1 FROM attribute WHERE hub = ?1)",
            (key,),
        )

    def sweep(self, limit: int) -> int:
        expired = self._connection.execute(
            "SELECT id FROM memory WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT ?", (self.now, limit)
        ).fetchall()
        for (key,) in expired:
            self.delete(key + SHIFT)
        return len(expired)

    # -- the graph ----------------------------------------------------------------------------------------------

    def add_edge(self, source: int, target: int, relation: str, *, taught_by: int | None) -> int:
        number = edge_id(source, target, relation)
        self._journal.note(EDGE_SOURCE, source - SHIFT)
        one = self._connection.execute
        present = self._stored_edge(number)
        if present is not None and (present.source, present.target, present.relation) != (source, target, relation):
            raise IdCollision(f"edge id {number} already belongs to another link: both hash to it")
        if taught_by is None:
            one("DELETE FROM edge_refused WHERE edge = ?", (number - SHIFT,))
        elif one(
            "SELECT 1 FROM edge_refused WHERE edge = ? AND fact = ?", (number - SHIFT, taught_by - SHIFT)
        ).fetchone():
            return 0
        if present is None:
            one(
                "INSERT INTO edge (id, src, dst, relation, stated) VALUES (?, ?, ?, ?, ?)",
                (number - SHIFT, source - SHIFT, target - SHIFT, relation, taught_by is None),
            )
        elif taught_by is None:
            one("UPDATE edge SET stated = 1 WHERE id = ? AND NOT stated", (number - SHIFT,))
        if taught_by is not None:
            one("INSERT OR IGNORE INTO edge_source (fact, edge) VALUES (?, ?)", (taught_by - SHIFT, number - SHIFT))
        return number

    def _stored_edge(self, number: int) -> Edge | None:
        row = self._connection.execute(
            "SELECT id, src, dst, relation FROM edge WHERE id = ?", (number - SHIFT,)
        ).fetchone()
        return None if row is None else edge_of(row)

    def remove_edge(self, source: int, target: int, relation: str) -> int:
        number = edge_id(source, target, relation)
        if self.edge(number) is None or len(self.get_many([source, target])) < 2:
            return 0
        self._journal.note(EDGE_SOURCE, source - SHIFT)
        one = self._connection.execute
        one(
            "INSERT OR IGNORE INTO edge_refused (edge, fact, src, dst)"
            " SELECT edge, fact, ?2, ?3 FROM edge_source WHERE edge = ?1",
            (number - SHIFT, source - SHIFT, target - SHIFT),
        )
        one("DELETE FROM edge_source WHERE edge = ?", (number - SHIFT,))
        return one("DELETE FROM edge WHERE id = ?", (number - SHIFT,)).rowcount

    def refuse(self, refusal: Refusal) -> None:
        self._connection.execute(
            "INSERT OR IGNORE INTO edge_refused (edge, src, dst, fact) VALUES (?, ?, ?, ?)",
            tuple(number - SHIFT for number in (refusal.edge, refusal.source, refusal.target, refusal.fact)),
        )

    def teach(self, attribute: Attribute) -> None:
        fact = None if attribute.fact is None else attribute.fact - SHIFT
        # a value that is taught again counts as the latest
        hub = attribute.hub - SHIFT
        self._connection.execute(
            "DELETE FROM attribute WHERE hub = ? AND key = ? AND fact IS ?", (hub, attribute.key, fact)
        )
        self._connection.execute(
            "INSERT INTO attribute (hub, key, fact, value) VALUES (?, ?, ?, ?)",
            (hub, attribute.key, fact, facets.canonical_json(attribute.value)),
        )

    # -- work ---------------------------------------------------------------------------------------------------

    def accept_job(self, job: JobRecord) -> None:
        self._connection.execute(
            "INSERT INTO job (request_id, fingerprint, extractor, state, accepted_at, body) VALUES (?, ?, ?, ?, ?, ?)",
            (job.request_id, job.fingerprint, job.extractor, job.state, job.accepted_at, _body(job)),
        )

    def claim_job(self, worker: str, lease_seconds: int, extractors: Sequence[str], patience: int) -> JobRecord | None:
        row = self._connection.execute(
            "UPDATE job SET state = 'running', worker = ?, leased_until = ?, attempts = attempts + 1"
            " WHERE request_id = (SELECT request_id FROM job WHERE ended_at IS NULL AND leased_until <= ?"
            " AND (extraction IS NOT NULL OR accepted_at < ? OR extractor IN (SELECT value FROM json_each(?)))"
            f" ORDER BY accepted_at, rowid LIMIT 1) RETURNING {JOB}",
            (worker, self.now + lease_seconds, self.now, self.now - patience, json.dumps(list(extractors))),
        ).fetchone()
        return None if row is None else job_of(row)

    def renew(self, worker: str, lease_seconds: int) -> int:
        return self._lease(worker, "leased_until = ?", (self.now + lease_seconds,))

    def save_extraction(self, request_id: str, worker: str, extraction: bytes) -> bool:
        return bool(
            self._connection.execute(
                "UPDATE job SET extraction = ? WHERE request_id = ? AND worker = ? AND ended_at IS NULL",
                (extraction, request_id, worker),
            ).rowcount
        )

    def finish_job(self, job: JobRecord, worker: str) -> bool:
        return bool(
            self._connection.execute(
                "UPDATE job SET state = ?, ended_at = ?, worker = NULL, body = ?, extraction = NULL"
                " WHERE request_id = ? AND worker = ? AND ended_at IS NULL",
                (job.state, self.now, _body(job), job.request_id, worker),
            ).rowcount
        )

    def release(self, worker: str) -> int:
        return self._lease(worker, "leased_until = 0, worker = NULL", ())

    def _lease(self, worker: str, change: str, values: tuple[int, ...]) -> int:
        tables = ("job", "enrichment")
        return sum(
            self._connection.execute(f"UPDATE {table} SET {change} WHERE worker = ?", (*values, worker)).rowcount
            for table in tables
        )

    def expire_jobs(self, before: int, keep: int) -> int:
        return self._connection.execute(
            "DELETE FROM job WHERE ended_at IS NOT NULL AND (ended_at < ? OR request_id IN"
            " (SELECT request_id FROM job WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT -1 OFFSET ?))",
            (before, keep),
        ).rowcount

    def queue_enrichment(self, fact: int, limit: int) -> bool:
        one = self._connection.execute
        if one("SELECT 1 FROM enrichment WHERE fact = ?", (fact - SHIFT,)).fetchone():
            return True
        if self.pending_enrichments() >= limit:
            return False
        one("INSERT INTO enrichment (fact) VALUES (?)", (fact - SHIFT,))
        return True

    def claim_enrichment(self, worker: str, lease_seconds: int) -> Record | None:
        # a fact that was forgotten takes its row along; one that has expired waits for the sweeper
        row = self._connection.execute(
            f"SELECT {RECORD} FROM enrichment AS q CROSS JOIN memory AS m ON m.id = q.fact"
            f" WHERE q.leased_until <= ? AND {LIVE} ORDER BY q.ordinal LIMIT 1",
            (self.now, self.now),
        ).fetchone()
        if row is None:
            return None
        self._connection.execute(
            "UPDATE enrichment SET worker = ?, leased_until = ? WHERE fact = ?",
            (worker, self.now + lease_seconds, row[0]),
        )
        return record_of(row)

    def finish_enrichment(self, fact: int, worker: str) -> bool:
        return bool(
            self._connection.execute(
                "DELETE FROM enrichment WHERE fact = ? AND worker = ?", (fact - SHIFT, worker)
            ).rowcount
        )

    def raise_tally(self, name: str, by: int = 1) -> None:
        self._connection.execute(
            "INSERT INTO tally VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
            (name, by),
        )


def _body(job: JobRecord) -> bytes:
    body = JobBody(
        text=job.text,
        metadata=None if job.metadata is None else facets.canonical_json(job.metadata),
        expires_at=job.expires_at,
        ids=job.ids,
        skipped_over_cap=job.skipped_over_cap,
        skipped=job.skipped,
        error=job.error,
    )
    return msgspec.json.encode(body)
