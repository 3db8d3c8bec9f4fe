"""Workers that are killed, and workers of several processes on one store (D34).

The full show: ``SHOW_ROUNDS=10 python -m pytest tests/processes/test_workers.py``. Run as a program this file is the
process that the tests start and kill: it says on standard output how far it is, and waits there for a line or its end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from processes.crew import PATIENCE, environment, number
from support.model_server import ModelServer
from support.stores import assert_sound, everything
from velesdb_memory import MemoryService
from velesdb_memory.extract.base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction
from velesdb_memory.extract.ollama import OllamaExtractor
from velesdb_memory.ids import fact_id
from velesdb_memory.store.base import JobRecord
from velesdb_memory.store.sqlite.transaction import SqliteTransaction
from velesdb_memory.testing import FixedClock, FixedEmbedder

ROUNDS = number("SHOW_ROUNDS", 2)
JOBS = number("SHOW_JOBS", 30)
pytestmark = [
    pytest.mark.timeout(1_200 if "SHOW_ROUNDS" in os.environ or "SHOW_JOBS" in os.environ else 100),
    pytest.mark.skipif(sys.platform == "win32", reason="a killed worker is noticed at once on POSIX only"),
]

PASSAGE = "Ada met Bob in Oslo, and they have known each other since."
REPLY = {
    "facts": [
        {"fact": "Ada met Bob in Oslo.", "entities": ["ada", "bob", "oslo"]},
        {"fact": "Ada and Bob know each other.", "entities": ["ada", "bob"]},
    ],
    "relations": [{"subject": "ada", "predicate": "knows", "object": "bob"}],
    "attributes": [{"entity": "oslo", "key": "visited", "value": True}],
}
FOUND = Extraction(
    [ExtractedFact(fact["fact"], fact["entities"]) for fact in REPLY["facts"]],
    [ExtractedRelation(**relation) for relation in REPLY["relations"]],
    [ExtractedAttribute(**attribute) for attribute in REPLY["attributes"]],
)


class Counted:
    """An extractor of this process that counts what it is asked."""

    name = "ollama"

    def __init__(self) -> None:
        self.read: list[str] = []

    def extract(self, text: str) -> Extraction:
        self.read.append(text)
        return FOUND


# -- the process that is killed ----------------------------------------------------------------------------------------


def halt(reached: str) -> None:
    """Say what was reached, and stay there until a line comes or the process is killed."""
    os.write(1, reached.encode() + b"\n")
    sys.stdin.readline()


class Halts(Counted):
    """Stays where a model would be generating."""

    def extract(self, text: str) -> Extraction:
        halt("generating")
        return super().extract(text)


class HaltsWhenEmbedding(FixedEmbedder):
    """Stays between the saved extraction and the transaction that stores it."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        halt("saved")
        return super().embed(texts)


def halt_before_commit() -> None:
    """Stay inside the transaction, with everything written and nothing committed."""
    finish_job = SqliteTransaction.finish_job
    finish_enrichment = SqliteTransaction.finish_enrichment

    def job(self: SqliteTransaction, job: JobRecord, worker: str) -> bool:
        done = finish_job(self, job, worker)
        halt("committing")
        return done

    def enrichment(self: SqliteTransaction, fact: int, worker: str) -> bool:
        done = finish_enrichment(self, fact, worker)
        halt("committing")
        return done

    SqliteTransaction.finish_job = job  # type: ignore[method-assign]
    SqliteTransaction.finish_enrichment = enrichment  # type: ignore[method-assign]


def main(what: str, store: str, point: str, url: str = "") -> None:
    extractor: Any = Halts() if point == "generating" else Counted()
    if url:
        extractor = OllamaExtractor("m", url)
    embedder = HaltsWhenEmbedding() if point == "saved" and what == "passage" else FixedEmbedder()
    if point == "committing":
        halt_before_commit()
    with MemoryService(store, embedder, extractor=extractor, autograph=what == "fact", clock=FixedClock()) as memory:
        if what == "queue":
            halt("ready")
            os.write(1, f"{memory.work()}\n".encode())
            return
        if what == "passage":
            os.write(1, (memory.accept_extraction(PASSAGE, {"k": 1}, None, "once").request_id + "\n").encode())
        else:
            os.write(1, f"{memory.remember(PASSAGE)}\n".encode())
        if point == "accepted":
            halt("accepted")
        memory.work(lambda piece, well: halt("committed") if point == "committed" else None)


# -- the tests' side ---------------------------------------------------------------------------------------------------


