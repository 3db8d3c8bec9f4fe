"""Every remembered fact enriched in the background (operations.md §2; D9, D19, D34)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.stores import assert_sound, everything, listed
from velesdb_memory import MemoryService
from velesdb_memory.errors import ExtractError, InvalidArgument
from velesdb_memory.extract.base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction
from velesdb_memory.ids import fact_id, hub_id
from velesdb_memory.limits import JOB_LEASE_SECONDS, MAX_PENDING_AUTOGRAPH
from velesdb_memory.memory import remember
from velesdb_memory.store.sqlite.transaction import SqliteTransaction
from velesdb_memory.testing import FixedClock, FixedEmbedder
from velesdb_memory.work import worker

Opener = Callable[..., MemoryService]
PATIENCE = 20.0  # seconds before a wait for a thread fails a test


class Names:
    """An extractor that takes each capitalised word for an entity, each "X knows Y" for a relation."""

    name = "names"

    def __init__(self, before: Callable[[str], Any] = lambda text: None) -> None:
        self.before = before
        self.read: list[str] = []

    def extract(self, text: str) -> Extraction:
        self.read.append(text)
        self.before(text)
        words = text.rstrip(".").split()
        known = [(words[at - 1], words[at + 1]) for at, word in enumerate(words) if word == "knows"]
        return Extraction(
            # a fact of the extractor's own making, which must not be stored
            [ExtractedFact(f"rephrased: {text}", [word for word in words if word[0].isupper()])],
            [ExtractedRelation(subject, "knows", target) for subject, target in known],
            [ExtractedAttribute(subject, "sociable", True) for subject, _ in known],
        )


@pytest.fixture
def service(folder: Path, clock: FixedClock) -> Iterator[Opener]:
    """Opens the test's store with autograph and an extractor of one's own."""
    opened: list[MemoryService] = []

    def open_one(extractor: Any = None, autograph: bool = True) -> MemoryService:
        opened.append(
            MemoryService(folder, FixedEmbedder(), extractor=extractor or Names(), autograph=autograph, clock=clock)
        )
        return opened[-1]

    yield open_one
    for memory in opened:
        memory.close()


def counters(memory: MemoryService) -> tuple[int, int, int]:
    """Waiting, failed, dropped."""
    status = memory.memory_status()
    return status.pending.autograph, status.extraction.autograph_failed, status.extraction.autograph_dropped


# -- what it adds ------------------------------------------------------------------------------------------------------


def test_a_remembered_fact_is_wired_to_what_it_names(service: Opener) -> None:
    memory = service()
    number = memory.remember("Ada knows Bob.", metadata={"k": 1})
    assert counters(memory) == (1, 0, 0) and not memory.entity("ada").found
    assert memory.work() == 1
    assert counters(memory) == (0, 0, 0)
    assert [edge.target for edge in memory.entity("ada").relations] == ["bob"]
    assert memory.entity("ada").attributes == {"sociable": True}
    hops = {node.content: node.hop for node in memory.why("Ada knows Bob.").nodes}
    assert hops == {"Ada knows Bob.": 0, "Entity: ada": 1, "Entity: bob": 1}
    # one memory, word for word, with its metadata
    [entry] = listed(memory)
    assert (entry.id, entry.content, entry.metadata) == (number, "Ada knows Bob.", {"_veles_date": 20231114, "k": 1})
    assert_sound(memory)


def test_two_facts_meet_at_the_entity_that_both_name(service: Opener) -> None:
    memory = service()
    memory.remember("Ada rows")
    memory.remember("quietly sings Ada")
    assert memory.work() == 2
    assert {node.content for node in memory.why("Ada rows").nodes} == {"Ada rows", "Entity: ada", "quietly sings Ada"}


def test_D9_forgetting_the_fact_takes_back_what_it_taught(service: Opener) -> None:
    memory = service()
    before = everything(memory)
    number = memory.remember("Ada knows Bob.")
    memory.work()
    memory.forget(number)
    assert everything(memory) == before


def test_D9_an_edge_that_was_taken_away_is_not_rebuilt_when_the_fact_is_remembered_again(service: Opener) -> None:
    memory = service()
    memory.remember("Ada knows Bob.")
    memory.work()
    memory.unrelate(hub_id("ada"), hub_id("bob"), "knows")
    memory.remember("Ada knows Bob.")
    assert memory.work() == 1
    assert memory.entity("ada").relations == []


def test_facts_of_a_passage_are_not_read_a_second_time(service: Opener) -> None:
    extractor = Names()
    memory = service(extractor)
    memory.remember_extracted("Ada rows")
    memory.accept_extraction("Bob naps")
    memory.work()
    assert extractor.read == ["Ada rows", "Bob naps"]
    assert counters(memory) == (0, 0, 0)


def test_it_is_off_unless_asked_for_and_needs_an_extractor(service: Opener, tmp_path: Path) -> None:
    memory = service(autograph=False)
    memory.remember("Ada rows")
    assert counters(memory) == (0, 0, 0) and memory.work() == 0
    assert memory.memory_status().extraction.autograph_active is False
    assert service().memory_status().extraction.autograph_active is True
    with pytest.raises(InvalidArgument) as caught:
        MemoryService(tmp_path / "other", FixedEmbedder(), autograph=True)
    assert caught.value.field == "autograph"


# -- what it never does to the caller ----------------------------------------------------------------------------------


def test_remember_waits_for_no_model(service: Opener) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def slow(text: str) -> None:
        reading.set()
        assert go_on.wait(PATIENCE)

    memory = service(Names(slow))
    memory.start_worker()
    memory.remember("Ada rows")
    assert reading.wait(PATIENCE)
    # the model is busy, and this comes back all the same
    number = memory.remember("Bob naps")
    assert memory.recall("Bob naps")[0].id == number
    assert counters(memory)[0] == 2
    go_on.set()


@pytest.mark.parametrize("error", [ExtractError("down"), ValueError("odd"), RuntimeError("worse")])
def test_an_extractor_that_raises_is_counted_once_and_the_fact_stays(service: Opener, error: Exception) -> None:
    def fail(text: str) -> None:
        if text.startswith("Ada"):
            raise error

    memory = service(Names(fail))
    number = memory.remember("Ada rows")
    memory.remember("Bob naps")
    assert memory.work() == 2
    assert counters(memory) == (0, 1, 0)
    assert memory.recall("Ada rows")[0].id == number
    assert memory.entity("bob").found and not memory.entity("ada").found
    # remembering it again is another try
    memory.remember("Ada rows")
    memory.work()
    assert counters(memory) == (0, 2, 0)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        Extraction([ExtractedFact("x", None)]),  # type: ignore[arg-type]
        Extraction([], [ExtractedRelation(None, "knows", "bob")]),  # type: ignore[arg-type]
        Extraction([ExtractedFact("x", ["bad\ud800"])]),
    ],
)
def test_D34_an_odd_answer_is_a_failure_and_not_the_end_of_the_worker(service: Opener, answer: Any) -> None:
    class Odd(Names):
        def extract(self, text: str) -> Any:
            return answer if text.startswith("Ada") else super().extract(text)

    memory = service(Odd())
    memory.remember("Ada rows")
    memory.remember("Bob naps")
    assert memory.work() == 2
    assert counters(memory)[0] == 0
    assert memory.entity("bob").found


def test_D34_wiring_that_fails_is_a_failure_and_not_tried_for_ever(
    service: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    from velesdb_memory.errors import IdCollision

    add_edge = SqliteTransaction.add_edge

    def colliding(self: SqliteTransaction, source: int, target: int, relation: str, **taught: Any) -> int:
        if relation == "knows":
            raise IdCollision("both hash to it")
        return add_edge(self, source, target, relation, **taught)

    monkeypatch.setattr(SqliteTransaction, "add_edge", colliding)
    memory = service()
    memory.remember("Ada knows Bob.")
    memory.remember("Cleo sails")
    assert memory.work() == 2
    assert counters(memory) == (0, 1, 0)
    assert memory.entity("cleo").found


# -- the queue ---------------------------------------------------------------------------------------------------------


def test_a_fact_that_is_forgotten_while_it_waits_is_never_read(service: Opener) -> None:
    extractor = Names()
    memory = service(extractor)
    memory.forget(memory.remember("Ada rows"))
    assert counters(memory) == (0, 0, 0)
    assert memory.work() == 0 and extractor.read == []


def test_a_fact_that_is_forgotten_while_it_is_read_gets_no_graph(service: Opener) -> None:
    memory = service(Names(lambda text: memory.forget(fact_id(text))))
    memory.remember("Ada knows Bob.")
    memory.work()
    assert listed(memory, include_internal=True) == []
    assert counters(memory) == (0, 0, 0)


def test_a_fact_that_expires_while_it_waits_is_discarded_and_counted_nowhere(
    service: Opener, clock: FixedClock
) -> None:
    extractor = Names()
    memory = service(extractor)
    memory.remember("Ada rows", ttl_seconds=5)
    clock.advance(5)
    assert memory.work() == 0 and extractor.read == []
    memory.remember("Bob naps")
    assert memory.work() == 1
    assert counters(memory) == (0, 0, 0)


def test_a_fact_that_expires_while_it_is_read_gets_no_graph(service: Opener, clock: FixedClock) -> None:
    memory = service(Names(lambda text: clock.advance(5)))
    memory.remember("Ada knows Bob.", ttl_seconds=5)
    memory.work()
    assert not memory.entity("ada").found and not memory.entity("bob").found


def test_facts_are_read_in_the_order_they_came_and_once_each(service: Opener) -> None:
    extractor = Names()
    memory = service(extractor)
    for text in ("Cleo sails", "Ada rows", "Bob naps", "Ada rows"):
        memory.remember(text)
    assert memory.work() == 3
    assert extractor.read == ["Cleo sails", "Ada rows", "Bob naps"]


def test_D34_what_the_bound_refuses_is_counted_and_remembered_all_the_same(
    service: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_PENDING_AUTOGRAPH == 10_000
    monkeypatch.setattr(remember, "MAX_PENDING_AUTOGRAPH", 2)
    memory = service()
    for text in ("Ada rows", "Bob naps", "Cleo sails", "Dora swims"):
        memory.remember(text)
    assert counters(memory) == (2, 0, 2)
    assert memory.memory_status().memory.facts == 4
    assert memory.work() == 2
    assert memory.entity("ada").found and not memory.entity("cleo").found
    memory.remember("Cleo sails")
    memory.work()
    assert counters(memory) == (0, 0, 2) and memory.entity("cleo").found


def test_D34_a_fact_that_waits_already_is_not_dropped(service: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter is of enrichments that will never run."""
    monkeypatch.setattr(remember, "MAX_PENDING_AUTOGRAPH", 1)
    memory = service()
    memory.remember("Ada rows")
    memory.remember("Ada rows")
    assert counters(memory) == (1, 0, 0)


