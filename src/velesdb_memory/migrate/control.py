"""The front of migrations: what may be asked when, and who runs the work."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Final

from msgspec import structs

from ..embed.base import Embedder, embed_checked
from ..errors import InvalidArgument, MigrationRefused
from ..limits import DEFAULT_PAUSE_BUDGET_MS, MIGRATION_LEASE_SECONDS
from ..memory.core import Core
from ..memory.switching import current
from ..model import MigrationSummary
from ..store.base import Space, StoreTransaction
from ..store.migrating import SWITCHING, MigrationLimits, MigrationRecord
from ..work.worker import is_gone, worker_name
from . import engine
from .engine import Engine, Report
from .job import (
    MigrationEstimate,
    MigrationStatus,
    advice,
    backend_name,
    checked_limits,
    is_open,
    pause_budget,
    snapshot,
)
from .target import require_dimension, require_witness, witness_of

Targets = Callable[[str], Embedder]

_SAMPLE: Final = 64  # facts embedded for an estimate
_ROW_BYTES: Final = 32  # beside its numbers: keys, code scale and slot, share of pages


class Migrations:
    """The migrations of one service. ``targets`` makes the embedder of a backend by name; without it nothing can be
    started here."""

    def __init__(self, core: Core, targets: Targets | None) -> None:
        self._core = core
        self._targets = targets
        self._engine: Engine | None = None
        self._guard = threading.Lock()

    # -- looking ------------------------------------------------------------------------------------------------

    def status(self) -> MigrationStatus:
        """See MemoryService.migration_status."""
        if self._targets is None:
            return MigrationStatus(False, None)
        now = self._core.clock.now()
        with self._core.store.view(now) as view:
            record = view.migrating.job()
            if record is None:
                return MigrationStatus(True, None)
            job = snapshot(
                record,
                view.migrating,
                running=_is_run(record, now),
                configured_model=self._core.embedder.fingerprint,
            )
        return MigrationStatus(True, job)

    def summary(self) -> MigrationSummary:
        """What memory_status tells of migrations, also where none can be started."""
        now = self._core.clock.now()
        with self._core.store.view(now) as view:
            record = view.migrating.job()
            running = record is not None and _is_run(record, now)
            told = advice(record, view, running, current(self._core))
        return MigrationSummary(None if record is None else record.phase, running, told)

    def estimate(self, backend: str) -> MigrationEstimate:
        """See MemoryService.migration_estimate."""
        embedder = self._target(backend)
        dimension = len(witness_of(embedder))
        with self._core.store.view(self._core.clock.now()) as view:
            _require_other(view.space(), embedder.fingerprint, dimension)
            facts = view.counts().facts
            sample = [text for _, text in view.migrating.facts_above(0, _SAMPLE)]
        began = perf_counter()
        if sample:
            embed_checked(embedder, sample)
        speed = len(sample) / (perf_counter() - began) if sample else 0.0
        size = facts * (5 * dimension + _ROW_BYTES)
        return MigrationEstimate(
            facts, embedder.fingerprint, dimension, speed, facts / speed if speed else 0.0, size
        )

    # -- beginning ----------------------------------------------------------------------------------------------

    def start(self, backend: str, limits: MigrationLimits) -> Engine | None:
        """Begin a migration, durably, and return who is to run it; None when nothing can be started here."""
        if self._targets is None:
            return None
        now = self._core.clock.now()
        self.settle()
        with self._core.store.view(now) as view:
            _require_none(view.migrating.job(), now)
        embedder = self._target(backend)
        witness = witness_of(embedder)
        name = worker_name()
        record = MigrationRecord(
            secrets.token_hex(16), "prepared", backend, embedder.fingerprint, len(witness), limits, now,
            worker=name, leased_until=now + MIGRATION_LEASE_SECONDS,
        )  # fmt: skip
        with self._core.store.transaction(now) as tx:
            _require_none(tx.migrating.job(), now)
            _require_other(tx.space(), record.model, record.dimension)
            tx.migrating.begin(record, witness)
        return self._new_engine(embedder, record)

    def recover(self, pause_budget_ms: int | None = None) -> Engine | None:
        """Take a stopped migration up again, and return who is to run it."""
        if self._targets is None:
            return None
        budget = None if pause_budget_ms is None else pause_budget(pause_budget_ms)
        now = self._core.clock.now()
        self.settle()
        with self._core.store.view(now) as view:
            record, before = _require_stopped(view.migrating.job(), now), view.migrating.witness()
        embedder = self._target(record.backend)
        if embedder.fingerprint != record.model:
            raise MigrationRefused(
                f"backend {record.backend} is set to {embedder.fingerprint}, but the migration began with "
                f"{record.model}: set that again, or call migration_cancel and start again"
            )
        witness = witness_of(embedder)
        require_dimension(record, len(witness))
        require_witness(before, witness, record.model)
        name = worker_name()
        with self._core.store.transaction(now) as tx:
            found = _require_stopped(tx.migrating.job(), now)
            if found.epoch != record.epoch:
                raise MigrationRefused("another migration was started meanwhile: see migration_status")
            record = found
            record.worker, record.leased_until, record.last_error = name, now + MIGRATION_LEASE_SECONDS, None
            if record.phase == "non_converging":
                record.phase = "catching_up"
            if budget is not None:
                record.limits = structs.replace(record.limits, pause_budget_ms=budget)
            tx.migrating.save(record)
        return self._new_engine(embedder, record)

    def _target(self, backend: str) -> Embedder:
        if self._targets is None:
            raise InvalidArgument("this service has no targets to migrate to", field="target_backend")
        return self._targets(backend_name(backend))

    def _new_engine(self, embedder: Embedder, record: MigrationRecord) -> Engine:
        assert record.worker is not None
        with self._guard:
            self._engine = Engine(self._core, embedder, record.epoch, record.worker)
            return self._engine

    # -- ending -------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """See MemoryService.migration_cancel."""
        if self._targets is None:
            return
        self.settle()
        now = self._core.clock.now()
        with self._core.store.transaction(now) as tx:
            record = tx.migrating.job()
            if record is None:
                raise MigrationRefused("there is no migration to cancel")
            if record.phase == "committed":
                raise MigrationRefused(
                    "the migration is committed and the store uses the target: to go back, start a migration to the "
                    "former backend"
                )
            if record.phase in SWITCHING:
                raise MigrationRefused("the switch is under way and takes moments: see migration_status")
            running = _is_run(record, now)
            if running:
                record.cancellation_requested = True
                tx.migrating.save(record)
        if record.phase == "cancelled":
            engine.purge(self._core)
        elif not running:
            engine.cancel(self._core, record.epoch, record.worker)

    def drop_former(self) -> bool:
        """See MemoryService.drop_former_vectors."""
        with self._core.store.transaction(self._core.clock.now()) as tx:
            found = tx.migrating.give_up_former() or bool(tx.migrating.leftovers())
        engine.purge(self._core)
        return found

    def settle(self) -> None:
        """See an interrupted switch through: back to the source before its transaction, forward after it. It is cheap
        when there is none, and done whenever a store is opened."""
        now = self._core.clock.now()
        with self._core.store.view(now) as view:
            if not _is_interrupted(view.migrating.job(), now):
                return
        with self._core.store.transaction(now) as tx:
            record = tx.migrating.job()
            if record is not None and _is_interrupted(record, now):
                _see_through(tx, record)

    def close(self) -> None:
        """Stop the work of this process; the migration can be taken up again."""
        with self._guard:
            running, self._engine = self._engine, None
        if running is not None:
            running.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the work of this process has ended; whether it has."""
        return self._engine is None or self._engine.join(timeout)

    def run(
        self, backend: str | None, pause_budget_ms: int | None, report: Report | None, limits: dict[str, int]
    ) -> MigrationStatus:
        """See MemoryService.migrate."""
        if backend is None:
            runner = self.recover(pause_budget_ms)
        else:
            budget = DEFAULT_PAUSE_BUDGET_MS if pause_budget_ms is None else pause_budget_ms
            runner = self.start(backend, checked_limits(budget, **limits))
        if runner is None:
            raise InvalidArgument("this service has no targets to migrate to", field="target_backend")
        runner.run(report)
        return self.status()


