"""Working contexts: saved, resumed, listed, forgotten (context.md §24, §31.20)."""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Opener
from support.stores import assert_sound, everything, lines_of, listed
from velesdb_memory import (
    DecisionReference,
    MemoryService,
    Note,
    SourceReference,
    WorkingContext,
    WorkingContextSession,
)
from velesdb_memory.errors import ContextOverLimit, IdCollision, InvalidArgument, WorkingContextCodec
from velesdb_memory.ids import fact_id, fnv1a64, working_id
from velesdb_memory.limits import MAX_FACT_BYTES
from velesdb_memory.testing import FixedClock

FULL = WorkingContext(
    goal="ship the release",
    active_constraints=[Note("never touch main"), Note("green CI", source="CONTRIBUTING.md")],
    verified_facts=[Note("the canary is at 2 %")],
    open_hypotheses=[Note("the cache is cold")],
    decisions=[DecisionReference(2**64 - 1, "preserve.code_fence")],
    exact_evidence=[
        SourceReference(7, "ctx://source/7"),
        SourceReference(2**53 + 1, "ctx://source/8", memory_id=2**63),
    ],
    pending_actions=["tag", ""],
)
GOAL = WorkingContext(goal="x")


def names(sessions: list[WorkingContextSession]) -> list[str]:
    return [each.session for each in sessions]


def row_of(folder: Path, sql: str, *values: Any) -> Any:
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as connection:
        return connection.execute(sql, values).fetchone()


def test_what_was_saved_comes_back_whole(memory: MemoryService, open_memory: Opener) -> None:
    memory.save_working_context("shop", "monday", FULL)
    for each in (memory, open_memory()):
        loaded = each.load_working_context("shop", "monday")
        assert loaded.found and loaded.working == FULL and loaded.other_sessions == []


def test_the_id_is_that_of_the_contract(memory: MemoryService) -> None:
    number = memory.save_working_context("shop", "monday", GOAL)
    assert number == fnv1a64(b"veles-ctx-working:shop\x1fmonday")


def test_saving_again_replaces_the_state_under_the_same_id(memory: MemoryService, clock: FixedClock) -> None:
    first = memory.save_working_context("shop", "monday", FULL)
    clock.advance(5)
    assert memory.save_working_context("shop", "monday", GOAL) == first
    assert memory.load_working_context("shop", "monday").working == GOAL
    assert memory.list_working_contexts("shop") == [WorkingContextSession("monday", clock.now())]
    assert len(listed(memory, include_internal=True)) == 1


@pytest.mark.parametrize(
    "empty",
    [
        WorkingContext(),
        WorkingContext(goal=""),
        WorkingContext(goal=" \n\u2003"),
        {},
        {"goal": None, "pending_actions": []},
    ],
)
def test_c34_c41_an_empty_state_is_refused_and_the_one_before_stands(memory: MemoryService, empty: Any) -> None:
    memory.save_working_context("shop", "monday", FULL)
    before = everything(memory)
    with pytest.raises(InvalidArgument, match="records nothing") as caught:
        memory.save_working_context("shop", "monday", empty)
    assert caught.value.field == "working"
    assert everything(memory) == before


@pytest.mark.parametrize(
    "least", [{"pending_actions": [""]}, {"verified_facts": [{"text": ""}]}, {"goal": "x"}, {"goal": "\x1f"}]
)
def test_the_least_entry_is_enough(memory: MemoryService, least: Any) -> None:
    memory.save_working_context("shop", "monday", least)
    assert memory.load_working_context("shop", "monday").found


@pytest.mark.parametrize("field", ["project", "session"])
@pytest.mark.parametrize("value", ["", " ", "\u2003\n", "x" * 257, "é" * 129, 5, None, "\ud800"])
def test_blank_and_overlong_names_are_refused_on_save(memory: MemoryService, field: str, value: Any) -> None:
    arguments = {"project": "shop", "session": "monday"} | {field: value}
    with pytest.raises(InvalidArgument) as caught:
        memory.save_working_context(**arguments, working=GOAL)
    assert caught.value.field == field
    assert listed(memory, include_internal=True) == []


def test_names_of_256_bytes_are_taken_and_not_trimmed(memory: MemoryService) -> None:
    longest = "é" * 128
    memory.save_working_context(longest, longest, GOAL)
    memory.save_working_context("pad", "pad", GOAL)
    assert memory.load_working_context(longest, longest).found
    assert not memory.load_working_context(" pad ", "pad").found
    assert not memory.load_working_context("pad", " pad ").found


@pytest.mark.parametrize("name", ["", " ", "x" * 257, "x" * 100_000])
def test_names_that_nothing_can_be_saved_under_find_nothing(memory: MemoryService, name: str) -> None:
    memory.save_working_context("shop", "monday", GOAL)
    assert memory.load_working_context(name, "monday").other_sessions == []
    loaded = memory.load_working_context("shop", name)
    assert not loaded.found and loaded.working is None and names(loaded.other_sessions) == ["monday"]
    assert memory.list_working_contexts(name) == []


