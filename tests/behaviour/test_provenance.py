"""Who filled the store (D30; C38, C40), and who taught what (D9; C43)."""

from __future__ import annotations

import pytest

from conftest import Opener
from support.stores import assert_sound, contents, everything, learn, listed
from velesdb_memory import ColumnFilter, Link, MemoryService
from velesdb_memory.errors import ProvenanceMismatch
from velesdb_memory.ids import hub_id
from velesdb_memory.testing import FixedEmbedder

OTHERS = [FixedEmbedder(model="other", dimension=32), FixedEmbedder(model="fixed", dimension=16)]


@pytest.mark.parametrize("other", OTHERS, ids=["another model", "another dimension"])
def test_C40_D30_another_embedder_never_mixes_and_everything_but_vectors_keeps_working(
    open_memory: Opener, other: FixedEmbedder
) -> None:
    with open_memory() as memory:
        first = memory.remember("first fact", metadata={"k": 1})
        second = memory.remember("second fact", links=[Link(first, "after")])
    memory = open_memory(embedder=other)
    before = everything(memory)
    other.asked.clear()
    for call in (
        lambda: memory.recall("fact"),
        lambda: memory.recall("fact", filter={"k": 1}),
        lambda: memory.recall_where("fact", [ColumnFilter("k", "eq", 1)]),
        lambda: memory.recall_where("fact", []),
        lambda: memory.why("fact"),
        lambda: memory.remember("third fact"),
        lambda: memory.remember("first fact"),
    ):
        with pytest.raises(ProvenanceMismatch) as caught:
            call()
        assert isinstance(caught.value, RuntimeError)
        for told in ("fixed", "other" if other.model == "other" else "16", "32", "migrate-embeddings"):
            assert told in str(caught.value)
    assert everything(memory) == before
    assert [entry.id for entry in listed(memory, filter={"k": 1})] == [first]
    memory.feedback(first, True)
    memory.relate(first, second, "before")
    assert memory.unrelate(second, first, "after").found
    assert memory.memory_status().memory.edges == 1
    assert_sound(memory)
    memory.close()
    back = open_memory()
    assert contents(back.recall("first fact", 1)) == ["first fact"]
    assert back.forget(second)


def test_D30_a_store_that_holds_no_vector_is_taken_over(open_memory: Opener) -> None:
    open_memory().close()
    memory = open_memory(embedder=OTHERS[1])
    number = memory.remember("x")
    assert len(memory.recall("x")) == 1
    memory.forget(number)
    memory.close()
    again = open_memory(embedder=OTHERS[0])
    again.remember("y")
    assert contents(again.recall("y")) == ["y"]
    assert_sound(again)


def test_D30_a_service_whose_empty_store_another_took_over_is_told_so(open_memory: Opener) -> None:
    early = open_memory()
    late = open_memory(embedder=OTHERS[0])
    late.remember("late")
    with pytest.raises(ProvenanceMismatch):
        early.remember("early")
    with pytest.raises(ProvenanceMismatch):
        early.recall("late")
    assert contents(late.recall("late")) == ["late"]


def internal(memory: MemoryService) -> dict[str, dict[str, object]]:
    hubs = [entry for entry in listed(memory, include_internal=True) if "_veles_hub" in entry.metadata]
    return {entry.content: {k: v for k, v in entry.metadata.items() if k != "_veles_hub"} for entry in hubs}


def edges(memory: MemoryService) -> list[tuple[str, str, str]]:
    names = {entry.id_str: entry.content for entry in listed(memory, include_internal=True)}
    lines = [line["edge"] for line in everything(memory) if "edge" in line]
    return sorted((names[edge["from_str"]], edge["relation"], names[edge["to_str"]]) for edge in lines)


def test_C43_D9_forgetting_a_fact_takes_back_exactly_what_only_it_taught(memory: MemoryService) -> None:
    one = learn(
        memory, "one", ["Theo", "Chess"], [("Theo", "knows", "Ada")], [("Theo", "age", 15), ("Theo", "town", "Lyon")]
    )
    two = learn(memory, "two", ["Theo"], [("Theo", "knows", "Ada")], [("Theo", "age", 16)])
    assert set(internal(memory)) == {"Entity: theo", "Entity: chess", "Entity: ada"}
    assert internal(memory)["Entity: theo"] == {"age": 16, "town": "Lyon"}
    memory.forget(one)
    assert internal(memory) == {"Entity: theo": {"age": 16}, "Entity: ada": {}}
    assert edges(memory) == [
        ("Entity: theo", "knows", "Entity: ada"),
        ("Entity: theo", "mentions", "two"),
        ("two", "about", "Entity: theo"),
    ]
    assert_sound(memory)
    memory.forget(two)
    assert internal(memory) == {} and edges(memory) == []
    assert_sound(memory)


def test_D9_the_later_value_goes_and_the_earlier_one_is_back(memory: MemoryService) -> None:
    learn(memory, "one", ["Theo"], attributes=[("Theo", "age", 15)])
    two = learn(memory, "two", ["Theo"], attributes=[("Theo", "age", 16)])
    memory.forget(two)
    assert internal(memory)["Entity: theo"] == {"age": 15}


def test_D9_an_entity_with_attributes_of_another_fact_outlives_an_unrelated_one(memory: MemoryService) -> None:
    learn(memory, "one", [], attributes=[("Theo", "age", 15)])
    plain = memory.remember("plain")
    memory.relate(plain, hub_id("theo"), "see")
    memory.forget(plain)
    assert internal(memory) == {"Entity: theo": {"age": 15}}


def test_D9_an_edge_that_a_caller_stated_too_outlives_its_teacher(memory: MemoryService) -> None:
    one = learn(memory, "one", [], [("Theo", "knows", "Ada")])
    memory.relate(hub_id("theo"), hub_id("ada"), "knows")
    memory.forget(one)
    assert edges(memory) == [("Entity: theo", "knows", "Entity: ada")]


def test_D9_an_edge_that_was_taken_away_is_not_rebuilt_by_the_same_fact_but_by_another(memory: MemoryService) -> None:
    learn(memory, "one", [], [("Theo", "knows", "Ada")])
    assert memory.unrelate(hub_id("theo"), hub_id("ada"), "knows").removed == 1
    learn(memory, "one", [], [("Theo", "knows", "Ada")])
    assert edges(memory) == []
    learn(memory, "two", [], [("Theo", "knows", "Ada")])
    assert edges(memory) == [("Entity: theo", "knows", "Entity: ada")]


def test_D9_an_edge_that_was_taken_away_comes_back_when_a_caller_states_it(memory: MemoryService) -> None:
    learn(memory, "one", [], [("Theo", "knows", "Ada")])
    memory.unrelate(hub_id("theo"), hub_id("ada"), "knows")
    memory.relate(hub_id("theo"), hub_id("ada"), "knows")
    assert edges(memory) == [("Entity: theo", "knows", "Entity: ada")]


def test_D9_a_hub_can_be_forgotten_by_its_own_id(memory: MemoryService) -> None:
    fact = learn(memory, "one", ["Theo"], attributes=[("Theo", "age", 15)])
    assert memory.forget(hub_id("theo")) is True
    assert internal(memory) == {} and edges(memory) == []
    assert [entry.id for entry in listed(memory)] == [fact]
    assert_sound(memory)


def test_D9_remembering_a_fact_again_keeps_what_it_taught(memory: MemoryService) -> None:
    learn(memory, "one", ["Theo"], attributes=[("Theo", "age", 15)])
    memory.remember("one", metadata={"k": 1})
    assert internal(memory) == {"Entity: theo": {"age": 15}}
    assert len(edges(memory)) == 2
