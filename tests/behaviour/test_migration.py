"""Changing a store over to another embedder while it is in use (D52 to D55)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from support.jobs import Opener
from support.migrations import (
    LIVE_PHASES,
    PAUSE,
    QUICK,
    assert_nothing_is_left,
    assert_vectors,
    fill,
    job,
    once_in,
    rows,
    target,
    text_of,
)
from support.stores import assert_sound, contents, everything, lines_of, scratch
from velesdb_memory import ColumnFilter
from velesdb_memory.errors import ProvenanceMismatch
from velesdb_memory.testing import FixedClock


def test_D52_every_fact_is_embedded_anew_and_the_store_is_switched(moving: Opener, folder: Path) -> None:
    memory = moving()
    numbers = fill(memory, 30)
    for source, end in pairwise(numbers):
        memory.relate(source, end, "before")
    memory.feedback(numbers[3], True)
    before = everything(memory)[1:]
    phases: list[str] = []
    status = memory.migrate("target", PAUSE, progress=lambda record: phases.append(record.phase), **QUICK)
    assert list(dict.fromkeys(phases)) == [*LIVE_PHASES, "committed"]
    done = job(memory)
    assert (status.configured, status.job) == (True, done)
    assert (done.phase, done.running, done.last_error) == ("committed", False, None)
    assert (done.target_backend, done.target_model, done.target_dimension) == ("target", "target", 24)
    assert (done.progress.base_facts, done.progress.base_edges) == (30, 29)
    assert done.progress.base_batches == 8
    assert done.progress.measured_cutover_ms is not None and 0 < done.progress.measured_cutover_ms <= PAUSE
    assert done.progress.pending_journal_bytes == 0
    # facts and edges have not moved
    assert everything(memory)[1:] == before
    assert_vectors(folder, target())
    assert_sound(memory)
    assert_nothing_is_left(folder, spaces=2)
    assert Path(done.destination).exists()


def test_D55_the_service_that_migrated_goes_on_with_the_target(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 10)
    memory.migrate("target", PAUSE, **QUICK)
    assert memory.recall(text_of(4), k=1)[0].content == text_of(4)
    assert memory.recall_where(text_of(5), [ColumnFilter("n", "eq", 5)])[0].content == text_of(5)
    assert memory.recall_fused(text_of(6), k=1).warnings == []
    assert memory.why(text_of(7)).nodes[0].content == text_of(7)
    memory.remember("written after the switch")
    assert memory.recall("written after the switch", k=1)[0].score > 0.99
    status = memory.memory_status()
    assert (status.embedder.model, status.provenance.model) == ("target", "target")
    assert_vectors(folder, target())


def test_D30_D55_a_process_configured_for_the_former_model_is_told_the_new_one(moving: Opener) -> None:
    memory, early = moving(), moving()
    fill(memory, 5)
    memory.migrate("target", PAUSE, **QUICK)
    for other in (early, moving()):
        for call in (lambda m=other: m.recall("crate"), lambda m=other: m.remember("new")):
            with pytest.raises(ProvenanceMismatch, match=r"target \(24 dimensions\).*migrate-embeddings"):
                call()
        assert len(other.list_memories().memories) == 5
        assert other.recall_fused("crate").warnings
        advice = other.memory_status().migration.advice
        assert advice is not None and "migration_start" in advice and "VELESDB_MEMORY_EMBEDDER" in advice
    assert moving(embedder=target()).recall(text_of(1), k=1)[0].content == text_of(1)


def test_D55_the_state_says_how_to_set_up_the_next_start(moving: Opener) -> None:
    memory = moving()
    fill(memory, 3)
    memory.migrate("target", PAUSE, **QUICK)
    action = job(memory).recovery_action
    assert action is not None and "VELESDB_MEMORY_EMBEDDER=target" in action
    after = moving(embedder=target())
    assert job(after).recovery_action is None
    assert after.memory_status().migration.advice is None


@pytest.mark.parametrize("phase", LIVE_PHASES)
def test_D53_what_is_written_in_any_phase_by_any_process_is_carried_over(
    moving: Opener, folder: Path, phase: str
) -> None:
    memory, other = moving(), moving()
    numbers = fill(memory, 20)

    def write() -> None:
        fill(other, 9, first=100)
        assert other.forget(numbers[2])
        assert other.forget(numbers[19])
        memory.remember(text_of(3), metadata={"again": True})
        memory.remember(text_of(2), metadata={"back": True})
        other.relate(numbers[0], numbers[5], "beside")

    memory.migrate("target", PAUSE, progress=once_in(phase, write), **QUICK)
    assert job(memory).phase == "committed"
    assert_vectors(folder, target())
    assert_sound(memory)
    assert memory.memory_status().memory.facts == 28
    for number in (3, 2, 100, 108):
        assert memory.recall(text_of(number), k=1)[0].content == text_of(number)
    captured = job(memory).progress.input_watermark
    assert captured == (0 if phase == "prepared" else captured) and (captured > 0) == (phase != "prepared")


def test_D53_a_store_without_a_migration_captures_nothing(moving: Opener, folder: Path) -> None:
    memory = moving()
    memory.forget(fill(memory, 5)[0])
    memory.migrate("target", PAUSE, **QUICK)
    fill(memory, 3, first=50)
    assert rows(folder, "SELECT * FROM dirty") == []
    assert rows(folder, "SELECT seq FROM sqlite_sequence WHERE name = 'dirty'") == []


def test_facts_that_expire_meanwhile_are_neither_lost_nor_left(
    moving: Opener, folder: Path, clock: FixedClock
) -> None:
    memory = moving()
    for number in range(8):
        memory.remember(text_of(number), ttl_seconds=10 if number % 2 else None)
    memory.migrate("target", PAUSE, progress=once_in("catching_up", lambda: clock.advance(10)), **QUICK)
    assert {hit.content for hit in memory.recall("crate", k=10)} == {text_of(number) for number in (0, 2, 4, 6)}
    memory.remember("sweeps along")
    assert_vectors(folder, target())
    assert_sound(memory)


def test_a_store_without_facts_can_be_migrated_too(moving: Opener, folder: Path) -> None:
    memory = moving()
    memory.migrate("target", PAUSE)
    assert job(memory).phase == "committed"
    memory.remember("first")
    assert contents(memory.recall("first")) == ["first"]
    assert_vectors(folder, target())


def test_the_former_vectors_are_kept_until_they_are_dropped(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 10)
    memory.migrate("target", PAUSE, **QUICK)
    assert len(rows(folder, "SELECT * FROM embedding")) == 20
    assert memory.drop_former_vectors()
    assert not memory.drop_former_vectors()
    assert_nothing_is_left(folder)
    assert len(rows(folder, "SELECT * FROM embedding")) == 10
    assert memory.recall(text_of(3), k=1)[0].content == text_of(3)


def test_the_next_migration_removes_what_the_last_one_kept(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 10)
    memory.migrate("target", PAUSE, **QUICK)
    memory.migrate("other", PAUSE, **QUICK)
    assert_vectors(folder, target("other", 16))
    assert [model for (model,) in rows(folder, "SELECT model FROM space ORDER BY id")] == ["target", "other"]
    assert_nothing_is_left(folder, spaces=2)
    memory.remember("twice switched")
    assert memory.recall("twice switched", k=1)[0].content == "twice switched"


def test_another_start_returns_at_once_and_the_work_goes_on_in_the_background(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 40)
    started = memory.migration_start("target", PAUSE, **QUICK)
    assert started.job is not None and started.job.phase != "committed"
    assert memory._migrations.wait(30)
    assert (job(memory).phase, job(memory).running) == ("committed", False)
    assert_vectors(folder, target())


def test_no_call_fails_while_threads_read_and_write_across_the_switch(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 60)
    stop, failures, written = threading.Event(), [], []

    def use(name: int) -> None:
        number = 1_000 * name
        try:
            while not stop.is_set():
                memory.remember(text_of(number))
                written.append(number)
                assert memory.recall(text_of(number), k=1)[0].content == text_of(number)
                assert memory.recall_fused(text_of(5), k=1).warnings == []
                memory.recall_where(text_of(5), [ColumnFilter("n", "eq", 5)])
                memory.why(text_of(6))
                number += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(name,)) for name in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        for backend in ("target", "other"):
            status = memory.migrate(backend, 10_000, verification_reserve_ms=0)
            assert status.job is not None and status.job.phase == "committed", status
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert memory.memory_status().memory.facts == 60 + len(written)
    assert_vectors(folder, target("other", 16))
    assert_sound(memory)


def test_an_import_goes_on_across_the_switch(moving: Opener, folder: Path) -> None:
    memory = moving()
    with scratch() as source:
        fill(source, 600)
        lines = lines_of(source.export())

    def numbered() -> Iterator[str]:
        for number, line in enumerate(lines):
            if number == 550:
                memory.migrate("target", PAUSE)
            yield line

    report = memory.import_(numbered())
    assert (report.facts, report.problems) == (600, [])
    assert_vectors(folder, target())


def test_an_accepted_passage_is_stored_with_the_target_after_the_switch(moving: Opener, folder: Path) -> None:
    memory = moving()
    fill(memory, 3)
    receipt = memory.accept_extraction("fact: Camille ships the parser. | Camille", extractor="outline")
    memory.migrate("target", PAUSE, **QUICK)
    assert memory.work() == 1
    assert memory.extraction_status(receipt.request_id).state == "committed"
    assert_vectors(folder, target())