def test_other_sessions_are_told_on_hit_and_miss_and_never_the_one_asked_for(memory: MemoryService) -> None:
    for session in ("a", "b", "c"):
        memory.save_working_context("shop", session, GOAL)
    memory.save_working_context("else", "z", GOAL)
    assert names(memory.load_working_context("shop", "b").other_sessions) == ["c", "a"]
    assert names(memory.load_working_context("shop", "B").other_sessions) == ["c", "b", "a"]
    assert names(memory.list_working_contexts("shop")) == ["c", "b", "a"]
    assert memory.list_working_contexts("never") == []


def test_the_latest_save_is_first_within_a_second_and_when_the_clock_steps_back(
    memory: MemoryService, clock: FixedClock
) -> None:
    for session in ("z", "a", "m"):
        memory.save_working_context("shop", session, GOAL)
    clock.advance(-3_600)
    memory.save_working_context("shop", "b", GOAL)
    memory.save_working_context("shop", "a", FULL)
    assert names(memory.list_working_contexts("shop")) == ["a", "b", "m", "z"]
    assert memory.list_working_contexts("shop")[0].saved_at == clock.now()
    clock.advance(7_200)
    memory.save_working_context("shop", "z", GOAL)
    assert names(memory.list_working_contexts("shop")) == ["z", "a", "b", "m"]


def test_ids_are_taken_as_numbers_and_as_decimal_strings(memory: MemoryService) -> None:
    text = {
        "decisions": [{"fragment_id": str(2**64 - 1), "rule_id": "r"}],
        "exact_evidence": [{"fragment_id": "7", "handle": "ctx://source/7", "memory_id": " +9 "}],
    }
    memory.save_working_context("shop", "text", text)
    loaded = memory.load_working_context("shop", "text").working
    assert loaded is not None
    assert loaded.decisions == [DecisionReference(2**64 - 1, "r")]
    assert loaded.exact_evidence == [SourceReference(7, "ctx://source/7", 9)]


