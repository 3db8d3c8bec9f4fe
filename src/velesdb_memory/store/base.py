"""The seam between the service and a store: a dozen verbs in the words of the domain.

A store hands out two things, both as context managers: a *view* (a consistent snapshot to read from) and a
*transaction* (everything done through it happens, durably, when the block ends, or nothing does when it raises).
Ids are unsigned 64-bit integers; times are whole seconds since 1970, UTC. A view sees the live records of one
moment: what had expired by then is absent from everything but ``sweep``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import msgspec

from ..model import JobState, JsonObject
from .migrating import MigrationTransaction, MigrationView

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Kind(IntEnum):
    """What a record is. Only facts are the caller's; the rest is internal and has no vector and no terms."""

    FACT = 0
    HUB = 1
    SOURCE = 2
    EVENT = 3
    WORKING = 4


T = TypeVar("T")

# The teacher of what a passage without any fact says: it is never forgotten, so nothing takes that back
NOBODY: Final = 0

# Metadata of internal records that a store looks into
MEDIA: Final = "_veles_ctx_source_media"  # the image of a source: {"mime", "bytes_b64"}
PROJECT: Final = "_veles_ctx_project"  # of a working context, or of counted compilations


class Predicate(msgspec.Struct, frozen=True):
    """One condition on a metadata field; a filter is a sequence of them, all of which must hold.

    ``is`` is strict JSON equality (1, 1.0, true and "1" all differ; null equals a stored null). The others compare
    numbers with numbers, exactly, and text with text, by code point; a field that is absent or null satisfies none
    of them, and values of different types satisfy only ``ne``.
    """

    field: str
    op: Literal["is", "eq", "ne", "lt", "le", "gt", "ge"]
    value: Any


class Record(msgspec.Struct, frozen=True):
    """A stored record. ``dated`` says that the caller, not the clock, set ``_veles_date``."""

    id: int
    kind: Kind
    content: str
    metadata: JsonObject
    dated: bool = False
    confidence: float | None = None
    successes: int = 0
    failures: int = 0
    expires_at: int | None = None


class Stub(msgspec.Struct, frozen=True):
    """A record without what is long in a source or a working context, and how many bytes of the store that takes."""

    id: int
    kind: Kind
    metadata: JsonObject
    size: int


class Hit(msgspec.Struct, frozen=True):
    """A fact found by a search, with the cosine or the BM25 that found it, and its learned confidence."""

    id: int
    score: float
    confidence: float | None


class Edge(msgspec.Struct, frozen=True):
    """A directed, labelled link."""

    id: int
    source: int
    target: int
    relation: str


class Space(msgspec.Struct, frozen=True):
    """The embedding space that searches use: whose vectors, and how long."""

    model: str
    dimension: int


class Attribute(msgspec.Struct, frozen=True):
    """One value that ``fact`` taught about a hub; None for a value of an import, which no fact takes back."""

    hub: int
    key: str
    value: Any
    fact: int | None


class Refusal(msgspec.Struct, frozen=True):
    """An edge that a caller took away, and a teacher that will not bring it back."""

    edge: int
    source: int
    target: int
    fact: int


class Counts(msgspec.Struct, frozen=True):
    """Live facts, and live edges."""

    facts: int
    edges: int


class JobRecord(msgspec.Struct, frozen=True):
    """A passage in the extraction queue. ``text``, ``metadata`` and ``extraction`` are None once it has ended."""

    request_id: str
    fingerprint: str
    extractor: str
    state: JobState
    accepted_at: int
    attempts: int = 0
    text: str | None = None
    metadata: JsonObject | None = None
    expires_at: int | None = None
    extraction: bytes | None = None
    ids: list[int] = []
    skipped_over_cap: int | None = None
    skipped: dict[str, int] | None = None
    error: str | None = None


class Finding(msgspec.Struct, frozen=True):
    """One result of an integrity check: what was looked at, whether it is sound, and what to do if it is not."""

    subject: str
    sound: bool
    detail: str
    advice: str = ""
    repaired: bool = False


