"""Processes that are killed, machines that lost power, forks, parents that die (C14, C18, D25, D28, D29)."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from processes.crew import PATIENCE, ROUNDS, SECONDS, WRITES, Worker, crew, environment
from processes.worker import fact
from velesdb_memory import MemoryService
from velesdb_memory.ids import fact_id
from wire.client import Server

pytestmark = pytest.mark.timeout(SECONDS)
posix = pytest.mark.skipif(sys.platform == "win32", reason="fork and signals of POSIX")
LEAVING = 4.0  # seconds that a server may take to notice, on a busy machine


def unsound(memory: MemoryService) -> list[str]:
    return [f"{finding.subject}: {finding.detail}" for finding in memory.check() if not finding.sound]


def see_that_all_is_whole(memory: MemoryService, name: str, acknowledged: set[int], writes: int) -> None:
    """Every acknowledged fact is found with its exact text, and what else is there is whole."""
    stored = {row["index"] for row in rows(memory, name)}
    assert acknowledged <= stored, f"lost: {sorted(acknowledged - stored)}"
    # one more at most: written, and its acknowledgement cut off
    assert len(stored - acknowledged) <= 1
    assert stored == set(range(len(stored))) and len(stored) <= writes
    for index in sorted(stored):
        [found] = memory.recall(fact(name, index), k=1)
        assert (found.id, found.content) == (fact_id(fact(name, index)), fact(name, index))
    edges = [
        (int(line["edge"]["from_str"]), int(line["edge"]["to_str"])) for line in memory.export() if "edge" in line
    ]
    wanted = {(fact_id(fact(name, index)), fact_id(fact(name, index - 1))) for index in stored if index}
    assert wanted <= set(edges) and len(edges) == len(set(edges))


def rows(memory: MemoryService, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    cursor: str | None = None
    while True:
        page = memory.list_memories(cursor, 1_000, {"by": name})
        for row in page.memories:
            assert row.metadata is not None and row.metadata.keys() == {"by", "index", "_veles_date"}
            found.append(row.metadata)
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_c18_a_process_killed_while_it_writes_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    store = tmp_path / "store"
    chance = random.Random(42)
    with MemoryService(store) as witness:
        for round in range(ROUNDS):
            name = f"round{round}w"
            writer = Worker(store)
            writer.order("write", name=name, number=WRITES, link=True)
            acknowledged = {writer.acknowledged() for _ in range(chance.randrange(1, WRITES))}
            acknowledged |= set(writer.kill())
            # a process that had the store open all along, then one that opens it now
            see_that_all_is_whole(witness, name, acknowledged, WRITES)
            with MemoryService(store) as memory:
                see_that_all_is_whole(memory, name, acknowledged, WRITES)
                assert unsound(memory) == []


def test_c18_four_processes_killed_at_once_while_they_write_lose_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    chance = random.Random(43)
    for round in range(ROUNDS):
        names = [f"round{round}w{index}x" for index in range(4)]
        with crew(4, store) as workers:
            for worker, name in zip(workers, names, strict=True):
                worker.order("write", name=name, number=WRITES, link=True)
            acknowledged = [set[int]() for _ in workers]
            for _ in range(chance.randrange(1, WRITES)):
                for worker, done in zip(workers, acknowledged, strict=True):
                    done.add(worker.acknowledged())
            for worker in workers:
                worker.process.kill()
            for worker, done in zip(workers, acknowledged, strict=True):
                done |= set(worker.kill())
        with MemoryService(store) as memory:
            for name, done in zip(names, acknowledged, strict=True):
                see_that_all_is_whole(memory, name, done, WRITES)
            assert unsound(memory) == []


def test_c18_an_import_that_is_killed_leaves_whole_lines_and_can_be_run_again(tmp_path: Path) -> None:
    store, source = tmp_path / "store", tmp_path / "facts.jsonl"
    texts = [fact("imported", index) for index in range(2_000)]
    lines = [
        json.dumps({"id_str": str(fact_id(text)), "content": text, "metadata": {"by": "imported", "index": index}})
        for index, text in enumerate(texts)
    ]
    source.write_text("\n".join(lines), encoding="utf-8")
    chance = random.Random(44)
    acknowledged = 0
    for _ in range(min(ROUNDS, 3)):
        worker = Worker(store)
        worker.order("import", file=str(source))
        done = [worker.acknowledged() for _ in range(chance.randrange(1, 3))]
        acknowledged = max(acknowledged, *done, *worker.kill())
        with MemoryService(store) as memory:
            stored = {row.content for row in _all(memory)}
            # lines are taken in order, a batch at a time
            assert stored == set(texts[: len(stored)]) and len(stored) >= acknowledged
            assert unsound(memory) == []
    with MemoryService(store) as memory:
        with source.open(encoding="utf-8") as file:
            report = memory.import_(file)
        assert (report.facts + report.unchanged, report.problems) == (len(texts), [])
        assert report.unchanged >= acknowledged
        assert {row.content for row in _all(memory)} == set(texts)
        for text in texts[::97]:
            assert memory.recall(text, k=1)[0].content == text
        assert unsound(memory) == []


def _all(memory: MemoryService):
    cursor = None
    while True:
        page = memory.list_memories(cursor, 1_000)
        yield from page.memories
        cursor = page.next_cursor
        if cursor is None:
            return


# -- a machine that lost power --------------------------------------------------------------------------------------


def set_space(store: Path, assignment: str, *values: object) -> None:
    connection = sqlite3.connect(store / "memory.db")
    try:
        with connection:
            connection.execute(f"UPDATE space SET {assignment}", values)
    finally:
        connection.close()


def test_d29_codes_that_were_not_synced_before_the_machine_went_down_are_rebuilt(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(1, store) as [writer]:
        writer("write", name="kept", number=30)
    # the last rows never reached the disk
    set_space(store, "boot = ?, synced = 20", "another start of the machine")
    for pattern, width in (("codes-*", 384), ("scales-*", 4), ("slots-*", 4)):
        [path] = store.glob(pattern)
        with path.open("r+b") as file:
            file.seek(20 * width)
            file.write(bytes(10 * width))
    with crew(2, store) as workers:
        for index, worker in enumerate(workers):
            worker.order("write", name=f"new{index}", number=5)
        assert [worker.result() for worker in workers] == [5, 5]
        for worker in workers:
            for name, count in (("kept", 30), ("new0", 5), ("new1", 5)):
                for index in range(count):
                    assert worker("recall", query=fact(name, index), k=1)[0]["content"] == fact(name, index)
        assert workers[0]("check") == []


def test_d29_processes_that_rebuild_the_codes_at_once_all_answer(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(4, store) as workers:
        workers[0]("write", name="kept", number=30)
        for round in range(10):
            for worker in workers:
                worker("close")
            set_space(store, "boot = ?, synced = 0", f"start {round} of the machine")
            for worker in workers:
                worker("open", path=str(store))
            for index, worker in enumerate(workers):
                if index % 2:
                    worker.order("recall", query=fact("kept", index), k=1)
                else:
                    worker.order("write", name=f"new{round}x{index}y", number=2)
            for worker in workers:
                worker.result()
            for index, worker in enumerate(workers):
                assert worker("recall", query=fact("kept", index), k=1)[0]["content"] == fact("kept", index)
        assert workers[0]("facts") == 30 + 10 * 2 * 2
        assert workers[0]("check") == []


def test_d29_codes_that_were_synced_survive_a_start_of_the_machine(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(1, store) as [writer]:
        writer("write", name="kept", number=10)
    set_space(store, "boot = ?", "another start of the machine")
    before = sorted(path.name for path in store.glob("codes-*"))
    with MemoryService(store) as memory:
        assert memory.recall(fact("kept", 9), k=1)[0].content == fact("kept", 9)
        memory.remember(fact("kept", 10))
        assert unsound(memory) == []
    assert sorted(path.name for path in store.glob("codes-*")) == before


def test_d29_a_start_of_the_machine_under_another_open_process_changes_no_answer(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with crew(1, store) as [early]:
        early("write", name="kept", number=10)
        set_space(store, "boot = ?, synced = 0", "another start of the machine")
        with MemoryService(store) as memory:
            assert memory.recall(fact("kept", 9), k=1)[0].content == fact("kept", 9)
            for index in range(10, 15):
                early("remember", text=fact("kept", index))
                assert memory.recall(fact("kept", index), k=1)[0].content == fact("kept", index)
            assert early("recall", query=fact("kept", 3), k=1)[0]["content"] == fact("kept", 3)
            assert unsound(memory) == []


# -- forks ----------------------------------------------------------------------------------------------------------

FORKS = """
import os, sys, threading, traceback, warnings
from velesdb_memory import MemoryService

warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: just what is tried
memory = MemoryService(sys.argv[1])
busy, forks, leave = sys.argv[2] == "busy", int(sys.argv[3]), sys.argv[4]
memory.remember("written before the forks")
written, stop = [], threading.Event()


def write():
    while not stop.is_set():
        written.append(memory.remember(f"thread wrote {len(written)}"))


thread = threading.Thread(target=write, daemon=True)
if busy:
    thread.start()
for number in range(forks):
    child = os.fork()
    if not child:
        code = 1
        try:
            memory.remember(f"child wrote {number}")
            assert memory.recall("written before the forks", k=1)[0].content == "written before the forks"
            assert memory.recall(f"child wrote {number}", k=1)[0].content == f"child wrote {number}"
            if leave == "close":
                memory.close()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            if leave == "exit":
                sys.exit(code)
            os._exit(code)
    memory.remember(f"parent wrote {number}")
    _, status = os.waitpid(child, 0)
    assert status == 0, f"child {number} ended with {status}"
    assert memory.recall(f"child wrote {number}", k=1)[0].content == f"child wrote {number}"
stop.set()
if busy:
    thread.join()
assert [f for f in memory.check() if not f.sound] == []
assert memory.memory_status().memory.facts == 1 + 2 * forks + len(written)
for number in range(len(written)):
    assert memory.recall(f"thread wrote {number}", k=1)[0].content == f"thread wrote {number}"
