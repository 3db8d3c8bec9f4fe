"""What tests of the library share: ways to look at a whole store, and to build one quickly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from velesdb_memory import MemoryService
from velesdb_memory.embed.base import Embedder
from velesdb_memory.memory import wiring
from velesdb_memory.store.sqlite import SqliteStore
from velesdb_memory.testing import FixedClock, FixedEmbedder


@contextmanager
def scratch(embedder: Embedder | None = None, clock: FixedClock | None = None) -> Iterator[MemoryService]:
    """A service over a store that is thrown away, without waiting for the disk: for tests that open many."""
    with TemporaryDirectory() as folder, MemoryService.with_store(
        SqliteStore(folder, synchronous="normal"), embedder or FixedEmbedder(), clock=clock or FixedClock()
    ) as memory:
        yield memory


def everything(memory: MemoryService) -> list[dict[str, Any]]:
    """All that a store tells about itself, to compare before and after."""
    return list(memory.export(include_internal=True))


def contents(hits: list[Any]) -> list[str]:
    return [hit.content for hit in hits]


def pages(memory: MemoryService, **arguments: Any) -> Iterator[list[Any]]:
    """The pages of a walk through list_memories."""
    cursor = None
    while True:
        page = memory.list_memories(cursor, **arguments)
        yield page.memories
        cursor = page.next_cursor
        if cursor is None:
            return


def listed(memory: MemoryService, **arguments: Any) -> list[Any]:
    return [entry for page in pages(memory, **arguments) for entry in page]


def assert_sound(memory: MemoryService) -> None:
    """Everything derived agrees with what it is derived from."""
    unsound = [finding for finding in memory.check() if not finding.sound]
    assert not unsound, unsound


def lines_of(records: Any) -> list[str]:
    """An export as the lines of its file."""
    return [json.dumps(record, ensure_ascii=False) for record in records]


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a folder with what is in them."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def code_files(folder: Path) -> list[Path]:
    """The derived files of a store."""
    found = sorted(path for pattern in ("codes-*.i8", "scales-*.f4", "slots-*.u4") for path in folder.glob(pattern))
    assert found
    return found


def learn(
    memory: MemoryService,
    fact: str,
    topics: Sequence[str] = (),
    relations: Sequence[tuple[str, str, str]] = (),
    attributes: Sequence[tuple[str, str, Any]] = (),
) -> int:
    """Remember ``fact`` with what an extractor found in it, in the way that extraction stores it."""
    number = memory.remember(fact)
    store = memory._core.store
    with store.transaction(memory._core.clock.now()) as tx:
        wiring.wire_topics(tx, number, topics, number)
        for subject, predicate, target in relations:
            wiring.wire_relation(tx, subject, predicate, target, number)
        for entity, key, value in attributes:
            wiring.teach(tx, entity, key, value, number)
    return number
