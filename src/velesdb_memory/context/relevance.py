"""How well a text matches the query: the share of the query's terms that it holds.

A term is a maximal run of letters, digits and the marks that belong to them, in lower case. No stemming, no weights:
what counts here is explained in one sentence, and search has its own ranking.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections.abc import Set
from functools import cache
from typing import Final

# for str.translate: much faster than a pattern where it will do
_ASCII: Final = "".join(chr(point) if chr(point).isalnum() else " " for point in range(128))
_LATIN: Final = re.compile(r"[^\W_]+")


def terms_of(lowered: str) -> set[str]:
    """The terms of a text given in lower case."""
    if lowered.isascii():
        return set(lowered.translate(_ASCII).split())
    try:
        lowered.encode("latin-1")
    except UnicodeEncodeError:
        return set(_any_script().findall(lowered))
    return set(_LATIN.findall(lowered))


@cache
def _any_script() -> re.Pattern[str]:
    """Terms of every script: vowel signs and other marks belong to their word, and so do circled letters."""
    marks: list[list[int]] = []
    for point in range(0x300, 0x20000):  # beyond are ideographs, which have no marks
        if unicodedata.category(chr(point)) in ("Mn", "Mc"):
            if marks and marks[-1][1] == point - 1:
                marks[-1][1] = point
            else:
                marks.append([point, point])
    ranges = "".join(f"{chr(first)}-{chr(last)}" for first, last in marks)
    return re.compile(rf"(?:[^\W_]|[{ranges}\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169])+")


class Relevance:
    """The relevance of texts to one query."""

    def __init__(self, query: str) -> None:
        self._terms = terms_of(query.lower())
        count = len(self._terms)
        # a quotient of small integers, taken in double precision and rounded, is the one taken in single precision
        self._scores = [single(hits / count) for hits in range(count + 1)] if count else [0.0]

    def of(self, terms: Set[str]) -> float:
        """The share of the query's terms among ``terms``, a single-precision float in [0, 1]; 0.0 when it has none."""
        return self._scores[len(self._terms & terms)]

    def matches(self, line: str) -> bool:
        """Whether ``line`` holds a term of the query."""
        return not self._terms.isdisjoint(terms_of(line.lower()))


def single(value: float) -> float:
    """``value`` rounded to single precision."""
    return struct.unpack("f", struct.pack("f", value))[0]
