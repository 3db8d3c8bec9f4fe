"""Cutting a collapsed log down to what matters (D41)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from velesdb_memory.context.logs import Group, abridge, collapse, render

NOTE = re.compile(r"\[… (\d+) lines?(?:, (\d+) distinct)?\]")


def cost(text: str) -> int:
    """Roughly what estimators do: words by length, and half a token a line."""
    return sum(-(-len(word) // 4) for word in text.split()) + -(-text.count("\n") // 2)


def no_query(line: str) -> bool:
    return False


def numbered(count: int, wrong: Sequence[int] = (), counts: Sequence[int] = (1,)) -> list[Group]:
    return [
        Group(f"step {number} {'ERROR' if number in wrong else 'fine'}", counts[number % len(counts)], number)
        for number in range(count)
    ]


def test_errors_and_matches_of_the_query_come_before_everything_else() -> None:
    groups = numbered(100, wrong=[40, 77])
    text = abridge(groups, lambda line: "step 60 " in line, cost, 30)
    assert text == (
        "[… 40 lines]\nstep 40 ERROR\n[… 19 lines]\nstep 60 fine\n[… 16 lines]\nstep 77 ERROR\n[… 22 lines]"
    )


def test_a_line_that_is_both_comes_before_those_that_are_one() -> None:
    groups = numbered(100, wrong=[40, 50, 60])
    text = "[… 50 lines]\nstep 50 ERROR\n[… 49 lines]"
    assert abridge(groups, lambda line: "step 50 " in line, cost, cost(text)) == text


def test_the_first_and_the_last_lines_come_next_in_turns() -> None:
    text = abridge(numbered(100), no_query, cost, 25)
    assert text is not None
    lines = text.split("\n")
    assert lines[0] == "step 0 fine"
    assert lines[-1] == "step 99 fine"
    gap = next(number for number, line in enumerate(lines) if NOTE.fullmatch(line))
    assert abs(gap - (len(lines) - 1 - gap)) <= 1


def test_a_note_says_how_many_lines_were_left_out_and_how_many_were_different() -> None:
    groups = numbered(40, wrong=[0, 39], counts=[1, 4])
    text = "step 0 ERROR\n[… 95 lines, 38 distinct]\nstep 39 ERROR (x4)"
    assert abridge(groups, no_query, cost, cost(text)) == text


def test_a_line_too_long_for_the_budget_does_not_stand_in_the_way_of_others() -> None:
    groups = [Group("ERROR " + "x" * 4_000, 1, 0), *numbered(20)[1:]]
    text = abridge(groups, no_query, cost, 20)
    assert text is not None
    assert text.startswith("[… ")
    assert text.endswith("step 19 fine")


def test_a_long_line_that_is_left_out_alone_is_named_in_the_singular() -> None:
    groups = [Group("first", 1, 0), Group("y" * 4_000, 1, 1), Group("last", 1, 2)]
    assert abridge(groups, no_query, cost, 20) == "first\n[… 1 line]\nlast"


@pytest.mark.parametrize("budget", [0, 1, 5])
def test_there_is_nothing_where_not_one_line_fits_with_its_notes(budget: int) -> None:
    assert abridge(numbered(100), no_query, cost, budget) is None
    assert abridge([], no_query, cost, budget) is None


def test_everything_is_kept_where_everything_fits() -> None:
    groups = numbered(30, counts=[1, 2, 3])
    assert abridge(groups, no_query, cost, cost(render(groups))) == render(groups)


def test_a_blank_line_is_kept_only_between_lines_that_are() -> None:
    found = collapse("a\nb\n\nc\na\n" + "middle\n\nmuddle\n" * 2 + "y\n\nz", mask=False)
    assert found is not None
    text = "a (x2)\nb\n\nc\n[… 5 lines, 3 distinct]\nz"
    assert abridge(found.groups, lambda line: line in "abcz", cost, cost(text)) == text


@pytest.mark.parametrize(
    "line",
    [
        "2026-07-18T10:23:45Z ERROR pool exhausted",
        "java.lang.NullPointerException: x",
        "Traceback (most recent call last):",
        "level=error msg=lost",
        "kernel: Out of memory: Killed process, panic",
        "connection refused",
        "permission denied",
        "request timed out",
        "job 12 failed",
        "E0718 10:23:45.123456 12 server.go:12] lost",
        '10.0.0.1 - - [18/Jul/2026:10:23:45 +0200] "GET / HTTP/1.1" 503 12',
    ],
)
def test_a_line_that_tells_of_trouble_is_known_by_its_words(line: str) -> None:
    groups = [*numbered(50), Group(line, 1, 50), *(Group(f"step {n} fine", 1, n) for n in range(51, 100))]
    text = abridge(groups, no_query, cost, 35)
    assert text is not None
    assert line in text.split("\n")


def test_a_budget_is_used_though_parts_cost_more_than_the_whole() -> None:
    groups = numbered(10_000)
    text = abridge(groups, no_query, cost, 2_000)
    assert text is not None
    assert 1_900 < cost(text) <= 2_000


def test_a_cost_that_grows_where_parts_meet_is_still_kept_within_the_budget() -> None:
    def rising(text: str) -> int:
        return cost(text) * (1 + text.count("\n") // 10)

    text = abridge(numbered(1_000), no_query, rising, 300)
    assert text is not None
    assert rising(text) <= 300


def test_a_hundred_thousand_groups_are_cut_in_linear_time() -> None:
    """One by one against each other, they would take hours."""
    groups = numbered(100_000, wrong=range(0, 100_000, 3))
    for budget in (50, 20_000, 150_000):
        text = abridge(groups, no_query, cost, budget)
        assert text is not None
        assert cost(text) <= budget


lines = st.sampled_from(["ok", "fine by me", "ERROR boom", "retry", "x" * 90, "", "  "]) | st.integers(0, 30).map(str)


@settings(max_examples=400)
@given(st.lists(lines, max_size=60), st.integers(0, 120), st.sampled_from(["", "retry", "1"]))
def test_what_is_kept_fits_and_what_is_left_out_is_counted(log: list[str], budget: int, word: str) -> None:
    found = collapse("\n".join(log), mask=False)
    if found is None:
        return
    text = abridge(found.groups, lambda line: bool(word) and word in line, cost, budget)
    if text is None:
        return
    assert cost(text) <= budget
    solid = [group for group in found.groups if group.line.strip()]
    at = 0
    for line in text.split("\n"):
        note = NOTE.fullmatch(line)
        if note is not None:
            left_out = solid[at : at + int(note[2] or note[1])]
            assert int(note[1]) == sum(group.count for group in left_out)
            at += len(left_out)
        elif line.strip():
            assert line == render([solid[at]])
            at += 1
    assert at == len(solid)
