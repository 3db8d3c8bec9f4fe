"""Cutting plain transcripts (D44 to D46)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from velesdb_memory.context.model import SegmentationPolicy
from velesdb_memory.context.transcript import Cut, segment
from velesdb_memory.errors import ContextOverLimit, InvalidArgument, SegmentationError
from velesdb_memory.limits import MAX_FRAGMENT_BYTES, MAX_FRAGMENTS, MAX_TRANSCRIPT_BYTES

GOLDEN = Path(__file__).parents[1] / "golden" / "cases"
PLAIN = SegmentationPolicy("plain")
LOG = "".join(f"10:23:4{number} INFO step {number}\n" for number in range(8))
CODE = "```sh\nmake all\n```\n"


def cut(transcript: str, policy: SegmentationPolicy = PLAIN) -> list[Cut]:
    _, cuts, _ = segment(transcript, policy)
    return cuts


def turns(transcript: str) -> list[tuple[int, str | None, str]]:
    return [(one.turn, one.role, one.fragment.content) for one in cut(transcript)]


def kinds(transcript: str, policy: SegmentationPolicy = PLAIN) -> list[tuple[str, str]]:
    return [(one.kind, one.fragment.content) for one in cut(transcript, policy)]


@pytest.mark.parametrize("name", ["08_transcript_plain", "09_transcript_plain_min0_tight", "10_transcript_jsonl"])
def test_the_golden_transcripts_are_cut_as_by_the_reference_D50(name: str) -> None:
    golden: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    request, expected = golden["request"], golden["response"]["segmentation"]
    policy = SegmentationPolicy(**request.get("segmentation", {}))
    detected, cuts, merged = segment(request["transcript"], policy)
    assert (detected, merged) == (expected["format_detected"], expected["merged_segments"])
    assert [
        {
            "index": index,
            "fragment_id": f"#{index}",
            "turn": one.turn,
            "role": one.role,
            "kind": one.kind,
            "byte_start": one.byte_start,
            "byte_end": one.byte_end,
        }
        for index, one in enumerate(cuts)
    ] == expected["segments"]


# Turns


@pytest.mark.parametrize("name", ["System", "User", "Human", "Assistant", "AI", "Tool", "Developer", "Function"])
def test_a_marker_opens_a_turn_in_any_case_D46(name: str) -> None:
    for marker in (f"{name}:", f"{name.upper()}:", f"{name.lower()}:", f"### {name}\n", f"### {name.lower()}:"):
        first = f"{marker} one\n"
        assert turns(f"{first}User: two") == [(0, name, first), (1, "User", "User: two")]


@pytest.mark.parametrize(
    "line",
    [
        " User: indented",
        "User : apart",
        "User",
        "Username: alice",
        "> User: quoted",
        "**User:** bold",
        "#### User",
        "##  User",
        "###User",
        "### Userland",
        "### User_name",
        "### Useré",
        "### Assistants",
        "### System requirements",
        "### AI in medicine",
        "### Tool use",
        "Uſer: long s",
        "\x0bUser: not at a line's start",
    ],
)
def test_what_only_looks_like_a_marker_opens_no_turn(line: str) -> None:
    assert turns(f"{line}\nmore") == [(0, None, f"{line}\nmore")]


@pytest.mark.parametrize("line", ["### User (alice)", "### User's question", "### assistant, continued", "### User\r"])
def test_the_headings_of_users_and_assistants_take_words_behind_them(line: str) -> None:
    assert [turn for turn, _, _ in turns(f"a\n{line}\nb")] == [0, 1]


@pytest.mark.parametrize("line", ["### System", "### Tool:", "### AI: text", "### human  ", "### Developer\r"])
def test_the_other_headings_stand_alone_or_have_a_colon(line: str) -> None:
    assert [turn for turn, _, _ in turns(f"a\n{line}\nb")] == [0, 1]


def test_a_line_begins_after_an_lf_only() -> None:
    assert len(turns("User: a\rAI: b\u2028AI: c\x85AI: d\x0cAI: e")) == 1
    assert len(turns("User: a\r\nAI: b\r\n")) == 2


def test_what_comes_before_the_first_marker_is_a_turn_of_nobody() -> None:
    assert turns("notes\n\nUser: hi") == [(0, None, "notes\n\n"), (1, "User", "User: hi")]
    assert turns("only notes") == [(0, None, "only notes")]
    assert turns(" \n\t") == [(0, None, " \n\t")]


def test_a_marker_inside_a_fenced_block_opens_no_turn_D44() -> None:
    block = "````md\nUser: in an example\n```\nAssistant: likewise\n```\n### User\n````\n"
    assert kinds(f"User: look\n{block}Assistant: I see") == [
        ("body", "User: look\n"),
        ("code", block),
        ("body", "Assistant: I see"),
    ]


def test_a_block_that_is_never_closed_ends_with_its_turn() -> None:
    assert kinds("Tool: output\n```\ncut off\nUser: go on\nplease\n") == [
        ("body", "Tool: output\n"),
        ("code", "```\ncut off\n"),
        ("body", "User: go on\nplease\n"),
    ]


def test_an_inline_triple_backtick_neither_hides_a_marker_nor_is_code_D44() -> None:
    assert kinds("User: run ```make```\nAI: ok\nUser: ```\n") == [
        ("body", "User: run ```make```\n"),
        ("body", "AI: ok\n"),
        ("body", "User: ```\n"),
    ]


# Within a turn


def test_a_turn_is_cut_into_code_logs_and_the_rest() -> None:
    turn = f"Tool: output\n{LOG}done\n{CODE}{LOG}"
    assert kinds(turn) == [("body", "Tool: output\n"), ("log", LOG), ("body", "done\n"), ("code", CODE), ("log", LOG)]
    assert {one.turn for one in cut(turn)} == {0}


def test_a_log_does_not_go_on_through_code_or_into_the_next_turn() -> None:
    half = "".join(LOG.splitlines(keepends=True)[:4])
    assert [kind for kind, _ in kinds(f"{half}{CODE}{half}AI: x\n{half}")] == ["body", "code", "body", "body"]


def test_lines_that_come_again_in_another_turn_are_no_log() -> None:
    block = "".join(f"line {number}\n" for number in range(8))
    assert [kind for kind, _ in kinds(f"User: a\n{block}AI: b\n{block}")] == ["body", "body"]
    assert kinds(f"User: a\n{block}{block}")[1] == ("log", block + block)


def test_small_neighbours_of_one_kind_are_joined_and_counted() -> None:
    small, large = "```\nx\n```\n", f"```\n{'y' * 300}\n```\n"
    transcript = f"User: a\n{small}{small}{large}{large}{small}AI: b\n{small}"
    detected, cuts, merged = segment(transcript, SegmentationPolicy("auto", 256))
    assert (detected, merged) == ("plain", 3)
    assert [one.fragment.content for one in cuts[1:3]] == [small + small + large, large + small]
    assert cuts[-1].fragment.content == small
    assert segment(transcript, SegmentationPolicy("auto", 0))[2] == 0


def test_fragments_say_what_they_are() -> None:
    cuts = cut(f"System: careful\n{CODE}User: hi\n{LOG}")
    assert [one.fragment.kind for one in cuts] == [None, "code", None, "log"]
    assert [one.fragment.metadata for one in cuts] == [
        {"role": "System", "turn": 0, "cache": True},
        {"role": "System", "turn": 0, "cache": True},
        {"role": "User", "turn": 1},
        {"role": "User", "turn": 1},
    ]
    assert all(one.fragment.id is None and one.fragment.priority == 0 for one in cuts)
    assert cut("x")[0].fragment.metadata == {"role": None, "turn": 0}


@pytest.mark.parametrize(
    ("transcript", "policy"),
    [
        ("System: a", SegmentationPolicy("auto", 256, False)),
        ("before\nSystem: a", PLAIN),
        ("User: a\nSystem: b", PLAIN),
        ("### Developer\na", PLAIN),
    ],
)
def test_only_a_first_turn_of_the_system_is_cached_and_only_if_the_policy_says_so(
    transcript: str, policy: SegmentationPolicy
) -> None:
    assert not any("cache" in (one.fragment.metadata or {}) for one in cut(transcript, policy))


# Limits


def test_an_empty_transcript_is_refused() -> None:
    for wanted in ("auto", "plain", "jsonl"):
        with pytest.raises(SegmentationError) as refused:
            segment("", SegmentationPolicy(wanted))
        assert refused.value.field == "transcript"


@pytest.mark.parametrize("character", ["a", "é"])
def test_a_transcript_of_8_mib_is_taken_and_one_of_a_byte_more_refused(character: str) -> None:
    text = character * (MAX_TRANSCRIPT_BYTES // len(character.encode()))
    assert cut(text)[-1].byte_end == MAX_TRANSCRIPT_BYTES
    with pytest.raises(ContextOverLimit) as refused:
        segment(text + "a", PLAIN)
    assert (refused.value.field, refused.value.limit) == ("transcript", MAX_TRANSCRIPT_BYTES)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        segment("User: \ud83d", PLAIN)


def sizes(transcript: str) -> list[int]:
    return [len(one.fragment.content.encode()) for one in cut(transcript)]


def test_a_body_of_more_than_a_mebibyte_is_cut_between_paragraphs() -> None:
    paragraph = "word " * 20_000 + "\n\n"
    text = paragraph * 25
    cuts = cut(text)
    assert "".join(one.fragment.content for one in cuts) == text
    assert all(one.fragment.content.endswith("\n\n") and one.byte_end % len(paragraph) == 0 for one in cuts)
    assert [one.byte_end for one in cuts] == [10 * len(paragraph), 20 * len(paragraph), len(text)]


@pytest.mark.parametrize(("open_line", "close_line"), [("", ""), ("```\n", "```\n")])
def test_lines_stay_whole_where_there_are_no_paragraphs(open_line: str, close_line: str) -> None:
    text = open_line + "".join(f"unique line {number} é\n" for number in range(80_000)) + close_line
    cuts = cut(text)
    assert len(cuts) == 2
    assert all(one.fragment.content.endswith("\n") for one in cuts)
    assert all(one.byte_end - one.byte_start <= MAX_FRAGMENT_BYTES for one in cuts)


def test_a_log_of_more_than_a_mebibyte_stays_a_log_and_keeps_its_lines() -> None:
    cuts = cut(LOG * 8_000)
    assert [one.kind for one in cuts] == ["log", "log"]
    assert all(one.fragment.content.endswith("\n") for one in cuts)


@pytest.mark.parametrize("character", ["a", "é", "漢", "😀"])
def test_one_long_line_is_cut_between_characters(character: str) -> None:
    text = "x" + character * (3 * MAX_FRAGMENT_BYTES // 2 // len(character.encode()))
    first, second = sizes(text)
    assert MAX_FRAGMENT_BYTES - 4 < first <= MAX_FRAGMENT_BYTES
    assert first + second == len(text.encode())


def test_turns_beyond_1024_are_windowed_of_one_role_and_oldest_first_D46() -> None:
    old = "".join(f"Tool: {number}\n" for number in range(6))
    text = "User: go\n" + old + "".join(f"User: {number}\nAI: {number}\n" for number in range(510))
    detected, cuts, merged = segment(text, PLAIN)
    assert (detected, len(cuts), merged) == ("plain", MAX_FRAGMENTS, 3)
    assert [(one.turn, one.role) for one in cuts[:4]] == [(0, "User"), (1, "Tool"), (5, "Tool"), (6, "Tool")]
    assert cuts[1].fragment.content == "Tool: 0\nTool: 1\nTool: 2\nTool: 3\n"
    assert cuts[-1].turn == 1026


def test_where_roles_alternate_the_oldest_turns_are_windowed_whoever_speaks_D46() -> None:
    text = "System: rules\n" + "".join(f"User: {number}\nAI: {number}\n" for number in range(600))
    detected, cuts, merged = segment(text, PLAIN)
    assert (detected, len(cuts), merged) == ("plain", MAX_FRAGMENTS, 1201 - MAX_FRAGMENTS)
    assert (cuts[0].fragment.content, cuts[0].role) == ("System: rules\n", "System")
    assert (cuts[1].role, cuts[1].turn, cuts[1].fragment.content) == (None, 1, "User: 0\nAI: 0\n")
    assert [one.turn for one in cuts[-500:]] == list(range(701, 1201))
    assert {one.role for one in cuts[-500:]} == {"User", "AI"}


def test_what_goes_into_the_stable_prefix_is_windowed_by_itself() -> None:
    text = "System: rules\n" + f"text\n```\n{'x' * 300}\n```\n" * 1_500 + "User: hi\nAI: ho\n"
    cuts = cut(text)
    assert len(cuts) == MAX_FRAGMENTS
    cached = [one for one in cuts if (one.fragment.metadata or {}).get("cache")]
    assert cached == cuts[:-2]
    assert "".join(one.fragment.content for one in cached) == text.removesuffix("User: hi\nAI: ho\n")


@pytest.mark.parametrize(
    "unit",
    ["AI:\n", "a\n```\n```\n", "User: ```x\n", "```\nAI:\n```\nAI:\n", "```x\nAI:\n", "\n", "\r", "😀\n", "### AI  "],
)
def test_any_transcript_is_cut_within_the_limits_in_linear_time(unit: str) -> None:
    """One that was not would take hours."""
    text = unit * (300_000 // len(unit.encode()))
    cuts = cut(text)
    assert len(cuts) <= MAX_FRAGMENTS
    assert max(sizes(text)) <= MAX_FRAGMENT_BYTES
    assert "".join(one.fragment.content for one in cuts) == text
