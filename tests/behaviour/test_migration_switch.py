"""The switch itself: one transaction, within its budget, whatever happens around it (D52 to D54)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from support.migrations import (
    PAUSE,
    HookedStore,
    Targets,
    assert_nothing_is_left,
    assert_vectors,
    fill,
    job,
    target,
    text_of,
)
from support.stores import assert_sound, contents
from velesdb_memory import MemoryService
from velesdb_memory.errors import MigrationRefused, ProvenanceMismatch, UnknownMemory
from velesdb_memory.migrate.target import WITNESS, Costs
from velesdb_memory.testing import FixedClock, FixedEmbedder


@pytest.fixture
def hooked(folder: Path) -> Iterator[Callable[..., MemoryService]]:
    """Opens the test's store with something to do ahead of each transaction of a phase."""
    opened: list[MemoryService] = []

    def open_one(before: Callable[[str], None], targets: Targets | None = None) -> MemoryService:
        memory = MemoryService.with_store(
            HookedStore(folder, before), FixedEmbedder(), clock=FixedClock(), targets=targets or Targets()
        )
        opened.append(memory)
        return memory

    yield open_one
    for memory in opened:
        memory.close()


class Ahead:
    """Does its actions one by one, each ahead of the next transaction in ``phase``."""

    def __init__(self, phase: str, *actions: Callable[[], Any]) -> None:
        self._phase = phase
        self.actions = list(actions)
        self.seen: list[str] = []

    def __call__(self, phase: str) -> None:
        self.seen.append(phase)
        if phase == self._phase and self.actions:
            self.actions.pop(0)()


def test_what_is_written_a_moment_before_the_switch_is_carried_over_in_it(
    hooked: Callable[..., MemoryService], folder: Path
) -> None:
    ahead = Ahead("quiescing")
    memory = hooked(ahead)
    numbers = fill(memory, 10)

    def write() -> None:
        assert job(memory).phase == "quiescing"
        fill(memory, 3, first=40)
        memory.forget(numbers[1])
        memory.relate(numbers[2], numbers[3], "late")

    ahead.actions.append(write)
    memory.migrate("target", PAUSE, verification_reserve_ms=0)
    assert ahead.actions == [] and job(memory).phase == "committed"
    # in the switch itself: it was not rolled back to do it
    assert ahead.seen.count("quiescing") == 1
    assert_vectors(folder, target())
    assert contents(memory.recall(text_of(42), 1)) == [text_of(42)]
    assert_sound(memory)


def test_from_quiescing_on_the_migration_can_neither_be_cancelled_nor_recovered(
    hooked: Callable[..., MemoryService], folder: Path
) -> None:
    ahead = Ahead("quiescing")
    memory = hooked(ahead)
    fill(memory, 5)

    def interfere() -> None:
        with pytest.raises(MigrationRefused, match="under way"):
            memory.migration_cancel()
        with pytest.raises(MigrationRefused, match="is running"):
            memory.migration_recover()

    ahead.actions.append(interfere)
    memory.migrate("target", PAUSE, verification_reserve_ms=0)
    assert ahead.actions == [] and job(memory).phase == "committed"


class Slow(FixedEmbedder):
    """Does not answer about ``text`` the first time, until it is let go."""

    def __init__(self, text: str) -> None:
        super().__init__(model="target", dimension=24)
        self.text = text
        self.let_go = threading.Event()
        self.waited = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.text in texts and not self.waited:
            self.waited += 1
            self.let_go.wait(60)
        return super().embed(texts)


def test_a_model_that_does_not_answer_in_time_costs_no_more_than_the_budget(
    hooked: Callable[..., MemoryService], folder: Path
) -> None:
    slow, ahead = Slow("the last fact before the switch"), Ahead("quiescing")
    memory = hooked(ahead, Targets(target=lambda: slow))
    fill(memory, 5)
    ahead.actions.append(lambda: memory.remember(slow.text))
    try:
        memory.migrate("target", 300, verification_reserve_ms=0)
        done = job(memory)
        # rolled back, carried over at leisure, and switched
        assert slow.waited == 1 and done.phase == "committed"
        assert done.progress.measured_cutover_ms is not None and done.progress.measured_cutover_ms <= 300
        assert_vectors(folder, target())
    finally:
        slow.let_go.set()


def test_a_switch_that_is_too_slow_time_and_again_is_given_up(
    hooked: Callable[..., MemoryService], folder: Path
) -> None:
    let_go = threading.Event()

    class SlowInTheSwitch(FixedEmbedder):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if WITNESS in texts and len(texts) > 1:
                let_go.wait(60)
            return super().embed(texts)

    ahead = Ahead("quiescing")
    memory = hooked(ahead, Targets(target=lambda: SlowInTheSwitch(model="target", dimension=24)))
    fill(memory, 5)
    ahead.actions += [lambda: memory.remember("late one"), lambda: None, lambda: memory.remember("late two")]
    try:
        memory.migrate("target", 300, verification_reserve_ms=0, observation_window=2)
        stuck = job(memory)
        assert (stuck.phase, stuck.running) == ("non_converging", False)
        assert stuck.progress.estimated_pause_ms is not None and stuck.recovery_action is not None
        assert_vectors(folder, FixedEmbedder())
    finally:
        let_go.set()
    memory.migrate(None, PAUSE)
    assert_vectors(folder, target())


def test_an_estimate_counts_the_call_of_the_model_only_when_something_waits() -> None:
    costs = Costs()
    assert costs.estimate(0) == costs.estimate(10) == 0
    for name, value in (("switch", 3.0), ("call", 20.0), ("fact", 2.0)):
        costs.note(name, value)
    assert (costs.estimate(0), costs.estimate(1), costs.estimate(10)) == (3.0, 25.0, 43.0)
    costs.note("fact", 4.0)
    assert costs.estimate(1) == pytest.approx(3 + 20 + 2.6)


