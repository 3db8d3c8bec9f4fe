"""The values that go in and out of :class:`~velesdb_memory.MemoryService`: frozen, typed, comparable."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

JsonObject: TypeAlias = dict[str, Any]
Operator: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]
Direction: TypeAlias = Literal["out", "in", "both"]
Outcome: TypeAlias = Literal["committed", "failed", "given back"]
JobState: TypeAlias = Literal["accepted", "running", "committed", "failed"]


class Link(msgspec.Struct, frozen=True):
    """An edge to create from a fact that is being remembered to ``target``, an existing memory."""

    target: int
    relation: str


class ColumnFilter(msgspec.Struct, frozen=True):
    """One typed comparison on a metadata field. ``value`` is text, a number or a boolean; types never convert."""

    field: str
    op: Operator
    value: str | int | float | bool


class Signals(msgspec.Struct, frozen=True):
    """What each leg of a fused search contributed to a hit, each in [0, 1] before its weight."""

    vector: float
    lexical: float
    graph: float


class Recollection(msgspec.Struct, frozen=True):
    """One fact found by a search.

    ``score`` is the cosine similarity to the query in [-1, 1]; 0.0 for a fact that only the graph reached.
    ``metadata`` is None when the fact carries none that callers may see.
    """

    id: int
    score: float
    content: str
    metadata: JsonObject | None = None
    signals: Signals | None = None


class Recollections(list[Recollection]):
    """The hits of ``recall_where``, with ``warnings`` about predicates that no stored value could satisfy."""

    def __init__(self, hits: list[Recollection] | None = None, warnings: list[str] | None = None) -> None:
        super().__init__(hits or [])
        self.warnings: list[str] = warnings or []


class FusionOptions(msgspec.Struct, frozen=True):
    """The knobs of ``recall_fused``.

    ``hops`` 0 to 10; ``graph_boost`` and ``lexical_boost`` are weights (a value that is not finite means the default);
    ``pool`` is how many vector and how many lexical candidates are fused, None for max(8 k, 64), at most 1000;
    ``lexical_boost`` None means the default measured for the class of embedder; ``explain`` adds signals to each hit.
    """

    hops: int = 2
    graph_boost: float = 0.15
    pool: int | None = None
    lexical_boost: float | None = None
    explain: bool = False


class DatedContext(msgspec.Struct, frozen=True):
    """Recalled facts as a timeline, oldest first, and ``now``: the latest date among them (``YYYY-MM-DD``)."""

    text: str
    now: str | None


class WhyNode(msgspec.Struct, frozen=True):
    """A memory on the way; ``hop`` 0 is the seed, which alone carries the ``score`` of its match."""

    id: int
    content: str
    hop: int
    score: float | None = None


class WhyEdge(msgspec.Struct, frozen=True):
    """A link that was followed."""

    source: int
    target: int
    relation: str


class Explanation(msgspec.Struct, frozen=True):
    """The memories that typed links reach from the best match; empty when nothing matched.

    ``truncated`` says that a budget cut the walk before the reachable graph was exhausted.
    """

    nodes: list[WhyNode]
    edges: list[WhyEdge]
    truncated: bool = False


class Unrelated(msgspec.Struct, frozen=True):
    """The outcome of ``unrelate``."""

    found: bool
    removed: int


class ListedMemory(msgspec.Struct, frozen=True):
    """One row of ``list_memories``."""

    id: int
    id_str: str
    content: str
    metadata: JsonObject | None


class MemoryPage(msgspec.Struct, frozen=True):
    """A page of ``list_memories``; ``next_cursor`` is None on the last one."""

    memories: list[ListedMemory]
    next_cursor: str | None


class EmbedderStatus(msgspec.Struct, frozen=True):
    """The embedder that runs. ``dimension`` is None as long as a served model has not answered; ``error`` says why it
    gave no vectors the last time, None when it did."""

    model: str | None
    dimension: int | None
    semantic: bool | None
    error: str | None = None


class ProvenanceStatus(msgspec.Struct, frozen=True):
    """The model that filled the store."""

    recorded: bool
    model: str | None
    dimension: int | None


class ExtractionConfig(msgspec.Struct, frozen=True):
    """Whether a default extractor is configured, and the background enrichment's counters."""

    configured: bool
    autograph_active: bool
    autograph_dropped: int
    autograph_failed: int


class CorpusStatus(msgspec.Struct, frozen=True):
    """Live facts of the caller's, and live edges between live memories."""

    facts: int
    edges: int


class StoreStatus(msgspec.Struct, frozen=True):
    """Where the memory is kept and how much room it takes."""

    path: str
    backend: str
    bytes: int


class PendingStatus(msgspec.Struct, frozen=True):
    """Work that was accepted and has not ended."""

    extraction: int
    autograph: int


class MigrationSummary(msgspec.Struct, frozen=True):
    """The last migration's phase, None before the first; whether it runs; what has to be done, None if nothing."""

    phase: str | None
    running: bool
    advice: str | None


class MemoryStatus(msgspec.Struct, frozen=True):
    """The answer of ``memory_status``."""

    embedder: EmbedderStatus
    provenance: ProvenanceStatus
    extraction: ExtractionConfig
    memory: CorpusStatus
    store: StoreStatus
    pending: PendingStatus
    migration: MigrationSummary


class LineProblem(msgspec.Struct, frozen=True):
    """A line of an import file that was not taken, and why."""

    line: int
    reason: str


class ImportReport(msgspec.Struct, frozen=True):
    """The outcome of ``import_``: rows written, rows that were already so, and the lines refused."""

    facts: int
    edges: int
    unchanged: int
    problems: list[LineProblem]


class EntityRelation(msgspec.Struct, frozen=True):
    """A typed edge of an entity. ``target`` is the far end: its bare name, or the fact's text.

    In ``relations_in`` the far end is where the edge comes from, and ``source`` repeats ``target``.
    """

    predicate: str
    target_id: int
    target_id_str: str
    target: str
    source: str | None = None


class EntityProfile(msgspec.Struct, frozen=True):
    """Everything known about one entity; ``id`` 0 when it was never mentioned."""

    found: bool
    id: int
    id_str: str
    name: str
    attributes: JsonObject
    relations: list[EntityRelation]
    relations_in: list[EntityRelation]
    relations_truncated: bool
    relations_in_truncated: bool


class ExtractionReceipt(msgspec.Struct, frozen=True):
    """A passage was accepted; ``reused`` when the same request had been accepted before."""

    request_id: str
    state: JobState
    reused: bool


class ExtractionResult(msgspec.Struct, frozen=True):
    """What became of a passage.

    ``ids`` are the stored facts in the extractor's order, ``skipped_over_cap`` those over the size cap, and
    ``skipped`` counts what else was left out, by reason.
    """

    ids: list[int]
    skipped_over_cap: int
    skipped: dict[str, int]


class ExtractionSnapshot(msgspec.Struct, frozen=True):
    """The durable state of an accepted passage. ``ids`` is empty and the rest None while it is pending."""

    request_id: str
    state: JobState
    ids: list[int]
    ids_str: list[str]
    skipped_over_cap: int | None
    error: str | None
    skipped: dict[str, int] | None


class PurgeReport(msgspec.Struct, frozen=True):
    """The originals that a purge deleted, or would delete, and the bytes of the store that they take."""

    sources: int
    bytes: int
