"""Whole lives of a store: random sequences of operations against a plain model, and cases that cross operations
(D6, D7, D8, D9, D11, D19; C16, C22, C23, C38, C41, C42, C43)."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import sampled_from

from support.stores import assert_sound, everything, learn, lines_of, listed, scratch
from velesdb_memory import ColumnFilter, Link, MemoryService
from velesdb_memory.errors import SelfRelation, UnknownMemory
from velesdb_memory.ids import edge_id, fact_id
from velesdb_memory.testing import FixedClock, FixedEmbedder

TEXTS = [f"fact {name}" for name in ("one", "two", "three", "four", "five", "six")]
LABELS = ["to", "see"]
VALUES = st.sampled_from([None, 0, 1, 1.0, True, "1", 2**63])
TTLS = st.sampled_from([None, None, 0, 1, 5, 20])


class Life(RuleBasedStateMachine):
    """The store beside a dict of facts and a list of edges."""

    facts: dict[str, dict[str, Any]]
    edges: list[tuple[str, str, str]]

    def __init__(self) -> None:
        super().__init__()
        self.facts, self.edges = {}, []
        self.clock = FixedClock()
        self._scratch = scratch(FixedEmbedder(), self.clock)
        self.memory: MemoryService = self._scratch.__enter__()

    def teardown(self) -> None:
        try:
            assert_sound(self.memory)
        finally:
            self._scratch.__exit__(None, None, None)

    def drop(self, text: str) -> None:
        self.facts.pop(text, None)
        self.edges = [edge for edge in self.edges if text not in edge[:2]]

    @rule(
        text=sampled_from(TEXTS),
        value=VALUES,
        ttl=TTLS,
        far=sampled_from(TEXTS),
        label=sampled_from([None, *LABELS]),
    )
    def remember(self, text: str, value: Any, ttl: int | None, far: str, label: str | None) -> None:
        links = [] if label is None else [Link(fact_id(far), label)]
        try:
            assert self.memory.remember(text, links, {"k": value}, ttl) == fact_id(text)
        except UnknownMemory:
            assert links and far not in self.facts
            return
        except SelfRelation:
            assert links and far == text in self.facts
            return
        assert not links or (far in self.facts and far != text)
        former = self.facts.get(text, {"tallies": (0, 0)})
        ends = self.clock.now() + ttl if ttl else None
        self.facts[text] = {"k": value, "ends": ends, "tallies": former["tallies"]}
        if links and (text, far, label) not in self.edges:
            self.edges.append((text, far, str(label)))

    @rule(source=sampled_from(TEXTS), far=sampled_from(TEXTS), label=sampled_from(LABELS))
    def relate(self, source: str, far: str, label: str) -> None:
        try:
            number = self.memory.relate(fact_id(source), fact_id(far), label)
        except SelfRelation:
            assert source == far
        except UnknownMemory:
            assert source not in self.facts or far not in self.facts
        else:
            assert number == edge_id(fact_id(source), fact_id(far), label)
            if (source, far, label) not in self.edges:
                self.edges.append((source, far, label))

    @rule(source=sampled_from(TEXTS), far=sampled_from(TEXTS), label=sampled_from(LABELS))
    def unrelate(self, source: str, far: str, label: str) -> None:
        if source != far:
            answer = self.memory.unrelate(fact_id(source), fact_id(far), label)
            assert answer.found == ((source, far, label) in self.edges) == bool(answer.removed)
            self.edges = [edge for edge in self.edges if edge != (source, far, label)]

    @rule(text=sampled_from(TEXTS))
    def forget(self, text: str) -> None:
        assert self.memory.forget(fact_id(text)) == (text in self.facts)
        self.drop(text)

    @rule(text=sampled_from(TEXTS), success=st.booleans())
    def feedback(self, text: str, success: bool) -> None:
        try:
            confidence = self.memory.feedback(fact_id(text), success)
        except UnknownMemory:
            assert text not in self.facts
        else:
            good, bad = self.facts[text]["tallies"]
            self.facts[text]["tallies"] = (good + success, bad + (not success))
            assert 0 <= confidence <= 1

    @rule(seconds=st.sampled_from([1, 3, 10]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        for text, fact in list(self.facts.items()):
            if fact["ends"] is not None and fact["ends"] <= self.clock.now():
                self.drop(text)

    @precondition(lambda self: self.facts)
    @rule()
    def move(self) -> None:
        """The store is exchanged for what its export makes of another one."""
        lines = lines_of(self.memory.export(include_internal=True))
        fresh = scratch(FixedEmbedder(), self.clock)
        other = fresh.__enter__()
        assert other.import_(lines).problems == []
        self._scratch.__exit__(None, None, None)
        self._scratch, self.memory = fresh, other

    @invariant()
    def the_store_is_what_the_model_says(self) -> None:
        shown = {entry.content: entry.metadata for entry in listed(self.memory, include_internal=True)}
        assert shown.keys() == self.facts.keys()
        for text, fact in self.facts.items():
            metadata = shown[text]
            assert (metadata["k"], type(metadata["k"])) == (fact["k"], type(fact["k"]))
            assert metadata.get("_veles_expires_at") == fact["ends"]
            assert (metadata.get("_veles_rl_success", 0), metadata.get("_veles_rl_failure", 0)) == fact["tallies"]
        status = self.memory.memory_status().memory
        assert (status.facts, status.edges) == (len(self.facts), len(self.edges))
        assert {hit.content for hit in self.memory.recall("fact", 100)} == self.facts.keys()
        ones = {text for text, fact in self.facts.items() if type(fact["k"]) is int and fact["k"] == 1}
        assert {hit.content for hit in self.memory.recall("fact", 100, {"k": 1})} == ones
        positive = {
            t for t, f in self.facts.items() if isinstance(f["k"], int | float) and f["k"] is not True and f["k"] > 0
        }
        found = self.memory.recall_where("fact", [ColumnFilter("k", "gt", 0)], 100)
        assert {hit.content for hit in found} == positive
        for text in self.facts:
            walked = self.memory.why(text, 1).edges
            mine = [(fact_id(target), label) for source, target, label in self.edges if source == text]
            assert sorted((edge.target, edge.relation) for edge in walked) == sorted(mine)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_C43_a_fact_that_made_entities_is_gone_from_everywhere_and_shared_entities_stay(memory: MemoryService) -> None:
    gone = learn(memory, "Ada met Bob", ["Ada", "Bob"], [("Ada", "knows", "Bob")], [("Bob", "town", "Oslo")])
    learn(memory, "Ada codes", ["Ada"])
    memory.forget(gone)
    told = str(everything(memory))
    assert "Bob" not in told and "bob" not in told and "Oslo" not in told
    assert "Entity: ada" in told
    assert [hit.content for hit in memory.recall("Ada met Bob")] == ["Ada codes"]
    assert [node.content for node in memory.why("Ada met Bob").nodes] == ["Ada codes", "Entity: ada"]
    before = everything(memory)
    learn(memory, "Ada met Bob", ["Ada", "Bob"], [("Ada", "knows", "Bob")], [("Bob", "town", "Oslo")])
    memory.forget(gone)
    assert everything(memory) == before
    assert_sound(memory)
