"""entity, and what an outline makes of the graph (memory.md §8.5, operations.md §1.3; D10, D17, D35, C26)."""

from __future__ import annotations

from typing import Any

import pytest

from support.stores import assert_sound, contents, everything, learn, listed
from velesdb_memory import EntityProfile, EntityRelation, MemoryService
from velesdb_memory.errors import InvalidArgument, QueryTooLarge
from velesdb_memory.extract.outline import OutlineExtractor
from velesdb_memory.ids import fact_id, hub_id
from velesdb_memory.limits import MAX_ENTITY_RELATIONS, MAX_ENTITY_SCAN_EDGES
from velesdb_memory.memory.wiring import ensure_hub
from velesdb_memory.testing import FixedClock

CAMILLE = 7639933331338354350


def take_in(memory: MemoryService, *lines: str, **arguments: Any) -> list[int]:
    return memory.remember_extracted("\n".join(lines), OutlineExtractor(), **arguments).ids


def edges(memory: MemoryService) -> set[tuple[int, int, str]]:
    return {
        (int(line["edge"]["from_str"]), int(line["edge"]["to_str"]), line["edge"]["relation"])
        for line in everything(memory)
        if "edge" in line
    }


def hubs(memory: MemoryService) -> set[str]:
    return {entry.content for entry in listed(memory, include_internal=True) if "_veles_hub" in (entry.metadata or {})}


# -- the five examples of operations.md §1.3 ---------------------------------------------------------------------------


def test_example_1_a_fact_an_edge_and_an_attribute(memory: MemoryService) -> None:
    [fact] = take_in(
        memory,
        "fact: Camille ships the parser. | Camille, Parser",
        "edge: Camille | sister of | Theo",
        "attr: Theo | age | 15",
    )
    camille, parser, theo = hub_id("camille"), hub_id("parser"), hub_id("theo")
    assert camille == CAMILLE
    assert edges(memory) == {
        (fact, camille, "about"),
        (camille, fact, "mentions"),
        (fact, parser, "about"),
        (parser, fact, "mentions"),
        (camille, theo, "sister of"),
    }
    # D19: hubs are not counted as facts
    status = memory.memory_status().memory
    assert (status.facts, status.edges) == (1, 5)
    # D17: bare names, and a source for what comes in
    assert memory.entity("THEO ") == EntityProfile(
        True,
        theo,
        str(theo),
        "theo",
        {"age": 15},
        [],
        [EntityRelation("sister of", camille, str(camille), "camille", "camille")],
        False,
        False,
    )
    assert memory.entity("Camille").relations == [EntityRelation("sister of", theo, str(theo), "theo", None)]
    walked = memory.why("who ships the parser")
    assert {(node.content, node.hop) for node in walked.nodes} == {
        ("Camille ships the parser.", 0),
        ("Entity: camille", 1),
        ("Entity: parser", 1),
        ("Entity: theo", 2),
    }
    assert_sound(memory)


def test_example_2_facts_meet_at_a_shared_topic(memory: MemoryService) -> None:
    ids = take_in(
        memory,
        "fact: Ada drinks it. | tea",
        "fact: Bob spilled it. | Tea ,tea",
        "plain prose",
        metadata={"project": "p"},
    )
    assert ids == [fact_id("Ada drinks it."), fact_id("Bob spilled it."), fact_id("plain prose")]
    assert hubs(memory) == {"Entity: tea"}
    assert len(edges(memory)) == 4
    walked = memory.why("Ada drinks it.")
    assert {node.content: node.hop for node in walked.nodes} == {
        "Ada drinks it.": 0, "Entity: tea": 1, "Bob spilled it.": 2
    }  # fmt: skip
    internal = {entry.content: entry.metadata for entry in listed(memory, include_internal=True)}
    assert internal.pop("Entity: tea") == {"_veles_hub": True}
    assert list(internal.values()) == [{"_veles_date": 20231114, "project": "p"}] * 3


