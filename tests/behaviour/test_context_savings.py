"""What compilations saved, counted exactly (D49; context.md §21)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Opener
from support.compiling import compiled, request_for
from support.stores import assert_sound, everything, lines_of, listed, scratch
from velesdb_memory import (
    ContextSavings,
    Insights,
    MemoryService,
    ModelPrice,
    Pricing,
    TranscriptRequest,
)
from velesdb_memory.errors import InvalidArgument
from velesdb_memory.memory import savings
from velesdb_memory.testing import FixedClock

LARGEST = 2**64 - 1
NOTHING = ContextSavings(0, 0, 0, 0, {})


def price(micros: int, currency: str = "USD") -> Pricing:
    return Pricing("v1", currency, {"m": ModelPrice(micros)})


def rows(memory: MemoryService) -> list[dict[str, Any]]:
    """The counters as they are listed."""
    found = [entry.metadata or {} for entry in listed(memory, include_internal=True)]
    return [metadata for metadata in found if metadata.get("_veles_ctx_event")]


def counted(memory: MemoryService, *insights: Insights, project: str | None = None, ttl: int = 0) -> None:
    """Count compilations of any size, which no test could really make."""
    now = memory._core.clock.now()
    with memory._core.store.transaction(now) as tx:
        for each in insights:
            assert savings.count(tx, project, None, each, now + ttl if ttl else None) is None


def test_nothing_compiled_is_nothing_saved(memory: MemoryService) -> None:
    assert memory.context_savings() == memory.context_savings("shop") == NOTHING


def test_the_sum_of_all_compilations_and_of_each_project(memory: MemoryService) -> None:
    told: dict[str | None, list[Insights]] = {"shop": [], "else": [], None: []}
    for index in range(12):
        for project, insights in told.items():
            insights.append(compiled(memory, "a " * (index + 3), "a " * (index + 3), project=project).insights)

    def total(*groups: list[Insights]) -> ContextSavings:
        every = [each for group in groups for each in group]
        return ContextSavings(
            len(every),
            sum(each.tokens_in for each in every),
            sum(each.tokens_out for each in every),
            sum(each.tokens_saved for each in every),
            {},
        )

    assert memory.context_savings() == total(*told.values())
    assert memory.context_savings("shop") == total(told["shop"])
    assert memory.context_savings("else") == total(told["else"])
    assert memory.context_savings("") == memory.context_savings("SHOP") == NOTHING
    assert memory.context_savings().tokens_saved > 0
    assert memory.context_savings().truncated is False


def test_what_is_not_to_be_recorded_is_not_counted(memory: MemoryService) -> None:
    compiled(memory, "x", record_events=False)
    memory.explain_compilation(request_for("x"), "1", 0)
    assert memory.context_savings() == NOTHING


def test_transcripts_count_too(memory: MemoryService) -> None:
    memory.compile_transcript(TranscriptRequest("", "User: x\nAssistant: y", 100, project="shop"))
    assert memory.context_savings("shop").events == 1


def test_d49_any_number_of_compilations_is_counted_in_one_row(memory: MemoryService, clock: FixedClock) -> None:
    counted(memory, *[Insights(7, 3, 4, {})] * 1_500, project="shop")
    clock.advance(10**6)
    counted(memory, *[Insights(7, 3, 4, {})] * 1_500, project="shop")
    assert memory.context_savings() == ContextSavings(3_000, 21_000, 9_000, 12_000, {})
    assert len(rows(memory)) == 1


def test_each_project_model_and_currency_has_a_row(memory: MemoryService, clock: FixedClock) -> None:
    for project, model, pricing in [
        ("shop", None, None), ("shop", "m", None), ("shop", "m", price(5)), ("shop", "m", price(5, "EUR")),
        (None, "m", None), (None, None, None),
    ]:  # fmt: skip
        for _ in range(2):
            compiled(memory, "x", "x", project=project, target_model=model, pricing=pricing)
    shown = rows(memory)
    assert len(shown) == 6
    assert {row["_veles_ctx_events"] for row in shown} == {2}
    assert memory.context_savings().events == 12
    assert memory.context_savings("shop").events == 8


def test_money_is_summed_by_currency_and_only_where_there_is_some(memory: MemoryService) -> None:
    saved = compiled(memory, "a b c d", "a b c d", target_model="m", pricing=price(3_000_000)).insights
    assert saved.estimated_cost_saved_micros == saved.tokens_saved * 3
    compiled(memory, "a b c d", "a b c d", target_model="m", pricing=price(2_000_000, "EUR"))
    compiled(memory, "a b c d", "a b c d", target_model="m", pricing=price(1_000_000, "EUR"))
    compiled(memory, "a b c d", "a b c d", target_model="m", pricing=price(0, "JPY"))
    compiled(memory, "a b c d", "a b c d", target_model="other", pricing=price(9_000_000, "CHF"))
    assert memory.context_savings().cost_saved_micros_by_currency == {
        "EUR": 3 * saved.tokens_saved,
        "USD": 3 * saved.tokens_saved,
    }


def test_sums_stop_at_the_largest_number(memory: MemoryService) -> None:
    huge = Insights(LARGEST, LARGEST - 1, 1, {}, LARGEST, "USD", "v")
    counted(memory, huge)
    assert memory.context_savings() == ContextSavings(1, LARGEST, LARGEST - 1, 1, {"USD": LARGEST})
    counted(memory, huge)
    counted(memory, huge, project="shop")
    assert memory.context_savings() == ContextSavings(3, LARGEST, LARGEST, 3, {"USD": LARGEST})


COUNTS = st.sampled_from([0, 1, 2**53, 2**53 + 1, 2**63, LARGEST - 1, LARGEST]) | st.integers(0, LARGEST)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([None, "a", "b"]), COUNTS, COUNTS, COUNTS), max_size=12))
def test_d49_the_sums_are_those_of_whole_numbers(events: list[tuple[str | None, int, int, int]]) -> None:
    with scratch() as memory:
        for project, tokens_in, tokens_out, saved in events:
            counted(memory, Insights(tokens_in, tokens_out, saved, {}), project=project)
        for project in (None, "a", "b"):
            own = [event for event in events if project in (None, event[0])]
            assert memory.context_savings(project) == ContextSavings(
                len(own), *(min(sum(event[place] for event in own), LARGEST) for place in (1, 2, 3)), {}
            )


def test_events_with_a_lifetime_are_counted_while_it_lasts(memory: MemoryService, clock: FixedClock) -> None:
    compiled(memory, "x", event_ttl_seconds=10)
    compiled(memory, "x", event_ttl_seconds=10)
    compiled(memory, "x", event_ttl_seconds=0)
    clock.advance(5)
    compiled(memory, "x", event_ttl_seconds=10)
    assert (memory.context_savings().events, len(rows(memory))) == (4, 3)
    clock.advance(5)
    assert memory.context_savings().events == 2
    clock.advance(5)
    assert memory.context_savings().events == 1


def test_a_counter_shows_what_it_counts(memory: MemoryService) -> None:
    insights = compiled(memory, "x", project="shop", target_model="m", pricing=price(5), store_sources=False).insights
    (entry,) = listed(memory, include_internal=True)
    assert entry.metadata is not None
    store = entry.metadata.pop("_veles_ctx_store")
    assert len(store) == 32 and int(store, 16)
    assert entry.metadata == {
        "_veles_hub": True,
        "_veles_ctx_event": True,
        "_veles_ctx_project": "shop",
        "_veles_ctx_model": "m",
        "_veles_ctx_currency": "USD",
        "_veles_ctx_events": 1,
        "_veles_ctx_tokens_in": insights.tokens_in,
        "_veles_ctx_tokens_out": insights.tokens_out,
        "_veles_ctx_tokens_saved": 0,
        "_veles_ctx_cost_micros": 0,
    }


def test_a_callers_fact_never_counts(memory: MemoryService) -> None:
    memory.remember("compilations counted for context_savings", metadata={"project": "shop", "tokens_saved": 5})
    assert memory.context_savings() == NOTHING
    assert listed(memory)[0].metadata is not None


@pytest.mark.parametrize("wrong", [5, "x" * 257, b"shop", "\ud800"])
def test_a_project_that_is_none_is_refused(memory: MemoryService, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="project"):
        memory.context_savings(wrong)


# Moving


def test_d31_counts_move_with_an_export_once_however_often(
    memory: MemoryService, open_memory: Opener, tmp_path: Any
) -> None:
    compiled(memory, "x", "x", project="shop", target_model="m", pricing=price(10**6))
    counted(memory, Insights(LARGEST, 1, 1, {}), ttl=500)
    other = open_memory(tmp_path / "other")
    lines = lines_of(memory.export(include_internal=True))
    for _ in range(2):
        assert other.import_(lines).problems == []
        assert list(other.export(include_internal=True))[1:] == list(memory.export(include_internal=True))[1:]
        assert other.context_savings() == memory.context_savings()
    assert_sound(other)


def test_d31_the_counts_of_two_stores_add_up(memory: MemoryService, open_memory: Opener, tmp_path: Any) -> None:
    other = open_memory(tmp_path / "other")
    counted(memory, *[Insights(7, 3, 4, {})] * 3, project="shop")
    counted(other, *[Insights(7, 3, 4, {})] * 2, project="shop")
    early = lines_of(memory.export(include_internal=True))
    other.import_(early)
    assert other.context_savings("shop") == ContextSavings(5, 35, 15, 20, {})
    # a later export brings the rest, an older one takes nothing back, and one's own come home without doubling
    counted(memory, Insights(7, 3, 4, {}), project="shop")
    other.import_(lines_of(memory.export(include_internal=True)))
    other.import_(early)
    assert other.context_savings().events == 6
    memory.import_(lines_of(other.export(include_internal=True)))
    assert memory.context_savings() == other.context_savings()


def line(memory: MemoryService, **changed: Any) -> str:
    (found,) = [each for each in memory.export(include_internal=True) if each.get("kind") == "event"]
    return json.dumps(found | {"metadata": found["metadata"] | changed})


@pytest.mark.parametrize(
    "wrong",
    [
        {"_veles_ctx_project": "other"}, {"_veles_ctx_model": "m"}, {"_veles_ctx_store": None},
        {"_veles_ctx_store": 5}, {"_veles_ctx_events": -1}, {"_veles_ctx_events": 2**64}, {"_veles_ctx_events": 1.5},
        {"_veles_ctx_tokens_in": True}, {"_veles_ctx_tokens_out": "5"}, {"_veles_ctx_cost_micros": None},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_d31_exported_counts_with_a_fault_are_reported(memory: MemoryService, wrong: Any) -> None:
    counted(memory, Insights(7, 3, 4, {}), project="shop")
    before = everything(memory)
    report = memory.import_([line(memory), line(memory, **wrong)])
    assert [problem.line for problem in report.problems] == [2]
    assert everything(memory) == before
