"""Cutting the transcript of a session into fragments: turns, and within them code, logs and the rest (D44 to D46).

In a plain transcript a turn begins with a marker at the start of a line: ``User:``, ``### Assistant`` and so on, in
any case. Markers inside a fenced block do not count, unless nothing ever closes the block. In a JSONL transcript each
line is a turn (``jsonl.py``). Within a turn a fenced block is code; 8 lines or more that look like a log, or that come
more than once, are a log; everything else is body. A turn of JSONL smaller than ``min_segment_bytes`` stays whole.

No fragment is larger than 1 MiB: what is larger is cut between paragraphs or lines. There are at most 1,024: of too
many the oldest neighbours are joined, those of one role first, into windows no larger than they have to be. A system
turn that goes into the stable prefix is never joined to what does not.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..errors import ContextOverLimit, SegmentationError
from ..limits import MAX_FRAGMENT_BYTES, MAX_FRAGMENTS, MAX_TRANSCRIPT_BYTES
from ..text import utf8_size
from . import jsonl, logs
from .fences import fences
from .model import ContextFragment, SegmentationPolicy, SegmentKind

Format: TypeAlias = Literal["plain", "jsonl"]

_NAMES: Final = ("System", "User", "Human", "Assistant", "AI", "Tool", "Developer", "Function")
_ROLES: Final = {name.lower(): name for name in _NAMES}
_NAME: Final = f"(?ai:({'|'.join(_NAMES)}))"
# "### System requirements" is a heading: only the two headings that have always been markers take words behind them
_MARKER: Final = re.compile(rf"\n(?:{_NAME}:|\#\#\# (?:(?ai:(User|Assistant))(?!\w)|{_NAME}(?=:|[ \t\r]*(?:\n|\Z))))")


class Cut(NamedTuple):
    """A fragment of a transcript: the turn it is of, or begins with, and its range of bytes."""

    fragment: ContextFragment
    turn: int
    role: str | None
    kind: SegmentKind
    byte_start: int
    byte_end: int


class _Part(NamedTuple):
    turn: int
    role: str | None
    kind: SegmentKind
    text: str
    start: int
    end: int


class _Piece(NamedTuple):
    kind: SegmentKind
    text: str
    size: int


def segment(transcript: str, policy: SegmentationPolicy) -> tuple[Format, list[Cut], int]:
    """The format of ``transcript``, its fragments in order, and how many pieces were joined to a neighbour.

    The ranges of bytes partition it, and the fragments of a plain transcript are its text.

    Raises SegmentationError for an empty transcript, or one that is not in the format ``policy`` asks for;
    ContextOverLimit for one over 8 MiB; InvalidArgument for one with a lone surrogate.
    """
    size = utf8_size(transcript, "transcript")
    if not size:
        raise SegmentationError("transcript is empty", field="transcript")
    if size > MAX_TRANSCRIPT_BYTES:
        raise ContextOverLimit(
            f"transcript is {size} bytes of UTF-8, over the cap of {MAX_TRANSCRIPT_BYTES}",
            field="transcript",
            limit=MAX_TRANSCRIPT_BYTES,
        )
    messages = _messages(transcript, policy.format)
    cutter = _Cutter(policy, joint="" if messages is None else "\n\n")
    turns = cutter.plain_turns(transcript) if messages is None else cutter.jsonl_turns(messages)
    cuts = cutter.cuts(turns)
    return "plain" if messages is None else "jsonl", cuts, cutter.joined


def _messages(transcript: str, wanted: str) -> list[jsonl.Message] | None:
    """The turns of a JSONL transcript; None for a plain one."""
    if wanted == "plain":
        return None
    try:
        return jsonl.read(transcript.encode())
    except SegmentationError:
        if wanted == "jsonl":
            raise
        return None


class _Cutter:
    """Cuts one transcript, whose turns have ``joint`` between them where they share a fragment. ``joined`` counts the
    pieces that went into a neighbour."""

    def __init__(self, policy: SegmentationPolicy, joint: str) -> None:
        self._policy = policy
        self._joint = joint
        self.joined = 0

    def plain_turns(self, text: str) -> list[_Part]:
        starts, roles = _openings(text)
        ends = [*starts[1:], len(text)]
        is_ascii = text.isascii()
        sizes = [end - start if is_ascii else _size(text[start:end]) for start, end in zip(starts, ends, strict=True)]
        offsets = [0, *accumulate(sizes)]
        turns: list[_Part] = []
        # before there is an object for each turn: 8 MiB can hold two million
        for first, behind in self._windows(sizes, roles, int(self._is_cached(0, roles[0]))):
            role, content = _common(roles[first:behind]), text[starts[first] : ends[behind - 1]]
            turns.append(_Part(first, role, "body", content, offsets[first], offsets[behind]))
        return turns

    def jsonl_turns(self, messages: Sequence[jsonl.Message]) -> list[_Part]:
        return self._windowed(
            [_Part(turn, said.role, "body", said.text, said.start, said.end) for turn, said in enumerate(messages)]
        )

    def cuts(self, turns: Sequence[_Part]) -> list[Cut]:
        return [self._cut(part) for part in self._windowed([part for turn in turns for part in self._parts(turn)])]

    def _cut(self, part: _Part) -> Cut:
        metadata: dict[str, Any] = {"role": part.role, "turn": part.turn}
        if self._is_cached(part.turn, part.role):
            metadata["cache"] = True
        kind = None if part.kind == "body" else part.kind
        fragment = ContextFragment(part.text, kind=kind, metadata=metadata)
        return Cut(fragment, part.turn, part.role, part.kind, part.start, part.end)

    def _is_cached(self, turn: int, role: str | None) -> bool:
        return self._policy.cache_system_turn and turn == 0 and role is not None and role.lower() == "system"

    # -- within a turn ------------------------------------------------------------------------------------------

    def _parts(self, turn: _Part) -> Iterator[_Part]:
        limited = [part for piece in self._pieces(turn.text) for part in _limited(piece)]
        pieces = self._with_small_ones_joined(limited)
        total = sum(piece.size for piece in pieces)
        done, start = 0, turn.start
        for piece in pieces:
            done += piece.size
            # exact for a plain transcript, where the range is that of the text; of a line of JSONL, the same share
            end = turn.start + (turn.end - turn.start) * done // total if total else turn.end
            yield _Part(turn.turn, turn.role, piece.kind, piece.text, start, end)
            start = end

    def _pieces(self, text: str) -> Iterator[_Piece]:
        if self._joint and ((size := _size(text)) < self._policy.min_segment_bytes or not size):
            yield _Piece("body", text, size)
        else:
            yield from _by_kind(text)

    def _with_small_ones_joined(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        together: list[list[_Piece]] = []
        size = 0
        for piece in pieces:
            fits = size + piece.size <= MAX_FRAGMENT_BYTES and min(size, piece.size) < self._policy.min_segment_bytes
            if together and fits and together[-1][0].kind == piece.kind:
                together[-1].append(piece)
                size += piece.size
            else:
                together.append([piece])
                size = piece.size
        self.joined += len(pieces) - len(together)
        return [_whole(some) for some in together]

    # -- windows ------------------------------------------------------------------------------------------------

    def _windowed(self, parts: list[_Part]) -> list[_Part]:
        """``parts``, the oldest of them joined where they are too many."""
        if len(parts) <= MAX_FRAGMENTS:
            return parts
        sizes = [_size(part.text) + len(self._joint) + _size(_label(part)) for part in parts]
        cached = sum(self._is_cached(part.turn, part.role) for part in parts)
        spans = self._windows(sizes, [part.role for part in parts], cached)
        return [self._window(parts[first:behind]) for first, behind in spans]

    def _window(self, parts: Sequence[_Part]) -> _Part:
        if len(parts) == 1:
            return parts[0]
        role = _common([part.role for part in parts])
        kind = parts[0].kind if len({part.kind for part in parts}) == 1 else "body"
        return _Part(parts[0].turn, role, kind, self._text(parts, role), parts[0].start, parts[-1].end)

    def _text(self, parts: Sequence[_Part], role: str | None) -> str:
        texts: list[str] = []
        turn = None
        for part in parts:
            if self._joint and part.turn != turn:
                # in a plain transcript the text itself says who speaks
                texts.append((self._joint if texts else "") + (_label(part) if part.role != role else ""))
                turn = part.turn
            texts.append(part.text)
        return "".join(texts)

    def _windows(self, sizes: Sequence[int], roles: Sequence[str | None], apart: int) -> list[tuple[int, int]]:
        """Which neighbours to join so that at most 1,024 are left, as (first, behind the last). The first ``apart``
        are not joined to those behind them.

        Windows of up to four times the mean size are enough: any two neighbours that do not fit into one are larger
        than that together, so there are half as many as allowed, and one.
        """
        starts = list(range(len(sizes)))
        offsets = [0, *accumulate(sizes)]
        mean = max(1, offsets[-1] // MAX_FRAGMENTS)
        for of_one_role, width in ((True, 4 * mean), (False, 2 * mean), (False, 4 * mean)):
            excess = len(starts) - MAX_FRAGMENTS
            if excess <= 0:
                break
            kept = starts[:1]
            for start, behind in pairwise([*starts[1:], len(sizes)]):
                fits = excess > 0 and start != apart and offsets[behind] - offsets[kept[-1]] <= width
                if fits and not (of_one_role and roles[start] != roles[kept[-1]]):
                    excess -= 1
                else:
                    kept.append(start)
            starts = kept
        self.joined += len(sizes) - len(starts)
        return list(pairwise([*starts, len(sizes)]))


def _openings(text: str) -> tuple[list[int], list[str | None]]:
    """Where the turns of a plain transcript begin, in characters, and who speaks in each."""
    markers: list[int] = []
    names: list[str] = []
    for found in _MARKER.finditer("\n" + text):
        # the LF before the line is one further in the searched text than the line is in ``text``
        markers.append(found.start())
        names.append(_ROLES[found[found.lastindex or 0].lower()])
    starts: list[int] = []
    roles: list[str | None] = []
    if not markers or markers[0] > 0:
        starts, roles = [0], [None]
    at = 0
    for start, end in [*fences(text, markers), (len(text), len(text))]:
        inside = bisect_right(markers, start, lo=at)
        starts += markers[at:inside]
        roles += names[at:inside]
        at = bisect_left(markers, end, lo=inside)
    return starts, roles


def _by_kind(text: str) -> Iterator[_Piece]:
    for start, end, is_code in _alternating(fences(text), len(text)):
        span = text[start:end]
        if is_code:
            yield _Piece("code", span, _size(span))
            continue
        for first, behind, is_log in _alternating(logs.runs(span), len(span)):
            part = span[first:behind]
            yield _Piece("log" if is_log else "body", part, _size(part))


def _whole(pieces: Sequence[_Piece]) -> _Piece:
    if len(pieces) == 1:
        return pieces[0]
    return _Piece(pieces[0].kind, "".join(piece.text for piece in pieces), sum(piece.size for piece in pieces))


def _alternating(ranges: Sequence[tuple[int, int]], length: int) -> Iterator[tuple[int, int, bool]]:
    """``ranges`` and what lies between them, each with whether it is one of them."""
    at = 0
    for start, end in ranges:
        if start > at:
            yield at, start, False
        yield start, end, True
        at = end
    if length > at:
        yield at, length, False


def _limited(piece: _Piece) -> Iterator[_Piece]:
    """``piece`` in pieces of at most 1 MiB, cut behind the last paragraph of a body or the last line that fits."""
    if piece.size <= MAX_FRAGMENT_BYTES:
        yield piece
        return
    data = piece.text.encode()
    at = 0
    while at < len(data):
        cut = _place_to_cut(data, at, piece.kind)
        yield _Piece(piece.kind, data[at:cut].decode(), cut - at)
        at = cut


def _place_to_cut(data: bytes, at: int, kind: SegmentKind) -> int:
    limit = at + MAX_FRAGMENT_BYTES
    if limit >= len(data):
        return len(data)
    for end in (b"\n\n", b"\n") if kind == "body" else (b"\n",):
        found = data.rfind(end, at, limit)
        if found >= 0:
            return found + len(end)
    # bytes 10xxxxxx continue a character
    while data[limit] & 0xC0 == 0x80:
        limit -= 1
    return limit


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _label(part: _Part) -> str:
    return f"{part.role}: " if part.role else ""


def _common(roles: Sequence[str | None]) -> str | None:
    return roles[0] if len(set(roles)) == 1 else None