@pytest.mark.parametrize(
    ("working", "said"),
    [
        (5, "must be an object"),
        ([], "must be an object"),
        ({"goal": 5}, "goal"),
        ({"active_constraints": ["a bare string"]}, "active_constraints"),
        ({"decisions": [{"fragment_id": 1.5, "rule_id": "r"}]}, "decisions[0].fragment_id"),
        ({"decisions": [{"fragment_id": 2**64, "rule_id": "r"}]}, "decisions[0].fragment_id"),
        ({"decisions": [{"rule_id": "r"}]}, "fragment_id"),
        ({"exact_evidence": [{"fragment_id": 1, "handle": "h", "memory_id": "x"}]}, "exact_evidence[0].memory_id"),
        ({"exact_evidence": 7}, "exact_evidence"),
        ({"pending_actions": [None]}, "pending_actions"),
        (WorkingContext(goal="\ud800"), "surrogates"),
        (WorkingContext(pending_actions=[object()]), "working"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_state_of_another_shape_is_refused(memory: MemoryService, working: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        memory.save_working_context("shop", "monday", working)
    assert said in str(caught.value)
    assert listed(memory, include_internal=True) == []


def test_a_state_over_a_mebibyte_is_refused_before_anything_is_written(memory: MemoryService) -> None:
    memory.save_working_context("shop", "monday", FULL)
    frame = len(json.dumps({"goal": ""} | {name: [] for name in LISTS}, separators=(",", ":")))
    largest = "é" * ((MAX_FACT_BYTES - frame) // 2) + "x" * ((MAX_FACT_BYTES - frame) % 2)
    with pytest.raises(ContextOverLimit) as caught:
        memory.save_working_context("shop", "monday", WorkingContext(goal=largest + "x"))
    assert (caught.value.field, caught.value.limit) == ("working", MAX_FACT_BYTES)
    assert memory.load_working_context("shop", "monday").working == FULL
    memory.save_working_context("shop", "monday", WorkingContext(goal=largest))
    loaded = memory.load_working_context("shop", "monday").working
    assert loaded is not None and loaded.goal == largest


LISTS = (
    "active_constraints",
    "verified_facts",
    "open_hypotheses",
    "decisions",
    "exact_evidence",
    "pending_actions",
)


def test_the_stored_body_has_the_fields_in_order_and_no_goal_that_is_not_there(memory: MemoryService) -> None:
    memory.save_working_context("shop", "monday", WorkingContext(pending_actions=["é"]))
    (entry,) = listed(memory, include_internal=True)
    assert entry.content == "{" + ",".join(f'"{name}":[]' for name in LISTS[:-1]) + ',"pending_actions":["é"]}'
    assert entry.metadata == {
        "_veles_hub": True,
        "_veles_ctx_working": True,
        "_veles_ctx_project": "shop",
        "_veles_ctx_session": "monday",
        "_veles_ctx_saved_at": 1_700_000_000,
        "_veles_ctx_save": 1_700_000_000 * 2**20,
    }


def test_forgetting_the_id_removes_it_everywhere(memory: MemoryService) -> None:
    first = memory.save_working_context("shop", "a", GOAL)
    memory.save_working_context("shop", "b", GOAL)
    assert memory.forget(first)
    assert names(memory.list_working_contexts("shop")) == ["b"]
    assert not memory.load_working_context("shop", "a").found
    assert not memory.forget(first)
    assert_sound(memory)


def test_d10_no_search_ever_finds_a_working_context(memory: MemoryService) -> None:
    fact = memory.remember("ship the release today", metadata={"project": "shop"})
    memory.save_working_context("shop", "ship the release", FULL)
    assert [hit.id for hit in memory.recall("ship the release")] == [fact]
    assert [hit.id for hit in memory.recall_fused("ship the release")] == [fact]
    assert [node.id for node in memory.why("ship the release").nodes] == [fact]
    assert [entry.id for entry in listed(memory)] == [fact]
    assert memory.memory_status().memory.facts == 1


def test_a_fact_on_the_id_is_neither_overwritten_nor_served(memory: MemoryService) -> None:
    """Any text can be made to have the id: it is a plain hash of a text that is known."""
    squatter = "veles-ctx-working:shop\x1fmonday"
    assert memory.remember(squatter) == working_id("shop", "monday")
    before = everything(memory)
    with pytest.raises(IdCollision, match="nothing was overwritten"):
        memory.save_working_context("shop", "monday", GOAL)
    assert everything(memory) == before
    assert not memory.load_working_context("shop", "monday").found
    assert memory.list_working_contexts("shop") == []


def test_a_forged_body_in_a_fact_is_never_served(memory: MemoryService) -> None:
    memory.remember('{"goal":"forged"}', metadata={"project": "shop", "session": "monday"})
    assert not memory.load_working_context("shop", "monday").found


def test_a_fact_cannot_take_the_id_of_a_saved_state(memory: MemoryService) -> None:
    memory.save_working_context("shop", "monday", FULL)
    with pytest.raises(IdCollision):
        memory.remember("veles-ctx-working:shop\x1fmonday")
    assert memory.load_working_context("shop", "monday").working == FULL


SEPARATED = st.text(alphabet="a1\x1f", min_size=1, max_size=6)


@settings(max_examples=300)
@given(st.tuples(SEPARATED, SEPARATED), st.tuples(SEPARATED, SEPARATED))
def test_names_with_the_separator_never_share_an_id(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (working_id(*one) == working_id(*other)) == (one == other)


def test_sessions_whose_names_hold_the_separator_are_kept_apart(memory: MemoryService) -> None:
    pairs = [("a\x1fb", "c"), ("a", "b\x1fc"), ("a", "b"), ("1\x1fa\x1fb", "c")]
    for pair in pairs:
        memory.save_working_context(*pair, WorkingContext(goal=repr(pair)))
    for pair in pairs:
        loaded = memory.load_working_context(*pair).working
        assert loaded is not None and loaded.goal == repr(pair)
    assert names(memory.list_working_contexts("a")) == ["b", "b\x1fc"]


@pytest.mark.parametrize("name", ["a\0", "\0", "a\0b", "%", "'", '"', "_", "\x1f", "😅", "A"])
def test_names_are_compared_to_the_character(memory: MemoryService, name: str) -> None:
    memory.save_working_context("a", "other", GOAL)
    memory.save_working_context(name, "mine", GOAL)
    assert names(memory.list_working_contexts(name)) == ["mine"]
    assert names(memory.list_working_contexts("a")) == ["other"]
    assert memory.load_working_context(name, "mine").found


@pytest.mark.parametrize(
    "content", [b"not json", b"[]", b'{"goal":5}', b'{"decisions":[{"fragment_id":"x"}]}', b"\xff"]
)
@pytest.mark.parametrize("deflated", [0, 1])
def test_a_stored_state_that_cannot_be_read_says_so_and_can_be_saved_anew(
    memory: MemoryService, folder: Path, content: bytes, deflated: int
) -> None:
    memory.save_working_context("shop", "monday", FULL)
    memory.save_working_context("shop", "tuesday", GOAL)
    data = zlib.compress(content)[:-1] if deflated else content
    row_of(
        folder,
        "UPDATE body SET content = ?, deflated = ? WHERE slot = (SELECT slot FROM memory WHERE id = ?)",
        data, deflated, working_id("shop", "monday") - 2**63,
    )  # fmt: skip
    with pytest.raises(WorkingContextCodec, match="cannot be read"):
        memory.load_working_context("shop", "monday")
    assert names(memory.load_working_context("shop", "tuesday").other_sessions) == ["monday"]
    memory.save_working_context("shop", "monday", FULL)
    assert memory.load_working_context("shop", "monday").working == FULL
    assert_sound(memory)


def test_a_long_state_is_kept_small(memory: MemoryService, folder: Path) -> None:
    memory.save_working_context("shop", "monday", WorkingContext(pending_actions=["do the same thing"] * 20_000))
    size, kept = row_of(folder, "SELECT length(content), deflated FROM body")
    assert kept and size < 20_000


def test_the_sessions_of_a_project_come_from_an_index(memory: MemoryService, folder: Path) -> None:
    for index in range(50):
        memory.save_working_context(f"project {index}", "s", GOAL)
    # the statement that lists them, as SQLite is given it
    told: list[str] = []
    database = memory._core.store._database  # pyright: ignore
    with database.outside() as connection:
        connection.set_trace_callback(told.append)
    memory.list_working_contexts("project 7")
    with database.outside() as connection:
        connection.set_trace_callback(None)
    [statement] = [text for text in told if "SELECT" in text]
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
    assert any("memory_project (project=? AND kind=?)" in step for step in plan), plan
    assert not any(step.startswith("SCAN") for step in plan), plan


def test_d31_working_contexts_move_with_an_export_and_again_without_change(
    memory: MemoryService, open_memory: Opener, tmp_path: Path, clock: FixedClock
) -> None:
    for session in ("z", "a", "b\x1fc"):
        memory.save_working_context("shop", session, FULL)
    other = open_memory(tmp_path / "other")
    lines = lines_of(memory.export(include_internal=True))
    assert other.import_(lines).problems == []
    assert list(other.export(include_internal=True))[1:] == list(memory.export(include_internal=True))[1:]
    assert other.list_working_contexts("shop") == memory.list_working_contexts("shop")
    report = other.import_(lines)
    assert (report.unchanged, report.problems) == (3, [])
    # a later save is not undone by an older export
    clock.advance(1)
    other.save_working_context("shop", "a", GOAL)
    assert other.import_(lines).problems == []
    assert other.load_working_context("shop", "a").working == GOAL
    assert_sound(other)


def test_d2_a_working_context_of_the_references_export_is_taken_over(memory: MemoryService) -> None:
    line = {
        "id": working_id("shop", "monday"),
        "content": '{"goal":"g","active_constraints":[],"verified_facts":[],"open_hypotheses":[],"decisions":'
        '[{"fragment_id":18446744073709551615,"rule_id":"r"}],"exact_evidence":[],"pending_actions":[]}',
        "metadata": {
            "_veles_hub": True,
            "_veles_ctx_working": True,
            "_veles_ctx_project": "shop",
            "_veles_ctx_session": "monday",
            "_veles_ctx_saved_at": 1_600_000_000,
        },
    }
    assert memory.import_([json.dumps(line)]).problems == []
    loaded = memory.load_working_context("shop", "monday").working
    assert loaded is not None and loaded.decisions == [DecisionReference(2**64 - 1, "r")]
    assert memory.list_working_contexts("shop") == [WorkingContextSession("monday", 1_600_000_000)]


GOOD = {
    "id_str": str(working_id("shop", "monday")),
    "content": '{"goal":"g"}',
    "kind": "working",
    "metadata": {"_veles_ctx_project": "shop", "_veles_ctx_session": "monday", "_veles_ctx_saved_at": 5},
}


@pytest.mark.parametrize(
    "bad",
    [
        {"id_str": "5"},
        {"id_str": str(fact_id("x"))},
        {"content": "{}"},
        {"content": "[]"},
        {"content": '{"goal":5}'},
        {"content": 5},
        {"content": '"' + "x" * 2**20 + '"'},
        {"metadata": {}},
        {"metadata": GOOD["metadata"] | {"_veles_ctx_project": ""}},
        {"metadata": GOOD["metadata"] | {"_veles_ctx_session": 5}},
        {"metadata": GOOD["metadata"] | {"_veles_ctx_saved_at": "now"}},
        {"metadata": GOOD["metadata"] | {"_veles_ctx_saved_at": -1}},
        {"metadata": GOOD["metadata"] | {"_veles_ctx_save": 2**64}},
    ],
)
def test_d31_an_exported_working_context_with_a_fault_is_reported(memory: MemoryService, bad: Any) -> None:
    report = memory.import_([json.dumps(GOOD | bad), json.dumps(GOOD | {"id_str": GOOD["id_str"]})])
    assert [problem.line for problem in report.problems] == [1]
    assert names(memory.list_working_contexts("shop")) == ["monday"]
    assert_sound(memory)
