"""What callers see of a migration, and what they may ask for."""

from __future__ import annotations

from typing import Final

import msgspec

from .. import limits
from ..memory import checks
from ..memory.core import Core
from ..store.base import StoreView
from ..store.migrating import (
    JOURNAL_RECORD_BYTES,
    TERMINAL,
    MigrationLimits,
    MigrationRecord,
    MigrationView,
    Phase,
    Watermarks,
)
from ..text import require_text

STOPPED: Final = (
    "nobody runs this migration: call migration_recover to go on with it, or migration_cancel to give it up "
    "(`velesdb-memory migrate-embeddings --recover`, `--cancel`). Until then changes are noted in the journal, and "
    "writes are refused once that is full"
)
UNSETTLED: Final = (
    "the switch was interrupted: it is settled when a process opens the store (restart the server), or by "
    "migration_recover; then see migration_status"
)
UNCONVERGED: Final = (
    "the switch does not fit into pause_budget_ms: lower the load of writes and call migration_recover; or go on with "
    "a larger budget (`velesdb-memory migrate-embeddings --recover --pause-budget MS`), or call migration_cancel and "
    "start again with a larger pause_budget_ms, a smaller verification_reserve_ms or a larger replay_batch"
)
UNCANCELLED: Final = "cancellation was requested and nobody was there to see it: call migration_cancel again"
UNCLEAN: Final = "vectors that are no longer wanted are left: call migration_cancel again to remove them"
FULL: Final = "the journal is full and writes are refused until the migration has caught up"


class MigrationProgress(msgspec.Struct, frozen=True):
    """How far a migration has come.

    Watermarks number the changes that were captured (input) and carried over (output). ``dirty_facts`` and
    ``dirty_edge_sources`` count the distinct records that wait. Times are milliseconds, None before they were measured.
    """

    base_facts: int
    base_edges: int
    base_batches: int
    input_watermark: int
    output_watermark: int
    dirty_facts: int
    dirty_edge_sources: int
    pending_journal_bytes: int
    estimated_pause_ms: float | None
    measured_cutover_ms: float | None


class MigrationJob(msgspec.Struct, frozen=True):
    """The migration that runs, or the last one. ``recovery_action`` says what has to be done, if anything has."""

    epoch_id: str
    phase: Phase
    running: bool
    target_backend: str
    target_model: str
    target_dimension: int
    destination: str
    cancellation_requested: bool
    last_error: str | None
    recovery_action: str | None
    progress: MigrationProgress


class MigrationStatus(msgspec.Struct, frozen=True):
    """The answer of every migration call. Not ``configured``: this service has no targets to migrate to."""

    configured: bool
    job: MigrationJob | None


class MigrationEstimate(msgspec.Struct, frozen=True):
    """What a migration would take, from embedding a sample of the facts: seconds of work, bytes on disk until the
    former vectors are dropped."""

    facts: int
    model: str
    dimension: int
    facts_per_second: float
    seconds: float
    bytes: int


def checked_limits(
    pause_budget_ms: object,
    journal_max_bytes: object = limits.DEFAULT_JOURNAL_BYTES,
    fact_batch: object = limits.DEFAULT_FACT_BATCH,
    replay_batch: object = limits.DEFAULT_REPLAY_BATCH,
    edge_cap: object = limits.DEFAULT_EDGE_CAP,
    observation_window: object = limits.DEFAULT_OBSERVATION_WINDOW,
    verification_reserve_ms: object = limits.DEFAULT_VERIFICATION_RESERVE_MS,
) -> MigrationLimits:
    """The limits of a migration. Raises InvalidArgument that names the field and its range."""
    return MigrationLimits(
        pause_budget(pause_budget_ms),
        checks.integer(
            journal_max_bytes, "journal_max_bytes", minimum=JOURNAL_RECORD_BYTES, maximum=limits.MAX_JOURNAL_BYTES
        ),
        checks.integer(fact_batch, "fact_batch", minimum=1, maximum=limits.MAX_MIGRATION_BATCH),
        checks.integer(replay_batch, "replay_batch", minimum=1, maximum=limits.MAX_MIGRATION_BATCH),
        checks.integer(edge_cap, "edge_cap", minimum=1, maximum=limits.MAX_EDGE_CAP),
        checks.integer(observation_window, "observation_window", minimum=1, maximum=limits.MAX_OBSERVATION_WINDOW),
        checks.integer(
            verification_reserve_ms, "verification_reserve_ms", minimum=0, maximum=limits.MAX_PAUSE_BUDGET_MS
        ),
    )


def pause_budget(value: object) -> int:
    """A pause budget in milliseconds. Raises InvalidArgument."""
    return checks.integer(value, "pause_budget_ms", minimum=1, maximum=limits.MAX_PAUSE_BUDGET_MS)


def backend_name(value: object) -> str:
    """The name of a backend, as it was given."""
    return require_text(value, "target_backend")


def snapshot(record: MigrationRecord, view: MigrationView, *, running: bool, configured_model: str) -> MigrationJob:
    """The job as callers see it."""
    marks, (facts, sources) = view.watermarks(), view.dirty()
    if record.phase in TERMINAL:
        marks = Watermarks(record.captured, record.captured)
    return MigrationJob(
        record.epoch,
        record.phase,
        running,
        record.backend,
        record.model,
        record.dimension,
        record.destination,
        record.cancellation_requested,
        record.last_error,
        _action(record, view, running, configured_model),
        MigrationProgress(
            record.base_facts,
            record.base_edges,
            record.base_batches,
            marks.input,
            marks.output,
            facts,
            sources,
            marks.bytes,
            record.estimated_pause_ms,
            record.measured_cutover_ms,
        ),
    )


def advice(record: MigrationRecord | None, view: StoreView, running: bool, core: Core) -> str | None:
    """What memory_status tells a user to do about embedding models: the whole procedure, one step at a time."""
    if record is not None and is_open(record):
        if running:
            return (
                f"the memory is changing over to {record.model}: go on as usual, and poll migration_status until phase "
                "is committed"
            )
        return _action(record, view.migrating, running, "")
    space = view.space()
    if space is None or core.fits(view):
        return None
    return (
        f"the store was filled by {space.model} but {core.embedder.fingerprint} is configured: searches by meaning and "
        "new facts are refused. Set VELESDB_MEMORY_EMBEDDER and its model back; or change the store over, by "
        "`velesdb-memory migrate-embeddings` or migration_start, then poll migration_status until phase is committed, "
        "and call migration_recover if it stops before"
    )


def _action(record: MigrationRecord, view: MigrationView, running: bool, configured_model: str) -> str | None:
    """What somebody has to do."""
    if record.phase == "cancelled":
        return UNCLEAN if view.leftovers() else None
    if record.phase == "committed":
        if configured_model == record.model:
            return None
        return (
            f"set VELESDB_MEMORY_EMBEDDER={record.backend}, with its settings, before the next start: processes "
            f"configured for {configured_model} are refused searches and new facts"
        )
    full = view.watermarks().bytes + JOURNAL_RECORD_BYTES > record.limits.journal_max_bytes
    if running:
        return FULL if full else None
    if record.phase in ("quiescing", "activated"):
        return UNSETTLED
    if record.cancellation_requested:
        return UNCANCELLED
    action = UNCONVERGED if record.phase == "non_converging" else STOPPED
    return f"{FULL}: {action}" if full else action


def is_open(record: MigrationRecord | None) -> bool:
    """Whether there is a migration that has not ended."""
    return record is not None and record.phase not in TERMINAL
