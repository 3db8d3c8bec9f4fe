"""The worker of a migration: a loop of small transactions that ends with the switch.

Facts do not move and their texts never change at their place, so the base copy and the replay are one pass by ascending
place; the journal tells how much of it is left, and that nothing was missed. The pause is the length of one
transaction: the last changes are carried over, everything is counted, the target becomes the active space. Reading
goes on meanwhile; who writes waits.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Final

from ..embed.base import Embedder, embed_checked
from ..errors import StorageError, VelesMemoryError
from ..limits import MIGRATION_LEASE_SECONDS
from ..memory.core import Core
from ..memory.switching import current, inherited, prepare_heir
from ..store.base import StoreTransaction
from ..store.migrating import MigrationRecord
from ..work.heartbeat import heartbeat
from .target import WITNESS, Costs, require_dimension, require_witness, witness_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PURGE: Final = 2_048  # vectors that one transaction removes
_IDLE: Final = 0.02  # seconds between samples when nothing waits: samples must lie apart to say anything
# Observation windows, and seconds, without admission or progress before it is given up: a disk may be busy for a moment
_PATIENCE: Final = 4
_PATIENCE_SECONDS: Final = 1.0

Report = Callable[[MigrationRecord], None]


class Lost(Exception):
    """Somebody else has the migration, or it was replaced."""


class _Cancelled(Exception):
    """Cancellation was requested; what the transaction did is rolled back."""


class _OverBudget(Exception):
    """The switch would take longer than it may; it is rolled back."""


def _told(error: Exception) -> str:
    # text that is not ours may quote what is stored
    return error.message if isinstance(error, VelesMemoryError) else f"internal error ({type(error).__name__})"


class Engine:
    """One run of the migration ``epoch`` in one thread, as the worker ``name`` that the record names."""

    def __init__(self, core: Core, embedder: Embedder, epoch: str, name: str) -> None:
        self._core = core
        self._embedder = embedder
        self._epoch = epoch
        self.name = name
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._costs = Costs()
        self._report: Report = lambda _: None
        self._attempts = 0  # switches that were rolled back for taking too long
        self._complete = False  # every fact up to the pass's place was seen to have a vector

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread = threading.Thread(target=self._run_quietly, name="velesdb-memory-migration", daemon=True)
        self._thread.start()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread that runs it to end; whether it has."""
        thread = self._thread
        if thread is None:
            return True
        if thread is threading.current_thread():
            return False
        thread.join(timeout)
        return not thread.is_alive()

    def stop(self, timeout: float = 1.0) -> None:
        """Stop after the batch that is under way. A thread that takes longer finds the migration taken from it."""
        self._stop.set()
        if not self.join(timeout):
            self._let_go(None)

    def _run_quietly(self) -> None:
        try:
            self.run()
        except Exception as error:
            print(f"velesdb-memory: the migration has stopped: {_told(error)}", file=sys.stderr)

    def run(self, report: Report | None = None) -> None:
        """Work until the migration has ended or cannot go on; the record says which. ``report`` is called after each
        batch. Raises what stopped it, after it has been recorded."""
        self._thread = threading.current_thread()
        trouble: str | None = None
        try:
            self._report = report or self._report
            with heartbeat("velesdb-memory-migration-heartbeat", MIGRATION_LEASE_SECONDS / 3, self._beat):
                self._work()
        except Lost:
            return
        except _Cancelled:
            cancel(self._core, self._epoch, self.name)
            return
        except Exception as error:
            trouble = _told(error)
            raise
        finally:
            self._let_go(trouble)
            self._thread = None

    def _let_go(self, trouble: str | None) -> None:
        with suppress(VelesMemoryError, Lost):
            if self._record().worker != self.name:
                return
            with self._holding(cancellable=False) as (_, record):
                record.worker = None
                record.last_error = trouble or record.last_error

    def _beat(self) -> None:
        with suppress(VelesMemoryError, Lost), self._holding(cancellable=False):
            pass

    @contextmanager
    def _holding(self, *, cancellable: bool = True) -> Generator[tuple[StoreTransaction, MigrationRecord]]:
        """A transaction with the record, which is saved at its end. Raises Lost, or _Cancelled when that was asked."""
        now = self._core.clock.now()
        with self._core.store.transaction(now) as tx:
            record = tx.migrating.job()
            if record is None or (record.epoch, record.worker) != (self._epoch, self.name):
                raise Lost
            if cancellable and record.cancellation_requested:
                raise _Cancelled
            yield tx, record
            record.leased_until = now + MIGRATION_LEASE_SECONDS
            tx.migrating.save(record)

    # -- phases -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        steps = {
            "prepared": self._prepare,
            "capturing": self._copy,
            "base_copied": self._begin_replay,
            "catching_up": self._catch_up,
            "cutover_ready": self._cut_over,
        }
        while not self._stop.is_set():
            record = self._record()
            self._report(record)
            step = steps.get(record.phase)
            if step is None:
                return
            step(record)

    def _record(self) -> MigrationRecord:
        with self._core.store.view(self._core.clock.now()) as view:
            record = view.migrating.job()
        if record is None or record.epoch != self._epoch:
            raise Lost
        return record

    def _prepare(self, _: MigrationRecord) -> None:
        while True:
            with self._holding() as (tx, record):
                if self._stop.is_set():
                    return
                if not tx.migrating.purge(PURGE):
                    record.phase = "capturing"
                    record.fact_end, record.edge_end = tx.migrating.ends()
                    return

    def _copy(self, record: MigrationRecord) -> None:
        """One batch of the base copy: facts, and when those are through, edges."""
        with self._core.store.view(self._core.clock.now()) as view:
            batch = view.migrating.facts_above(record.fact_place, record.limits.fact_batch)
        batch = [entry for entry in batch if entry[0] <= record.fact_end]
        began = perf_counter()
        vectors = self._embed(record, [text for _, text in batch])
        with self._holding() as (tx, record):
            if batch:
                record.base_facts += _fill(tx, record, batch, vectors)
                record.base_batches += 1
                self._costs.note("fact", (perf_counter() - began) * 1000 / len(batch))
                return
            record.base_edges += _verify_edges(tx, record, record.edge_end)
            if record.edge_place >= record.edge_end:
                record.phase = "base_copied"

    def _begin_replay(self, _: MigrationRecord) -> None:
        with self._holding() as (tx, record):
            tx.migrating.settle_files()
            record.phase = "catching_up"

    def _catch_up(self, record: MigrationRecord) -> None:
        """Replay and take samples until a window of them says that the switch will fit, or that it never will."""
        self._require_witness()
        self._require_complete()
        window, reserve = record.limits.observation_window, record.limits.verification_reserve_ms
        admitted, stalled, since = 0, 0, perf_counter()
        least: int | None = None
        while not self._stop.is_set():
            pending = self._replay(record)
            estimate = self._costs.estimate(pending)
            fits = estimate + reserve <= record.limits.pause_budget_ms
            admitted = admitted + 1 if fits else 0
            shrinks = least is None or pending < least
            least = pending if shrinks else least
            if fits or shrinks:
                stalled, since = 0, perf_counter()
            else:
                stalled += 1
            ready = admitted >= window
            hopeless = stalled >= window * _PATIENCE and perf_counter() - since > _PATIENCE_SECONDS
            with self._holding() as (tx, record):
                record.estimated_pause_ms = round(estimate, 3)
                if ready:
                    # before the pause, so that it need not wait for the disk
                    tx.migrating.settle_files()
                    record.phase = "cutover_ready"
                elif hopeless:
                    record.phase = "non_converging"
            self._report(record)
            if ready or hopeless:
                return
            if not pending:
                self._stop.wait(_IDLE)

    def _replay(self, record: MigrationRecord) -> int:
        """Carry one batch of changes over; how many wait afterwards."""
        limits = record.limits
        began = perf_counter()
        with self._core.store.view(self._core.clock.now()) as view:
            now = view.migrating.job() or record
            batch = view.migrating.facts_above(now.fact_place, limits.replay_batch)
        vectors = self._embed(record, [text for _, text in batch])
        with self._holding() as (tx, record):
            _fill(tx, record, batch, vectors)
            _verify_edges(tx, record, None)
            tx.migrating.retire(limits.replay_batch, record)
            pending = tx.migrating.watermarks().pending
            written = perf_counter()
        took = (perf_counter() - began) * 1000
        self._costs.note("switch", (perf_counter() - written) * 1000)
        if batch:
            self._costs.note("fact", took / len(batch))
        return pending

    def _require_complete(self) -> None:
        """Raise StorageError when a fact was passed over. It reads everything, so it is done before the switch, which
        then needs to compare two numbers only."""
        if self._complete:
            return
        with self._core.store.view(self._core.clock.now()) as view:
            missed = view.migrating.uncovered()
        if missed:
            raise StorageError(
                f"{missed} facts were passed over: call migration_cancel, run `velesdb-memory doctor` and start again"
            )
        self._complete = True

    def _cut_over(self, record: MigrationRecord) -> None:
        """The switch: announced, then done in one transaction, then seen through."""
        self._require_witness()
        # what was written while the model was asked
        self._replay(record)
        prepare_heir(self._core, self._embedder)
        with self._holding() as (_, record):
            record.phase = "quiescing"
        try:
            paused = self._switch(record)
        except BaseException as error:
            late = isinstance(error, _OverBudget)
            self._attempts += late
            with self._holding(cancellable=False) as (_, record):
                if record.phase == "quiescing":
                    given_up = late and self._attempts >= record.limits.observation_window
                    record.phase = "non_converging" if given_up else "catching_up"
            if not late:
                raise
            return
        inherited(current(self._core))
        with self._holding(cancellable=False) as (tx, record):
            record.measured_cutover_ms = round(paused, 3)
            finish(tx, record)

    def _switch(self, record: MigrationRecord) -> float:
        """Switch, or raise and have changed nothing; how long writers had to wait, in milliseconds."""
        budget = record.limits.pause_budget_ms
        began = 0.0
        try:
            with self._holding(cancellable=False) as (tx, record):
                # the lock is held from here on
                began = perf_counter()
                self._drain(tx, record, began + budget / 1000)
                facts, vectors = tx.migrating.tallies()
                if facts != vectors:
                    raise StorageError(
                        f"the target has {vectors} vectors for {facts} facts, and nothing was switched: run "
                        "`velesdb-memory doctor`, then call migration_recover"
                    )
                tx.migrating.activate()
                record.phase = "activated"
                if (perf_counter() - began) * 1000 + self._costs.switch > budget:
                    raise _OverBudget
        except _OverBudget:
            # whoever tries again knows better what it takes
            self._costs.switch = max(self._costs.switch, (perf_counter() - began) * 1000)
            raise
        return (perf_counter() - began) * 1000

    def _drain(self, tx: StoreTransaction, record: MigrationRecord, deadline: float) -> None:
        """Carry the last changes over, within the time that is left."""
        pending = tx.migrating.watermarks().pending
        if not pending:
            return
        if perf_counter() + self._costs.estimate(pending) / 1000 > deadline:
            raise _OverBudget
        batch = tx.migrating.facts_above(record.fact_place, pending)
        if batch:
            # the witness once more: it is this answer that the last vectors come from
            witness, *vectors = self._embed_until([WITNESS, *(text for _, text in batch)], deadline)
            require_witness(tx.migrating.witness(), witness, record.model)
            _fill(tx, record, batch, vectors)
        _verify_edges(tx, record, None)
        tx.migrating.retire(pending, record)
        if tx.migrating.watermarks().pending:
            # more edges than a batch may verify, or facts that a re-write put behind others
            raise _OverBudget

    # -- the model ----------------------------------------------------------------------------------------------

    def _embed(self, record: MigrationRecord, texts: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        if not texts:
            return ()
        vectors = embed_checked(self._embedder, texts)
        require_dimension(record, vectors.shape[1])
        return tuple(vectors)

    def _embed_until(self, texts: Sequence[str], deadline: float) -> NDArray[np.float32]:
        """The vectors, or _OverBudget at ``deadline``; a model that answers later is not waited for."""
        answer: list[NDArray[np.float32] | BaseException] = []

        def ask() -> None:
            try:
                answer.append(embed_checked(self._embedder, texts))
            except BaseException as error:
                answer.append(error)

        thread = threading.Thread(target=ask, name="velesdb-memory-migration-model", daemon=True)
        thread.start()
        thread.join(max(0.0, deadline - perf_counter()))
        if not answer:
            raise _OverBudget
        if isinstance(answer[0], BaseException):
            raise answer[0]
        return answer[0]

    def _require_witness(self) -> None:
        began = perf_counter()
        now = witness_of(self._embedder)
        self._costs.note("call", (perf_counter() - began) * 1000)
        with self._core.store.view(self._core.clock.now()) as view:
            before = view.migrating.witness()
        require_witness(before, now, self._embedder.model)


def _fill(
    tx: StoreTransaction,
    record: MigrationRecord,
    batch: Sequence[tuple[int, str]],
    vectors: Sequence[NDArray[np.float32]],
) -> int:
    if not batch:
        return 0
    record.fact_place = batch[-1][0]
    return tx.migrating.fill([(place, vector) for (place, _), vector in zip(batch, vectors, strict=True)])


def _verify_edges(tx: StoreTransaction, record: MigrationRecord, end: int | None) -> int:
    """Look at the next edges, which stay where they are; how many."""
    if end is not None and record.edge_place >= end:
        return 0
    place, seen, wrong = tx.migrating.edges_above(record.edge_place, record.limits.edge_cap)
    if wrong is not None:
        raise StorageError(
            f"edge {wrong} has an end that is not stored, or is not the edge of its id: run `velesdb-memory doctor`, "
            "then call migration_recover"
        )
    record.edge_place = place
    return seen


def finish(tx: StoreTransaction, record: MigrationRecord) -> None:
    """End a migration whose switch has happened."""
    record.captured = tx.migrating.watermarks().input
    tx.migrating.clear_journal()
    record.phase, record.worker, record.last_error = "committed", None, None


def cancel(core: Core, epoch: str, worker: str | None) -> None:
    """End the migration ``epoch`` without a switch, and remove what it made. ``worker`` is who must have it."""
    with core.store.transaction(core.clock.now()) as tx:
        record = tx.migrating.job()
        if record is None or (record.epoch, record.worker) != (epoch, worker):
            return
        record.captured = tx.migrating.watermarks().input
        tx.migrating.discard(record)
        record.phase, record.worker, record.cancellation_requested = "cancelled", None, True
        tx.migrating.save(record)
    purge(core)


def purge(core: Core) -> None:
    """Remove the vectors and files that were given up, in small transactions."""
    while True:
        with core.store.transaction(core.clock.now()) as tx:
            if not tx.migrating.purge(PURGE):
                return
