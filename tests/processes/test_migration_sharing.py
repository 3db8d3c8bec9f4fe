"""A migration while four processes read and write (D27, D52, D53)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from processes.crew import PATIENCE, SECONDS, environment, number
from processes.user import SWITCHED
from processes.worker import fact
from support.migrations import Targets, assert_vectors, fill, target
from support.pipes import follow
from support.stores import assert_sound, listed
from velesdb_memory import MemoryService
from velesdb_memory.testing import FixedEmbedder

USER = Path(__file__).with_name("user.py")
# The full show: SHOW_MOVED=20000
MOVED = number("SHOW_MOVED", 300)

pytestmark = pytest.mark.timeout(SECONDS if MOVED < 1_000 else 3_600)


class User:
    def __init__(self, store: Path, name: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, str(USER), str(store), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
        )  # fmt: skip
        self._lines, self._reader = follow(self.process.stdout)
        self.acknowledged: list[int] = []

    def line(self) -> bytes:
        return self._lines.get(timeout=PATIENCE)

    def read(self) -> str:
        """The next line: an acknowledgement, or that it was refused and has opened the store again."""
        line = self.line().decode().strip()
        assert line, f"{self.name} has died"
        if line != SWITCHED:
            self.acknowledged.append(int(line))
        return line

    def end(self) -> dict[str, int]:
        """What it did; every line of it is read."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        last = b""
        while line := self.line():
            if last:
                self.acknowledged.append(int(last))
            last = line
        assert self.process.wait(PATIENCE) == 0
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return json.loads(last)


def test_four_processes_read_and_write_across_the_switch_and_nothing_is_missing_or_stale(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with MemoryService(store, FixedEmbedder(), targets=Targets()) as memory:
        fill(memory, MOVED)
        users = [User(store, f"user{index}x") for index in range(4)]
        for user in users:
            for _ in range(3):
                user.read()
        status = memory.migrate("target", 5_000, fact_batch=16, replay_batch=16, verification_reserve_ms=0)
        assert status.job is not None and status.job.phase == "committed", status
        progress = status.job.progress
        assert progress.measured_cutover_ms is not None and progress.measured_cutover_ms <= 5_000
        # each of them goes on after the switch
        for user in users:
            while user.read() != SWITCHED:
                pass
            for _ in range(3):
                user.read()
        done = [user.end() for user in users]
        assert [report["switched"] for report in done] == [1, 1, 1, 1]
        contents = {row.content for row in listed(memory, limit=1_000)}
        for user in users:
            kept = {fact(user.name, index) for index in user.acknowledged if index % 5 != 4}
            assert kept <= contents, f"lost: {sorted(kept - contents)[:3]}"
            assert not {fact(user.name, index) for index in user.acknowledged if index % 5 == 4} & contents
        assert progress.input_watermark >= progress.output_watermark
        assert_vectors(store, target())
        assert_sound(memory)
