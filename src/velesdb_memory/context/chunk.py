"""Cutting a text into pieces that partition it: fenced code stays whole, the rest is cut where the policy says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..limits import MIN_CHUNK_BYTES
from ..text import WHITE_SPACE
from .fences import fences
from .model import Boundary, ChunkPolicy

_PARAGRAPH: Final = re.compile(r"\n{2,}")
_SENTENCE: Final = re.compile(f"[.!?][{WHITE_SPACE}]")


def ceiling(policy: ChunkPolicy, usable: int, bytes_per_token: int) -> int:
    """The largest piece in bytes: what the policy says, but not more than the budget could hold."""
    return max(MIN_CHUNK_BYTES, min(policy.max_chunk_bytes, usable * bytes_per_token))


def pieces(text: str, limit: int, boundary: Boundary) -> Iterator[str]:
    """``text`` in pieces of up to ``limit`` bytes; a fenced block that is larger is one piece."""
    if not text:
        return
    if _size(text) <= limit:
        yield text
        return
    start, held = 0, 0  # of the piece being filled: where it begins, and its bytes
    for first, end, atomic in _units(text, boundary):
        unit = text[first:end]
        length = _size(unit)
        if held and held + length > limit:
            yield text[start:first]
            held = 0
        if not held:
            start = first
        if length <= limit:
            held += length
        else:
            yield from [unit] if atomic else _split(unit, limit)
    if held:
        yield text[start:]


def _size(text: str) -> int:
    """The length of a text in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def _units(text: str, boundary: Boundary) -> Iterator[tuple[int, int, bool]]:
    """What is not cut as long as it fits: (start, end, fenced)."""
    at = 0
    for start, end in [*fences(text), (len(text), len(text))]:
        for cut in _cuts(text, at, start, boundary):
            yield at, cut, False
            at = cut
        if end > start:
            yield start, end, True
        at = end


def _cuts(text: str, start: int, end: int, boundary: Boundary) -> Iterator[int]:
    """Where a stretch of prose is cut, its end included."""
    if boundary != "fixed":
        for found in (_PARAGRAPH if boundary == "paragraph" else _SENTENCE).finditer(text, start, end):
            if found.end() < end:
                yield found.end()
    if end > start:
        yield end


def _split(unit: str, limit: int) -> Iterator[str]:
    """A stretch cut every ``limit`` bytes, never inside a character."""
    if unit.isascii():
        for at in range(0, len(unit), limit):
            yield unit[at : at + limit]
        return
    data = unit.encode()
    at = 0
    while at < len(data):
        end = min(at + limit, len(data))
        # bytes 10xxxxxx continue a character
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[at:end].decode()
        at = end
