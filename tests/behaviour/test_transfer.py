"""Export and import (D31; memory.md §9)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Opener
from support import oracle
from support.stores import assert_sound, contents, everything, learn, lines_of, listed, scratch
from velesdb_memory import ColumnFilter, Link, MemoryService
from velesdb_memory.errors import EmbedError, ProvenanceMismatch, TransferFormat
from velesdb_memory.ids import fact_id, hub_id
from velesdb_memory.testing import FixedClock, FixedEmbedder


def moved(source: MemoryService, target: MemoryService, internal: bool = True) -> Any:
    return target.import_(lines_of(source.export(include_internal=internal)))


def body(memory: MemoryService, internal: bool = True) -> list[Any]:
    """An export without its manifest, as text, so that 1, 1.0 and true stay apart."""
    return [json.dumps(line, sort_keys=True) for line in memory.export(include_internal=internal)][1:]


def fact_line(text: str, **more: Any) -> str:
    return json.dumps({"id_str": str(fact_id(text)), "content": text} | more)


@pytest.fixture
def other(open_memory: Opener, tmp_path: Path) -> MemoryService:
    return open_memory(tmp_path / "other")


@pytest.fixture
def rich(memory: MemoryService) -> MemoryService:
    """A store with some of everything."""
    first = memory.remember(
        "first", metadata={"n": 2**64 - 1, "f": 1.0, "i": 1, "b": True, "z": None, "deep": {"a": [1.5]}}
    )
    second = memory.remember("second", links=[Link(first, "after"), Link(first, "see")], ttl_seconds=100)
    memory.relate(first, second, "before")
    memory.remember("dated", metadata={"_veles_date": 20200101})
    memory.remember("a\0b – 漢字 \u2028 😅", metadata={"é\0": "\u2029"})
    for success in (True, True, False):
        memory.feedback(first, success)
    learn(memory, "Theo is 15", ["Theo", "Age"], [("Theo", "brother of", "Camille")], [("Theo", "age", 15)])
    learn(memory, "Theo is 16", ["Theo"], [("Theo", "brother of", "Camille")], [("Theo", "age", 16)])
    memory.relate(first, hub_id("theo"), "about")
    return memory


def test_D31_a_full_export_and_import_lose_nothing(rich: MemoryService, other: MemoryService) -> None:
    report = moved(rich, other)
    assert report.problems == []
    assert body(other) == body(rich)
    assert [(n.id, n.score) for n in other.recall("first")] == [(n.id, n.score) for n in rich.recall("first")]
    assert other.why("second", 5) == rich.why("second", 5)
    assert_sound(other)


def test_D31_the_order_of_incoming_edges_is_kept_too(memory: MemoryService, other: MemoryService) -> None:
    middle = memory.remember("middle")
    for n in (3, 1, 4, 1, 5, 9, 2, 6):
        memory.remember(f"near {n}", links=[Link(middle, "to")])
    moved(memory, other)
    assert other.why("middle", direction="in") == memory.why("middle", direction="in")


def test_D31_importing_again_changes_nothing(rich: MemoryService, other: MemoryService) -> None:
    moved(rich, other)
    before = body(other)
    report = moved(rich, other)
    assert (report.facts, report.edges, report.problems) == (0, 0, [])
    assert report.unchanged == len(before)
    assert body(other) == before


def test_D31_what_was_taught_can_be_taken_back_after_a_move(rich: MemoryService, other: MemoryService) -> None:
    moved(rich, other)
    for memory in (rich, other):
        memory.forget(fact_id("Theo is 16"))
    assert body(other) == body(rich)


def test_D31_an_export_without_internals_holds_facts_and_their_edges(rich: MemoryService, other: MemoryService) -> None:
    lines = list(rich.export())
    assert lines[0]["velesdb_memory_export"] == 1
    assert (lines[0]["model"], lines[0]["dimension"], lines[0]["include_internal"]) == ("fixed", 32, False)
    facts = [line for line in lines if "content" in line]
    assert len(facts) == lines[0]["facts"] == 6
    for fact in facts:
        assert fact["id_str"] == str(fact["id"]) and isinstance(fact["metadata"], dict)
        assert not [key for key in fact["metadata"] if key.startswith("_veles_") and key != "_veles_date"]
    assert sorted(line["edge"]["relation"] for line in lines[len(facts) + 1 :]) == ["after", "before", "see"]
    assert moved(rich, other, internal=False).problems == []
    assert body(other, internal=False) == body(rich, internal=False)


def test_D31_a_moved_automatic_day_stays_automatic(
    memory: MemoryService, other: MemoryService, clock: FixedClock
) -> None:
    memory.remember("auto")
    memory.remember("mine", metadata={"_veles_date": 20231114})
    moved(memory, other)
    clock.advance(86_400)
    for text in ("auto", "mine"):
        other.remember(text)
    days = {entry.content: entry.metadata["_veles_date"] for entry in listed(other) if entry.metadata}
    assert days == {"auto": 20231115, "mine": 20231114}


def test_D31_expiry_moves_as_a_moment_and_what_has_passed_is_reported(
    memory: MemoryService, other: MemoryService, clock: FixedClock
) -> None:
    memory.remember("short", ttl_seconds=10)
    memory.remember("long", ttl_seconds=100)
    lines = lines_of(memory.export())
    clock.advance(50)
    report = other.import_(lines)
    assert len(report.problems) == 1 and "expired" in report.problems[0].reason
    assert contents(other.recall("x")) == ["long"]
    clock.advance(50)
    assert other.recall("x") == []


METADATA = st.dictionaries(
    st.text(max_size=4).filter(lambda key: key != "content" and not key.startswith("_veles")), oracle.VALUES, max_size=3
)
FACTS = st.lists(st.tuples(st.text(min_size=1, max_size=6).filter(lambda text: text.strip()), METADATA), max_size=6)


@settings(max_examples=20, deadline=None)
@given(FACTS)
def test_D31_whatever_can_be_remembered_survives_a_round_trip(facts: list[tuple[str, dict[str, Any]]]) -> None:
    with scratch() as memory, scratch() as other:
        ids = [memory.remember(text, metadata=metadata) for text, metadata in facts]
        for near, far in pairwise(ids):
            if near != far:
                memory.relate(near, far, "next")
        assert moved(memory, other).problems == []
        assert body(other) == body(memory)
        assert moved(memory, other).facts == 0
        assert_sound(other)


@pytest.mark.parametrize(("former", "later"), [(1, True), (1, 1.0), (0, False), ([1], [1.0]), ({"a": 1}, {"a": True})])
def test_D31_a_value_that_only_changes_its_type_is_a_change(memory: MemoryService, former: Any, later: Any) -> None:
    memory.remember("x", metadata={"k": former, "_veles_date": 1})
    report = memory.import_([fact_line("x", metadata={"k": later, "_veles_date": 1}, dated=True)])
    assert (report.facts, report.unchanged) == (1, 0)
    assert memory.recall("x", filter={"k": later}) != []
    assert memory.recall("x", filter={"k": former}) == []


def test_D31_an_import_over_what_is_there_replaces_it(memory: MemoryService) -> None:
    memory.remember("x", metadata={"a": 1})
    memory.import_([fact_line("x", metadata={"b": 2}, confidence=0.75, successes=3, failures=1)])
    (entry,) = listed(memory, include_internal=True)
    assert entry.metadata == {"b": 2, "_veles_rl_confidence": 0.75, "_veles_rl_success": 3, "_veles_rl_failure": 1}
    assert memory.recall_where("x", [ColumnFilter("a", "ge", 0)]) == []
    assert_sound(memory)


def test_D31_the_export_of_the_reference_is_read(memory: MemoryService, clock: FixedClock) -> None:
    text, ends = "we chose parking_lot to avoid lock poisoning", clock.now() + 5
    learned = {"_veles_rl_confidence": 0.7, "_veles_rl_success": 2, "_veles_rl_failure": 0, "_veles_expires_at": ends}
    lines: list[dict[str, Any]] = [
        {"id": fact_id(text), "content": text, "metadata": {"_veles_date": 20240102, "k": 1}},
        {"id": fact_id("learned"), "content": "learned", "metadata": learned},
        {"id": hub_id("theo"), "content": "Entity: theo", "metadata": {"_veles_hub": True, "age": 15}},
        {"id": 5, "content": "event", "metadata": {"_veles_hub": True, "_veles_ctx_event": True}},
    ]
    report = memory.import_(json.dumps(line | {"id_str": str(line["id"])}) for line in lines)
    assert [problem.line for problem in report.problems] == [4]
    assert {entry.content: entry.metadata for entry in listed(memory, include_internal=True)} == {
        text: {"_veles_date": 20240102, "k": 1},
        "learned": learned,
        "Entity: theo": {"_veles_hub": True, "age": 15},
    }
    clock.advance(5)
    assert memory.memory_status().memory.facts == 1


def test_D31_the_file_of_the_mcp_memory_server_is_read(memory: MemoryService) -> None:
    lines = [
        json.dumps(
            {"type": "entity", "name": "Ada L", "entityType": "person", "observations": ["likes tea", "Ada L codes"]}
        ),
        json.dumps({"type": "entity", "name": "Engine", "entityType": "machine", "observations": []}),
        json.dumps({"type": "relation", "from": "Ada L", "to": "Engine", "relationType": "programs"}),
    ]
    report = memory.import_(lines)
    assert (report.facts, report.edges, report.problems) == (2, 1, [])
    assert sorted(entry.content for entry in listed(memory)) == ["Ada L codes", "Ada L: likes tea"]
    shown = {entry.content: entry.metadata for entry in listed(memory, include_internal=True)}
    assert shown["Entity: ada l"] == {"_veles_hub": True, "type": "person"}
    assert [node.content for node in memory.why("Ada L codes", 2).nodes] == [
        "Ada L codes", "Entity: ada l", "Ada L: likes tea", "Entity: engine",
    ]  # fmt: skip
    before = body(memory)
    again = memory.import_(lines)
    assert (again.facts, again.edges, again.problems) == (0, 0, [])
    assert body(memory) == before
    assert_sound(memory)


X = str(fact_id("x"))
EDGE = {"from_str": str(fact_id("good")), "to_str": str(fact_id("fine")), "relation": "x"}
ATTRIBUTE = {"hub_str": str(hub_id("ada l")), "key": "k", "value": 1}
ENTITY = {"type": "entity", "name": "Ada"}
RELATION = {"type": "relation", "from": "Ada", "to": "Bob", "relationType": "knows"}
BAD_LINES: list[Any] = [
    # not JSON, or nothing that we know
    "not json", "[]", "5", '"text"', "null", "{}", "{" * 100_000, "[" * 100_000, "1" * 10_000,
    {"velesdb_memory_export": 99}, {"velesdb_memory_export": None}, {"something": "else"},
    # facts
    {"content": "x"}, {"id_str": "1", "content": "x"}, {"id_str": X, "content": 5}, {"id": float(X), "content": "x"},
    {"id_str": str(fact_id("")), "content": ""}, {"id_str": str(fact_id("a" * 2_049)), "content": "a" * 2_049},
    fact_line("x", metadata=5), fact_line("x", metadata=[1]), fact_line("x", metadata="text"),
    fact_line("x", metadata={"a": float("nan")}), fact_line("x", metadata={"a": 2**64}),
    fact_line("x", metadata={"a": 5}).replace("5}", "1e999}"),
    fact_line("x", metadata={"a": "\ud800"}), fact_line("x", metadata={"k": "y" * 70_000}),
    fact_line("x", kind="nonsense"), fact_line("x", kind=[]), fact_line("x", kind={}), fact_line("x", kind=5),
    fact_line("x", expires_at="soon"), fact_line("x", expires_at=1.5), fact_line("x", expires_at=-1),
    fact_line("x", expires_at=True), fact_line("x", confidence=2), fact_line("x", confidence="high"),
    fact_line("x", confidence=True), fact_line("x", confidence=[]), fact_line("x", confidence=0.5, successes=-1),
    fact_line("x", confidence=0.5, failures=1.5),
    # internal records
    {"id_str": str(hub_id("theo")), "content": "Entity: ada", "kind": "hub"},
    {"id_str": str(hub_id("theo")), "content": 5, "kind": "hub"},
    {"id_str": "5", "content": "\ud800", "kind": "source"},
    # edges
    {"edge": 5}, {"edge": {}}, {"edge": EDGE | {"from_str": "1"}}, {"edge": EDGE | {"to_str": EDGE["from_str"]}},
    {"edge": EDGE | {"relation": ""}}, {"edge": EDGE | {"relation": "\ud800"}}, {"edge": EDGE | {"relation": None}},
    {"edge": EDGE | {"taught_by": 5}}, {"edge": EDGE | {"taught_by": "12"}}, {"edge": EDGE | {"taught_by": [1.5]}},
    {"edge": EDGE | {"from_str": 1.0}},
    # attributes
    {"attribute": ATTRIBUTE | {"hub_str": str(fact_id("good"))}}, {"attribute": ATTRIBUTE | {"key": "content"}},
    {"attribute": ATTRIBUTE | {"key": 5}}, {"attribute": ATTRIBUTE | {"value": "\ud800"}},
    {"attribute": ATTRIBUTE | {"taught_by": 1.5}},
    # the MCP memory server's
    {"type": "entity"}, ENTITY | {"name": "..."}, ENTITY | {"name": 5}, ENTITY | {"observations": 5},
    ENTITY | {"observations": [5]}, ENTITY | {"observations": ["\ud800"]}, ENTITY | {"entityType": "\ud800"},
    ENTITY | {"observations": ["x" * 2_048]}, RELATION | {"to": "ada"}, RELATION | {"to": None},
    RELATION | {"relationType": "\n"}, RELATION | {"relationType": 5},
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_LINES, ids=lambda bad: (bad if isinstance(bad, str) else json.dumps(bad))[:60])
def test_D31_a_line_that_cannot_be_taken_is_reported_and_costs_no_other(memory: MemoryService, bad: Any) -> None:
    entity = json.dumps({"type": "entity", "name": "Ada L", "observations": []})
    wrong = bad if isinstance(bad, str) else json.dumps(bad)
    report = memory.import_([fact_line("good"), entity, fact_line("fine"), wrong, fact_line("also good")])
    assert [problem.line for problem in report.problems] == [4]
    assert report.facts == 3
    assert sorted(entry.content for entry in listed(memory)) == ["also good", "fine", "good"]
    assert len(listed(memory, include_internal=True)) == 4
    assert_sound(memory)


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64, 10**30])
def test_D31_a_moment_or_a_count_beyond_the_database_is_capped_or_reported(memory: MemoryService, number: int) -> None:
    report = memory.import_(
        [
            fact_line("good"),
            fact_line("late", expires_at=number),
            fact_line("many", confidence=0.5, successes=number),
            fact_line("also good"),
        ]
    )
    assert {problem.line for problem in report.problems} <= {2, 3}
    assert {"good", "also good"} <= {entry.content for entry in listed(memory)}
    assert_sound(memory)


def test_D2_D31_a_text_that_collides_is_reported_and_overwrites_nothing(memory: MemoryService) -> None:
    report = memory.import_([fact_line("8yn0iYCKYHlIj4-BwPqk"), fact_line("GReLUrM4wMqfg9yzV3KQ")])
    assert [problem.line for problem in report.problems] == [2]
    assert [entry.content for entry in listed(memory)] == ["8yn0iYCKYHlIj4-BwPqk"]


@pytest.mark.parametrize("lines", [["hello", "world"], ["<xml/>"], ["[1]"]])
def test_D31_a_file_that_is_no_export_is_refused(memory: MemoryService, lines: list[str]) -> None:
    with pytest.raises(TransferFormat) as caught:
        memory.import_(lines)
    assert isinstance(caught.value, ValueError)
    assert listed(memory) == []


def test_blank_lines_are_passed_over_and_count_as_lines(memory: MemoryService) -> None:
    report = memory.import_(["", "  \n", fact_line("x") + "\r\n", "\t", "bad"])
    assert (report.facts, [problem.line for problem in report.problems]) == (1, [5])
    assert memory.import_([]) == memory.import_(["\n"])


def test_D1_only_white_space_makes_a_line_blank(memory: MemoryService) -> None:
    assert len(memory.import_([fact_line("x"), "\x1c\x1d"]).problems) == 1


def test_D31_more_lines_than_one_transaction_holds_are_taken_in_order(memory: MemoryService) -> None:
    texts = [f"fact {n}" for n in range(1_300)]
    seen: list[int] = []
    report = memory.import_((fact_line(text) for text in texts), progress=seen.append)
    assert report.facts == 1_300 and seen[-1] == 1_300
    assert memory.memory_status().memory.facts == 1_300
    done: list[int] = []
    assert len(list(memory.export(progress=done.append))) == 1_301
    assert done[-1] == 1_300
    assert_sound(memory)


def test_C40_D30_an_export_works_whatever_the_embedder_and_an_import_does_not(open_memory: Opener) -> None:
    with open_memory() as memory:
        memory.remember("x")
    other = open_memory(embedder=FixedEmbedder(model="other"))
    lines = lines_of(other.export())
    assert len(lines) == 2
    with pytest.raises(ProvenanceMismatch):
        other.import_(lines)


def test_D6_an_embedder_that_fails_leaves_whole_batches_only(folder: Path) -> None:
    class Failing(FixedEmbedder):
        def embed(self, texts: Any) -> Any:
            if "f600" in texts:
                raise ConnectionError("down")
            return super().embed(texts)

    with MemoryService(folder, Failing()) as memory:
        with pytest.raises(EmbedError):
            memory.import_(fact_line(f"f{n}") for n in range(1_000))
        assert memory.memory_status().memory.facts == 512
        assert_sound(memory)


def test_a_service_can_be_used_while_its_export_is_read(memory: MemoryService) -> None:
    for n in range(3):
        memory.remember(f"fact {n}")
    read = []
    for line in memory.export():
        read.append(line)
        if "content" in line:
            memory.feedback(line["id"], True)
            assert len(memory.recall("fact")) == 3
    assert len(read) == 4


def test_an_export_that_is_not_read_to_its_end_holds_nothing_up(memory: MemoryService) -> None:
    memory.remember("x")
    lines = memory.export()
    next(lines)
    memory.remember("y")
    assert memory.memory_status().memory.facts == 2


def test_a_service_can_read_its_own_export(memory: MemoryService) -> None:
    memory.remember("x")
    assert memory.import_(json.dumps(line) for line in memory.export()).problems == []


def test_an_export_of_an_empty_store_is_its_manifest(memory: MemoryService, other: MemoryService) -> None:
    assert len(everything(memory)) == 1
    assert moved(memory, other).problems == []
