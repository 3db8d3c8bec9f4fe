"""What a migration refuses, and how migration_status explains the state it leaves (D52 to D54)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.jobs import Opener
from support.migrations import (
    LIVE_PHASES,
    PAUSE,
    QUICK,
    Targets,
    assert_nothing_is_left,
    assert_vectors,
    fill,
    job,
    once_in,
    rows,
    target,
    text_of,
)
from support.stores import assert_sound, contents
from velesdb_memory import MemoryService, MigrationJob, MigrationStatus
from velesdb_memory.errors import EmbedderUnavailable, Internal, InvalidArgument, JournalFull, MigrationRefused
from velesdb_memory.limits import MAX_PAUSE_BUDGET_MS
from velesdb_memory.store.migrating import JOURNAL_RECORD_BYTES
from velesdb_memory.testing import FixedEmbedder


class Broken(Exception):
    """What stops a migration in these tests."""


def stop_in(memory: MemoryService, phase: str, also: Callable[[], Any] = lambda: None, **limits: int) -> MigrationJob:
    """Begin a migration that breaks off in ``phase``."""

    def break_off() -> None:
        also()
        raise Broken

    with pytest.raises(Broken):
        memory.migrate("target", PAUSE, progress=once_in(phase, break_off), **{**QUICK, **limits})
    return job(memory)


# -- the journal ------------------------------------------------------------------------------------------------------


def test_D53_a_full_journal_refuses_the_write_and_takes_it_once_the_migration_has_caught_up(
    moving: Opener, folder: Path
) -> None:
    memory = moving()
    numbers = fill(memory, 10)
    told: list[str | None] = []

    def overflow() -> None:
        memory.remember("fits one")
        memory.relate(numbers[0], numbers[1], "fits two")
        for call in (
            lambda: memory.remember("does not fit"),
            lambda: memory.forget(numbers[2]),
            lambda: memory.relate(numbers[1], numbers[0], "fits not"),
            lambda: memory.unrelate(numbers[0], numbers[1], "fits two"),
        ):
            with pytest.raises(JournalFull, match=f"journal_max_bytes {2 * JOURNAL_RECORD_BYTES}") as caught:
                call()
            assert isinstance(caught.value, Internal) and caught.value.limit == 2 * JOURNAL_RECORD_BYTES
        # what no other space depends on is not captured, and so not refused
        memory.feedback(numbers[0], True)
        assert memory.memory_status().memory.facts == 11
        found = job(memory)
        assert (found.progress.dirty_facts, found.progress.dirty_edge_sources) == (1, 1)
        assert found.progress.pending_journal_bytes == 2 * JOURNAL_RECORD_BYTES
        assert (found.progress.input_watermark, found.progress.output_watermark) == (2, 0)
        told.append(found.recovery_action)

    memory.migrate(
        "target", PAUSE, progress=once_in("capturing", overflow), journal_max_bytes=2 * JOURNAL_RECORD_BYTES + 5,
        **QUICK,
    )  # fmt: skip
    assert told[0] is not None and "full" in told[0]
    assert job(memory).phase == "committed"
    memory.remember("does not fit")
    assert contents(memory.recall("does not fit", 1)) == ["does not fit"]
    assert_vectors(folder, target())


def test_D53_a_migration_that_nobody_runs_keeps_capturing_until_its_journal_is_full(
    moving: Opener, folder: Path
) -> None:
    memory = moving()
    fill(memory, 10)
    stop_in(memory, "capturing", journal_max_bytes=3 * JOURNAL_RECORD_BYTES)
    fill(memory, 3, first=50)
    with pytest.raises(JournalFull, match="migration_recover"):
        memory.remember("one too many")
    action = job(memory).recovery_action
    assert action is not None and "full" in action and "migration_recover" in action and "migration_cancel" in action
    assert memory.memory_status().migration.advice == action
    memory.migrate(None)
    assert job(memory).phase == "committed"
    memory.remember("one too many")
    assert_vectors(folder, target())


# -- the budget -------------------------------------------------------------------------------------------------------


def test_a_budget_that_no_switch_fits_ends_in_non_converging_and_a_larger_one_recovers(
    moving: Opener, folder: Path
) -> None:
    memory = moving()
    fill(memory, 10)
    memory.migrate("target", 1, observation_window=1)
    stuck = job(memory)
    assert (stuck.phase, stuck.running, stuck.last_error) == ("non_converging", False, None)
    assert stuck.progress.estimated_pause_ms is not None
    assert stuck.recovery_action is not None and "pause_budget_ms" in stuck.recovery_action
    fill(memory, 5, first=50)
    assert job(memory).progress.dirty_facts == 5
    # with the budget it has, it cannot do better
    memory.migrate(None)
    assert job(memory).phase == "non_converging"
    memory.migrate(None, PAUSE)
    assert job(memory).phase == "committed"
    assert_vectors(folder, target())


# -- cancelling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", LIVE_PHASES)
def test_a_running_migration_is_cancelled_at_its_next_batch_and_leaves_nothing(
    moving: Opener, folder: Path, phase: str
) -> None:
    memory = moving()
    fill(memory, 12)
    seen: list[MigrationJob] = []

    def cancel() -> None:
        fill(memory, 2, first=70)
        asked = memory.migration_cancel().job
        assert asked is not None
        seen.append(asked)

    memory.migrate("target", PAUSE, progress=once_in(phase, cancel), **QUICK)
    [asked] = seen
    assert (asked.phase, asked.running, asked.cancellation_requested) == (phase, True, True)
    ended = job(memory)
    assert (ended.phase, ended.running, ended.cancellation_requested) == ("cancelled", False, True)
    assert (ended.recovery_action, ended.last_error) == (None, None)
    assert_nothing_is_left(folder)
    assert_vectors(folder, FixedEmbedder())
    assert contents(memory.recall(text_of(71), 1)) == [text_of(71)]
    assert_sound(memory)


@pytest.mark.parametrize("phase", LIVE_PHASES)
def test_a_stopped_migration_is_cancelled_at_once(moving: Opener, folder: Path, phase: str) -> None:
    memory = moving()
    fill(memory, 12)
    assert stop_in(memory, phase).phase == phase
    ended = memory.migration_cancel().job
    assert ended is not None and (ended.phase, ended.running) == ("cancelled", False)
    assert_nothing_is_left(folder)
    # again is no error, and a new one may begin
    assert memory.migration_cancel().job == ended
    memory.migrate("target", PAUSE, **QUICK)
    assert_vectors(folder, target())


def test_a_migration_that_does_not_converge_is_cancelled_at_once(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 5)
    memory.migrate("target", 1, observation_window=1)
    ended = memory.migration_cancel().job
    assert ended is not None and ended.phase == "cancelled"
    assert_nothing_is_left(folder)


def test_what_is_committed_cannot_be_cancelled_and_what_never_was_neither(moving: Opener, folder: Path) -> None:
    memory = moving()
    with pytest.raises(MigrationRefused, match="no migration"):
        memory.migration_cancel()
    memory.migrate("target", PAUSE)
    with pytest.raises(MigrationRefused, match="committed"):
        memory.migration_cancel()
    assert job(memory).phase == "committed"


def test_a_target_space_that_is_not_the_jobs_is_not_removed(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 5)
    stop_in(memory, "base_copied")


    with sqlite3.connect(folder / "memory.db") as connection:
        connection.execute("UPDATE space SET dimension = 25 WHERE state = 'target'")
    connection.close()
    with pytest.raises(Internal, match="nothing was removed"):
        memory.migration_cancel()
    assert len(rows(folder, "SELECT * FROM embedding")) == 10


# -- starting and recovering ------------------------------------------------------------------------------------------


def test_only_one_migration_at_a_time(moving: Opener) -> None:
    memory, other = moving(), moving()
    fill(memory, 6)

    def again() -> None:
        for service in (memory, other):
            with pytest.raises(MigrationRefused, match="is running"):
                service.migration_start("other", PAUSE)
            with pytest.raises(MigrationRefused, match="is running"):
                service.migration_recover()
        assert job(other).running

    memory.migrate("target", PAUSE, progress=once_in("catching_up", again), **QUICK)
    assert job(memory).phase == "committed"
    stopped = "other"

    def fail() -> None:
        raise Broken

    with pytest.raises(Broken):
        memory.migrate(stopped, PAUSE, progress=once_in("capturing", fail), **QUICK)
    with pytest.raises(MigrationRefused, match="has stopped"):
        other.migration_start("other", PAUSE)


def test_a_stopped_migration_says_so_and_goes_on_where_it_was(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 30)
    copied = stop_in(memory, "base_copied")
    assert (copied.running, copied.last_error) == (False, "internal error (Broken)")
    assert copied.recovery_action is not None and "migration_recover" in copied.recovery_action
    memory.close()
    with pytest.raises(Internal):
        memory.migration_status()
    again = moving()
    assert job(again).phase == "base_copied"
    fill(again, 2, first=60)
    recovered = again.migration_recover().job
    assert recovered is not None and recovered.last_error is None
    assert again._migrations.wait(30)
    assert job(again).phase == "committed"
    assert job(again).progress.base_facts == 30
    assert_vectors(folder, target())


def test_closing_the_service_stops_its_migration_cleanly(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 60)
    memory.migration_start("target", PAUSE, fact_batch=1)
    memory.close()
    again = moving()
    state = job(again)
    if state.phase != "committed":
        assert not state.running and state.recovery_action is not None
        again.migrate(None)
    assert_vectors(folder, target())


def test_there_must_be_something_to_recover(moving: Opener) -> None:
    memory = moving()
    with pytest.raises(MigrationRefused, match="no migration"):
        memory.migration_recover()
    fill(memory, 3)
    stop_in(memory, "capturing")
    memory.migration_cancel()
    with pytest.raises(MigrationRefused, match="cancelled"):
        memory.migration_recover()
    memory.migrate("target", PAUSE)
    with pytest.raises(MigrationRefused, match="committed"):
        memory.migration_recover()


@pytest.mark.parametrize(
    ("maker", "reason"),
    [
        (lambda: FixedEmbedder(model="target", dimension=25), "25 dimensions"),
        (lambda: FixedEmbedder(model="target-2", dimension=24), "target-2"),
        (lambda: Reworded(), "replaced under its name"),
    ],
    ids=["another dimension", "another name", "another model under the name"],
)
def test_D54_a_target_that_changed_meanwhile_is_refused(
    moving: Opener, folder: Path, maker: Callable[[], Any], reason: str
) -> None:
    makers = Targets(target=target)
    memory = moving(targets=makers)
    fill(memory, 10)
    stop_in(memory, "capturing")
    makers.makers["target"] = maker
    with pytest.raises(MigrationRefused, match=reason):
        memory.migration_recover()
    stopped = job(memory)
    assert (stopped.phase, stopped.running) == ("capturing", False)
    assert contents(memory.recall(text_of(3), 1)) == [text_of(3)]
    makers.makers["target"] = target
    memory.migrate(None)
    assert_vectors(folder, target())


class Reworded(FixedEmbedder):
    """The name and the dimension of the target, and vectors of its own."""

    def __init__(self) -> None:
        super().__init__(model="target", dimension=24)

    def embed(self, texts: Any) -> Any:
        return -super().embed(texts)


def test_D54_a_model_that_is_replaced_while_the_migration_runs_never_becomes_active(
    moving: Opener, folder: Path
) -> None:
    reworded, plain = Reworded(), target()

    class Replaced(FixedEmbedder):
        now = plain

        def embed(self, texts: Any) -> Any:
            return self.now.embed(texts)

    embedder = Replaced(model="target", dimension=24)
    memory = moving(targets=Targets(target=lambda: embedder))
    fill(memory, 10)

    def replace() -> None:
        embedder.now = reworded

    with pytest.raises(MigrationRefused, match="replaced under its name"):
        memory.migrate("target", PAUSE, progress=once_in("base_copied", replace), **QUICK)
    stopped = job(memory)
    assert (stopped.phase, stopped.running) == ("catching_up", False)
    assert stopped.last_error is not None and "replaced under its name" in stopped.last_error
    assert_vectors(folder, FixedEmbedder())


def test_a_backend_that_does_not_exist_or_does_not_answer_begins_nothing(moving: Opener, folder: Path) -> None:
    class Dead(FixedEmbedder):
        def embed(self, texts: Any) -> Any:
            raise EmbedderUnavailable("nobody answers")

    memory = moving(targets=Targets(dead=Dead, same=FixedEmbedder))
    fill(memory, 3)
    with pytest.raises(InvalidArgument, match="target_backend"):
        memory.migration_start("missing", PAUSE)
    with pytest.raises(EmbedderUnavailable):
        memory.migration_start("dead", PAUSE)
    with pytest.raises(MigrationRefused, match="already filled by fixed"):
        memory.migration_start("same", PAUSE)
    assert memory.migration_status() == MigrationStatus(True, None)
    assert_nothing_is_left(folder)


def test_a_model_that_fails_half_way_leaves_a_state_that_says_why(moving: Opener, folder: Path) -> None:
    class Tired(FixedEmbedder):
        def embed(self, texts: Any) -> Any:
            if len(self.asked) > 10:
                raise EmbedderUnavailable("the model server hung up")
            return super().embed(texts)

    makers = Targets(target=lambda: Tired(model="target", dimension=24))
    memory = moving(targets=makers)
    fill(memory, 30)
    with pytest.raises(EmbedderUnavailable):
        memory.migrate("target", PAUSE, **QUICK)
    stopped = job(memory)
    assert (stopped.phase, stopped.last_error) == ("capturing", "the model server hung up")
    assert 0 < stopped.progress.base_facts < 30
    makers.makers["target"] = target
    memory.migrate(None)
    assert_vectors(folder, target())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pause_budget_ms", 0),
        ("pause_budget_ms", MAX_PAUSE_BUDGET_MS + 1),
        ("pause_budget_ms", True),
        ("journal_max_bytes", JOURNAL_RECORD_BYTES - 1),
        ("fact_batch", 0),
        ("fact_batch", 10**6),
        ("replay_batch", 0),
        ("edge_cap", 0),
        ("observation_window", 0),
        ("verification_reserve_ms", -1),
        ("target_backend", 7),
    ],
)
def test_a_limit_outside_its_range_is_refused_by_name(moving: Opener, field: str, value: Any) -> None:
    memory = moving()
    arguments: dict[str, Any] = {"target_backend": "target", "pause_budget_ms": PAUSE, field: value}
    with pytest.raises(InvalidArgument, match=field) as caught:
        memory.migration_start(**arguments)
    assert caught.value.field == field
    assert memory.migration_status().job is None


def test_a_service_without_targets_says_that_it_cannot_migrate(moving: Opener) -> None:
    memory = moving(targets=None)
    nothing = MigrationStatus(False, None)
    assert memory.migration_start("target", PAUSE) == nothing
    assert memory.migration_status() == nothing
    assert memory.migration_cancel() == nothing
    assert memory.migration_recover() == nothing
    with pytest.raises(InvalidArgument, match="targets"):
        memory.migrate("target", PAUSE)


# -- edges ------------------------------------------------------------------------------------------------------------


def test_edges_are_verified_in_batches_and_a_dangling_one_stops_the_migration(moving: Opener, folder: Path) -> None:
    memory = moving()
    numbers = fill(memory, 12)
    for source in numbers[:5]:
        for end in numbers[6:]:
            memory.relate(source, end, "to")


    with sqlite3.connect(folder / "memory.db") as connection:
        connection.execute("UPDATE edge SET dst = 5 WHERE ordinal = 20")
    connection.close()
    with pytest.raises(Internal, match="doctor"):
        memory.migrate("target", PAUSE, edge_cap=7, **QUICK)
    stopped = job(memory)
    assert stopped.phase == "capturing" and stopped.last_error is not None and "edge" in stopped.last_error
    assert stopped.progress.base_edges == 14
    memory.check(repair=True)
    memory.migrate(None)
    done = job(memory)
    assert (done.phase, done.progress.base_edges) == ("committed", 29)
    assert_vectors(folder, target())