def _see_through(tx: StoreTransaction, record: MigrationRecord) -> None:
    if record.phase == "activated":
        engine.finish(tx, record)
    else:
        record.phase, record.worker = "catching_up", None
    tx.migrating.save(record)


def _is_run(record: MigrationRecord, now: int) -> bool:
    return record.worker is not None and record.leased_until > now and not is_gone(record.worker)


def _is_interrupted(record: MigrationRecord | None, now: int) -> bool:
    return record is not None and record.phase in SWITCHING and not _is_run(record, now)


def _require_none(record: MigrationRecord | None, now: int) -> None:
    if record is not None and is_open(record):
        what = "is running" if _is_run(record, now) else "has stopped"
        raise MigrationRefused(
            f"a migration to {record.model} {what} (phase {record.phase}): see migration_status; call "
            f"{'migration_cancel' if what == 'is running' else 'migration_recover or migration_cancel'} first"
        )


def _require_other(space: Space | None, model: str, dimension: int) -> None:
    if space == Space(model, dimension):
        raise MigrationRefused(
            f"the store is already filled by {model} ({dimension} dimensions): there is nothing to migrate",
            field="target_backend",
        )


def _require_stopped(record: MigrationRecord | None, now: int) -> MigrationRecord:
    if record is None:
        raise MigrationRefused("there is no migration to recover")
    if not is_open(record):
        raise MigrationRefused(f"the migration is {record.phase}: there is nothing to recover")
    if _is_run(record, now):
        raise MigrationRefused(f"the migration is running (phase {record.phase}): see migration_status")
    if record.cancellation_requested:
        raise MigrationRefused("cancellation of this migration was requested: call migration_cancel")
    return record
