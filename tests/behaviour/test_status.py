"""memory_status (memory.md §9; D19)."""

from __future__ import annotations

from pathlib import Path

from conftest import Opener
from support.stores import learn
from velesdb_memory import MemoryService
from velesdb_memory.testing import FixedClock, FixedEmbedder


def counts(memory: MemoryService) -> tuple[int, int]:
    found = memory.memory_status().memory
    return found.facts, found.edges


def test_D19_facts_are_live_facts_of_the_callers_and_edges_live_edges(memory: MemoryService, clock: FixedClock) -> None:
    assert counts(memory) == (0, 0)
    a, b = memory.remember("a"), memory.remember("b", ttl_seconds=5)
    memory.relate(a, b, "x")
    memory.relate(b, a, "y")
    assert counts(memory) == (2, 2)
    learn(memory, "Theo plays", ["Theo"])
    assert counts(memory) == (3, 4)
    clock.advance(5)
    assert counts(memory) == (2, 2)
    memory.forget(a)
    assert counts(memory) == (1, 2)


def test_D19_an_edge_between_two_expired_facts_is_taken_off_once(memory: MemoryService, clock: FixedClock) -> None:
    a, b, c = memory.remember("a", ttl_seconds=5), memory.remember("b", ttl_seconds=5), memory.remember("c")
    for ends in ((a, b), (b, a), (a, c), (c, b)):
        memory.relate(*ends, "x")
    d = memory.remember("d")
    memory.relate(c, d, "x")
    clock.advance(5)
    assert counts(memory) == (2, 1)


def test_D19_it_tells_what_runs_and_what_filled_the_store(open_memory: Opener, folder: Path) -> None:
    open_memory(embedder=FixedEmbedder(model="one", dimension=8)).remember("x")
    status = open_memory(embedder=FixedEmbedder(model="two", dimension=9, semantic=False)).memory_status()
    assert (status.embedder.model, status.embedder.dimension, status.embedder.semantic) == ("two", 9, False)
    assert (status.provenance.recorded, status.provenance.model, status.provenance.dimension) == (True, "one", 8)
    assert (status.store.path, status.store.backend) == (str(folder.absolute()), "sqlite")
    assert status.store.bytes >= (folder / "memory.db").stat().st_size > 0


def test_D19_nothing_waits_in_a_library_that_extracts_nothing(memory: MemoryService) -> None:
    status = memory.memory_status()
    assert (status.pending.extraction, status.pending.autograph) == (0, 0)
    assert (status.extraction.configured, status.extraction.autograph_active) == (False, False)
    assert (status.extraction.autograph_dropped, status.extraction.autograph_failed) == (0, 0)
