"""The tools that change the memory over to another embedding model while it is in use."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ...limits import (
    DEFAULT_EDGE_CAP,
    DEFAULT_FACT_BATCH,
    DEFAULT_JOURNAL_BYTES,
    DEFAULT_OBSERVATION_WINDOW,
    DEFAULT_REPLAY_BATCH,
    DEFAULT_VERIFICATION_RESERVE_MS,
)
from ...migrate.job import MigrationStatus
from ...store.migrating import Phase
from ..declare import AnyTool, Host, Tool
from .audit import NoArguments
from .common import Count


class MigrationStart(msgspec.Struct, frozen=True):
    target_backend: Annotated[
        str,
        Meta(
            description="The embedder to change to, as it is configured in this server's environment: hash, local, "
            "ollama or openai."
        ),
    ]
    pause_budget_ms: Annotated[
        int, Meta(ge=0, description="How many milliseconds writers may wait for the switch at most: 1 to 20000.")
    ]
    journal_max_bytes: Annotated[
        int,
        Meta(ge=0, description="How large the journal of changes may grow: 64 MiB unless given. Writes are refused "
             "when it is full."),
    ] = DEFAULT_JOURNAL_BYTES  # fmt: skip
    fact_batch: Annotated[
        int, Meta(ge=0, description="How many facts one transaction of the base copy takes: 256 unless given.")
    ] = DEFAULT_FACT_BATCH
    replay_batch: Annotated[
        int, Meta(ge=0, description="How many captured changes one transaction carries over: 256 unless given.")
    ] = DEFAULT_REPLAY_BATCH
    edge_cap: Annotated[
        int, Meta(ge=0, description="How many links one transaction verifies: 4096 unless given.")
    ] = DEFAULT_EDGE_CAP
    observation_window: Annotated[
        int, Meta(ge=0, description="How many samples in a row must fit the budget before the switch: 3 unless given.")
    ] = DEFAULT_OBSERVATION_WINDOW
    verification_reserve_ms: Annotated[
        int, Meta(ge=0, description="How much of the budget is kept for the last verification: 100 unless given.")
    ] = DEFAULT_VERIFICATION_RESERVE_MS


class Progress(msgspec.Struct, frozen=True):
    base_facts: Annotated[Count, Meta(description="Facts embedded by the base copy.")]
    base_edges: Annotated[Count, Meta(description="Links verified by the base copy; they stay where they are.")]
    base_batches: Annotated[Count, Meta(description="Batches of facts that took.")]
    input_watermark: Annotated[Count, Meta(description="The number of the last change that was captured.")]
    output_watermark: Annotated[Count, Meta(description="The number up to which all are carried over.")]
    dirty_facts: Annotated[Count, Meta(description="Distinct facts with changes that wait.")]
    dirty_edge_sources: Annotated[Count, Meta(description="Distinct memories with new links that wait.")]
    pending_journal_bytes: Annotated[Count, Meta(description="How much of the journal they take.")]
    estimated_pause_ms: Annotated[
        float | None, Meta(description="What the switch would take now; null before it was measured.")
    ]
    measured_cutover_ms: Annotated[float | None, Meta(description="What the switch took; null before it.")]


class Job(msgspec.Struct, frozen=True):
    epoch_id: Annotated[str, Meta(description="Which migration this is.")]
    phase: Annotated[Phase, Meta(description="How far it is; committed and cancelled are the ends.")]
    running: Annotated[bool, Meta(description="Whether some process works on it.")]
    target_backend: Annotated[str, Meta(description="The backend it changes to.")]
    target_model: Annotated[str, Meta(description="Its model.")]
    target_dimension: Annotated[Count, Meta(description="How many numbers its vectors have.")]
    destination: Annotated[str, Meta(description="The file of the new vectors' codes, beside the database.")]
    cancellation_requested: Annotated[bool, Meta(description="Whether it was asked to end.")]
    last_error: Annotated[str | None, Meta(description="What stopped it; null when nothing did.")]
    recovery_action: Annotated[str | None, Meta(description="What has to be done now; null when nothing has.")]
    progress: Annotated[Progress, Meta(description="How much is done, and how much waits.")]


class Migration(msgspec.Struct, frozen=True):
    configured: Annotated[bool, Meta(description="Whether this server can migrate; false: job is null.")]
    job: Annotated[Job | None, Meta(description="The migration that runs, or the last one; null before the first.")]


def _answer(status: MigrationStatus) -> Migration:
    return msgspec.convert(status, Migration, from_attributes=True)


def migration_start(host: Host, args: MigrationStart) -> Migration:
    return _answer(host.service.migration_start(**msgspec.structs.asdict(args)))


def migration_status(host: Host, _: NoArguments) -> Migration:
    return _answer(host.service.migration_status())


def migration_cancel(host: Host, _: NoArguments) -> Migration:
    return _answer(host.service.migration_cancel())


def migration_recover(host: Host, _: NoArguments) -> Migration:
    return _answer(host.service.migration_recover())


TOOLS: Final[tuple[AnyTool, ...]] = (
    Tool(
        name="migration_start",
        title="Start a migration",
        description="Change the whole memory over to another embedding model while it stays in use. Only do this when "
        "the operator asks for it. It returns at once; poll migration_status until phase is committed and relay its "
        "recovery_action, which says how to set the server up for its next start. Everything is embedded anew in the "
        "background, writes of all processes are carried over, and the switch makes writers wait for at most "
        "pause_budget_ms. Refused while another migration has not ended.",
        arguments=MigrationStart,
        result=Migration,
        handler=migration_start,
    ),
    Tool(
        name="migration_status",
        title="Migration status",
        description="Report the embedding migration that runs, or the last one, without doing any of its work. phase "
        "goes from prepared by capturing, base_copied, catching_up, cutover_ready, quiescing and activated to "
        "committed. non_converging means that the switch does not fit the pause budget. Whenever running is false and "
        "recovery_action is not null, do what that says.",
        arguments=NoArguments,
        result=Migration,
        handler=migration_status,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="migration_cancel",
        title="Cancel the migration",
        description="Give up the embedding migration and remove what it has made; the memory stays as it is. One that "
        "runs ends at its next batch (cancellation_requested), one that has stopped at once. From phase quiescing on "
        "it is too late, and the call is refused.",
        arguments=NoArguments,
        result=Migration,
        handler=migration_cancel,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="migration_recover",
        title="Recover the migration",
        description="Go on with an embedding migration that has stopped: after a crash or a restart, an error, or "
        "phase non_converging. Refused when the target model is not the one it began with, when one is running, and "
        "when it has ended.",
        arguments=NoArguments,
        result=Migration,
        handler=migration_recover,
    ),
)
