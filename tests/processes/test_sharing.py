"""Several processes on one store (D27; C16, C47)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from processes.crew import FACTS, SECONDS, Worker, crew
from processes.worker import fact
from velesdb_memory import MemoryService
from wire.client import Server

pytestmark = pytest.mark.timeout(SECONDS)


def unsound(memory: MemoryService) -> list[str]:
    return [f"{finding.subject}: {finding.detail}" for finding in memory.check() if not finding.sound]


def test_d27_eight_processes_write_while_two_read_and_nothing_is_lost(tmp_path: Path) -> None:
    store = tmp_path / "store"
    names = [f"writer{index}" for index in range(8)]
    with crew(10, store) as workers:
        writers, readers = workers[:8], workers[8:]
        for reader in readers:
            reader.order("read", names=names, limit=FACTS)
        for writer, name in zip(writers, names, strict=True):
            writer.order("write", name=name, number=FACTS)
        assert [writer.result() for writer in writers] == [FACTS] * 8
        for reader in readers:
            reader.order("stop")
        assert all(reader.result()["rounds"] > 0 for reader in readers)
        # each process sees everything, whoever wrote it
        assert [worker("facts") for worker in workers] == [8 * FACTS] * 10
    with MemoryService(store) as memory:
        for name in names:
            for index in range(FACTS):
                [found] = memory.recall(fact(name, index), k=1)
                assert found.content == fact(name, index)
        assert unsound(memory) == []


def test_d27_an_acknowledged_write_is_seen_by_the_next_call_of_another_process(tmp_path: Path) -> None:
    with crew(2, tmp_path / "store") as workers:
        for index in range(40):
            writer, reader = workers[index % 2], workers[(index + 1) % 2]
            number = writer("remember", text=fact("told", index), by="told")
            assert reader("recall", query=fact("told", index), k=1)[0]["content"] == fact("told", index)
            assert reader("facts") == 1
            assert reader("forget", id=number) is True
            assert writer("recall", query=fact("told", index)) == []
            assert writer("forget", id=number) is False


def test_d27_a_library_process_and_an_mcp_server_share_one_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with MemoryService(store) as library, Server(store) as server:
        server.initialize()
        for index in range(10):
            served = server.call("remember", fact=fact("served", index), metadata={"by": "server"})
            [found] = library.recall(fact("served", index), k=1, filter={"by": "server"})
            assert (str(found.id), found.content) == (served["id_str"], fact("served", index))
            own = library.remember(fact("own", index), metadata={"by": "library"})
            [hit] = server.call("recall", query=fact("own", index), k=1, filter={"by": "library"})["memories"]
            assert (hit["id_str"], hit["content"]) == (str(own), fact("own", index))
            server.call("relate", **{"from": served["id_str"], "to": str(own), "relation": "answers"})
            assert [node.id for node in library.why(fact("served", index)).nodes] == [int(served["id_str"]), own]
            assert library.forget(own) is True
            assert server.call("forget", id=str(own))["found"] is False
        assert server.call("memory_status")["memory"]["facts"] == library.memory_status().memory.facts == 10
        assert unsound(library) == []


def test_d27_processes_that_create_one_store_at_once_all_succeed(tmp_path: Path) -> None:
    with crew(4) as workers:
        for round in range(10):
            store = tmp_path / "deep" / f"store{round}"
            for worker in workers:
                worker.order("open", path=str(store))
            assert [worker.result() for worker in workers] == ["open"] * 4
            for index, worker in enumerate(workers):
                worker.order("write", name=f"creator{index}", number=2)
            assert [worker.result() for worker in workers] == [2] * 4
            assert [worker("facts") for worker in workers] == [8] * 4
            for worker in workers:
                for index in range(4):
                    [found] = worker("recall", query=fact(f"creator{index}", 1), k=1)
                    assert found["content"] == fact(f"creator{index}", 1)
            assert workers[round % 4]("check") == []


def test_c47_a_long_read_holds_nobody_up_and_sees_one_moment(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(5, store) as workers:
        reader, *writers = workers
        reader("write", name="early", number=20)
        assert reader("begin_export", lines=5)["facts"] == 20
        for index, writer in enumerate(writers):
            writer.order("write", name=f"late{index}", number=FACTS)
        assert [writer.result() for writer in writers] == [FACTS] * 4
        assert reader("end_export") == 15
        assert reader("facts") == 20 + 4 * FACTS
        assert reader("check") == []


def test_c16_parallel_changes_of_five_kinds_in_four_processes_are_applied_or_cleanly_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with MemoryService(store) as memory:
        shared = [str(memory.remember(fact("shared", index))) for index in range(11)]
        victims = [str(memory.remember(fact("victim", index))) for index in range(5)]
    with crew(4, store) as workers:
        for index, worker in enumerate(workers):
            worker.order("mutate", name=f"process{index}", shared=shared, victims=victims)
        results = [worker.result() for worker in workers]
    assert [len(set(result["remember"])) for result in results] == [20] * 4
    assert [(result["relate"], result["unrelate"]) for result in results] == [(20, 10)] * 4
    # of four processes that forget the same memory one finds it
    assert sum(result["forget"] for result in results) == len(victims)
    with MemoryService(store) as memory:
        assert unsound(memory) == []
        status = memory.memory_status().memory
        assert (status.facts, status.edges) == (11 + 4 * 20, 4 * 20)
        lines = {line["id_str"]: line for line in memory.export() if "content" in line}
        assert not set(victims) & set(lines)
        applied = sum(result["feedback"]["applied"] for result in results)
        assert sum(lines[number]["successes"] for number in shared) == applied == 80
        for index in range(4):
            for number in range(20):
                # feedback has lifted the shared facts above an exact match
                [found] = memory.recall(fact(f"process{index}", number), k=1, filter={"by": f"process{index}"})
                assert found.content == fact(f"process{index}", number)


@pytest.mark.parametrize("kind", ["deleted facts", "new facts"])
def test_d27_a_snapshot_answers_after_another_process_replaced_the_codes(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "store"
    with crew(2, store) as (reader, other):
        other("write", name="old", number=40)
        reader.order("hold_snapshot", query=fact("old", 7))
        assert reader.acknowledged() == "holding"
        if kind == "deleted facts":
            for index in range(20, 40):
                [found] = other("recall", query=fact("old", index), k=1)
                assert other("forget", id=found["id"]) is True
        else:
            other("write", name="new", number=10)
        damage(store)
        # noticed and repaired: another generation of files, the former one is removed
        other("check", repair=True)
        reader.order("go on")
        assert reader.result()[0] == fact("old", 7)


def damage(store: Path) -> None:
    """Overwrite the first code rows, as a broken disk would."""
    [codes] = store.glob("codes-*.i8")
    with codes.open("r+b") as file:
        file.write(b"\x55" * 384 * 8)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a file that is open")
def test_d29_code_files_deleted_under_open_processes_change_no_answer(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(2, store) as workers:
        for worker, name in zip(workers, ("first", "second"), strict=True):
            worker("write", name=name, number=10)
        for round in range(3):
            deleted = [path for pattern in ("codes-*", "scales-*", "slots-*") for path in store.glob(pattern)]
            assert len(deleted) == 3
            for path in deleted:
                path.unlink()
            writer = workers[round % 2]
            writer("remember", text=fact("third", round), by="third", index=round)
            for worker in workers:
                for name, index in (("first", 3), ("second", 9), ("third", round)):
                    assert worker("recall", query=fact(name, index), k=1)[0]["content"] == fact(name, index)
        for worker in workers:
            assert worker("facts") == 23
            assert worker("check") == []


def test_d29_codes_damaged_while_no_process_looks_are_rebuilt(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(1, store) as [writer]:
        writer("write", name="kept", number=12)
    damage(store)
    with crew(2, store) as workers:
        for worker in workers:
            for index in range(12):
                assert worker("recall", query=fact("kept", index), k=1)[0]["content"] == fact("kept", index)
        assert workers[0]("check") == []


def test_d27_a_worker_that_closes_leaves_the_others_their_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(2, store) as (stays, goes):
        for index in range(5):
            goes("open", path=str(store))
            goes("remember", text=fact("goes", index), by="goes", index=index)
            goes("close")
            assert stays("recall", query=fact("goes", index), k=1)[0]["content"] == fact("goes", index)
            stays("remember", text=fact("stays", index), by="stays", index=index)
        assert stays("facts") == 10
    # the last one out leaves no log behind
    assert not (store / "memory.db-wal").exists()
    with MemoryService(store) as memory:
        assert unsound(memory) == []


def test_d27_a_process_that_fails_an_operation_goes_on(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "store")
    try:
        with pytest.raises(AssertionError, match="EmptyFact"):
            worker("remember", text="   ")
        worker("remember", text="a fact")
        assert worker("facts") == 1
    finally:
        worker.close()
