"""The memory service: the public face of the package, and the one that every edge calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .clock import Clock, SystemClock
from .config import home_expanded
from .embed.base import Embedder
from .errors import InvalidArgument
from .extract.base import Extractor
from .limits import DEFAULT_LIST_LIMIT, DEFAULT_RECALL_LIMIT, DEFAULT_WHY_HOPS
from .memory import entity, extraction, fused, graph, listing, recall, remember, transfer
from .memory.core import Core
from .memory.fused import Reranker
from .memory.status import check_embedder, memory_status
from .migrate.control import Migrations, Targets
from .migrate.engine import Report
from .migrate.job import MigrationEstimate, MigrationStatus, checked_limits
from .model import (
    ColumnFilter,
    DatedContext,
    Direction,
    EntityProfile,
    Explanation,
    ExtractionReceipt,
    ExtractionResult,
    ExtractionSnapshot,
    FusionOptions,
    ImportReport,
    JsonObject,
    Link,
    MemoryPage,
    MemoryStatus,
    Outcome,
    Recollection,
    Recollections,
    Unrelated,
)
from .service_context import ContextService
from .store.base import Finding, MemoryStore
from .work import jobs
from .work.extractors import Extractors
from .work.worker import Worker

if TYPE_CHECKING:
    from .context.compiler import ContextCompiler


class MemoryService(ContextService):
    """Durable memory in one directory: facts, their metadata, the links between them.

    Use it as a context manager, or call :meth:`close`. It may be shared between threads, and any number of processes
    may have the same directory open. Each method is one transaction: what it was asked for happens whole and is on
    disk when it returns, or nothing happens and it raises one of the errors of :mod:`velesdb_memory.errors`.

    >>> with MemoryService("~/notes") as memory:
    ...     cause = memory.remember("PR #42 replaces the mutex")
    ...     choice = memory.remember("we chose parking_lot", links=[Link(cause, "decided_in")])
    ...     memory.why("why parking_lot")

    ``path`` is the store's directory (``~`` is expanded, missing folders are created). ``embedder`` defaults to the
    built-in one, which needs no model. ``extractor`` is who reads passages when a call does not say; with ``autograph``
    it also reads every remembered fact, once a worker runs (``start_worker``, ``work``, or a server). ``compiler`` is
    who compiles contexts when a call does not say; ``targets`` makes the embedder of a backend by its name, for
    migrations. Raises StoreUnwritable, StoreForeign, StoreCorrupt or StoreTooNew, and InvalidArgument for ``autograph``
    without an extractor.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        embedder: Embedder | None = None,
        *,
        extractor: Extractor | None = None,
        autograph: bool = False,
        clock: Clock | None = None,
        compiler: ContextCompiler | None = None,
        targets: Targets | None = None,
    ) -> None:
        from .store.sqlite import SqliteStore

        self._start(SqliteStore(home_expanded(path)), embedder, extractor, autograph, clock, compiler, targets)

    @classmethod
    def open(cls, path: str | os.PathLike[str], embedder: Embedder) -> Self:
        """Open or create the store at ``path``, read and written with ``embedder``."""
        return cls(path, embedder)

    @classmethod
    def with_store(
        cls,
        store: MemoryStore,
        embedder: Embedder | None = None,
        *,
        extractor: Extractor | None = None,
        autograph: bool = False,
        clock: Clock | None = None,
        compiler: ContextCompiler | None = None,
        targets: Targets | None = None,
    ) -> Self:
        """A service over a store of your own. The service closes it."""
        service = cls.__new__(cls)
        service._start(store, embedder, extractor, autograph, clock, compiler, targets)
        return service

    def _start(
        self,
        store: MemoryStore,
        embedder: Embedder | None,
        extractor: Extractor | None,
        autograph: bool,
        clock: Clock | None,
        compiler: ContextCompiler | None,
        targets: Targets | None,
    ) -> None:
        if embedder is None:
            from .embed.hashing import HashEmbedder

            embedder = HashEmbedder()
        self._core = Core(store, embedder, clock or SystemClock(), autograph=autograph)
        self._extractors = Extractors(extractor)
        self._worker: Worker | None = None
        self._compiler = compiler
        self._closed = False
        self._migrations = Migrations(self._core, targets)
        try:
            if autograph and extractor is None:
                raise InvalidArgument("autograph needs an extractor to read the facts with", field="autograph")
            self._core.adopt()
            self._migrations.settle()
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Stop the worker and let go of the store. Idempotent; every other method raises StorageError afterwards."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
        self._closed = True
        self._migrations.close()
        self._core.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- writing ------------------------------------------------------------------------------------------------

    def remember(
        self,
        fact: str,
        links: Sequence[Link] | None = None,
        metadata: JsonObject | None = None,
        ttl_seconds: int | None = None,
    ) -> int:
        """Store ``fact`` (trimmed, up to 2,048 bytes) and return its id, which its text determines.

        ``links`` are edges to memories that exist. ``metadata`` is any JSON object up to 64 KiB whose keys are not
        reserved; ``_veles_date`` (YYYYMMDD) is added unless given. ``ttl_seconds`` None or 0 keeps the fact for ever.
        Remembering the same text again replaces metadata and expiry and keeps edges and learned confidence.

        Raises EmptyFact, FactTooLarge, InvalidMetadata, ReservedKey, MetadataTooLarge, InvalidRelation,
        UnknownMemory, SelfRelation, InvalidArgument, IdCollision, EmbedError, ProvenanceMismatch, StorageError.
        """
        number = remember.remember(self._core, fact, links, metadata, ttl_seconds)
        if self._core.autograph:
            self._wake()
        return number

    def forget(self, id: int) -> bool:
        """Delete a memory with its edges, and what only it taught; whether a live one was there."""
        return remember.forget(self._core, id)

    def relate(self, from_id: int, to_id: int, relation: str) -> int:
        """Make an edge between two memories and return its id, which its ends and label determine.

        ``relation`` is up to 512 bytes without control characters. Raises InvalidRelation, SelfRelation,
        UnknownMemory.
        """
        return remember.relate(self._core, from_id, to_id, relation)

    def unrelate(self, from_id: int, to_id: int, relation: str) -> Unrelated:
        """Remove an edge. One that a passage taught is not rebuilt by the same passage. Raises InvalidRelation and
        SelfRelation; an edge that is not there is no error."""
        return remember.unrelate(self._core, from_id, to_id, relation)

    def feedback(self, id: int, success: bool) -> float:
        """Note whether a recalled memory was useful, and return its new confidence in [0, 1].

        It starts at 0.5 and moves by +0.1 or -0.05; ``recall`` weighs by it. Raises UnknownMemory.
        """
        return remember.feedback(self._core, id, success)

    # -- searching ----------------------------------------------------------------------------------------------

    def recall(
        self, query: str, k: int = DEFAULT_RECALL_LIMIT, filter: JsonObject | None = None
    ) -> list[Recollection]:
        """The ``k`` facts (at most 1,000) most similar to ``query``, weighed by learned confidence.

        ``filter`` keeps facts whose metadata holds exactly these values, types included; if k facts match, k are
        returned. A blank query finds nothing. Raises QueryTooLarge, ReservedKey, InvalidMetadata, InvalidArgument,
        EmbedError, ProvenanceMismatch.
        """
        return recall.recall(self._core, query, k, filter)

    def recall_where(
        self, query: str, filters: Sequence[ColumnFilter], k: int = DEFAULT_RECALL_LIMIT
    ) -> Recollections:
        """The ``k`` facts most similar to ``query`` that satisfy every comparison in ``filters`` (at most 64).

        Numbers compare with numbers, exactly, and text with text; a field that is absent or null satisfies nothing.
        ``warnings`` of the answer tell of fields that hold another type only. No filters: the same as ``recall``.
        Raises InvalidFilter and what ``recall`` raises.
        """
        return recall.recall_where(self._core, query, filters, k)

    def why(
        self,
        decision: str,
        max_hops: int = DEFAULT_WHY_HOPS,
        filter: JsonObject | None = None,
        direction: Direction = "out",
    ) -> Explanation:
        """The memory that matches ``decision`` best, and what typed links reach from it within ``max_hops`` (at most
        10).

        ``filter`` scopes the match, not the walk. ``direction`` is the way edges are followed. At most 64 edges of a
        node, 500 nodes and 2,000 edges; ``truncated`` tells when one of these cut the walk.
        """
        return graph.why(self._core, decision, max_hops, filter, direction)

    def recall_fused(
        self,
        query: str,
        k: int = DEFAULT_RECALL_LIMIT,
        filter: JsonObject | None = None,
        options: FusionOptions | None = None,
    ) -> Recollections:
        """The ``k`` best facts by similarity, by words (BM25) and by links from the best match, in one ranking.

        The score reported stays the similarity; it is 0.0 for a fact that only the graph reached. Confidence does not
        enter. When the embedder fails, or another one filled the store, words and links still find, and ``warnings``
        says so.
        Raises what ``recall`` raises.
        """
        return fused.recall_fused(self._core, query, k, filter, options)

    def recall_fused_dated(
        self,
        query: str,
        k: int = DEFAULT_RECALL_LIMIT,
        filter: JsonObject | None = None,
        options: FusionOptions | None = None,
        date_field: str = "_veles_date",
    ) -> tuple[Recollections, DatedContext | None]:
        """``recall_fused``, and its facts as a timeline by the integer YYYYMMDD that ``date_field`` of their metadata
        holds; None when none of them is dated."""
        return fused.recall_fused_dated(self._core, query, k, filter, options, date_field)

    def recall_fused_reranked(
        self,
        query: str,
        k: int,
        filter: JsonObject | None,
        options: FusionOptions | None,
        reranker: Reranker,
    ) -> Recollections:
        """``recall_fused`` with the whole pool of candidates handed to ``reranker``, whose first ``k`` are returned.

        Raises RerankError when it fails. Nothing reranks by default: a second stage can also do harm.
        """
        return fused.recall_fused_reranked(self._core, query, k, filter, options, reranker)

    def entity(self, name: str) -> EntityProfile:
        """Everything known about an entity (matched trimmed and lower case): attributes, and typed edges both ways.

        At most 64 edges of a direction, found among its first 4,096; the ``truncated`` flags tell of more.
        """
        return entity.entity(self._core, name)

    # -- passages -----------------------------------------------------------------------------------------------

    def remember_extracted(
        self, text: str, extractor: Extractor | None = None, metadata: JsonObject | None = None
    ) -> ExtractionResult:
        """Have ``extractor`` (or the service's own) read ``text`` (up to 1 MiB) and store what it finds, at once.

        Facts get ``metadata``, entities become hubs that ``why`` walks through. Everything happens in one transaction,
        after the extractor has answered. Raises EmptyFact, InvalidArgument, ExtractError, ExtractorUnavailable, and
        what ``remember`` raises.
        """
        return extraction.remember_extracted(
            self._core, text, extractor or self._extractors.resolve(None), metadata
        )

    def accept_extraction(
        self,
        text: str,
        metadata: JsonObject | None = None,
        extractor: str | None = None,
        idempotency_key: str | None = None,
        ttl_seconds: int | None = None,
    ) -> ExtractionReceipt:
        """Take a passage into the durable queue and return; a worker of any process reads and stores it.

        ``extractor`` is a name (None: the configured one). The same request again answers with the same job; an
        ``idempotency_key`` (1 to 256 bytes) makes that so by itself. ``ttl_seconds`` counts from now. Raises
        JobConflict for a key used with another payload, QueueFull beyond 64 waiting passages.
        """
        receipt = jobs.accept(
            self._core, self._extractors, text, metadata, extractor, idempotency_key, ttl_seconds
        )
        self._wake()
        return receipt

    def extraction_status(self, request_id: str) -> ExtractionSnapshot:
        """What became of an accepted passage. Raises UnknownRequest; ended jobs are kept for at least 30 days, up to
        10,000 of them."""
        return jobs.status(self._core, request_id)

    def start_worker(self) -> None:
        """Work on the queues in a background thread until ``close``. Idempotent."""
        if self._worker is None:
            self._worker = self._new_worker()
            self._worker.start()

    def work(self, report: Callable[[str, Outcome], None] | None = None) -> int:
        """Work on the queues in this thread until nothing is left that can be done here; how much was done.

        ``report`` is called after each piece with what it was and how it ended.
        """
        return self._new_worker().run_until_idle(report)

    def _new_worker(self) -> Worker:
        return Worker(self._core, self._extractors, enrich=self._core.autograph)

    def _wake(self) -> None:
        if self._worker is not None:
            self._worker.wake()

    # -- migrations ---------------------------------------------------------------------------------------------

    def migration_start(self, target_backend: str, pause_budget_ms: int, **limits: int) -> MigrationStatus:
        """Begin to change the store over to the embedder that ``targets`` makes of ``target_backend``, in a thread.

        Returns when everything that a crash must not lose is on disk. ``pause_budget_ms`` (1 to 20,000) is how long
        writers may wait for the switch. ``limits`` may be ``journal_max_bytes`` (default 64 MiB), ``fact_batch`` and
        ``replay_batch`` (256), ``edge_cap`` (4,096), ``observation_window`` (3) and ``verification_reserve_ms`` (100).
        Once it is committed this service embeds with the target. Raises InvalidArgument, EmbedError for a target that
        does not answer, and MigrationRefused while another migration has not ended.
        """
        engine = self._migrations.start(target_backend, checked_limits(pause_budget_ms, **limits))
        if engine is not None:
            engine.start()
        return self._migrations.status()

    def migration_status(self) -> MigrationStatus:
        """The state of the migration that runs, or of the last one. Does no work of it."""
        return self._migrations.status()

    def migration_cancel(self) -> MigrationStatus:
        """Give the migration up while the source still serves: at once when it has stopped, else at its next batch.

        Raises MigrationRefused from the switch on, and when there is none.
        """
        self._migrations.cancel()
        return self._migrations.status()

    def migration_recover(self, pause_budget_ms: int | None = None) -> MigrationStatus:
        """Go on with a migration that has stopped, if the target is still the model it was; with another budget, if one
        is given. Raises MigrationRefused, and EmbedError for a target that does not answer."""
        engine = self._migrations.recover(pause_budget_ms)
        if engine is not None:
            engine.start()
        return self._migrations.status()

    def migrate(
        self,
        target_backend: str | None,
        pause_budget_ms: int | None = None,
        *,
        progress: Report | None = None,
        **limits: int,
    ) -> MigrationStatus:
        """The same as ``migration_start`` in this thread: returns when the migration has ended or cannot go on.

        ``target_backend`` None goes on with the one that has stopped. ``pause_budget_ms`` is 500, or that of the one
        that has stopped, unless given. ``progress`` is called with the record after each
        batch. Raises what stopped it, and the state says so too.
        """
        return self._migrations.run(target_backend, pause_budget_ms, progress, limits)

    def migration_estimate(self, target_backend: str) -> MigrationEstimate:
        """What a migration would take; embeds up to 64 of the facts with the target, and writes nothing."""
        return self._migrations.estimate(target_backend)

    def drop_former_vectors(self) -> bool:
        """Remove the vectors that the last migration replaced, which are kept until then; whether there were any."""
        return self._migrations.drop_former()

    # -- the whole ----------------------------------------------------------------------------------------------

    def list_memories(
        self,
        cursor: int | str | None = None,
        limit: int = DEFAULT_LIST_LIMIT,
        filter: JsonObject | None = None,
        include_internal: bool = False,
    ) -> MemoryPage:
        """A page of everything stored, by ascending id; ``limit`` is 1 to 1,000 rows.

        Pass ``next_cursor`` back as ``cursor`` until it is None. ``include_internal`` adds entities and other records
        of the store's own, and reserved metadata keys.
        """
        return listing.list_memories(self._core, cursor, limit, filter, include_internal)

    def memory_status(self) -> MemoryStatus:
        """What runs, what filled the store, and how much is in it."""
        extractor = self._extractors.default
        return memory_status(self._core, self._migrations.summary(), extractor_configured=extractor is not None)

    def export(
        self, include_internal: bool = False, *, progress: Callable[[int], None] | None = None
    ) -> Iterator[JsonObject]:
        """Everything stored as JSON objects, one a line: a manifest, facts, then edges. One snapshot, however long.

        With ``include_internal`` entities, their attributes and all reserved keys too. ``progress`` is called with the
        number of records written. Works whatever the configured embedder.
        """
        return transfer.export(self._core, include_internal, progress)

    def import_(self, lines: Iterable[str], *, progress: Callable[[int], None] | None = None) -> ImportReport:
        """Read an export back: of this package, of the reference, or of the MCP memory server (JSON lines).

        May be run again without harm. Lines that cannot be taken are reported and passed over. Every 512 lines are
        one transaction. Raises TransferFormat when no line at all can be read.
        """
        return transfer.import_lines(self._core, lines, progress)

    def check(
        self, *, repair: bool = False, progress: Callable[[str, int, int], None] | None = None
    ) -> list[Finding]:
        """Compare everything derived with what it is derived from; ``repair`` rebuilds what differs."""
        return self._core.store.check(self._core.clock.now(), repair, progress)

    def check_embedder(self) -> Finding:
        """Ask the embedder for a vector, and tell whether it answers and is the one that filled the store."""
        return check_embedder(self._core)