def test_example_3_the_later_value_wins_and_reserved_keys_are_ignored(memory: MemoryService) -> None:
    ids = take_in(
        memory,
        "attr: Bob | age | 15",
        "attr: Bob | age | 16",
        'attr: Bob | city | "Paris"',
        'attr: Bob | tags | ["a", 1, null]',
        "attr: Bob | x | null",
        'attr: Bob | content | "no"',
        'attr: Bob | _veles_hub | "no"',
        'attr: Nobody | content | "no"',
    )
    assert ids == []
    assert memory.entity("bob").attributes == {"age": 16, "city": "Paris", "tags": ["a", 1, None], "x": None}
    assert hubs(memory) == {"Entity: bob"}
    assert not memory.entity("nobody").found


def test_example_4_an_over_long_fact_leaves_no_hub(memory: MemoryService) -> None:
    result = memory.remember_extracted(f"fact: {'x' * 2049} | lonely\nfact: short", OutlineExtractor())
    assert (result.ids, result.skipped_over_cap) == ([fact_id("short")], 1)
    assert hubs(memory) == set()


def test_D35_example_5_the_direction_is_the_one_that_was_written(memory: MemoryService) -> None:
    take_in(
        memory,
        "fact: Theo Durand a une soeur, Camille Durand. | theo durand, camille durand",
        "edge: Theo Durand | soeur de | Camille Durand",
    )
    theo, camille = hub_id("theo durand"), hub_id("camille durand")
    assert (theo, camille, "soeur de") in edges(memory)
    assert (camille, theo, "soeur de") not in edges(memory)


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (["edge: A | knows | a"], set()),
        (["edge: - | r | ."], set()),
        (["attr: ?? | k | 1"], set()),
        (["fact: it is so. | ..., !?, real"], {"Entity: real"}),
        ([f"edge: A | {'r' * 513} | B"], set()),
        (["edge: A | two\twords | B"], set()),
    ],
)
def test_D35_what_cannot_be_stored_leaves_no_hub(memory: MemoryService, lines: list[str], names: set[str]) -> None:
    take_in(memory, *lines)
    assert hubs(memory) == names


# -- looking up --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Theo", "  THEO\u3000", "theo", "tHeO\n"])
def test_case_and_outer_spaces_do_not_matter(memory: MemoryService, name: str) -> None:
    learn(memory, "Theo rows", ["Theo"])
    assert memory.entity(name).found


@pytest.mark.parametrize(
    ("name", "key"),
    [("Théo", "théo"), ("the o", "the o"), (" Nobody ", "nobody"), ("", ""), (" \u2003", ""), ("\0", "\0")],
)
def test_D17_a_miss_says_what_was_looked_for(memory: MemoryService, name: str, key: str) -> None:
    learn(memory, "Theo rows", ["Theo"])
    assert memory.entity(name) == EntityProfile(False, 0, "0", key, {}, [], [], False, False)


def test_a_fact_that_reads_like_a_hub_is_none(memory: MemoryService) -> None:
    memory.remember("Entity: theo")
    assert not memory.entity("theo").found
    assert not memory.entity("Entity: theo").found


