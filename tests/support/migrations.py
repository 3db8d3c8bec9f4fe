"""What tests of migrations share: targets, a look at every vector, a store that says when a transaction begins."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from velesdb_memory import MemoryService, MigrationJob
from velesdb_memory.embed.base import Embedder, embed_checked
from velesdb_memory.store.base import StoreTransaction
from velesdb_memory.store.migrating import MigrationRecord
from velesdb_memory.store.sqlite import SqliteStore
from velesdb_memory.testing import FixedEmbedder

PAUSE = 2_000  # milliseconds: no test depends on how quick the machine is
QUICK: dict[str, int] = {"fact_batch": 4, "replay_batch": 4, "verification_reserve_ms": 0}
LIVE_PHASES = ("prepared", "capturing", "base_copied", "catching_up", "cutover_ready")


def target(model: str = "target", dimension: int = 24) -> FixedEmbedder:
    return FixedEmbedder(model=model, dimension=dimension)


class Targets:
    """The backends of a service, by name; each call makes a new embedder, as a restart would."""

    def __init__(self, **makers: Callable[[], Embedder]) -> None:
        self.makers = makers or {"target": target, "other": lambda: target("other", 16)}

    def __call__(self, backend: str) -> Embedder:
        from velesdb_memory.errors import InvalidArgument

        if backend not in self.makers:
            raise InvalidArgument(f"target_backend is {backend!r}", field="target_backend")
        return self.makers[backend]()


class HookedStore(SqliteStore):
    """Calls ``before`` with the phase of the migration ahead of each of its transactions, but not ahead of those that
    ``before`` itself makes."""

    def __init__(self, folder: Path, before: Callable[[str], None]) -> None:
        super().__init__(folder, synchronous="normal")
        self._before = before
        self._hooked = False

    @contextmanager
    def transaction(self, now: int) -> Generator[StoreTransaction]:
        if not self._hooked:
            self._hooked = True
            try:
                with self.view(now) as view:
                    record = view.migrating.job()
                self._before(record.phase if record else "none")
            finally:
                self._hooked = False
        with super().transaction(now) as tx:
            yield tx


def once_in(phase: str, action: Callable[[], Any]) -> Callable[[MigrationRecord], None]:
    """A progress function that does something at the first batch of a phase."""
    done: list[bool] = []

    def report(record: MigrationRecord) -> None:
        if record.phase == phase and not done:
            done.append(True)
            action()

    return report


def rows(folder: Path, statement: str, *values: object) -> list[Any]:
    connection = sqlite3.connect(folder / "memory.db")
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


def assert_vectors(folder: Path, embedder: Embedder) -> None:
    """The active space is the embedder's, and holds for every fact, and for nothing else, what it makes of the text."""
    [(space, model, dimension)] = rows(folder, "SELECT id, model, dimension FROM space WHERE state = 'active'")
    assert (model, dimension) == (embedder.fingerprint, embedder.dimension)
    stored = dict(
        rows(folder, "SELECT key - (?1 << 40), vector FROM embedding WHERE key >> 40 = ?1", space)
    )
    facts = dict(rows(folder, "SELECT slot, content FROM memory WHERE kind = 0"))
    assert stored.keys() == facts.keys()
    if facts:
        fresh = embed_checked(embedder, list(facts.values()))
        held = np.array([np.frombuffer(stored[slot], "<f4") for slot in facts])
        # a batch of another size may round the last bit otherwise
        assert np.allclose(held, fresh, atol=1e-6)


def assert_nothing_is_left(folder: Path, *, spaces: int = 1) -> None:
    """No vector, no captured change and no file but those of the spaces that are kept."""
    found = rows(folder, "SELECT id, codes FROM space")
    assert len(found) == spaces
    assert {key for (key,) in rows(folder, "SELECT DISTINCT key >> 40 FROM embedding")} <= {row[0] for row in found}
    assert rows(folder, "SELECT * FROM dirty") == []
    named = {f"{kind}-{codes}.{end}" for _, codes in found for kind, end in
             (("codes", "i8"), ("scales", "f4"), ("slots", "u4"))}  # fmt: skip
    assert {path.name for path in folder.iterdir() if path.suffix in (".i8", ".f4", ".u4")} <= named


def fill(memory: MemoryService, count: int, first: int = 0) -> list[int]:
    return [memory.remember(text_of(number), metadata={"n": number}) for number in range(first, first + count)]


def job(memory: MemoryService) -> MigrationJob:
    """The migration that the store remembers."""
    found = memory.migration_status().job
    assert found is not None
    return found


def text_of(number: int) -> str:
    return f"crate {number} left gate {number * 7919 % 101} of quay {number % 7}"