class StoreView(Protocol):
    """A consistent snapshot."""

    @property
    def now(self) -> int: ...
    def store_id(self) -> str:
        """A random name that the store has had since it was made."""
        ...

    @property
    def migrating(self) -> MigrationView: ...
    def space(self) -> Space | None:
        """The active embedding space, None before the first embedder was recorded."""
        ...

    def get(self, memory_id: int) -> Record | None: ...
    def get_many(self, memory_ids: Sequence[int]) -> dict[int, Record]: ...
    def nearest(self, vector: NDArray[np.float32], limit: int, where: Sequence[Predicate]) -> list[Hit]:
        """The ``limit`` live facts nearest to ``vector`` (unit length, float32) that satisfy ``where``: exact scores,
        complete at any selectivity, best first, ties by smaller id."""
        ...

    def lexical(
        self, terms: Sequence[str], limit: int, where: Sequence[Predicate], also: Sequence[int] = ()
    ) -> list[Hit]:
        """The ``limit`` live facts with the best BM25 for ``terms`` that satisfy ``where``, best first, ties the older
        first; only facts that hold a term. Then those of ``also`` that hold one and are not among the best."""
        ...

    def matching(self, memory_ids: Sequence[int], where: Sequence[Predicate]) -> list[Record]:
        """The live facts among ``memory_ids`` that satisfy ``where``, in the order given."""
        ...

    def cosines(self, vector: NDArray[np.float32], memory_ids: Sequence[int]) -> dict[int, float]:
        """The exact similarity of each fact that has a vector in the active space."""
        ...

    def other_types(self, field: str, value: str | float | bool) -> list[str]:
        """The JSON types under which ``field`` is stored, if none of them can be compared with ``value``."""
        ...

    def edges_from(self, memory_id: int, limit: int) -> list[Edge]:
        """Outgoing edges in the order they were made, to live records only."""
        ...

    def edges_to(self, memory_id: int, limit: int) -> list[Edge]:
        """Incoming edges in the order they were made, from live records only."""
        ...

    def typed_edges(
        self, memory_id: int, incoming: bool, scan: int, limit: int, without: Sequence[str]
    ) -> tuple[list[Edge], bool]:
        """Up to ``limit`` edges of one direction whose label is not in ``without``, among the first ``scan`` edges,
        and whether there are more than that of either."""
        ...

    def degree(self, memory_id: int) -> int:
        """How many live records the outgoing edges reach, parallel edges counted each."""
        ...

    def records(self) -> int:
        """How many facts and hubs are stored, those that expired a moment ago included."""
        ...

    def peek(self, memory_id: int) -> Stub | None:
        """What is known of a live record, without reading what is long in it."""
        ...

    def internals(self, kind: Kind, project: str | None = None) -> list[Stub]:
        """The live records of an internal kind; of one project when it is given."""
        ...

    def page(
        self, after: int | None, limit: int, where: Sequence[Predicate], include_internal: bool
    ) -> tuple[list[Record], bool]:
        """Up to ``limit`` live records with ids above ``after``, ascending, and whether there are more. A page of
        long internal records ends early."""
        ...

    def refusals(self) -> list[Refusal]:
        """The derived edges that were taken away, by teacher."""
        ...

    def attributes(self, hub: int) -> list[Attribute]:
        """What was taught about a hub, oldest first: a later value for a key replaces an earlier one."""
        ...

    def edges(self, after: int, limit: int) -> list[tuple[int, Edge]]:
        """Up to ``limit`` edges between live records in the order they were made, each with its place in that order;
        only those whose place is above ``after``."""
        ...

    def edge(self, edge_id: int) -> Edge | None: ...
    def edge_facts(self, edge_id: int) -> tuple[bool, list[int]]:
        """Whether a caller stated this edge, and the facts that taught it."""
        ...

    def counts(self) -> Counts: ...
    def job(self, request_id: str) -> JobRecord | None: ...
    def pending_jobs(self) -> int: ...
    def pending_enrichments(self) -> int: ...
    def workers(self) -> list[str]:
        """Who holds leases that have not run out."""
        ...

    def tally(self, name: str) -> int:
        """A durable counter; 0 until it is first raised."""
        ...