memory.close()
print("sound")
"""


@posix
@pytest.mark.parametrize("leave", ["leave", "close", "exit"])
def test_d27_a_forked_child_uses_the_service_safely(tmp_path: Path, leave: str) -> None:
    assert forks(tmp_path, "idle", leave, 5) == b"sound\n"


@posix
def test_d27_a_child_forked_while_a_thread_writes_uses_the_service_safely(tmp_path: Path) -> None:
    assert forks(tmp_path, "busy", "leave", 8) == b"sound\n"


def forks(tmp_path: Path, thread: str, leave: str, count: int) -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path / "store"), thread, str(count), leave],
        stdout=subprocess.PIPE, env=environment(), timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    return done.stdout


ORPHANS = """
import os, sys
from velesdb_memory import MemoryService

memory = MemoryService(sys.argv[1])
memory.remember("before the fork")
ready, told = os.pipe()
closed, tell = os.pipe()
child = os.fork()
if not child:
    code = 1
    try:
        os.close(tell)
        memory.remember("child wrote while its parent had the store open")
        os.write(told, b"1")
        os.read(closed, 1)
        memory.remember("child wrote after its parent had closed the store")
        code = 0
    finally:
        os._exit(code)
os.close(told)
assert os.read(ready, 1) == b"1"
memory.close()
os.write(tell, b"1")
assert os.waitpid(child, 0)[1] == 0
"""


@posix
def test_d28_a_forked_child_loses_nothing_when_its_parent_closes_the_store(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", ORPHANS, str(tmp_path)], env=environment(), timeout=PATIENCE, check=True
    )
    with MemoryService(tmp_path) as memory:
        assert {row.content for row in memory.list_memories().memories} == {
            "before the fork",
            "child wrote while its parent had the store open",
            "child wrote after its parent had closed the store",
        }
        assert unsound(memory) == []


# -- parents that die -----------------------------------------------------------------------------------------------

# A host that starts a server on the descriptors it was given, and tells its number
HOST = """
import subprocess, sys
server = subprocess.Popen([sys.executable, "-m", "velesdb_memory"])
print(server.pid, file=sys.stderr, flush=True)
server.wait()
"""


class Hosted(Server):
    """A server started by another process, which is what ``process`` is."""

    def __init__(self, store: Path) -> None:
        super().__init__(store, (sys.executable, "-c", HOST))

    def close(self) -> None:
        with suppress(OSError):
            self.end_input()
        super().close()


@posix
def test_c14_a_server_whose_host_is_killed_leaves_and_a_second_one_writes(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Hosted(store) as first:
        first.initialize()
        known = first.call("remember", fact=fact("first", 0))["id_str"]
        # its input and output stay open, because this process holds them: only the parent is gone
        started = monotonic()
        first.process.kill()
        # its output ends when it does
        assert first.rest() == []
        assert monotonic() - started < LEAVING
        with Server(store) as second:
            second.initialize()
            assert second.call("remember", fact=fact("second", 0))["id_str"] != known
            [hit] = second.call("recall", query=fact("first", 0), k=1)["memories"]
            assert hit["id_str"] == known
    with MemoryService(store) as memory:
        assert unsound(memory) == []


@posix
def test_c14_a_second_server_writes_while_the_first_is_being_orphaned(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Hosted(store) as first, Server(store) as second:
        first.initialize()
        second.initialize()
        ids = [
            first.request("tools/call", {"name": "remember", "arguments": {"fact": fact("first", index)}})
            for index in range(50)
        ]
        first.answer(ids[0])
        os.kill(first.process.pid, 9)
        for index in range(50):
            second.call("remember", fact=fact("second", index))
        first.rest()
        # what the orphan had answered is there; so is everything of the other
        assert second.call("recall", query=fact("first", 0), k=1)["memories"][0]["content"] == fact("first", 0)
        for index in range(50):
            [hit] = second.call("recall", query=fact("second", index), k=1)["memories"]
            assert hit["content"] == fact("second", index)
    with MemoryService(store) as memory:
        assert unsound(memory) == []
