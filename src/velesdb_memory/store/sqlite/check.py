"""Looking at everything: is the database sound, and does what is derived agree with what it is derived from."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ...analysis import ANALYSER_VERSION, terms
from ..base import Finding, in_pages
from . import bodies, facets, lexical
from .connection import Database
from .spaces import SPACE_SHIFT, Spaces
from .transaction import SqliteTransaction
from .view import SHIFT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Progress = Callable[[str, int, int], None] | None

_PAGE: Final = 2_000
_REPAIR: Final = "run `velesdb-memory doctor` to rebuild it from the memories"


def run(database: Database, spaces: Spaces, now: int, repair: bool, progress: Progress) -> list[Finding]:
    """All findings, in the order in which trouble in one explains trouble in the next."""
    findings: list[Finding] = []
    with database.reading() as connection:
        findings.append(_database(connection))
        if not findings[0].sound:
            return findings
        facts = connection.execute("SELECT count(*) FROM memory WHERE kind = 0").fetchone()[0]
        held = _sums(connection, facts, progress)
        facet_sum, posting_sum, totals = held
        findings.append(
            _derived("facets", facet_sum == _stored_facets(connection), f"{facts} facts", "the index of typed fields")
        )
        stored = _stored_postings(connection)
        sound = posting_sum == stored and totals == lexical.totals(connection)
        findings.append(_derived("words", sound, f"{facts} facts, {totals[1]} terms", "the index of words"))
        findings.append(_vectors(connection, spaces))
        findings.append(_codes(connection, spaces, progress))
        findings.append(_edges(connection))
        findings.append(_bodies(connection))
        findings.append(_expired(connection, now))
    if repair:
        findings = [_repair(database, spaces, now, finding, progress) for finding in findings]
    return findings


def _database(connection: sqlite3.Connection) -> Finding:
    try:
        problems = [row[0] for row in connection.execute("PRAGMA integrity_check(10)")]
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    if problems == ["ok"]:
        return Finding("database", True, "every page and index is sound")
    return Finding(
        "database",
        False,
        "; ".join(problems),
        "the file itself is damaged: stop all processes, copy the folder, then `velesdb-memory export` what can still"
        " be read and `velesdb-memory import` it into a new store, or restore a backup",
    )


def _facts(connection: sqlite3.Connection) -> Iterator[tuple[int, str, str]]:
    yield from connection.execute("SELECT slot, content, metadata FROM memory WHERE kind = 0 ORDER BY slot")


def _sums(connection: sqlite3.Connection, facts: int, progress: Progress) -> tuple[int, int, tuple[int, int]]:
    """Sums of hashes, which do not depend on order, of the facets and postings that the facts call for."""
    facet_sum = posting_sum = tokens = 0
    for done, (slot, content, metadata) in enumerate(_facts(connection), 1):
        facet_sum += sum(hash((field, *facets.encode(value), slot)) for field, value in json.loads(metadata).items())
        found = terms(content)
        length = min(len(found), lexical.MAX_COUNT)
        tokens += length
        posting_sum += sum(
            hash((term, slot, min(count, lexical.MAX_COUNT), length))
            for term, count in Counter(found).items()
        )
        if progress and done % _PAGE == 0:
            progress("facts", done, facts)
    return facet_sum, posting_sum, (facts, tokens)


def _stored_facets(connection: sqlite3.Connection) -> int:
    return sum(hash(tuple(row)) for row in connection.execute("SELECT field, tag, value, slot FROM facet"))


def _stored_postings(connection: sqlite3.Connection) -> int:
    total = 0
    for term, data in connection.execute("SELECT term, data FROM posting"):
        total += sum(hash((term, *record)) for record in lexical.unpack(data))
    return total


def _derived(subject: str, sound: bool, detail: str, name: str) -> Finding:
    if sound:
        return Finding(subject, True, f"{name} agrees with {detail}")
    return Finding(subject, False, f"{name} differs from the stored facts", _REPAIR)


def _vectors(connection: sqlite3.Connection, spaces: Spaces) -> Finding:
    space = spaces.active(connection)
    if space is None:
        return Finding("vectors", True, "no embedding space yet")
    low, high = space.key(0), space.key(2**SPACE_SHIFT - 1)
    missing = connection.execute(
        "SELECT count(*) FROM memory AS m WHERE m.kind = 0"
        " AND NOT EXISTS (SELECT 1 FROM embedding AS e WHERE e.key = m.slot + ?)",
        (low,),
    ).fetchone()[0]
    stray = connection.execute(
        "SELECT count(*) FROM embedding AS e WHERE e.key BETWEEN ?1 AND ?2"
        " AND NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.slot = e.key - ?1 AND m.kind = 0)",
        (low, high),
    ).fetchone()[0]
    wrong = connection.execute(
        "SELECT count(*) FROM embedding WHERE key BETWEEN ? AND ? AND length(vector) <> ?",
        (low, high, 4 * space.dimension),
    ).fetchone()[0]
    if missing or stray or wrong:
        return Finding(
            "vectors",
            False,
            f"{missing} facts without a vector, {stray} vectors without a fact, {wrong} of another length",
            "export the store and import it into a new one, which embeds every fact again",
        )
    return Finding("vectors", True, f"every fact has one of {space.dimension} dimensions by {space.model}")


def _codes(connection: sqlite3.Connection, spaces: Spaces, progress: Progress) -> Finding:
    import numpy as np

    space = spaces.active(connection)
    if space is None:
        return Finding("codes", True, "no embedding space yet")
    rows = spaces.mapped(space)
    problem = ""
    if rows is None:
        problem = "the files are missing or short"
    else:
        stored = np.array(spaces.stored(connection, space, 0), np.uint32)
        live: NDArray[np.bool_] = np.isin(rows.slots, stored)
        if len(stored) != live.sum() or not (np.diff(rows.slots.astype(np.int64)) > 0).all():
            problem = "the files hold other rows than the database"
        else:
            places = np.flatnonzero(live)
            differing = 0
            for start in range(0, len(places), _PAGE):
                differing += len(spaces.differing(connection, space, rows, places[start : start + _PAGE]))
                if progress:
                    progress("codes", start, len(places))
            problem = f"{differing} rows differ from their vectors" if differing else ""
    if problem:
        return Finding("codes", False, problem, _REPAIR)
    return Finding("codes", True, f"{space.rows} rows agree with the vectors, {space.dead} of them of deleted facts")


def _edges(connection: sqlite3.Connection) -> Finding:
    dangling = connection.execute(
        "SELECT count(*) FROM edge AS e WHERE NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.id = e.src)"
        " OR NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.id = e.dst)"
    ).fetchone()[0]
    total = connection.execute("SELECT count(*) FROM edge").fetchone()[0]
    if dangling:
        return Finding("edges", False, f"{dangling} of {total} edges have an end that is gone", _REPAIR)
    return Finding("edges", True, f"{total} edges, both ends of each are there")


def _bodies(connection: sqlite3.Connection) -> Finding:
    total, bad = bodies.damaged(connection)
    strays = bodies.strays(connection)
    if bad or strays:
        return Finding(
            "originals",
            False,
            f"{len(bad)} of {total} sources and working contexts cannot be read, {len(strays)} belong to no record",
            "run `velesdb-memory doctor` to take them out; compiling the same texts stores them again",
        )
    return Finding("originals", True, f"{total} sources and working contexts, each can be read")


def _expired(connection: sqlite3.Connection, now: int) -> Finding:
    count = connection.execute(
        "SELECT count(*) FROM memory WHERE expires_at IS NOT NULL AND expires_at <= ?", (now,)
    ).fetchone()[0]
    detail = f"{count} expired records wait to be swept" if count else "nothing expired is kept"
    return Finding("expiry", True, detail)


def _repair(database: Database, spaces: Spaces, now: int, finding: Finding, progress: Progress) -> Finding:
    if finding.sound:
        return finding
    if finding.subject == "codes":
        with database.reading() as connection:
            space = spaces.active(connection)
        if space is not None:
            spaces.rebuild(space, (lambda done, total: progress("codes", done, total)) if progress else None)
    elif finding.subject == "originals":
        with database.writing() as connection:
            transaction = SqliteTransaction(connection, spaces, now)
            for key in bodies.damaged(connection)[1]:
                transaction.delete(key + SHIFT)
            connection.executemany("DELETE FROM body WHERE slot = ?", [(slot,) for slot in bodies.strays(connection)])
        return Finding(finding.subject, True, f"{finding.detail}; taken out", repaired=True)
    elif finding.subject in ("facets", "words", "edges"):
        with database.writing() as connection:
            {"facets": rebuild_facets, "words": rebuild_postings, "edges": _drop_dangling}[finding.subject](connection)
    else:
        return finding
    return Finding(finding.subject, True, f"{finding.detail}; rebuilt", repaired=True)


def rebuild_facets(connection: sqlite3.Connection) -> None:
    """Write every facet anew from the metadata."""
    connection.execute("DELETE FROM facet")
    for slot, _, metadata in connection.execute(
        "SELECT slot, content, metadata FROM memory WHERE kind = 0"
    ).fetchall():
        facets.write(connection, slot, json.loads(metadata))


def rebuild_postings(connection: sqlite3.Connection) -> None:
    """Write the index of words anew from the texts, with this version's analyser."""
    connection.execute("DELETE FROM posting")
    connection.execute("DELETE FROM tally WHERE name IN (?, ?)", (lexical.DOCUMENTS, lexical.TOKENS))
    rows: Any = connection.execute("SELECT slot, content FROM memory WHERE kind = 0 ORDER BY slot").fetchall()
    for page in in_pages(rows, 20_000):
        pending = lexical.Pending()
        for slot, content in page:
            pending.add(slot, terms(content))
        pending.flush(connection)
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('analyser', ?)", (ANALYSER_VERSION,))


def match_analyser(database: Database) -> None:
    """Rebuild the index of words when another version's analyser wrote it."""
    known = "SELECT 1 FROM meta WHERE key = 'analyser' AND value = ?"
    with database.reading() as connection:
        if connection.execute(known, (ANALYSER_VERSION,)).fetchone():
            return
    with database.writing() as connection:
        if not connection.execute(known, (ANALYSER_VERSION,)).fetchone():
            rebuild_postings(connection)


def _drop_dangling(connection: sqlite3.Connection) -> None:
    connection.execute(
        "DELETE FROM edge WHERE NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.id = edge.src)"
        " OR NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.id = edge.dst)"
    )
    connection.execute("DELETE FROM edge_source WHERE edge NOT IN (SELECT id FROM edge)")
