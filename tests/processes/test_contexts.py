"""Originals, counts and working contexts of several processes, and of one that is killed (D6, D27, D49; C30, C47)."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes.crew import FACTS, ROUNDS, SECONDS, Worker, crew
from processes.worker import fact
from velesdb_memory import MemoryService
from velesdb_memory.store.base import Kind

pytestmark = pytest.mark.timeout(SECONDS)

COMPILES = max(FACTS // 3, 10)


def unsound(memory: MemoryService) -> list[str]:
    return [f"{finding.subject}: {finding.detail}" for finding in memory.check() if not finding.sound]


def stored(memory: MemoryService, kind: Kind) -> int:
    with memory._core.store.view(0) as view:
        return len(view.internals(kind))


def acknowledged(worker: Worker) -> list[tuple[int, str, int]]:
    """What a compiling worker acknowledged, until it is done."""
    found: list[tuple[int, str, int]] = []
    while (message := worker.message()) is not None and "ack" in message:
        found.append(tuple(message["ack"]))
    assert message is not None and "done" in message, message
    return found


def test_d49_c30_counts_of_eight_processes_are_exact_and_every_handle_leads_back(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(8, store) as workers:
        for index, worker in enumerate(workers):
            worker.order("compile", name=f"p{index}", number=COMPILES, project=f"shop {index % 2}", shared=5)
        told = [acknowledged(worker) for worker in workers]
        assert [len(each) for each in told] == [COMPILES] * 8
        for parity in range(2):
            tokens = sum(entry[2] for each in told[parity::2] for entry in each)
            for worker in workers[:2]:
                counted = worker("savings", project=f"shop {parity}")
                assert (counted["events"], counted["tokens_in"]) == (4 * COMPILES, tokens)
        assert workers[0]("savings")["events"] == 8 * COMPILES
        for index, each in enumerate(told):
            # any process gives back what any other kept
            texts = workers[index - 1]("retrieve", handles=[handle for _, handle, _ in each])
            assert texts == [fact(f"p{index}", number) for number in range(COMPILES)]
    with MemoryService(store) as memory:
        assert stored(memory, Kind.SOURCE) == 8 * COMPILES + 5
        assert stored(memory, Kind.EVENT) == 2
        assert unsound(memory) == []


def test_a_purge_beside_compilations_loses_nothing_that_was_not_purged(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(3, store) as workers:
        purger, *compilers = workers
        for index, worker in enumerate(compilers):
            worker.order("compile", name=f"p{index}", number=COMPILES, project="shop", shared=3)
        purger.order("purge", rounds=10)
        assert [len(acknowledged(worker)) for worker in compilers] == [COMPILES] * 2
        gone = purger.result()
        assert purger("savings")["events"] == 2 * COMPILES
    with MemoryService(store) as memory:
        # a shared text may have been kept and purged several times
        assert stored(memory, Kind.SOURCE) <= 2 * COMPILES + 3 <= stored(memory, Kind.SOURCE) + gone
        assert unsound(memory) == []


def test_c47_eight_processes_save_sessions_and_facts_while_one_holds_a_long_read(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(9, store) as workers:
        reader, *writers = workers
        reader("write", name="early", number=10)
        reader("begin_export", lines=3)
        for index, writer in enumerate(writers):
            writer.order("save", name=f"p{index}", number=FACTS // 2, project="shop", sessions=3)
        assert [writer.result() for writer in writers] == [FACTS // 2] * 8
        assert reader("end_export") == 7
        names = {f"p{index} {session}" for index in range(8) for session in range(3)}
        for worker in workers[:3]:
            listed = worker("sessions", project="shop")
            assert len(listed) == len(names) and set(listed) == names
        for index in range(8):
            for last in range(FACTS // 2 - 3, FACTS // 2):
                loaded = reader("load", project="shop", session=f"p{index} {last % 3}")
                assert loaded["working"]["goal"] == f"p{index} {last}"
                assert len(loaded["other_sessions"]) == len(names) - 1
        assert reader("facts") == 10 + 8 * (FACTS // 2)
        assert reader("check") == []


def test_saves_of_one_session_by_several_processes_keep_one_of_them_whole(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(4, store) as workers:
        for worker in workers:
            worker.order("save", name="same", number=20, project="shop", sessions=1)
        assert [worker.result() for worker in workers] == [20] * 4
        assert workers[0]("sessions", project="shop") == ["same 0"]
        goal = workers[0]("load", project="shop", session="same 0")["working"]
        assert goal["pending_actions"] == [fact("same", int(goal["goal"].split()[1]))]


def test_d6_a_kill_between_compilations_leaves_whole_ones(tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = 0
    for round_ in range(ROUNDS + 2):
        with crew(1, store) as (worker,):
            worker.order("compile", name=f"round{round_}", number=10_000, project="shop")
            told = [worker.acknowledged() for _ in range(5 + 7 * round_)]
            told += worker.kill()
        with MemoryService(store) as memory:
            for index, handle, _ in told:
                assert memory.retrieve_context_source(handle).content == fact(f"round{round_}", index)
            # one may have been stored and not acknowledged, but none without being counted or the other way round
            events = memory.context_savings("shop").events
            assert done + len(told) <= events <= done + len(told) + 1
            assert stored(memory, Kind.SOURCE) == events
            assert unsound(memory) == []
            done = events


def test_a_kill_between_saves_leaves_the_last_acknowledged_state_or_the_next(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for round_ in range(ROUNDS):
        with crew(1, store) as (worker,):
            worker.order("save", name=f"round{round_}", number=10_000, project="shop", sessions=1)
            last = [worker.acknowledged() for _ in range(5 + 5 * round_)][-1]
            last = max([last, *worker.kill()])
        with MemoryService(store) as memory:
            working = memory.load_working_context("shop", f"round{round_} 0").working
            assert working is not None and working.goal in (f"round{round_} {last}", f"round{round_} {last + 1}")
            assert working.pending_actions == [fact(f"round{round_}", int(working.goal.split()[1]))]
            assert len(memory.list_working_contexts("shop")) == round_ + 1
            assert unsound(memory) == []