def test_D34_the_queue_and_the_counters_survive_a_restart(service: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remember, "MAX_PENDING_AUTOGRAPH", 1)
    first = service()
    first.remember("Ada rows")
    first.remember("Bob naps")
    first.close()
    second = service()
    assert counters(second) == (1, 0, 1)
    assert second.work() == 1
    assert second.entity("ada").found


def test_D34_a_process_without_autograph_leaves_the_queue_alone(service: Opener) -> None:
    memory, other = service(), service(autograph=False)
    memory.remember("Ada rows")
    assert other.work() == 0
    assert counters(memory) == (1, 0, 0)


# -- leases ------------------------------------------------------------------------------------------------------------


def test_D34_a_fact_that_is_being_read_is_nobody_elses(service: Opener) -> None:
    other: list[int] = []
    second = service()
    first = service(Names(lambda text: other.append(second.work())))
    first.remember("Ada rows")
    assert first.work() == 1
    assert other == [0]


def test_D34_a_lease_that_ran_out_goes_to_another_and_the_first_adds_nothing(
    service: Opener, clock: FixedClock
) -> None:
    def slow(text: str) -> None:
        clock.advance(JOB_LEASE_SECONDS)
        second.work()

    second = service()
    first = service(Names(slow))
    first.remember("Ada knows Bob.")
    first.work()
    assert counters(first) == (0, 0, 0)
    assert len(first.entity("ada").relations) == 1


def test_D34_two_slow_models_do_not_take_the_same_fact_from_each_other(
    service: Opener, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may take 300 seconds and a lease is over after 60: it has to be renewed, as that of a passage is, or two
    processes hand the fact to and fro and neither ever finishes."""
    monkeypatch.setattr(worker, "JOB_LEASE_SECONDS", 0.03)
    written = threading.Event()
    taken: list[int] = []
    flush = SqliteTransaction.flush

    def noticed(self: SqliteTransaction) -> None:
        flush(self)
        written.set()

    def slow(text: str) -> None:
        clock.advance(1)
        # a renewal is a write: the one under way may still be of the second before, the one after it is not
        for _ in range(2):
            written.clear()
            written.wait(1)
        with memory._core.store.transaction(clock.now()) as tx:
            record = tx.claim_enrichment("another", JOB_LEASE_SECONDS)
            taken.extend([record.id] if record else [])

    memory = service(Names(slow))
    memory.remember("Ada rows")
    monkeypatch.setattr(SqliteTransaction, "flush", noticed)
    memory.work()
    assert taken == []
    assert memory.entity("ada").found
