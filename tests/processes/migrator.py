"""A process that migrates a store, and is killed at the point it was told.

Run as ``python migrator.py STORE WHAT POINT``. WHAT is ``start``, ``recover`` or ``cancel``; POINT is ``NUMBER:WHERE``,
the number of a transaction of the store and one of ``before``, ``inside`` and ``after`` it, or ``-`` for none. The
number of transactions is written at the end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.migrations import QUICK, Targets, text_of
from velesdb_memory import MemoryService
from velesdb_memory.clock import SystemClock
from velesdb_memory.store.base import StoreTransaction
from velesdb_memory.store.sqlite import SqliteStore
from velesdb_memory.testing import FixedEmbedder


class KillingStore(SqliteStore):
    """Ends its process at one point of one of its transactions."""

    def __init__(self, folder: str, point: str) -> None:
        super().__init__(folder)
        self.number = 0
        self._point = point

    def _reach(self, where: str) -> None:
        if self._point == f"{self.number}:{where}":
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def transaction(self, now: int) -> Generator[StoreTransaction]:
        self.number += 1
        self._reach("before")
        with super().transaction(now) as tx:
            yield tx
            self._reach("inside")
        self._reach("after")


def main() -> None:
    folder, what, point = sys.argv[1:]
    store = KillingStore(folder, point)
    memory = MemoryService.with_store(store, FixedEmbedder(), clock=SystemClock(), targets=Targets())
    if what == "cancel":
        memory.migration_cancel()
    else:
        written = [1_000]

        def write(_: object) -> None:
            # one write a batch, so that there is always something to carry over
            if written[0] < 1_020 and memory.recall_fused("crate", k=1).warnings == []:
                memory.remember(text_of(written[0]))
                written[0] += 1

        memory.migrate(
            "target" if what == "start" else None, 10_000, progress=write, **(QUICK if what == "start" else {})
        )
    print(store.number, flush=True)
    memory.close()


if __name__ == "__main__":
    main()
