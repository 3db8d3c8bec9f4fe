"""``migrate-embeddings``: change the store over to another embedding model, in the foreground."""

from __future__ import annotations

import sys
from time import perf_counter

import msgspec

from ..config import Settings
from ..errors import VelesMemoryError
from ..migrate.job import MigrationEstimate, MigrationStatus
from ..service import MemoryService
from ..store.migrating import MigrationRecord
from .progress import progress
from .serve import open_service


class Order(msgspec.Struct, frozen=True):
    """What the command line asks for."""

    to: str | None = None
    dry_run: bool = False
    cancel: bool = False
    recover: bool = False
    drop_old: bool = False
    pause_budget: int | None = None


def run(settings: Settings, order: Order) -> int:
    """Migrate, or what else was ordered; 0 when that is done, 1 when the migration has not ended."""
    with open_service(settings) as memory:
        if order.drop_old:
            found = memory.drop_former_vectors()
            print("the former vectors are removed" if found else "there are no former vectors")
            return 0
        if order.cancel:
            return _report(memory.migration_cancel(), wanted="cancelled")
        target = order.to or settings.embedder
        if not order.recover:
            _show(memory.migration_estimate(target))
            if order.dry_run:
                return 0
        return _migrate(memory, None if order.recover else target, order.pause_budget)


def _show(estimate: MigrationEstimate) -> None:
    print(
        f"{estimate.facts} facts to embed with {estimate.model} ({estimate.dimension} dimensions): about "
        f"{estimate.seconds:.0f} s at {estimate.facts_per_second:.0f} facts/s, {estimate.bytes / 1e6:.1f} MB more on "
        "disk until the former vectors are dropped"
    )


def _migrate(memory: MemoryService, target: str | None, pause_budget: int | None) -> int:
    facts, began = memory.memory_status().memory.facts, perf_counter()
    first: int | None = None
    with progress(facts) as show:

        def report(record: MigrationRecord) -> None:
            nonlocal first
            first = record.base_facts if first is None else first
            if show:
                show(record.phase, record.base_facts, facts)

        try:
            status = memory.migrate(target, pause_budget, progress=report)
        except KeyboardInterrupt:
            print("\nstopped; `velesdb-memory migrate-embeddings --recover` goes on", file=sys.stderr)
            raise
        except VelesMemoryError as error:
            status = memory.migration_status()
            if first is None or status.job is None:
                # refused before it began
                raise
            print(f"velesdb-memory: {error}", file=sys.stderr)
    seconds = perf_counter() - began
    done = status.job.progress.base_facts - (first or 0) if status.job else 0
    print(f"{done} facts embedded in {seconds:.1f} s, {done / seconds:.0f} facts/s")
    return _report(status, wanted="committed")


def _report(status: MigrationStatus, wanted: str) -> int:
    job = status.job
    if job is None:
        print("no migration")
        return 1
    pause = job.progress.measured_cutover_ms
    print(
        f"migration to {job.target_model} ({job.target_dimension} dimensions): {job.phase}"
        + ("" if pause is None else f", writers waited {pause:.1f} ms")
        + (", and its process ends it at the next batch" if job.running and job.cancellation_requested else "")
    )
    if job.last_error:
        print(f"it stopped: {job.last_error}")
    if job.recovery_action:
        print(f"what to do: {job.recovery_action}")
    if job.phase == "committed":
        print("the former vectors are kept; `velesdb-memory migrate-embeddings --drop-old` removes them")
    return 0 if job.phase == wanted or job.running else 1
