"""Fenced code blocks (D44)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.context.fences import fences, has_fence


def blocks(text: str, stops: list[int] | None = None) -> list[str]:
    return [text[start:end] for start, end in fences(text, stops or [])]


@pytest.mark.parametrize("mark", ["```", "~~~", "````", "~~~~~", "   ```", " ~~~"])
def test_a_block_goes_from_its_opening_to_its_closing_line(mark: str) -> None:
    block = f"{mark}sh\nmake all\n{mark}\n"
    assert blocks(f"before\n{block}after\n") == [block]


@pytest.mark.parametrize(
    "text",
    [
        "call ```make all``` first",
        "``` make ``` all\nnext",
        "```a`b\ncode",
        "    ```\ncode\n    ```",
        "\t```\ncode",
        "``\ncode\n``",
        "~~\ncode\n~~",
        "> ```\n> quoted",
        "\u00a0```\ncode",
        "a\r```\ncode",
        "",
    ],
)
def test_what_only_looks_like_a_fence_is_none(text: str) -> None:
    assert fences(text) == []
    assert not has_fence(text)


def test_tildes_take_backticks_in_their_info_string() -> None:
    assert blocks("~~~ a`b`\ncode\n~~~") == ["~~~ a`b`\ncode\n~~~"]


@pytest.mark.parametrize(
    "inside",
    [
        "```\nshorter\n```",
        "~~~\nother\n~~~",
        "~~~~~",
        "    ````",
        "````sh",
        "```` and text",
        "text ````",
    ],
)
def test_a_block_holds_what_does_not_close_it(inside: str) -> None:
    block = f"````md\n{inside}\n````\n"
    assert blocks(block + "after") == [block]


@pytest.mark.parametrize("closing", ["```", "````", "```   ", "```\t", "```\r", "   ```", "```\u3000"])
def test_a_closing_line_is_as_long_or_longer_with_white_space_behind(closing: str) -> None:
    assert blocks(f"```\ncode\n{closing}\nafter") == [f"```\ncode\n{closing}\n"]


def test_a_block_that_is_never_closed_runs_to_the_end() -> None:
    assert blocks("a\n```\ncode\n\nb") == ["```\ncode\n\nb"]
    assert blocks("```") == ["```"]


def test_a_block_that_is_never_closed_ends_at_the_next_stop() -> None:
    text = "one\n```\ncode\nstop\n~~~\nmore\n~~~\nstop\n"
    first = text.index("stop")
    assert blocks(text, [0, first]) == ["```\ncode\n", "~~~\nmore\n~~~\n"]


def test_a_stop_does_not_end_a_block_that_is_closed() -> None:
    text = "```\nstop\n```\n"
    assert blocks(text, [text.index("stop")]) == [text]


def test_blocks_follow_one_another_directly() -> None:
    assert blocks("```\na\n```\n```\nb\n```") == ["```\na\n```\n", "```\nb\n```"]


def test_offsets_are_characters_whatever_their_size() -> None:
    assert blocks("😀é\n```\n漢\n```\n") == ["```\n漢\n```\n"]


def by_the_book(text: str) -> list[tuple[int, int]]:
    """One line after the other, as CommonMark describes it."""
    found: list[tuple[int, int]] = []
    opening: tuple[int, str, int] | None = None
    at = 0
    for line in text.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip(" "))
        mark = line[indent : indent + 1]
        length = len(line[indent:]) - len(line[indent:].lstrip(mark)) if mark in ("`", "~") else 0
        rest = line[indent + length :]
        if indent <= 3 and length >= 3:
            if opening is None:
                if mark == "~" or "`" not in rest:
                    opening = (at, mark, length)
            elif mark == opening[1] and length >= opening[2] and not rest.strip():
                found.append((opening[0], at + len(line)))
                opening = None
        at += len(line)
    return [*found, (opening[0], len(text))] if opening else found


lines = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", " ", "   ", "    ", "x"]),
    st.sampled_from(["", "``", "```", "````", "~~~", "~~~~~"]),
    st.sampled_from(["", " ", "py", "a`b", " ```"]),
    st.sampled_from(["\n", "\n", "\n\n", "\r\n", ""]),
)


@given(st.lists(lines, max_size=12).map("".join))
def test_blocks_are_found_as_by_reading_line_by_line(text: str) -> None:
    assert fences(text) == by_the_book(text)
    assert has_fence(text) == bool(by_the_book(text))


@pytest.mark.parametrize("unit", ["```x\n", "~~~\n~~~\n", "` ", "`", "~", "   ", "\n", "``` `\n"])
def test_a_long_text_is_read_in_linear_time(unit: str) -> None:
    """One that was not would take hours."""
    text = unit * (300_000 // len(unit))
    assert (fences(text) == []) == (not has_fence(text))


def test_openings_that_nothing_closes_are_found_in_linear_time() -> None:
    text = "```x\nUser:\n" * 30_000
    stops = list(range(5, len(text), 11))
    assert len(fences(text, stops)) == 30_000