def test_a_switch_that_fails_changes_nothing_and_says_why(
    hooked: Callable[..., MemoryService], folder: Path
) -> None:
    class Failing(FixedEmbedder):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if "poison" in texts:
                raise RuntimeError("no vector for that")
            return super().embed(texts)

    ahead = Ahead("quiescing")
    memory = hooked(ahead, Targets(target=lambda: Failing(model="target", dimension=24)))
    fill(memory, 5)
    ahead.actions.append(lambda: memory.remember("poison"))
    with pytest.raises(Exception, match="no vector for that"):
        memory.migrate("target", PAUSE, verification_reserve_ms=0)
    stopped = job(memory)
    assert (stopped.phase, stopped.running) == ("catching_up", False)
    assert stopped.last_error is not None and "no vector for that" in stopped.last_error
    assert contents(memory.recall("poison", 1)) == ["poison"]
    memory.migration_cancel()
    assert_vectors(folder, FixedEmbedder())
    assert_nothing_is_left(folder)


class PowerCut(BaseException):
    """Ends the process as far as the store can tell."""


@pytest.mark.parametrize(("phase", "after"), [("quiescing", "catching_up"), ("activated", "committed")])
def test_a_switch_that_was_cut_off_is_settled_when_the_store_is_opened(folder: Path, phase: str, after: str) -> None:
    def cut(now: str) -> None:
        # the transactions that would have recorded it are cut off too
        if now == phase:
            raise PowerCut

    store = HookedStore(folder, cut)
    memory = MemoryService.with_store(store, FixedEmbedder(), clock=FixedClock(), targets=Targets())
    fill(memory, 8)
    with pytest.raises(PowerCut):
        memory.migrate("target", PAUSE, verification_reserve_ms=0)
    # whoever looks now sees that nobody can interfere as long as the worker may still live
    with MemoryService(folder, FixedEmbedder(), clock=FixedClock(), targets=Targets()) as early:
        assert (job(early).phase, job(early).running) == (phase, True)
    store.close()
    late = FixedClock()
    late.advance(3_600)
    embedder = FixedEmbedder() if after == "catching_up" else target()
    with MemoryService(folder, embedder, clock=late, targets=Targets()) as again:
        settled = job(again)
        assert (settled.phase, settled.running) == (after, False)
        assert contents(again.recall(text_of(3), 1)) == [text_of(3)]
        assert_vectors(folder, embedder)
        if after == "catching_up":
            again.remember("still captured")
            again.migrate(None)
            assert_vectors(folder, target())
        else:
            assert_nothing_is_left(folder, spaces=2)


def test_a_worker_whose_migration_was_taken_over_stops_without_a_word(
    hooked: Callable[..., MemoryService], folder: Path
) -> None:
    other: list[MemoryService] = []

    def take_over() -> None:
        # as another process would once this one has not been heard of for a minute
        late = FixedClock()
        late.advance(3_600)
        other.append(MemoryService(folder, FixedEmbedder(), clock=late, targets=Targets()))
        other[0].migrate(None)

    ahead = Ahead("capturing", take_over)
    memory = hooked(ahead)
    fill(memory, 5)
    memory.migrate("target", PAUSE, verification_reserve_ms=0)
    with other[0]:
        assert job(other[0]).phase == "committed"
    assert_vectors(folder, target())
    # the switch was not this one's
    with pytest.raises(ProvenanceMismatch, match="target"):
        memory.recall("crate")


# -- every interleaving -----------------------------------------------------------------------------------------------

NUMBER = st.integers(0, 11)
KINDS = ("remember", "short-lived", "forget", "relate", "unrelate", "wait")
OPERATION = st.tuples(st.sampled_from(KINDS), NUMBER, NUMBER)


def apply(memory: MemoryService, clock: FixedClock, operation: tuple[str, int, int], ids: dict[int, int]) -> None:
    what, one, two = operation
    if what in ("remember", "short-lived"):
        ids[one] = memory.remember(text_of(one), ttl_seconds=5 if what == "short-lived" else None)
    elif what == "forget" and one in ids:
        memory.forget(ids[one])
    elif what in ("relate", "unrelate") and one != two and one in ids and two in ids:
        # one end may be gone
        with suppress(UnknownMemory):
            getattr(memory, what)(ids[one], ids[two], "to")
    elif what == "wait":
        clock.advance(two)


@settings(max_examples=30, deadline=None)
@given(
    before=st.lists(OPERATION, max_size=15),
    batches=st.lists(st.lists(OPERATION, max_size=4), max_size=25),
    limits=st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
)
def test_D53_after_any_interleaving_every_live_fact_has_the_vector_of_a_fresh_embedding(
    before: list[tuple[str, int, int]], batches: list[list[tuple[str, int, int]]], limits: tuple[int, int, int]
) -> None:
    clock, ids, left = FixedClock(), {}, iter(batches)
    with TemporaryDirectory() as name:
        folder = Path(name)

        def interleave(_: str) -> None:
            for operation in next(left, []):
                apply(memory, clock, operation, ids)

        memory = MemoryService(folder, FixedEmbedder(), clock=clock)
        for operation in before:
            apply(memory, clock, operation, ids)
        memory.close()
        facts, replayed, edges = limits
        memory = MemoryService.with_store(
            HookedStore(folder, interleave), FixedEmbedder(), clock=clock, targets=Targets()
        )
        with memory:
            memory.migrate(
                "target", 10_000, fact_batch=facts, replay_batch=replayed, edge_cap=edges, verification_reserve_ms=0
            )
            assert job(memory).phase == "committed"
            assert_vectors(folder, target())
            assert_sound(memory)