class Child:
    """This file as a process."""

    def __init__(self, *arguments: str | Path) -> None:
        here = Path(__file__)
        path = os.pathsep.join([str(here.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, str(here), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(PYTHONPATH=path),
        )

    def line(self) -> str:
        """The next line; the timeout of the test is the deadline."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End it as a power switch would, and take notice of its end."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        self.process.communicate(timeout=PATIENCE)


@contextmanager
def child(*arguments: str | Path) -> Iterator[Child]:
    process = Child(*arguments)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.kill()


def undisturbed(folder: Path, what: str) -> list[dict[str, Any]]:
    """The store as it is when nobody is killed."""
    autograph = what == "fact"
    with MemoryService(folder, FixedEmbedder(), extractor=Counted(), autograph=autograph, clock=FixedClock()) as memory:
        if autograph:
            memory.remember(PASSAGE)
        else:
            memory.accept_extraction(PASSAGE, {"k": 1}, None, "once")
        assert memory.work() == 1
        return everything(memory)


def wait_for(happened: Callable[[], bool]) -> None:
    """Look until ``happened``; nothing tells us when another process has asked its model."""
    deadline = monotonic() + PATIENCE
    while not happened():
        assert monotonic() < deadline, "it never happened"
        Event().wait(0.01)


POINTS = {
    # where it is killed, whether the model must be asked after the restart, and whether anything is left to do
    "accepted": (1, 1),
    "generating": (1, 1),
    "saved": (0, 1),
    "committing": (0, 1),
    "committed": (0, 0),
}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_D34_a_worker_killed_at_any_point_of_a_passage_loses_and_doubles_nothing(
    tmp_path: Path, point: str, round_: int
) -> None:
    asked, left = POINTS[point]
    with child("passage", tmp_path / "store", point) as process:
        request_id = process.line()
        assert process.line() == point
        process.kill()
    extractor = Counted()
    with MemoryService(tmp_path / "store", FixedEmbedder(), extractor=extractor, clock=FixedClock()) as memory:
        state = "committed" if point == "committed" else ("accepted" if point == "accepted" else "running")
        assert memory.extraction_status(request_id).state == state
        # an acceptance is durable: the caller's retry is the same job
        assert memory.accept_extraction(PASSAGE, {"k": 1}, None, "once").reused
        # the lease of the dead has not run out (the clock stands still), and its job is taken up all the same
        assert memory.work() == left
        snapshot = memory.extraction_status(request_id)
        assert (snapshot.state, snapshot.ids) == ("committed", [fact_id(fact.text) for fact in FOUND.facts])
        assert len(extractor.read) == asked
        assert everything(memory) == undisturbed(tmp_path / "other", "passage")
        assert memory.work() == 0
        assert_sound(memory)


@pytest.mark.parametrize("point", ["accepted", "generating", "committing", "committed"])
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_D34_a_worker_killed_at_any_point_of_an_enrichment_loses_and_doubles_nothing(
    tmp_path: Path, point: str, round_: int
) -> None:
    with child("fact", tmp_path / "store", point) as process:
        assert process.line() == str(fact_id(PASSAGE))
        assert process.line() == point
        process.kill()
    extractor = Counted()
    with MemoryService(
        tmp_path / "store", FixedEmbedder(), extractor=extractor, autograph=True, clock=FixedClock()
    ) as memory:
        left = int(point != "committed")
        assert memory.memory_status().pending.autograph == left
        assert memory.work() == left == len(extractor.read)
        assert everything(memory) == undisturbed(tmp_path / "other", "fact")
        assert memory.memory_status().pending.autograph == memory.memory_status().extraction.autograph_failed == 0
        assert_sound(memory)


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_D34_a_worker_killed_while_a_real_model_writes_asks_again(tmp_path: Path, round_: int) -> None:
    with ModelServer() as server:
        server.script({"fault": "hang"}, {"text": json.dumps(REPLY)})
        with child("passage", tmp_path / "store", "model", server.url) as process:
            request_id = process.line()
            wait_for(lambda: len(server.seen()) == 1)
            process.kill()
        with MemoryService(
            tmp_path / "store", FixedEmbedder(), extractor=OllamaExtractor("m", server.url), clock=FixedClock()
        ) as memory:
            assert memory.work() == 1
            assert memory.extraction_status(request_id).state == "committed"
            assert everything(memory) == undisturbed(tmp_path / "other", "passage")
        assert len(server.seen()) == 2


def test_D34_killed_again_and_again_a_job_still_ends(tmp_path: Path) -> None:
    """Once at each point in turn, on one store."""
    for point in ("accepted", "generating", "saved", "committing"):
        with child("passage", tmp_path / "store", point) as process:
            process.line()
            assert process.line() == point
            process.kill()
    with MemoryService(tmp_path / "store", FixedEmbedder(), extractor=Counted(), clock=FixedClock()) as memory:
        assert memory.work() == 1
        assert everything(memory) == undisturbed(tmp_path / "other", "passage")


def test_D34_two_processes_run_every_job_once(tmp_path: Path) -> None:
    with ModelServer() as server:
        replies = [
            {"text": json.dumps({"facts": [{"fact": f"This is fact {index}.", "entities": ["fact", f"n{index}"]}]})}
            for index in range(JOBS)
        ]
        server.script(*replies)
        extractor = OllamaExtractor("m", server.url)
        with (
            MemoryService(tmp_path, FixedEmbedder(), extractor=extractor, clock=FixedClock()) as memory,
            child("queue", tmp_path, "", server.url) as one,
            child("queue", tmp_path, "", server.url) as other,
        ):
            receipts = [memory.accept_extraction(f"passage {index}") for index in range(JOBS)]
            for process in (one, other):
                assert process.line() == "ready"
            for process in (one, other):
                process.go_on()
            done = [int(process.line()) for process in (one, other)]
            assert sum(done) == JOBS and min(done) > 0
            assert len(server.seen()) == JOBS
            # each of another passage
            assert len({request["body"]["prompt"] for request in server.seen()}) == JOBS
            snapshots = [memory.extraction_status(receipt.request_id) for receipt in receipts]
            assert {snapshot.state for snapshot in snapshots} == {"committed"}
            stored = [number for snapshot in snapshots for number in snapshot.ids]
            assert sorted(stored) == sorted(fact_id(f"This is fact {index}.") for index in range(JOBS))
            assert memory.memory_status().memory.facts == JOBS
            assert memory.memory_status().memory.edges == 4 * JOBS
            assert_sound(memory)
            one.close()
            other.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