@pytest.mark.parametrize("name", [None, 5, "\udfff"])
def test_a_name_that_is_no_text_is_refused(memory: MemoryService, name: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        memory.entity(name)
    assert caught.value.field == "name"


def test_D20_an_over_long_name_is_refused(memory: MemoryService) -> None:
    with pytest.raises(QueryTooLarge):
        memory.entity("x" * 65_537)


def test_D17_a_fact_related_to_an_entity_appears_with_its_text(memory: MemoryService) -> None:
    learn(memory, "Theo rows", ["theo"])
    fact = memory.remember("the cup was won in May")
    memory.relate(fact, hub_id("theo"), "praises")
    memory.relate(hub_id("theo"), fact, "won")
    profile = memory.entity("theo")
    text = "the cup was won in May"
    assert profile.relations_in == [EntityRelation("praises", fact, str(fact), text, text)]
    assert profile.relations == [EntityRelation("won", fact, str(fact), text, None)]


def test_the_scaffolding_is_no_relation_whoever_made_it(memory: MemoryService) -> None:
    fact = learn(memory, "Theo rows", ["theo"])
    other = memory.remember("something else")
    memory.relate(other, hub_id("theo"), "about")
    memory.relate(hub_id("theo"), other, "mentions")
    profile = memory.entity("theo")
    assert (profile.found, profile.relations, profile.relations_in) == (True, [], [])
    assert memory.forget(fact) and memory.entity("theo").found


def test_attributes_come_sorted_by_key(memory: MemoryService) -> None:
    learn(memory, "Theo rows", attributes=[("theo", key, key.upper()) for key in ("zeta", "alpha", "mid")])
    assert list(memory.entity("theo").attributes) == ["alpha", "mid", "zeta"]


def test_an_expired_fact_is_no_far_end(memory: MemoryService, clock: FixedClock) -> None:
    learn(memory, "Theo rows", ["theo"])
    fact = memory.remember("for now", ttl_seconds=5)
    memory.relate(fact, hub_id("theo"), "praises")
    clock.advance(5)
    assert memory.entity("theo").relations_in == []


def test_D8_what_only_an_expired_fact_taught_is_gone_with_it(memory: MemoryService, clock: FixedClock) -> None:
    """At once, as the fact itself is: the sweeper may come much later, and another process may read meanwhile."""
    learn(memory, "Theo rows for Camille", [], [("theo", "rows for", "camille")], [("theo", "age", 15)])
    memory.remember("Theo rows for Camille", ttl_seconds=5)
    clock.advance(5)
    profile = memory.entity("theo")
    assert (profile.attributes, profile.relations) == ({}, [])
    assert memory.memory_status().memory.edges == 0


# -- budgets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [MAX_ENTITY_RELATIONS, MAX_ENTITY_RELATIONS + 1])
def test_more_than_64_typed_edges_of_a_direction_are_flagged(memory: MemoryService, number: int) -> None:
    relations = [("sun", f"lights {index}", "moon") for index in range(number)]
    learn(memory, "sun and moon", ["sun"], relations)
    sun, moon = memory.entity("sun"), memory.entity("moon")
    cut = number > MAX_ENTITY_RELATIONS
    assert [edge.predicate for edge in sun.relations] == [f"lights {index}" for index in range(MAX_ENTITY_RELATIONS)]
    assert [edge.predicate for edge in moon.relations_in] == [edge.predicate for edge in sun.relations]
    assert (sun.relations_truncated, sun.relations_in_truncated) == (cut, False)
    assert (moon.relations_truncated, moon.relations_in_truncated) == (False, cut)


@pytest.mark.parametrize("number", [MAX_ENTITY_SCAN_EDGES, MAX_ENTITY_SCAN_EDGES + 1])
@pytest.mark.parametrize("incoming", [False, True])
def test_more_than_4096_raw_edges_are_flagged_and_the_rest_not_seen(
    memory: MemoryService, number: int, incoming: bool
) -> None:
    with memory._core.store.transaction(1_700_000_000) as tx:
        sun, other = ensure_hub(tx, "sun"), ensure_hub(tx, "other")
        for index in range(number - 1):
            near, far = (sun, ensure_hub(tx, f"planet {index}"))[:: -1 if incoming else 1]
            tx.add_edge(near, far, "mentions", taught_by=None)
        tx.add_edge(*((other, sun) if incoming else (sun, other)), "outshines", taught_by=None)
    profile = memory.entity("sun")
    typed = profile.relations_in if incoming else profile.relations
    cut = number > MAX_ENTITY_SCAN_EDGES
    assert [edge.predicate for edge in typed] == ([] if cut else ["outshines"])
    assert (profile.relations_truncated, profile.relations_in_truncated) == (cut and not incoming, cut and incoming)


# -- where hubs show ---------------------------------------------------------------------------------------------------


def test_D10_hubs_show_in_why_and_entity_and_nowhere_else(memory: MemoryService) -> None:
    learn(memory, "Theo rows", ["theo"], [], [("theo", "age", 15)])
    for found in (memory.recall("Entity: theo"), memory.recall_fused("Entity: theo"), listed(memory)):
        assert contents(list(found)) == ["Theo rows"]
    assert memory.recall("theo", filter={"age": 15}) == []
    assert memory.why("theo", filter={"age": 15}).nodes == []
    assert contents(memory.why("theo").nodes) == ["Theo rows", "Entity: theo"]


def test_C26_a_relation_may_name_entities_that_no_fact_named(memory: MemoryService) -> None:
    """Names are text, never ids of a list, so there is nothing to point past."""
    take_in(memory, "fact: It rained.", "edge: 12 | precedes | 13")
    assert [edge.target for edge in memory.entity("12").relations] == ["13"]
