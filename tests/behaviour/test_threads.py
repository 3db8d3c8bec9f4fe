"""One service shared between threads (D6, D27; C16)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import Opener
from support.stores import assert_sound, contents, listed
from velesdb_memory import Link, MemoryService
from velesdb_memory.errors import StorageError, UnknownMemory
from velesdb_memory.testing import FixedEmbedder


def together(calls: list[Callable[[], Any]], threads: int = 8) -> list[Any]:
    """All calls, as many at a time as there are threads; none starts before all threads are there."""
    ready = threading.Barrier(threads)
    with ThreadPoolExecutor(threads, initializer=ready.wait) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def test_D6_no_feedback_is_lost(memory: MemoryService) -> None:
    number = memory.remember("x")
    for _ in range(10):
        memory.feedback(number, False)
    together([lambda success=success: memory.feedback(number, success) for success in [True, False] * 20])
    (entry,) = listed(memory, include_internal=True)
    assert (entry.metadata["_veles_rl_success"], entry.metadata["_veles_rl_failure"]) == (20, 30)


def test_the_same_text_from_all_threads_is_one_memory(memory: MemoryService) -> None:
    assert len(set(together([lambda: memory.remember("same")] * 24))) == 1
    assert memory.memory_status().memory.facts == 1
    assert_sound(memory)


def test_C16_mutations_in_parallel_are_all_applied_or_cleanly_refused(memory: MemoryService) -> None:
    hub = memory.remember("middle")
    old = [memory.remember(f"old {n}") for n in range(20)]

    def link(number: int) -> bool:
        try:
            memory.relate(hub, number, "to")
        except UnknownMemory:
            return False
        return True

    calls: list[Callable[[], Any]] = []
    for n in range(20):
        calls.append(lambda n=n: memory.remember(f"new {n}", links=[Link(hub, "of")], metadata={"n": n}))
        calls.append(lambda n=n: link(old[n]))
        calls.append(lambda n=n: len(memory.recall("new", 5)))
        if n % 4 == 0:
            calls.append(lambda n=n: memory.forget(old[n]))
    together(calls)
    status = memory.memory_status().memory
    assert status.facts == 1 + 15 + 20
    assert status.edges == 20 + 15
    assert_sound(memory)


def test_D27_two_services_over_one_store_see_each_others_writes_at_once(open_memory: Opener) -> None:
    one, two = open_memory(), open_memory(embedder=FixedEmbedder())
    for n in range(10):
        writer, reader = (one, two) if n % 2 else (two, one)
        number = writer.remember(f"note {n}", metadata={"n": n})
        assert [hit.id for hit in reader.recall(f"note {n}", 1)] == [number]
        assert [hit.id for hit in reader.recall("note", filter={"n": n})] == [number]
    assert one.forget(number)
    assert number not in [hit.id for hit in two.recall("note")]
    assert_sound(two)


def test_D27_two_services_may_write_at_once(open_memory: Opener) -> None:
    services = [open_memory(embedder=FixedEmbedder()) for _ in range(3)]
    together([lambda n=n: services[n % 3].remember(f"note {n}") for n in range(45)], threads=3)
    assert len(listed(services[0])) == 45
    for service in services:
        assert len(service.recall("note", 100)) == 45
    assert_sound(services[0])


def test_a_service_that_another_thread_closed_says_so(memory: MemoryService) -> None:
    memory.remember("x")
    together([memory.close], threads=1)
    with pytest.raises(StorageError):
        memory.recall("x")


def test_D6_a_slow_embedder_does_not_hold_others_up(folder: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(FixedEmbedder):
        def embed(self, texts: Any) -> Any:
            if "slow" in texts:
                entered.set()
                assert leave.wait(30)
            return super().embed(texts)

    with MemoryService(folder, Slow()) as memory, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(memory.remember, "slow")
        assert entered.wait(30)
        memory.remember("quick")
        assert contents(memory.recall("quick")) == ["quick"]
        leave.set()
        slow.result()
        assert len(memory.recall("quick")) == 2


def test_an_export_is_of_one_moment(memory: MemoryService) -> None:
    for n in range(5):
        memory.remember(f"fact {n}")
    lines = memory.export()
    manifest = next(lines)
    together([lambda: memory.remember("meanwhile")], threads=1)
    assert manifest["facts"] == len(list(lines)) == 5
    assert memory.memory_status().memory.facts == 6
