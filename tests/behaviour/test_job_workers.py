"""Who works on accepted passages: leases, heartbeats, retention, the work command (operations.md §3; D30, D34)."""


from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from support.jobs import PATIENCE, Opener, Reads
from support.stores import assert_sound, listed
from velesdb_memory import ExtractionReceipt, MemoryService
from velesdb_memory.errors import (
    StorageError,
    UnknownRequest,
)
from velesdb_memory.limits import (
    JOB_LEASE_SECONDS,
    JOB_PATIENCE_SECONDS,
    JOB_RETENTION_COUNT,
    JOB_RETENTION_SECONDS,
    MAX_JOB_ATTEMPTS,
)
from velesdb_memory.store.base import JobRecord
from velesdb_memory.store.sqlite.transaction import SqliteTransaction
from velesdb_memory.testing import FixedClock, FixedEmbedder
from velesdb_memory.work import worker

# -- leases ------------------------------------------------------------------------------------------------------------


def test_D34_a_job_that_is_being_worked_on_is_nobody_elses(service: Opener) -> None:
    other: list[int] = []
    first = service(Reads(lambda text: other.append(second.work())))
    second = service(Reads())
    first.accept_extraction("a")
    assert first.work() == 1
    assert other == [0]


def test_D34_a_lease_that_ran_out_goes_to_another_and_the_first_stores_nothing(
    service: Opener, clock: FixedClock
) -> None:
    def slow(text: str) -> None:
        clock.advance(JOB_LEASE_SECONDS)
        assert second.work() == 1

    first, second = service(Reads(slow)), service(Reads())
    receipt = first.accept_extraction("a")
    assert first.work() == 0
    assert first.extraction_status(receipt.request_id).state == "committed"
    assert len(listed(first)) == 1
    assert_sound(first)


