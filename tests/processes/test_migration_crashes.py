"""A migration killed at any transaction: the store opens, serves one space, and nothing is left behind (D54)."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from processes.crew import PATIENCE, SECONDS, environment, number
from support.migrations import Targets, assert_nothing_is_left, assert_vectors, fill, rows, target, text_of
from support.stores import assert_sound
from velesdb_memory import MemoryService
from velesdb_memory.embed.base import Embedder
from velesdb_memory.errors import MigrationRefused
from velesdb_memory.testing import FixedEmbedder

MIGRATOR = Path(__file__).with_name("migrator.py")
# The full show: SHOW_KILLS=150, every point of every transaction and more
KILLS = number("SHOW_KILLS", 9)
FACTS = 6

pytestmark = [
    pytest.mark.timeout(SECONDS if KILLS < 20 else 3_600),
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]


def migrator(store: Path, what: str, point: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, str(MIGRATOR), str(store), what, point],
        stdout=subprocess.PIPE, env=environment(), timeout=PATIENCE, check=False,
    )  # fmt: skip


def transactions(store: Path, what: str) -> int:
    done = migrator(store, what, "-")
    assert done.returncode == 0
    return int(done.stdout)


def chosen(count: int) -> list[str]:
    """Points of death: all of them if so many are wanted, and again, else a fair sample with the switch's."""
    points = [f"{at}:{where}" for at in range(2, count + 1) for where in ("before", "inside", "after")]
    if len(points) <= KILLS:
        return points + random.Random(1).choices(points, k=KILLS - len(points))
    switch, rest = points[-12:], points[:-12]
    return [*random.Random(2).sample(switch, KILLS // 2), *random.Random(3).sample(rest, KILLS - KILLS // 2)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store to copy."""
    folder = tmp_path_factory.mktemp("filled") / "store"
    with MemoryService(folder, FixedEmbedder()) as memory:
        numbers = fill(memory, FACTS)
        memory.relate(numbers[0], numbers[1], "to")
    return folder


def open_as_found(store: Path) -> tuple[MemoryService, Embedder]:
    """The store as whoever serves its space opens it; there is exactly one."""
    [(model,)] = rows(store, "SELECT model FROM space WHERE state = 'active'")
    embedder = FixedEmbedder() if model == "fixed" else target()
    return MemoryService(store, embedder, targets=Targets()), embedder


def see_that_it_serves(memory: MemoryService, store: Path, embedder: Embedder) -> None:
    assert memory.recall(text_of(3), k=1)[0].content == text_of(3)
    memory.remember("written after the crash")
    assert memory.recall("written after the crash", k=1)[0].content == "written after the crash"
    assert_vectors(store, embedder)
    assert_sound(memory)


def test_D54_a_migration_killed_at_any_transaction_is_finished_or_cleaned_up(filled: Path, tmp_path: Path) -> None:
    whole = copytree(filled, tmp_path / "whole")
    points = chosen(transactions(whole, "start"))
    seen: set[str] = set()
    for round, point in enumerate(points):
        store = copytree(filled, tmp_path / f"store{round}")
        died = migrator(store, "start", point)
        assert died.returncode == -9, point
        memory, embedder = open_as_found(store)
        with memory:
            job = memory.migration_status().job
            see_that_it_serves(memory, store, embedder)
            if job is None:
                assert_nothing_is_left(store)
                continue
            seen.add(job.phase)
            assert not job.running and job.phase not in ("quiescing", "activated"), point
            assert (job.phase == "committed") == (embedder.fingerprint == "target"), point
            if job.phase == "committed":
                memory.drop_former_vectors()
            elif round % 2:
                assert job.recovery_action is not None
                memory.migrate(None, 10_000)
                memory.drop_former_vectors()
                embedder = target()
            else:
                memory.migration_cancel()
            assert_nothing_is_left(store)
            see_that_it_serves(memory, store, embedder)
            facts = memory.memory_status().memory.facts
            assert facts >= FACTS + 1
    assert {"capturing", "committed"} <= seen


@pytest.mark.parametrize("what", ["recover", "cancel"])
def test_D54_a_recovery_or_a_cancellation_that_is_killed_can_be_done_again(
    filled: Path, tmp_path: Path, what: str
) -> None:
    # a migration that died in the midst of its base copy
    begun = copytree(filled, tmp_path / "begun")
    assert migrator(begun, "start", "5:inside").returncode == -9
    count = transactions(copytree(begun, tmp_path / "whole"), what)
    points = [f"{at}:{where}" for at in range(1, count + 1) for where in ("before", "inside", "after")]
    if len(points) > KILLS:
        points = random.Random(4).sample(points, max(3, KILLS // 3))
    for round, point in enumerate(points):
        store = copytree(begun, tmp_path / f"{what}{round}")
        assert migrator(store, what, point).returncode == -9, point
        memory, embedder = open_as_found(store)
        with memory:
            see_that_it_serves(memory, store, embedder)
            job = memory.migration_status().job
            assert job is not None and not job.running
            if what == "cancel":
                memory.migration_cancel()
                with pytest.raises(MigrationRefused):
                    memory.migration_recover()
            elif job.phase != "committed":
                memory.migrate(None, 10_000)
                memory.drop_former_vectors()
                embedder = target()
            else:
                memory.drop_former_vectors()
            assert_nothing_is_left(store)
            see_that_it_serves(memory, store, embedder)