class StoreTransaction(StoreView, Protocol):
    """A snapshot that can also be changed. While a migration captures, changes of facts and edges are noted in its
    journal, and are refused with JournalFull when that is full."""

    @property
    def migrating(self) -> MigrationTransaction: ...
    def record_space(self, space: Space) -> bool:
        """Make ``space`` the active one, unless a vector is stored already; whether it was done."""
        ...

    def put(self, record: Record, vector: NDArray[np.float32] | None) -> None:
        """Write a record with its facets, terms and vector. One already there under the id is updated in place:
        its edges stay. ``vector`` is required for facts and refused for the rest. Raises IdCollision when the id has a
        record of another kind, or the other text of a fact or a hub."""
        ...

    def set_confidence(self, memory_id: int, confidence: float, successes: int, failures: int) -> None: ...
    def delete(self, memory_id: int) -> bool:
        """Remove a record, expired or not, with everything that hangs on it; whether a live one was there."""
        ...

    def add_edge(self, source: int, target: int, relation: str, *, taught_by: int | None) -> int:
        """Make an edge, or keep the one there; its id. ``taught_by`` None is a caller's own statement, NOBODY one of a
        passage without facts. A teacher whose edge was taken away by ``remove_edge`` does not bring it back: nothing is
        written, and 0 is returned."""
        ...

    def remove_edge(self, source: int, target: int, relation: str) -> int:
        """Remove an edge between live records and remember its teachers; how many were removed."""
        ...

    def refuse(self, refusal: Refusal) -> None:
        """Remember that an edge was taken away from a teacher."""
        ...

    def teach(self, attribute: Attribute) -> None: ...
    def sweep(self, limit: int) -> int:
        """Delete up to ``limit`` expired records; how many were."""
        ...

    def accept_job(self, job: JobRecord) -> None: ...
    def claim_job(self, worker: str, lease_seconds: int, extractors: Sequence[str], patience: int) -> JobRecord | None:
        """The oldest job that nobody works on, now leased to ``worker``: one for an extractor among ``extractors``, one
        whose extraction is stored already, or one that was accepted more than ``patience`` seconds ago."""
        ...

    def renew(self, worker: str, lease_seconds: int) -> int:
        """Extend everything that is leased to ``worker``; how much that is."""
        ...

    def save_extraction(self, request_id: str, worker: str, extraction: bytes) -> bool: ...
    def finish_job(self, job: JobRecord, worker: str) -> bool: ...
    def release(self, worker: str) -> int:
        """Give back everything leased to ``worker``, without an outcome; how much that was."""
        ...

    def expire_jobs(self, before: int, keep: int) -> int:
        """Forget ended jobs that are older than ``before`` or beyond the newest ``keep``."""
        ...

    def queue_enrichment(self, fact: int, limit: int) -> bool:
        """Ask for a fact to be enriched, once; False when ``limit`` others are waiting already."""
        ...

    def claim_enrichment(self, worker: str, lease_seconds: int) -> Record | None: ...
    def finish_enrichment(self, fact: int, worker: str) -> bool: ...
    def raise_tally(self, name: str, by: int = 1) -> None: ...


class MemoryStore(Protocol):
    """A durable home for memories, safe to share between threads and between processes."""

    @property
    def backend(self) -> str: ...
    @property
    def location(self) -> str: ...
    def view(self, now: int) -> AbstractContextManager[StoreView]: ...
    def transaction(self, now: int) -> AbstractContextManager[StoreTransaction]: ...
    def size(self) -> int:
        """Bytes on disk."""
        ...

    def check(self, now: int, repair: bool, progress: Callable[[str, int, int], None] | None = None) -> list[Finding]:
        """Look at everything, slowly; ``repair`` rebuilds what is derived."""
        ...

    def close(self) -> None: ...


def in_pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """``items`` in lists of up to ``size``."""
    page: list[T] = []
    for item in items:
        page.append(item)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page
