"""Facts as a timeline: recall_fused_dated (memory.md §6; D16)."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory import DatedContext, MemoryService, Recollection
from velesdb_memory.errors import InvalidArgument
from velesdb_memory.memory.fused import dated_context, is_date

DAYS_OF = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def names_a_day(value: Any) -> bool:
    """The calendar, written down once more."""
    if type(value) is not int or value <= 0:
        return False
    year, month, day = value // 10_000, value // 100 % 100, value % 100
    if not 1 <= month <= 12:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= DAYS_OF[month - 1] + (month == 2 and leap)


def timeline(entries: list[tuple[Any, str]]) -> DatedContext | None:
    """What the dated context of facts with these dates must be."""
    dated = [(value, text) for value, text in entries if names_a_day(value)]
    if not dated:
        return None

    def shown(value: int) -> str:
        digits = str(value).zfill(8)
        return f"{digits[:-4]}-{digits[-4:-2]}-{digits[-2:]}"

    lines = [f"- [{shown(value)}] {text}" for value, text in sorted(dated, key=lambda entry: entry[0])]
    lines += [f"- {text}" for value, text in entries if not names_a_day(value)]
    return DatedContext("\n".join(lines), shown(max(value for value, _ in dated)))


DATES = (
    st.dates().map(lambda day: day.year * 10_000 + day.month * 100 + day.day)
    | st.integers(0, 2**64 - 1)
    | st.builds(
        lambda y, m, d: y * 10_000 + m * 100 + d, st.integers(0, 99_999), st.integers(0, 13), st.integers(0, 32)
    )
    | st.sampled_from(
        [20240229, 20230229, 19000229, 20000229, 100000101, 123450101, 20231114.0, "20231114", True, None]
    )
)


@given(st.lists(st.tuples(DATES, st.sampled_from(["one", "two\nlines", "drei"])), max_size=8))
def test_a_timeline_is_what_a_naive_reading_makes_it(entries: list[tuple[Any, str]]) -> None:
    hits = [Recollection(number, 0.5, text, {"when": value}) for number, (value, text) in enumerate(entries)]
    assert dated_context(hits, "when") == timeline(entries)


@given(st.dates())
def test_every_day_of_the_calendar_is_a_date(day: date) -> None:
    assert is_date(day.year * 10_000 + day.month * 100 + day.day)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (20231114, "2023-11-14"),
        (20240229, "2024-02-29"),
        (20000229, "2000-02-29"),
        (10101, "0001-01-01"),
        (123450101, "12345-01-01"),
        (99991231, "9999-12-31"),
        (100000229, "10000-02-29"),
    ],
)
def test_dates_are_shown_with_years_of_at_least_four_digits(memory: MemoryService, value: int, shown: str) -> None:
    memory.remember("it happened", metadata={"when": value})
    _, dated = memory.recall_fused_dated("happened", date_field="when")
    assert dated == DatedContext(f"- [{shown}] it happened", shown)


@pytest.mark.parametrize(
    "value",
    [
        20230229,
        19000229,
        20231301,
        20230001,
        20230100,
        20230432,
        0,
        -20231114,
        20231114.0,
        "20231114",
        True,
        None,
        [20231114],
    ],
)
def test_D16_what_is_no_whole_number_that_names_a_day_is_undated(memory: MemoryService, value: Any) -> None:
    memory.remember("it happened", metadata={"when": value})
    found, dated = memory.recall_fused_dated("happened", date_field="when")
    assert len(found) == 1
    assert dated is None


def test_the_oldest_comes_first_and_the_undated_last_in_their_order(memory: MemoryService) -> None:
    memory.remember("amber amber amber", metadata={"when": 20240301})
    memory.remember("amber basil", metadata={"when": 20240105})
    memory.remember("amber cedar delta", metadata={"when": "later"})
    memory.remember("amber ember fjord grove")
    found, dated = memory.recall_fused_dated("amber", date_field="when")
    undated = [hit.content for hit in found if not names_a_day((hit.metadata or {}).get("when"))]
    assert dated is not None and dated.now == "2024-03-01"
    assert dated.text.split("\n") == [
        "- [2024-01-05] amber basil",
        "- [2024-03-01] amber amber amber",
        *(f"- {text}" for text in undated),
    ]


def test_now_is_the_latest_date_among_what_came_back_not_in_the_store(memory: MemoryService) -> None:
    memory.remember("amber note", metadata={"when": 20240105})
    memory.remember("unlike anything", metadata={"when": 20300105})
    found, dated = memory.recall_fused_dated("amber note", 1, date_field="when")
    assert len(found) == 1
    assert dated is not None and dated.now == "2024-01-05"


def test_the_automatic_date_is_the_default(memory: MemoryService) -> None:
    memory.remember("amber note")
    found, dated = memory.recall_fused_dated("amber")
    assert found == memory.recall_fused("amber")
    assert dated == DatedContext("- [2023-11-14] amber note", "2023-11-14")


def test_D16_nothing_found_is_no_timeline(memory: MemoryService) -> None:
    assert memory.recall_fused_dated("amber") == ([], None)
    memory.remember("amber note")
    assert memory.recall_fused_dated("  ") == ([], None)


@pytest.mark.parametrize("field", [None, 3, "\ud800"])
def test_a_date_field_that_is_no_text_is_refused(memory: MemoryService, field: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        memory.recall_fused_dated("amber", date_field=field)
    assert caught.value.field == "date_field"
