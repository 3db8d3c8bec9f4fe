"""Who taught what: extraction, relate, unrelate and forget in any order (memory.md §8; D9; C43)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.stores import assert_sound, everything, lines_of, listed, scratch
from velesdb_memory import MemoryService
from velesdb_memory.extract.outline import OutlineExtractor
from velesdb_memory.ids import fact_id, hub_id
from velesdb_memory.store.base import NOBODY

NAMES = ["ada", "bob", "cleo"]
FACTS = ["Ada rows.", "Bob naps.", "Ada met Bob.", "It rained.", "Cleo sails with Ada."]
LABELS = ["knows", "likes"]

Edge = tuple[int, int, str]


class Passage(NamedTuple):
    """What an outline says: facts with their topics, relations, attributes."""

    facts: tuple[tuple[str, tuple[str, ...]], ...]
    relations: tuple[tuple[str, str, str], ...] = ()
    attributes: tuple[tuple[str, str, int], ...] = ()

    @property
    def outline(self) -> str:
        lines = [f"fact: {text} | {', '.join(topics)}" for text, topics in self.facts]
        lines += [f"edge: {' | '.join(relation)}" for relation in self.relations]
        lines += [f"attr: {entity} | {key} | {value}" for entity, key, value in self.attributes]
        return "\n".join(lines)


@dataclass
class Model:
    """The knowledge, as plainly as it can be said: an edge is there while somebody holds it, a hub while something
    touches it."""

    facts: set[str] = field(default_factory=set)
    stated: set[Edge] = field(default_factory=set)
    taught: dict[Edge, set[int]] = field(default_factory=dict)
    refused: set[tuple[Edge, int]] = field(default_factory=set)
    attributes: list[tuple[str, str, int, int]] = field(default_factory=list)
    lonely: set[str] = field(default_factory=set)  # lost an edge to unrelate, which leaves entities to forget

    @property
    def edges(self) -> set[Edge]:
        return self.stated | {edge for edge, teachers in self.taught.items() if teachers}

    @property
    def hubs(self) -> set[str]:
        ends = {end for source, target, _ in self.edges for end in (source, target)}
        return {name for name in NAMES if hub_id(name) in ends or any(name == row[0] for row in self.attributes)}

    def teach_edge(self, edge: Edge, teacher: int) -> None:
        if (edge, teacher) not in self.refused:
            self.taught.setdefault(edge, set()).add(teacher)

    def extract(self, passage: Passage) -> None:
        said: dict[str, set[str]] = {}
        for text, topics in passage.facts:
            self.facts.add(text)
            said.setdefault(text, set()).update(topics)
            for topic in topics:
                self.teach_edge((fact_id(text), hub_id(topic), "about"), fact_id(text))
                self.teach_edge((hub_id(topic), fact_id(text), "mentions"), fact_id(text))

        def teachers(*names: str) -> Iterable[int]:
            about = {
                text: sum(name in topics or name in text.lower().strip(".").split() for name in names)
                for text, topics in said.items()
            }
            most = max(about.values(), default=0)
            return [fact_id(text) for text, count in about.items() if count == most] or [NOBODY]

        for subject, label, target in passage.relations:
            if subject != target:
                for teacher in teachers(subject, target):
                    self.teach_edge((hub_id(subject), hub_id(target), label), teacher)
        for entity, key, value in passage.attributes:
            for teacher in teachers(entity):
                self.attributes = [row for row in self.attributes if (row[0], row[1], row[3]) != (entity, key, teacher)]
                self.attributes.append((entity, key, value, teacher))

    def relate(self, edge: Edge) -> None:
        self.stated.add(edge)
        self.refused = {pair for pair in self.refused if pair[0] != edge}

    def unrelate(self, edge: Edge) -> bool:
        found = edge in self.edges
        self.lonely |= {name for name in NAMES if hub_id(name) in edge[:2]}
        self.stated.discard(edge)
        self.refused |= {(edge, teacher) for teacher in self.taught.pop(edge, ())}
        return found

    def forget(self, text: str) -> bool:
        gone = fact_id(text)
        found = text in self.facts
        self.facts.discard(text)
        self.stated = {edge for edge in self.stated if gone not in edge[:2]}
        self.taught = {edge: teachers - {gone} for edge, teachers in self.taught.items() if gone not in edge[:2]}
        self.refused = {pair for pair in self.refused if pair[1] != gone}
        self.attributes = [row for row in self.attributes if row[3] != gone]
        return found

    def ends(self) -> dict[str, int]:
        """What an edge can join: the facts and the entities that are there."""
        return {text: fact_id(text) for text in self.facts} | {name: hub_id(name) for name in self.hubs}


def assert_same(memory: MemoryService, model: Model) -> None:
    """Every window on the store shows what the model holds, and nothing else."""
    shown = {entry.content for entry in listed(memory, include_internal=True)}
    hubs = {name for name in NAMES if f"Entity: {name}" in shown}
    assert shown == model.facts | {f"Entity: {name}" for name in hubs}
    assert model.hubs <= hubs <= model.hubs | model.lonely
    assert {entry.content for entry in listed(memory)} == model.facts

    lines = everything(memory)
    edges = {
        (int(edge["from_str"]), int(edge["to_str"]), edge["relation"]): (
            edge["stated"],
            set(map(int, edge["taught_by"])),
        )
        for edge in (line["edge"] for line in lines if "edge" in line)
    }
    assert edges == {edge: (edge in model.stated, model.taught.get(edge, set())) for edge in model.edges}
    rows = [line["attribute"] for line in lines if "attribute" in line]
    for name in NAMES:
        own = [row for row in rows if row["hub_str"] == str(hub_id(name))]
        known = [(row["key"], row["value"], int(row["taught_by"] or NOBODY)) for row in own]
        assert known == [row[1:] for row in model.attributes if row[0] == name]

    far = {number: text for text, number in model.ends().items()}
    for name in NAMES:
        profile = memory.entity(name)
        assert profile.found == (name in hubs), name
        assert profile.attributes == {key: value for hub, key, value, _ in model.attributes if hub == name}
        typed = {edge for edge in model.edges if edge[2] not in ("about", "mentions")}
        out = {(label, target, far[target]) for source, target, label in typed if source == hub_id(name)}
        into = {(label, source, far[source]) for source, target, label in typed if target == hub_id(name)}
        assert {(each.predicate, each.target_id, each.target) for each in profile.relations} == out
        assert {(each.predicate, each.target_id, each.target) for each in profile.relations_in} == into
        assert all(each.source == each.target for each in profile.relations_in)

    for text in model.facts:
        hop_of = {fact_id(text): 0}
        for hop in (1, 2):
            near = {number for number, distance in hop_of.items() if distance == hop - 1}
            for _, target, _ in [edge for edge in model.edges if edge[0] in near]:
                hop_of.setdefault(target, hop)
        walked = memory.why(text)
        assert {node.id: node.hop for node in walked.nodes} == hop_of
        assert {edge.target for edge in walked.edges} <= hop_of.keys()


NAME = st.sampled_from(NAMES)
SAID = st.tuples(st.sampled_from(FACTS), st.lists(NAME, max_size=2, unique=True).map(tuple))
PASSAGES = st.builds(
    Passage,
    st.lists(SAID, min_size=1, max_size=3).map(tuple) | st.just(()),
    st.lists(st.tuples(NAME, st.sampled_from(LABELS), NAME), max_size=2).map(tuple),
    st.lists(st.tuples(NAME, st.sampled_from(["age", "rank"]), st.integers(1, 3)), max_size=2).map(tuple),
).filter(lambda passage: passage.outline)
PICK = st.integers(0, 1_000)
STEPS = st.one_of(
    st.tuples(st.just("extract"), st.integers(0, 3)),
    st.tuples(st.just("extract"), st.integers(0, 3)),
    st.tuples(st.just("relate"), PICK, PICK, st.sampled_from([*LABELS, "about"])),
    st.tuples(st.just("unrelate"), PICK),
    st.tuples(st.just("forget"), st.sampled_from(FACTS)),
)


@settings(max_examples=60, deadline=None, phases=set(Phase) - {Phase.explain})
@given(passages=st.lists(PASSAGES, min_size=4, max_size=4), steps=st.lists(STEPS, min_size=2, max_size=12))
def test_D9_C43_everything_is_there_exactly_while_somebody_holds_it(
    passages: list[Passage], steps: list[tuple[Any, ...]]
) -> None:
    model = Model()
    with scratch() as memory:
        for step in steps:
            if step[0] == "extract":
                passage = passages[step[1]]
                found = memory.remember_extracted(passage.outline, OutlineExtractor())
                assert found.ids == [fact_id(text) for text, _ in passage.facts]
                model.extract(passage)
            elif step[0] == "relate":
                ends = [model.ends()[name] for name in sorted(model.ends())]
                if len(ends) > 1:
                    source, target = ends[step[1] % len(ends)], ends[step[2] % len(ends)]
                    if source != target:
                        memory.relate(source, target, step[3])
                        model.relate((source, target, step[3]))
            elif step[0] == "unrelate":
                edges = sorted(model.edges)
                edge = edges[step[1] % len(edges)] if edges else (1, 2, "knows")
                assert memory.unrelate(*edge).found == model.unrelate(edge)
            else:
                assert memory.forget(fact_id(step[1])) == model.forget(step[1])
        assert_same(memory, model)
        assert_sound(memory)


def take_in(memory: MemoryService, *lines: str) -> list[int]:
    return memory.remember_extracted("\n".join(lines), OutlineExtractor()).ids


def test_C43_a_forgotten_passage_is_nowhere_and_shared_entities_are_kept(memory: MemoryService) -> None:
    [kept] = take_in(memory, "Bob naps. | bob", 'attr: Bob | city | "Paris"')
    before = everything(memory)
    [gone] = take_in(
        memory, "Ada met Bob. | ada, bob", "edge: Ada | knows | Bob", "attr: Bob | age | 16", "attr: Ada | age | 15"
    )
    assert memory.entity("bob").attributes == {"age": 16, "city": "Paris"}
    memory.forget(gone)
    assert everything(memory) == before
    assert not memory.entity("ada").found
    assert memory.entity("bob").attributes == {"city": "Paris"} and memory.entity("bob").relations_in == []
    assert [hit.id for hit in memory.recall_fused("Ada met Bob")] == [kept]
    assert [node.id for node in memory.why("Ada met Bob").nodes] == [kept, hub_id("bob")]
    assert take_in(memory, "Ada met Bob. | ada, bob", "edge: Ada | knows | Bob") == [gone]
    assert [edge.target for edge in memory.entity("ada").relations] == ["bob"]
    assert_sound(memory)


def test_D9_a_value_that_another_fact_taught_before_comes_back(memory: MemoryService) -> None:
    take_in(memory, "Bob naps. | bob", "attr: bob | age | 15")
    [later] = take_in(memory, "Bob grew. | bob", "attr: bob | age | 16")
    assert memory.entity("bob").attributes == {"age": 16}
    memory.forget(later)
    assert memory.entity("bob").attributes == {"age": 15}


def test_D9_what_two_facts_taught_stays_until_both_are_gone(memory: MemoryService) -> None:
    first, second = take_in(memory, "Ada met Bob.", "Bob likes Ada.", "edge: ada | knows | bob", "attr: ada | age | 15")
    memory.forget(first)
    assert len(memory.entity("ada").relations) == 1 and memory.entity("ada").attributes == {"age": 15}
    memory.forget(second)
    assert not memory.entity("ada").found and not memory.entity("bob").found


def test_D9_what_a_caller_stated_too_stays_when_its_teacher_is_forgotten(memory: MemoryService) -> None:
    [fact] = take_in(memory, "Ada met Bob.", "edge: ada | knows | bob")
    memory.relate(hub_id("ada"), hub_id("bob"), "knows")
    memory.forget(fact)
    assert [edge.target for edge in memory.entity("ada").relations] == ["bob"]


def test_D9_a_derived_edge_that_was_taken_away_is_not_rebuilt_by_the_same_passage(memory: MemoryService) -> None:
    passage = ("Ada met Bob. | ada, bob", "edge: ada | knows | bob")
    [fact] = take_in(memory, *passage)
    ada, bob = hub_id("ada"), hub_id("bob")
    assert memory.unrelate(ada, bob, "knows").removed == 1
    assert memory.unrelate(fact, ada, "about").removed == 1
    take_in(memory, *passage)
    assert memory.entity("ada").relations == []
    assert memory.unrelate(fact, ada, "about").found is False
    # another passage may teach it, and a caller may state it
    take_in(memory, "Bob says Ada knows him.", "edge: ada | knows | bob")
    assert len(memory.entity("ada").relations) == 1
    memory.unrelate(ada, bob, "knows")
    memory.relate(ada, bob, "knows")
    assert len(memory.entity("ada").relations) == 1
    assert_sound(memory)


def test_D9_a_fact_that_was_forgotten_teaches_afresh(memory: MemoryService) -> None:
    passage = ("Ada met Bob. | ada, bob", "edge: ada | knows | bob")
    [fact] = take_in(memory, *passage)
    memory.unrelate(hub_id("ada"), hub_id("bob"), "knows")
    memory.forget(fact)
    take_in(memory, *passage)
    assert len(memory.entity("ada").relations) == 1


def test_D9_an_edge_of_a_passage_without_facts_is_not_rebuilt_either(memory: MemoryService) -> None:
    take_in(memory, "edge: ada | knows | bob")
    memory.unrelate(hub_id("ada"), hub_id("bob"), "knows")
    take_in(memory, "edge: ada | knows | bob")
    assert memory.entity("ada").relations == []


def test_D9_D31_what_was_taken_away_stays_so_in_a_copy(memory: MemoryService) -> None:
    passage = ("Ada met Bob. | ada, bob", "edge: ada | knows | bob")
    take_in(memory, *passage)
    memory.unrelate(hub_id("ada"), hub_id("bob"), "knows")
    with scratch() as copy:
        copy.import_(lines_of(everything(memory)))
        take_in(copy, *passage)
        assert copy.entity("ada").relations == []
        assert everything(copy) == everything(memory)


@pytest.mark.parametrize("again", [False, True])
def test_D9_an_entity_that_nothing_holds_any_more_is_gone(memory: MemoryService, again: bool) -> None:
    passage = ("It rained.", "edge: ada | knows | bob")
    [fact] = take_in(memory, *passage)
    memory.unrelate(hub_id("ada"), hub_id("bob"), "knows")
    if again:
        take_in(memory, *passage)
    memory.forget(fact)
    assert not memory.entity("ada").found and not memory.entity("bob").found
    assert listed(memory, include_internal=True) == []


def test_D9_a_name_inside_another_word_makes_no_teacher(memory: MemoryService) -> None:
    """'ann' is no part of 'annual': forgetting the fact about Ann takes back what it taught."""
    _, ann = take_in(memory, "The annual report is late.", "Ann leads the audit.", 'attr: Ann | role | "auditor"')
    memory.forget(ann)
    assert not memory.entity("ann").found


def test_C23_a_fact_that_supersedes_another_leaves_it_readable_whatever_they_taught(memory: MemoryService) -> None:
    [old] = take_in(memory, "Bob loves tea. | bob, tea", "attr: bob | cups | 4")
    [new] = take_in(memory, "Bob hates tea. | bob, tea", "attr: bob | cups | 0")
    memory.relate(new, old, "supersedes")
    assert {hit.id for hit in memory.recall("tea")} == {hit.id for hit in memory.recall_fused("tea")} == {old, new}
    walked = memory.why("Bob hates tea.")
    assert (new, old, "supersedes") in [(edge.source, edge.target, edge.relation) for edge in walked.edges]
    assert memory.entity("bob").attributes == {"cups": 0}
    assert memory.memory_status().memory.facts == 2
