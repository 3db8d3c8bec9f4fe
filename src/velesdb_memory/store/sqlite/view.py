"""Reading the SQLite store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...limits import MAX_ID
from ..base import MEDIA, NOBODY, Attribute, Counts, Edge, Hit, JobRecord, Kind, Predicate, Record, Refusal, Space, Stub
from . import bodies, facets, lexical
from .codes import ranking
from .migrating import SqliteMigrating
from .search import cosines
from .spaces import Spaces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHIFT: Final = 2**63  # ids are kept less this, so that SQL's signed order is the unsigned order
_KINDS: Final[tuple[Kind, ...]] = tuple(Kind)
RECORD: Final = "m.id, m.kind, m.content, m.metadata, m.dated, m.confidence, m.successes, m.failures, m.expires_at"
LIVE: Final = "(m.expires_at IS NULL OR m.expires_at > ?)"
# An edge counts while a caller stated it or somebody who taught it is live; it is live only with both its ends
HELD: Final = (
    "(e.stated OR EXISTS (SELECT 1 FROM edge_source AS s LEFT JOIN memory AS t ON t.id = s.fact WHERE s.edge = e.id"
    f" AND (s.fact = {NOBODY - 2**63} OR t.id IS NOT NULL AND (t.expires_at IS NULL OR t.expires_at > ?))))"
)
_EDGE: Final = "e.id, e.src, e.dst, e.relation"
_PAGE_LENGTH: Final = 2**24  # of the texts of a page's internal records, after which it ends
_STUB: Final = (
    "SELECT m.id, m.kind, m.metadata, ifnull(length(b.content), 0) + ifnull(length(b.media), 0)"
    " FROM memory AS m LEFT JOIN body AS b ON b.slot = m.slot"
)
JOB: Final = "request_id, fingerprint, extractor, state, accepted_at, attempts, body, extraction"


def record_of(row: Sequence[Any]) -> Record:
    """A record from the columns of ``RECORD``."""
    return Record(row[0] + SHIFT, _KINDS[int(row[1])], row[2], msgspec.json.decode(row[3]), bool(row[4]), *row[5:9])


def _stub_of(row: Sequence[Any]) -> Stub:
    return Stub(row[0] + SHIFT, _KINDS[int(row[1])], msgspec.json.decode(row[2]), row[3])


def edge_of(row: Sequence[Any]) -> Edge:
    return Edge(row[0] + SHIFT, row[1] + SHIFT, row[2] + SHIFT, row[3])


class JobBody(msgspec.Struct, omit_defaults=True):
    """The part of a job that no query looks into."""

    text: str | None = None
    metadata: str | None = None
    expires_at: int | None = None
    ids: list[int] = []
    skipped_over_cap: int | None = None
    skipped: dict[str, int] | None = None
    error: str | None = None


def job_of(row: Sequence[Any]) -> JobRecord:
    body = msgspec.json.decode(row[6], type=JobBody)
    return JobRecord(
        *row[:6],
        text=body.text,
        metadata=None if body.metadata is None else json.loads(body.metadata),
        expires_at=body.expires_at,
        extraction=row[7],
        ids=body.ids,
        skipped_over_cap=body.skipped_over_cap,
        skipped=body.skipped,
        error=body.error,
    )


class SqliteView:
    """A snapshot of what is live at ``now``; see StoreView."""

    def __init__(self, connection: sqlite3.Connection, spaces: Spaces, now: int) -> None:
        self._connection = connection
        self._spaces = spaces
        self.now = now

    def store_id(self) -> str:
        return self._connection.execute("SELECT value FROM meta WHERE key = 'store'").fetchone()[0]

    @property
    def migrating(self) -> SqliteMigrating:
        return SqliteMigrating(self._connection, self._spaces, None)

    def space(self) -> Space | None:
        row = self._spaces.active(self._connection)
        return None if row is None else Space(row.model, row.dimension)

    def get(self, memory_id: int) -> Record | None:
        row = self._connection.execute(
            f"SELECT {RECORD} FROM memory AS m WHERE m.id = ? AND {LIVE}", (memory_id - SHIFT, self.now)
        ).fetchone()
        return None if row is None else next(bodies.filled(self._connection, [record_of(row)]))

    def get_many(self, memory_ids: Sequence[int]) -> dict[int, Record]:
        rows = self._connection.execute(
            f"SELECT {RECORD} FROM json_each(?) AS wanted CROSS JOIN memory AS m ON m.id = wanted.value WHERE {LIVE}",
            (json.dumps([memory_id - SHIFT for memory_id in memory_ids]), self.now),
        )
        return {record.id: record for record in bodies.filled(self._connection, [record_of(row) for row in rows])}

    # -- searching ----------------------------------------------------------------------------------------------

    def nearest(self, vector: NDArray[np.float32], limit: int, where: Sequence[Predicate]) -> list[Hit]:
        ranked = self._spaces.nearest(self._connection, vector, limit, where, self.now)
        return [Hit(*hit) for hit in zip(ranked.ids, ranked.scores, ranked.confidences, strict=True)]

    def lexical(
        self, terms: Sequence[str], limit: int, where: Sequence[Predicate], also: Sequence[int] = ()
    ) -> list[Hit]:
        slots, scores = lexical.scores(self._connection, terms)
        hits = self._best_words(slots, scores, limit, where)
        missing = set(also) - {hit.id for hit in hits}
        return hits + self._words_of(slots, scores, missing)

    def _words_of(self, slots: NDArray[np.uint32], scores: NDArray[np.float64], memory_ids: set[int]) -> list[Hit]:
        import numpy as np

        rows = self._connection.execute(
            "SELECT m.slot, m.id, m.confidence FROM json_each(?) AS wanted CROSS JOIN memory AS m"
            " ON m.id = wanted.value",
            (json.dumps([memory_id - SHIFT for memory_id in memory_ids]),),
        )
        found = {slot: (memory_id + SHIFT, confidence) for slot, memory_id, confidence in rows}
        held = np.isin(slots, np.array(list(found), np.uint32), assume_unique=True)
        return [
            Hit(found[slot][0], score, found[slot][1])
            for slot, score in zip(slots[held].tolist(), scores[held].tolist(), strict=True)
        ]

    def _best_words(
        self, slots: NDArray[np.uint32], scores: NDArray[np.float64], limit: int, where: Sequence[Predicate]
    ) -> list[Hit]:
        import numpy as np

        matched = facets.matching_slots(self._connection, where, facets.FETCHED_AT_MOST) if where else None
        if matched is not None:
            held = np.isin(slots, matched, assume_unique=True)
            slots, scores, where = slots[held], scores[held], ()
        count = max(limit + 32, 64)
        while True:
            order = ranking(scores, count)
            hits = self._live(slots[order].tolist(), scores[order].tolist(), where)
            if len(hits) >= limit or len(order) == len(scores):
                return hits[:limit]
            count *= 8

    def _live(self, slots: list[int], scores: list[float], where: Sequence[Predicate]) -> list[Hit]:
        rows = self._connection.execute(
            "SELECT m.slot, m.id, m.confidence, m.metadata FROM json_each(?) AS wanted"
            f" CROSS JOIN memory AS m ON m.slot = wanted.value WHERE m.kind = 0 AND {LIVE}",
            (json.dumps(slots), self.now),
        )
        score_of, holds = dict(zip(slots, scores, strict=True)), facets.matcher(where)
        return [
            Hit(memory_id + SHIFT, score_of[slot], confidence)
            for slot, memory_id, confidence, metadata in rows
            if not where or holds(msgspec.json.decode(metadata))
        ]

    def matching(self, memory_ids: Sequence[int], where: Sequence[Predicate]) -> list[Record]:
        found = self.get_many(memory_ids)
        records = (found[memory_id] for memory_id in memory_ids if memory_id in found)
        holds = facets.matcher(where)
        return [record for record in records if record.kind is Kind.FACT and holds(record.metadata)]

    def cosines(self, vector: NDArray[np.float32], memory_ids: Sequence[int]) -> dict[int, float]:
        space = self._spaces.active(self._connection)
        if space is None or not memory_ids:
            return {}
        rows = self._connection.execute(
            "SELECT m.slot, m.id FROM json_each(?) AS wanted CROSS JOIN memory AS m ON m.id = wanted.value",
            (json.dumps([memory_id - SHIFT for memory_id in memory_ids]),),
        )
        id_of = {slot: memory_id + SHIFT for slot, memory_id in rows}
        slots, vectors = self._spaces.vectors(self._connection, space, list(id_of))
        return {id_of[slot]: score for slot, score in zip(slots, cosines(vectors, vector).tolist(), strict=True)}

    def other_types(self, field: str, value: str | float | bool) -> list[str]:
        return facets.other_types(self._connection, field, value)

    # -- the graph ----------------------------------------------------------------------------------------------

    def edges_from(self, memory_id: int, limit: int) -> list[Edge]:
        return self._edges("src", "dst", memory_id, limit)

    def edges_to(self, memory_id: int, limit: int) -> list[Edge]:
        return self._edges("dst", "src", memory_id, limit)

    def _edges(self, near: str, far: str, memory_id: int, limit: int) -> list[Edge]:
        rows = self._connection.execute(
            f"SELECT {_EDGE} FROM edge AS e CROSS JOIN memory AS m ON m.id = e.{far}"
            f" WHERE e.{near} = ? AND {LIVE} AND {HELD} ORDER BY e.ordinal LIMIT ?",
            (memory_id - SHIFT, self.now, self.now, limit),
        )
        return [edge_of(row) for row in rows]

    def typed_edges(
        self, memory_id: int, incoming: bool, scan: int, limit: int, without: Sequence[str]
    ) -> tuple[list[Edge], bool]:
        near, far = ("dst", "src") if incoming else ("src", "dst")
        window = f"SELECT ordinal, id, src, dst, relation, stated FROM edge WHERE {near} = ?1 ORDER BY ordinal LIMIT ?2"
        seen = self._connection.execute(
            f"SELECT count(*) FROM ({window})", (memory_id - SHIFT, scan + 1)
        ).fetchone()[0]
        rows = self._connection.execute(
            f"SELECT {_EDGE} FROM ({window}) AS e CROSS JOIN memory AS m ON m.id = e.{far}"
            f" WHERE e.relation NOT IN (SELECT value FROM json_each(?3)) AND {LIVE.replace('?', '?4')}"
            f" AND {HELD.replace('?', '?4')} ORDER BY e.ordinal LIMIT ?5",
            (memory_id - SHIFT, scan, json.dumps(list(without)), self.now, limit + 1),
        ).fetchall()
        return [edge_of(row) for row in rows[:limit]], seen > scan or len(rows) > limit

    def _has_expired(self) -> bool:
        row = self._connection.execute(
            "SELECT 1 FROM memory WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT 1", (self.now,)
        ).fetchone()
        return row is not None

    def records(self) -> int:
        hubs = self._connection.execute("SELECT count(*) FROM memory WHERE kind <> 0 AND kind = 1").fetchone()[0]
        return lexical.totals(self._connection)[0] + hubs

    def peek(self, memory_id: int) -> Stub | None:
        row = self._connection.execute(f"{_STUB} WHERE m.id = ? AND {LIVE}", (memory_id - SHIFT, self.now)).fetchone()
        return None if row is None else _stub_of(row)

    def internals(self, kind: Kind, project: str | None = None) -> list[Stub]:
        # the first condition is that of the index
        rows = self._connection.execute(
            f"{_STUB} WHERE m.kind <> 0 AND m.kind = ? AND {LIVE}" + ("" if project is None else " AND m.project = ?"),
            (kind, self.now) if project is None else (kind, self.now, project),
        )
        return [_stub_of(row) for row in rows]

    def degree(self, memory_id: int) -> int:
        if not self._has_expired():
            # the index alone can tell, twenty times as quickly
            return self._connection.execute(
                "SELECT count(*) FROM edge WHERE src = ?", (memory_id - SHIFT,)
            ).fetchone()[0]
        return self._connection.execute(
            f"SELECT count(*) FROM edge AS e CROSS JOIN memory AS m ON m.id = e.dst WHERE e.src = ? AND {LIVE}",
            (memory_id - SHIFT, self.now),
        ).fetchone()[0]

    def edges(self, after: int, limit: int) -> list[tuple[int, Edge]]:
        rows = self._connection.execute(
            f"SELECT e.ordinal, {_EDGE} FROM edge AS e CROSS JOIN memory AS m ON m.id = e.src"
            f" CROSS JOIN memory AS f ON f.id = e.dst WHERE e.ordinal > ? AND {LIVE} AND {LIVE.replace('m.', 'f.')}"
            f" AND {HELD} ORDER BY e.ordinal LIMIT ?",
            (after, self.now, self.now, self.now, limit),
        )
        return [(row[0], edge_of(row[1:])) for row in rows]

    def edge(self, edge_id: int) -> Edge | None:
        row = self._connection.execute(
            f"SELECT {_EDGE} FROM edge AS e WHERE e.id = ? AND {HELD}", (edge_id - SHIFT, self.now)
        ).fetchone()
        return None if row is None else edge_of(row)

    def edge_facts(self, edge_id: int) -> tuple[bool, list[int]]:
        row = self._connection.execute("SELECT stated FROM edge WHERE id = ?", (edge_id - SHIFT,)).fetchone()
        facts = self._connection.execute("SELECT fact FROM edge_source WHERE edge = ?", (edge_id - SHIFT,))
        return bool(row and row[0]), [fact + SHIFT for (fact,) in facts]

    def refusals(self) -> list[Refusal]:
        rows = self._connection.execute("SELECT edge, src, dst, fact FROM edge_refused ORDER BY edge, fact")
        return [Refusal(*(number + SHIFT for number in row)) for row in rows]

    def attributes(self, hub: int) -> list[Attribute]:
        rows = self._connection.execute(
            "SELECT a.key, a.value, a.fact FROM attribute AS a LEFT JOIN memory AS m ON m.id = a.fact"
            f" WHERE a.hub = ? AND (a.fact IS NULL OR m.id IS NOT NULL AND {LIVE}) ORDER BY a.ordinal",
            (hub - SHIFT, self.now),
        )
        return [
            Attribute(hub, key, json.loads(value), None if fact is None else fact + SHIFT) for key, value, fact in rows
        ]

    # -- the whole ----------------------------------------------------------------------------------------------

    def page(
        self, after: int | None, limit: int, where: Sequence[Predicate], include_internal: bool
    ) -> tuple[list[Record], bool]:
        if after == MAX_ID:
            return [], False
        low = (0 if after is None else after + 1) - SHIFT
        kinds = "" if include_internal else " AND m.kind = 0"
        slots = facets.matching_slots(self._connection, where, facets.FETCHED_AT_MOST) if where else None
        if slots is not None and not include_internal:
            rows = self._connection.execute(
                f"SELECT {RECORD} FROM json_each(?) AS wanted CROSS JOIN memory AS m ON m.slot = wanted.value"
                f" WHERE m.id >= ? AND {LIVE} ORDER BY m.id LIMIT ?",
                (json.dumps(slots.tolist()), low, self.now, limit + 1),
            )
            found = [record_of(row) for row in rows]
        else:
            cursor = self._connection.execute(
                f"SELECT {RECORD} FROM memory AS m WHERE m.id >= ? AND {LIVE}{kinds} ORDER BY m.id", (low, self.now)
            )
            found: list[Record] = []
            holds = facets.matcher(where)
            for row in cursor:
                if not where or holds(msgspec.json.decode(row[3])):
                    found.append(record_of(row))
                    if len(found) > limit:
                        break
        return self._page_of(found, limit) if include_internal else (found[:limit], len(found) > limit)

    def _page_of(self, found: list[Record], limit: int) -> tuple[list[Record], bool]:
        page: list[Record] = []
        length = 0
        for record in bodies.filled(self._connection, found[:limit]):
            page.append(record)
            if record.kind is not Kind.FACT:
                media = record.metadata.get(MEDIA)
                length += len(record.content) + (len(media["bytes_b64"]) if media else 0)
            if length > _PAGE_LENGTH:
                break
        return page, len(found) > len(page)

    def counts(self) -> Counts:
        one = self._connection.execute
        records = one("SELECT count(*) FROM memory").fetchone()[0]
        internal = one("SELECT count(*) FROM memory WHERE kind <> 0").fetchone()[0]
        expired = one(
            "SELECT count(*), ifnull(sum(kind <> 0), 0) FROM memory WHERE expires_at IS NOT NULL AND expires_at <= ?",
            (self.now,),
        ).fetchone()
        edges = one("SELECT count(*) FROM edge").fetchone()[0]
        if expired[0]:
            edges -= one(
                "WITH gone AS (SELECT id FROM memory WHERE expires_at IS NOT NULL AND expires_at <= ?)"
                " SELECT count(*) FROM (SELECT e.id FROM gone JOIN edge AS e ON e.src = gone.id"
                " UNION SELECT e.id FROM gone JOIN edge AS e ON e.dst = gone.id"
                " UNION SELECT e.id FROM gone JOIN edge_source AS g ON g.fact = gone.id JOIN edge AS e ON e.id = g.edge"
                f" WHERE NOT {HELD})",
                (self.now, self.now),
            ).fetchone()[0]
        return Counts(records - internal - expired[0] + expired[1], edges)

    def tally(self, name: str) -> int:
        row = self._connection.execute("SELECT value FROM tally WHERE name = ?", (name,)).fetchone()
        return row[0] if row else 0

    # -- work ---------------------------------------------------------------------------------------------------

    def job(self, request_id: str) -> JobRecord | None:
        row = self._connection.execute(f"SELECT {JOB} FROM job WHERE request_id = ?", (request_id,)).fetchone()
        return None if row is None else job_of(row)

    def pending_jobs(self) -> int:
        return self._connection.execute("SELECT count(*) FROM job WHERE ended_at IS NULL").fetchone()[0]

    def pending_enrichments(self) -> int:
        return self._connection.execute("SELECT count(*) FROM enrichment").fetchone()[0]

    def workers(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT worker FROM job WHERE ended_at IS NULL AND leased_until > ?1"
            " UNION SELECT worker FROM enrichment WHERE leased_until > ?1",
            (self.now,),
        )
        return [row[0] for row in rows]
