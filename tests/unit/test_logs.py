"""Collapsing logs and recognising them (D41, D45)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from velesdb_memory.context.logs import Group, collapse, looks_like_log, render, runs, timestamp_mask

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "vectors.json").read_text(encoding="utf-8")
)
# Where we differ from the reference on purpose: what we give, and the decision
COLLAPSED_OTHERWISE = {
    "a\r\na\n\n\nb\nb\nb\n": ("a (x2)\n\nb (x3)", "D41: blank lines are not counted"),
    "x\n\n\ny\nx": ("x (x2)\n\ny", "D41: blank lines are not counted"),
}
EQUAL_PAST_THEIR_STAMPS = {
    " 2026-07-18T10:23:45Z m": "D45: behind white space",
    "10:23:45 m": "D45: the time alone",
    "2026/07/18 10:23:45 m": "D45: slashes",
    "[2026-07-18T10:23:45Z] m": "D45: brackets",
}


def collapsed(text: str, mask: bool = False) -> str | None:
    found = collapse(text, mask)
    return None if found is None else render(found.groups)


@pytest.mark.parametrize(("text", "outcome"), VECTORS["log_collapse_kind_log"])
def test_the_collapse_vectors_hold_but_for_blank_lines_D41(text: str, outcome: list[str]) -> None:
    rule, content = outcome
    expected = content if rule == "abstract.log_dedup" else None
    ours, _ = COLLAPSED_OTHERWISE.get(text, (expected, ""))
    assert collapsed(text) == ours


@pytest.mark.parametrize(("one", "other", "equal"), VECTORS["normalized_lines_collapse"])
def test_the_vectors_of_masked_lines_hold_but_for_more_stamps_D45(one: str, other: str, equal: bool) -> None:
    expected = equal or one in EQUAL_PAST_THEIR_STAMPS
    assert collapsed(f"{one}\n{other}", mask=True) == (f"{one} (x2)" if expected else None)


def test_every_listed_difference_is_one() -> None:
    assert set(COLLAPSED_OTHERWISE) <= {text for text, _ in VECTORS["log_collapse_kind_log"]}
    assert set(EQUAL_PAST_THEIR_STAMPS) == {
        one for one, _, equal in VECTORS["normalized_lines_collapse"] if one in EQUAL_PAST_THEIR_STAMPS and not equal
    }


# Collapsing


def test_lines_are_counted_wherever_they_come_and_stand_where_they_came_first() -> None:
    found = collapse("up\nretry\nretry\ndown\nretry\nup", mask=False)
    assert found is not None
    assert found.groups == [Group("up", 2, 0), Group("retry", 3, 1), Group("down", 1, 3)]
    assert render(found.groups) == "up (x2)\nretry (x3)\ndown"


def test_without_a_line_that_comes_again_there_is_nothing_to_collapse() -> None:
    assert collapse("a\n\n\nb\n  \n  \n", mask=False) is None
    assert collapse("a\na\n", mask=True) is not None


def test_a_cr_before_an_lf_belongs_to_the_line_end_and_no_other_does() -> None:
    assert collapsed("a\r\na\nb\rb\na\r") == "a (x2)\nb\rb\na\r"
    assert collapsed("a\x0ba\x0ba\u2028a") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\na\na", "a (x2)"),
        ("a\na\n\n\n", "a (x2)"),
        ("a\n\na\n\nb", "a (x2)\n\nb"),
        ("a\n\na\nb", "a (x2)\nb"),
        ("a\na\n  \n\u3000\nb\n\n", "a (x2)\n\u3000\nb"),
        ("a\n\x1c\n\x1c\na", "a (x2)\n\x1c (x2)"),
    ],
)
def test_one_blank_line_is_kept_where_it_comes_right_before_a_line_that_is_D41(text: str, expected: str) -> None:
    assert collapsed(text) == expected


def test_a_masked_line_is_shown_as_it_came_first() -> None:
    text = "10:00:00 [7f] pool exhausted\n10:00:01 [80] pool exhausted\nretry\n10:00:02 pool exhausted"
    found = collapse(text, mask=True)
    assert found is not None
    assert render(found.groups) == "10:00:00 [7f] pool exhausted (x3)\nretry"
    assert found.normalised


@pytest.mark.parametrize(
    ("text", "mask", "normalised"),
    [
        ("10:00:00 a\n10:00:01 a", True, True),
        ("a\na", True, False),
        ("10:00:00 a\n10:00:00 a", True, False),
        ("10:00:00 a\n10:00:01 a\nb\nb", True, True),
        ("10:00:00 a\n10:00:01 a\nb\nb", False, False),
    ],
)
def test_only_a_log_that_the_mask_made_shorter_counts_as_normalised(text: str, mask: bool, normalised: bool) -> None:
    found = collapse(text, mask)
    assert found is not None
    assert found.normalised is normalised


STAMPS = [
    "2026-07-18T10:23:45Z",
    "2026-07-18 10:23:45",
    "2026-07-18 10:23:45,123",
    "2026-07-18T10:23:45.123456789+02:00",
    "2026-07-18T10:23:45-0700",
    "2026-07-18 10:23:45.123 UTC",
    "[2026-07-18T10:23:45Z]",
    "[2026-07-18 10:23:45,123]",
    "(2026-07-18 10:23:45)",
    "10:23:45",
    "10:23:45.123",
    "[10:23:45]",
    "1784370225",
    "1784370225.123",
    "1784370225123",
    "[1784370225]",
    "2026/07/18 10:23:45",
    "2026/07/18 10:23:45.123456",
    "26/07/18 10:23:45",
    "07/18/2026 10:23:45",
    "18.07.2026 10:23:45",
    "18/Jul/2026:10:23:45 +0200",
    "[18/Jul/2026:10:23:45 +0200]",
    "18-Jul-2026 10:23:45.123",
    "Jul 18 10:23:45",
    "Jul  8 10:23:45",
    "[Sat Jul 18 10:23:45.123456 2026]",
    "Sat Jul 18 10:23:45 2026",
    "[   12.345678]",
    "[12345.678901]",
    "0718 10:23:45.123456",
    "  \t2026-07-18T10:23:45Z",
    "<34>Jul 18 10:23:45",
    "<165>1 2026-07-18T10:23:45.003Z",
    "web-1  | 2026-07-18T10:23:45Z",
    "INFO 2026-07-18 10:23:45",
    "[ERROR] 2026-07-18 10:23:45",
    "WARN  [10:23:45]",
    'time="2026-07-18T10:23:45Z"',
    "ts=2026-07-18T10:23:45Z",
    "level=info ts=2026-07-18T10:23:45Z",
    'I0718 10:23:45.123456',
    '127.0.0.1 - - [18/Jul/2026:10:23:45 +0200]',
    'cache.example.org - alice [18/Jul/2026:10:23:45 +0200]',
]


@pytest.mark.parametrize("stamp", STAMPS)
def test_a_line_is_compared_without_its_stamp_D45(stamp: str) -> None:
    other = stamp.replace("10:23:45", "11:59:01").replace("178437", "179999").replace("678", "679")
    assert other != stamp
    masked = timestamp_mask(f"{stamp} pool exhausted")
    assert masked is not None
    assert masked.endswith(" pool exhausted")
    assert masked == timestamp_mask(f"{other} pool exhausted")
    assert masked != timestamp_mask(f"{stamp} pool restored")
    assert looks_like_log(f"{stamp} pool exhausted\n" * 8)


@pytest.mark.parametrize(
    "line",
    [
        "pool exhausted at 10:23:45",
        "- 10:23:45 pool exhausted",
        "2026-07-18 pool exhausted",
        "2026-07-18T10:23 pool exhausted",
        "10:23 pool exhausted",
        "10:23:45:67:89:ab is the address",
        "10:23:45abc",
        "5551234567 calls",
        "17843702251 eleven digits",
        "1784370225-17 part",
        "1784370225.log",
        "[a1] counter alone",
        "Jul 8 10:23:45 one space",
        "jul 18 10:23:45 small letters",
        "٢٠٢٦-٠٧-١٨T١٠:٢٣:٤٥Z other digits",
        "",
    ],
)
def test_a_line_without_a_stamp_at_its_start_is_compared_as_it_is(line: str) -> None:
    assert timestamp_mask(line) is None


def test_what_comes_before_a_stamp_tells_lines_apart() -> None:
    leads = ["ERROR ", "INFO ", "", "  ", "E0718 ", "I0718 ", "web-1 | ", "web-2 | ", "level=info ts=", "ts="]
    assert len({timestamp_mask(f"{lead}10:00:00 a") for lead in leads}) == len(leads)


def test_a_line_cannot_be_taken_for_a_masked_one() -> None:
    masked = timestamp_mask("10:00:00 a")
    assert masked is not None
    with pytest.raises(UnicodeEncodeError):
        masked.encode()


# Recognising a log


@pytest.mark.parametrize(
    "line",
    [
        "INFO starting worker {}",
        "ERROR: cannot open {}",
        "WARNING:root:disk {} is nearly full",
        "DEBUG [pool-{}] idle",
        "FATAL | worker {} died",
        "[error] request {} failed",
        "[INFO] Building module {}",
        "[ WARN ] slow {}",
        "level=info msg=started n={}",
        "severity=ERROR n={}",
        'E0718 10:23:4{} server.go:12] lost',
        '{{"level":"info","ts":178437022{},"msg":"started"}}',
        '{{"time": "2026-07-18T10:23:4{}Z", "severity": "ERROR", "message": "lost"}}',
        '{{"level":30,"time":178437022512{},"msg":"started"}}',
        "npm WARN deprecated package{}",
        "10.0.0.{} - - [18/Jul/2026:10:23:45 +0200] \"GET / HTTP/1.1\" 200 12",
        "2026-07-18T10:23:4{}Z запуск",
        "2026-07-18T10:23:4{}Z ready\r",
    ],
)
def test_eight_lines_in_a_row_make_a_log_D45(line: str) -> None:
    lines = [line.format(number) for number in range(8)]
    assert looks_like_log("\n".join(lines))
    assert not looks_like_log("\n".join(lines[:7]))
    assert not looks_like_log("\n".join([*lines[:4], "", *lines[4:]]))
    assert runs("\n".join(["before", *lines, "after"])) == [(7, len("\n".join(["before", *lines])) + 1)]


@pytest.mark.parametrize(
    "line",
    [
        "The pool of worker {} was exhausted at 10:23:45 and came back later.",
        "Error handling in Go differs from that in language {}.",
        "Warning: do not feed the {} bears.",
        "- 2026-07-1{} 10:23:45 deployed",
        "* ERROR {} is documented elsewhere",
        "| 2026-07-18 10:23:4{} | ok |",
        "> INFO quoted {}",
        "{}. INFO in a numbered list",
        "2026-07-18T10:23:4{},12.5,ok",
        "2026-07-18 10:23:45,1{},ok",
        "2026-07-18 10:23:45,1{}.5",
        "2026-07-18T10:23:4{}Z;open;12",
        "2026-07-18T10:23:4{}Z\t12.5\t7",
        "2026-07-18T10:23:4{}Z",
        "178437022{} 12 13 14",
        "178437022{},ok",
        '    "2026-07-18T10:23:4{}Z",',
        '  "2026-07-18T10:23:4{}Z": "open",',
        "    ERROR: 'e{}',",
        "    INFO = {}",
        "DEBUG_{} = True",
        "ERROR = {}",
        "        return self._items[{}]",
        '{{"role": "user", "content": "INFO {}"}}',
        '{{"name": "player", "level": {}}}',
        "+2026-07-18 10:23:45 added in diff {}",
        "commit 178437022{}abcdef",
        "-rw-r--r-- 1 root root 12 Jul 18 10:23 file{}",
        "0{}:23:45,678 --> 00:00:01,000",
    ],
)
def test_prose_code_lists_and_data_are_no_log_D45(line: str) -> None:
    text = "\n".join(line.format(number) for number in range(9))
    assert not looks_like_log(text)
    assert runs(text) == []


def test_a_text_that_quotes_a_log_is_no_log_but_has_one() -> None:
    log = "".join(f"10:23:4{number} INFO step {number}\n" for number in range(9))
    article = "".join(f"Paragraph {number} explains what happened.\n" for number in range(10))
    text = article + log
    assert looks_like_log(log)
    assert not looks_like_log(text)
    assert runs(text) == [(len(article), len(text))]


def test_a_log_with_indented_traces_is_one() -> None:
    trace = "".join(f"\tat com.example.Frame{number}.run\n" for number in range(60))
    log = "".join(f"10:23:4{number} INFO step {number}\n" for number in range(8))
    assert looks_like_log(log + "10:23:50 ERROR boom\n" + trace)


# Logs within a text


def test_lines_that_come_again_make_a_log_without_looking_like_one() -> None:
    text = "start\n" + "retrying\n" * 8 + "done"
    assert runs(text) == [(6, 6 + 9 * 8)]
    assert runs("start\n" + "retrying\n" * 7 + "done") == []


def test_stamped_lines_and_repeated_ones_make_one_log_together() -> None:
    stamped = "".join(f"10:23:4{number} step {number}\n" for number in range(5))
    text = "start\n" + stamped + "flaky\n" * 4 + "done\n"
    assert [text[start:end] for start, end in runs(text)] == [stamped + "flaky\n" * 4]


def test_up_to_three_other_lines_between_log_lines_belong_to_the_log() -> None:
    first, *rest = [f"10:23:4{number} step {number}\n" for number in range(8)]
    log = first + "Traceback:\n  File a\nValueError: x\n" + "".join(rest)
    assert [text[start:end] for text in [f"before\n{log}after\n"] for start, end in runs(text)] == [log]
    assert runs(first + "a\nb\nc\nd\n" + "".join(rest)) == []
    assert runs(first + "a\n\nc\n" + "".join(rest)) == []
    # they do not count themselves
    assert runs(first + "a\nb\nc\n" + "".join(rest[:6])) == []


def test_what_the_entries_of_a_listing_have_in_common_is_no_log() -> None:
    shared = "".join(f"  key{number}: same\n" for number in range(9))
    assert runs(f"- name: one\n{shared}- name: two\n{shared}") == []


def test_a_log_within_a_text_goes_to_its_end_or_to_an_empty_line() -> None:
    text = "\n".join(f"10:23:4{number} step" for number in range(8))
    assert runs(text) == [(0, len(text))]
    assert runs(f"{text}\n") == [(0, len(text) + 1)]
    assert runs(f"{text}\n\n{text}\r\n") == [(0, len(text) + 1), (len(text) + 2, 2 * len(text) + 4)]


# Properties

WORDS = ["a", "b", "retry", "", " ", "\u3000", "10:00:00 a", "10:00:01 a", "[10:00:02] a", "x (x2)", "\x1c", "é😀"]
texts = st.lists(st.sampled_from(WORDS), max_size=20).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
)


@settings(max_examples=500)
@given(texts, st.booleans())
def test_a_collapsed_log_holds_every_line_once_with_its_count(text: str, mask: bool) -> None:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    solid = [(index, line) for index, line in enumerate(lines) if line.strip(" \u3000\r")]
    found = collapse(text, mask)
    keys = [(timestamp_mask(line) or line) if mask else line for _, line in solid]
    if found is None:
        assert len(set(keys)) == len(keys)
        return
    groups = [group for group in found.groups if group.line.strip(" \u3000\r")]
    assert [group.line for group in groups] == [lines[group.first] for group in groups]
    assert [group.first for group in found.groups] == sorted({group.first for group in found.groups})
    first = dict(reversed([(key, index) for (index, _), key in zip(solid, keys, strict=True)]))
    assert {group.first: group.count for group in groups} == {first[key]: keys.count(key) for key in first}
    blanks = [group for group in found.groups if group not in groups]
    assert all(blank.count == 1 and blank.first + 1 in first.values() for blank in blanks)
    assert len(render(found.groups).split("\n")) == len(found.groups)


ADVERSARIAL = (
    ["1", "[", "[ ", " ", "\t", "2026-07-18T10:23:45.", "2026-07-18T10:23:45.1", '{"', '{"level":', "a a a [", "<1>"],
    ["level=x ", "1784370225", "[a1] ", "[a1]", "a|", "a | ", "[ERROR ", ".123456]", "10:23:45 "],
    ["\n", "[\n", "\r\n", "é"],
)


@pytest.mark.parametrize("unit", [unit for units in ADVERSARIAL for unit in units])
def test_a_long_text_is_read_in_linear_time(unit: str) -> None:
    """One that was not would take hours."""
    text = unit * (300_000 // len(unit))
    log = "".join(f"10:23:45 step {number}\n" for number in range(8))
    for given_text in (text, log + text, f"10:23:45 {text}"):
        looks_like_log(given_text)
        assert all(start < end for start, end in runs(given_text))
        collapse(given_text, mask=True)
