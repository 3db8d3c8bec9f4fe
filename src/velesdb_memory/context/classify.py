"""Which rule a fragment falls under: an ordered table, the first enabled rule that applies."""

from __future__ import annotations

import re
from collections.abc import Collection, Set
from typing import Final, NamedTuple

from ..text import WHITE_SPACE
from . import fences, logs
from .item import Rule
from .model import ContextFragment
from .prohibitions import forbids

MEDIA: Final = Rule("media.atomic", "preserve", True, "an image is kept whole or not at all")
VERBATIM: Final = Rule("preserve.marked_verbatim", "preserve", True, "its metadata asks for it word for word")
CACHE: Final = Rule("cache.stable_prefix", "cache", True, "its metadata puts it in the stable prefix")
CODE: Final = Rule("preserve.code_fence", "preserve", True, "code is kept as it is")
PROHIBITION: Final = Rule("preserve.negative_constraint", "preserve", True, "it says what must not be done")
LOG: Final = Rule("abstract.log_dedup", "abstract", False, "repeated log lines are written once, with a count")
VALUES: Final = Rule("preserve.exact_values", "preserve", True, "it holds several exact values")
URL: Final = Rule("preserve.url", "preserve", True, "it holds an address")
DEFAULT: Final = Rule("preserve.default", "preserve", False, "nothing about it asks for other treatment")

# Rules that are not about one fragment's content
DUPLICATE: Final = "drop.duplicate"
NEAR_DUPLICATE: Final = "drop.near_duplicate"
EXTERNALIZE: Final = "budget.externalize"
SUPERSEDED: Final = "retrieve.screenshot_superseded"

_VALUES: Final = 3  # words with a digit that make a fragment one of exact values
_DIGITS: Final = "0123456789"
_DIGIT: Final = re.compile(f"[{_DIGITS}]")
_SPACE: Final = re.compile(f"[{WHITE_SPACE}]")


class Classified(NamedTuple):
    rule: Rule
    collapsed: logs.Collapsed | None = None


class Classifier:
    """The table with some of its rules switched off."""

    def __init__(self, disabled: Collection[str], mask_timestamps: bool) -> None:
        self._off = frozenset(disabled)
        self._mask = mask_timestamps

    def classify(self, fragment: ContextFragment, lowered: str, terms: Set[str]) -> Classified:
        """The rule for a fragment whose content is ``lowered`` in lower case and has these ``terms``."""
        text, on, metadata = fragment.content, self._on, fragment.metadata or {}
        if fragment.media is not None and on(MEDIA):
            return Classified(MEDIA)
        if metadata.get("verbatim") is True and on(VERBATIM):
            return Classified(VERBATIM)
        if metadata.get("cache") is True and on(CACHE):
            return Classified(CACHE)
        if on(CODE) and (fragment.kind == "code" or fences.has_fence(text)):
            return Classified(CODE)
        if on(PROHIBITION) and forbids(lowered, terms):
            return Classified(PROHIBITION)
        if on(LOG):
            collapsed = self._collapse(fragment)
            if collapsed is not None:
                return Classified(LOG, collapsed)
        if on(VALUES) and _exact_values(text):
            return Classified(VALUES)
        if on(URL) and ("http://" in text or "https://" in text):
            return Classified(URL)
        return Classified(DEFAULT)

    def _on(self, rule: Rule) -> bool:
        return rule.id not in self._off

    def _collapse(self, fragment: ContextFragment) -> logs.Collapsed | None:
        if fragment.kind == "log":
            return logs.collapse(fragment.content, self._mask)
        # what is only known to be a log by its time stamps is read past them
        return logs.collapse(fragment.content, True) if logs.looks_like_log(fragment.content) else None


def _exact_values(text: str) -> bool:
    # looking for ten characters one by one is faster than for any of them
    if not any(digit in text for digit in _DIGITS):
        return False
    at = 0
    for _ in range(_VALUES - 1):
        digit = _DIGIT.search(text, at)
        end = digit and _SPACE.search(text, digit.end())
        if not end:
            return False
        at = end.end()
    return _DIGIT.search(text, at) is not None
