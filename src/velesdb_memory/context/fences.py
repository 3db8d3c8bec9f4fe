"""Fenced code blocks, as CommonMark has them (D44).

A fence is a line of three or more backticks or tildes, indented by at most three spaces. What follows it on the line
is its info string, which holds no backtick after backticks: an inline triple backtick is no fence. It is closed by a
line of the same character, at least as many of them, and nothing but white space after; so a longer fence may hold
shorter ones. Lines end at LF.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, TypeAlias

from ..text import trim

# It begins with the LF before the line, because a search for one character is several times faster than one for
# the start of any line
_LINE: Final = re.compile(r"\n {0,3}(`{3,}+|~{3,}+)([^\n]*+)")

# Its range, its fence, whether it may open a block and whether it may close one. A plain tuple, because a text can
# have a million of them.
_Line: TypeAlias = tuple[int, int, str, bool, bool]


def fences(text: str, stops: Sequence[int] = ()) -> list[tuple[int, int]]:
    """The (start, end) character ranges of the fenced blocks of ``text``, in order, both fence lines included.

    A block that is never closed runs to the end, or to the first of ``stops``, ascending offsets of lines, behind it.
    """
    lines = _lines(text)
    closed = _closed(lines)
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(lines):
        start, _, fence, opens, _ = lines[at]
        at += 1
        if not opens:
            continue
        if closed[at - 1]:
            while not _closes(lines[at], fence):
                at += 1
            end = lines[at][1]
            at += 1
        else:
            stop = bisect_right(stops, start)
            end = stops[stop] if stop < len(stops) else len(text)
            at = bisect_left(lines, (end,), lo=at)
        found.append((start, end))
    return found


def has_fence(text: str) -> bool:
    """Whether ``text`` has a fenced block."""
    return _possible(text) and any(_opens(*line.groups()) for line in _LINE.finditer("\n" + text))


def _possible(text: str) -> bool:
    # one character is found much faster than three
    return "`" in text or "~" in text


def _lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    if _possible(text):
        for found in _LINE.finditer("\n" + text):
            fence, info = found.groups()
            # the LF before the line is one further in the searched text than the line is in ``text``
            lines.append((found.start(), min(found.end(), len(text)), fence, _opens(fence, info), not trim(info)))
    return lines


def _opens(fence: str, info: str) -> bool:
    return fence[0] == "~" or "`" not in info


def _closed(lines: Sequence[_Line]) -> list[bool]:
    """For each line whether a later one closes a block that it opens: known beforehand, a text of fences that nothing
    closes is not searched to its end for every one of them."""
    longest = {"`": 0, "~": 0}
    closed = [False] * len(lines)
    for at in range(len(lines) - 1, -1, -1):
        _, _, fence, _, closes = lines[at]
        closed[at] = longest[fence[0]] >= len(fence)
        if closes and len(fence) > longest[fence[0]]:
            longest[fence[0]] = len(fence)
    return closed


def _closes(line: _Line, opening: str) -> bool:
    _, _, fence, _, closes = line
    return closes and fence[0] == opening[0] and len(fence) >= len(opening)