def beats(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let hearts beat every few milliseconds; an event that is set after the next whole beat."""
    beaten = threading.Event()
    renew = SqliteTransaction.renew

    def noticed(self: SqliteTransaction, *lease: Any) -> bool:
        renewed = renew(self, *lease)
        beaten.set()
        return renewed

    monkeypatch.setattr(worker, "JOB_LEASE_SECONDS", 0.03)
    monkeypatch.setattr(SqliteTransaction, "renew", noticed)
    return beaten


def test_D34_a_heartbeat_keeps_the_lease_of_a_slow_model(
    service: Opener, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    beaten = beats(monkeypatch)

    def slow(text: str) -> None:
        for _ in range(3):
            clock.advance(1)
            # the beat under way may still be of the second before; the one after it is not
            for _ in range(2):
                beaten.clear()
                assert beaten.wait(PATIENCE)
            assert second.work() == 0

    first, second = service(Reads(slow)), service(Reads())
    first.accept_extraction("a")
    assert first.work() == 1


def test_D34_what_a_killed_process_of_this_machine_held_is_free_at_once(service: Opener, folder: Path) -> None:
    memory = service(Reads())
    receipt = memory.accept_extraction("a")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with memory._core.store.transaction(1_700_000_000) as tx:
        held = f"{worker.process_space()}/{gone.pid}/00000000"
        assert tx.claim_job(held, JOB_LEASE_SECONDS, ["reads"], 600) is not None
    assert memory.extraction_status(receipt.request_id).state == "running"
    assert memory.work() == 1


@pytest.mark.parametrize("holder", ["elsewhere/1/00000000", "{here}/{me}/00000000"])
def test_D34_what_somebody_else_holds_is_free_when_the_lease_is_over(
    service: Opener, clock: FixedClock, holder: str
) -> None:
    memory = service(Reads())
    memory.accept_extraction("a")
    with memory._core.store.transaction(clock.now()) as tx:
        tx.claim_job(holder.format(here=worker.process_space(), me=os.getpid()), JOB_LEASE_SECONDS, ["reads"], 600)
    clock.advance(JOB_LEASE_SECONDS - 1)
    assert memory.work() == 0
    clock.advance(1)
    assert memory.work() == 1


def test_D34_a_job_waits_for_a_process_that_has_its_extractor(service: Opener, clock: FixedClock) -> None:
    with_model, without = service(Reads()), service()
    receipt = with_model.accept_extraction("a")
    clock.advance(JOB_PATIENCE_SECONDS)
    assert without.work() == 0
    assert without.extraction_status(receipt.request_id).state == "accepted"
    clock.advance(1)
    assert without.work() == 1
    snapshot = without.extraction_status(receipt.request_id)
    assert snapshot.state == "failed" and "no longer configured" in (snapshot.error or "")


def test_D34_an_extraction_that_is_saved_needs_no_extractor(service: Opener, clock: FixedClock) -> None:
    with_model, without = service(Reads()), service()
    receipt = with_model.accept_extraction("a")
    with with_model._core.store.transaction(clock.now()) as tx:
        assert tx.claim_job("w", 60, ["reads"], 600) is not None
        assert tx.save_extraction(receipt.request_id, "w", b'{"facts":[{"text":"saved"}]}')
        tx.release("w")
    assert without.work() == 1
    assert [entry.content for entry in listed(without)] == ["saved"]


def test_D34_D30_a_process_with_another_embedder_leaves_the_passage_to_one_that_can_store_it(service: Opener) -> None:
    right = service(Reads())
    right.remember("fills the store")
    wrong = service(Reads(), embedder=FixedEmbedder(model="another"))
    receipt = right.accept_extraction("a")
    wrong.work()
    assert right.extraction_status(receipt.request_id).state != "failed"
    right.work()
    assert right.extraction_status(receipt.request_id).state == "committed"


def test_a_store_that_fails_is_tried_again_and_in_the_end_said(
    service: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    extractor = Reads()
    memory = service(extractor)
    receipt = memory.accept_extraction("a")
    finish_job = SqliteTransaction.finish_job

    def full(self: SqliteTransaction, job: JobRecord, worker: str) -> bool:
        if job.state == "committed":
            raise StorageError("the disk is full")
        return finish_job(self, job, worker)

    monkeypatch.setattr(SqliteTransaction, "finish_job", full)
    for _ in range(MAX_JOB_ATTEMPTS - 1):
        assert memory.work() == 0
        assert memory.extraction_status(receipt.request_id).state == "running"
        assert listed(memory) == []
    memory.work()
    snapshot = memory.extraction_status(receipt.request_id)
    assert (snapshot.state, snapshot.error) == ("failed", "the disk is full")
    # the extraction was saved: the model was asked once
    assert extractor.read == ["a"] and listed(memory) == []


def test_D34_work_that_is_under_way_at_closing_is_given_back(service: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def slow(text: str) -> None:
        reading.set()
        go_on.wait(PATIENCE)

    memory, other = service(Reads(slow)), service(Reads())
    memory.start_worker()
    receipt = memory.accept_extraction("a")
    assert reading.wait(PATIENCE)
    thread = memory._worker._thread  # type: ignore[union-attr]
    stop = worker.Worker.stop
    monkeypatch.setattr(worker.Worker, "stop", lambda self: stop(self, 0.0))
    memory.close()
    assert other.work() == 1
    go_on.set()
    thread.join(PATIENCE)  # type: ignore[union-attr]
    assert other.extraction_status(receipt.request_id).state == "committed"
    assert len(listed(other)) == 1


def test_a_started_worker_takes_what_is_accepted(service: Opener) -> None:
    memory = service(Reads())
    committed = threading.Event()
    perform = worker.jobs.perform

    def noticed(*arguments: Any) -> bool:
        done = perform(*arguments)
        committed.set()
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker.jobs, "perform", noticed)
        memory.start_worker()
        thread = memory._worker
        memory.start_worker()
        assert memory._worker is thread
        receipt = memory.accept_extraction("a")
        assert committed.wait(PATIENCE)
        assert memory.extraction_status(receipt.request_id).state == "committed"
        memory.close()


def test_D34_a_restart_takes_up_what_waits(service: Opener) -> None:
    first = service(Reads())
    receipts = [first.accept_extraction(text) for text in "abc"]
    first.close()
    second = service(Reads())
    assert second.memory_status().pending.extraction == 3
    assert second.work() == 3
    assert {second.extraction_status(receipt.request_id).state for receipt in receipts} == {"committed"}


# -- retention ---------------------------------------------------------------------------------------------------------


def test_ended_jobs_are_kept_for_thirty_days(service: Opener, clock: FixedClock) -> None:
    memory = service(Reads())
    old = memory.accept_extraction("a")
    memory.work()
    clock.advance(JOB_RETENTION_SECONDS)
    waiting = memory.accept_extraction("b", extractor="outline")
    memory._new_worker()._sweep()
    assert memory.extraction_status(old.request_id).state == "committed"
    clock.advance(1)
    memory._new_worker()._sweep()
    with pytest.raises(UnknownRequest):
        memory.extraction_status(old.request_id)
    clock.advance(10 * JOB_RETENTION_SECONDS)
    memory._new_worker()._sweep()
    assert memory.extraction_status(waiting.request_id).state == "accepted"
    # dedupe ends with the record
    assert memory.accept_extraction("a") == ExtractionReceipt(old.request_id, "accepted", reused=False)


def test_only_the_newest_ended_jobs_are_kept(
    service: Opener, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert JOB_RETENTION_COUNT == 10_000
    monkeypatch.setattr(worker, "JOB_RETENTION_COUNT", 2)
    memory = service(Reads())
    receipts = []
    for text in "abc":
        receipts.append(memory.accept_extraction(text).request_id)
        memory.work()
        clock.advance(1)
    receipts.append(memory.accept_extraction("d").request_id)
    memory._new_worker()._sweep()
    with pytest.raises(UnknownRequest):
        memory.extraction_status(receipts[0])
    assert [memory.extraction_status(number).state for number in receipts[1:]] == ["committed", "committed", "accepted"]


def test_a_snapshot_stays_as_it_was_when_a_fact_is_forgotten(memory: MemoryService) -> None:
    receipt = memory.accept_extraction("Ada rows.", extractor="outline")
    memory.work()
    before = memory.extraction_status(receipt.request_id)
    memory.forget(before.ids[0])
    assert memory.extraction_status(receipt.request_id) == before


# -- work, in the foreground -------------------------------------------------------------------------------------------


def run_cli(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VELESDB_MEMORY_")}
    return subprocess.run(
        [sys.executable, "-m", "velesdb_memory", "work", "--path", str(folder)],
        env=inherited | {f"VELESDB_MEMORY_{name.upper()}": value for name, value in settings.items()},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


def test_the_work_command_empties_the_queue_and_reports(folder: Path) -> None:
    with MemoryService(folder) as memory:
        receipts = [memory.accept_extraction(f"fact {number}", extractor="outline") for number in range(3)]
        done = run_cli(folder)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.splitlines() == ["velesdb-memory: 3 done, 0 failed, 0 left waiting"]
        assert {memory.extraction_status(receipt.request_id).state for receipt in receipts} == {"committed"}


def test_the_work_command_says_what_it_cannot_do(folder: Path) -> None:
    with MemoryService(folder, extractor=Reads(name="ollama")) as memory:
        memory.accept_extraction("needs a model")
        memory.accept_extraction("needs none", extractor="outline")
        done = run_cli(folder)
        assert done.returncode == 1
        assert done.stderr.splitlines() == ["velesdb-memory: 1 done, 0 failed, 1 left waiting"]


def test_the_work_command_enriches_facts_where_that_is_switched_on(folder: Path) -> None:
    from velesdb_memory.extract.outline import OutlineExtractor

    with MemoryService(folder, extractor=OutlineExtractor(), autograph=True) as memory:
        memory.remember("Ada rows. | ada")
        assert run_cli(folder).returncode == 1
        done = run_cli(folder, extractor="outline", autograph="1")
        assert (done.returncode, memory.entity("ada").found) == (0, True)


def test_work_reports_each_piece(service: Opener) -> None:
    memory = service(Reads())
    receipt = memory.accept_extraction("a")
    seen: list[tuple[str, str]] = []
    memory.work(lambda what, outcome: seen.append((what, outcome)))
    assert seen == [(f"passage {receipt.request_id[:12]}", "committed")]


def test_a_passage_that_fails_is_told_from_one_that_is_stored(service: Opener, folder: Path) -> None:
    memory = service(Reads(name="outline"))
    memory.accept_extraction("fact: | no text", extractor="outline")
    with MemoryService(folder) as plain:
        receipt = plain.accept_extraction("attr: bob | age", extractor="outline")
    done = run_cli(folder)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["velesdb-memory: 0 done, 2 failed, 0 left waiting"]
    assert memory.extraction_status(receipt.request_id).state == "failed"
