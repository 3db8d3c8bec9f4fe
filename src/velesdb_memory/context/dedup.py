"""Which fragments repeat an earlier one, and which screenshots a later one replaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from ..text import WHITE_SPACE, trim, words
from .classify import SUPERSEDED
from .item import Item

_SAMPLE: Final = 32  # characters by which texts are told apart before they are normalised
_SPACES: Final = "".join(character for character in WHITE_SPACE if character != "\n")


def mark_superseded(items: Sequence[Item], disabled: Sequence[str]) -> None:
    """Mark every screenshot of which a later one shows the same target. Called before :func:`mark_duplicates`."""
    if SUPERSEDED in disabled:
        return
    latest: dict[bytes, Item] = {}
    for item in items:
        metadata = item.fragment.metadata or {}
        if item.image is None or item.fragment.kind != "screenshot" or "target" not in metadata:
            continue
        # as JSON 1, 1.0, true and "1" all differ
        target = msgspec.json.encode(metadata["target"], order="sorted")
        if target in latest:
            latest[target].superseded = True
        latest[target] = item


def mark_duplicates(items: Sequence[Item], near: bool) -> None:
    """Point each repeated text or image at the fragment it repeats.

    Images repeat to the byte, whatever their captions. Texts repeat to the byte or, with ``near``, in everything but
    case and spacing; indentation is no mere spacing. A repetition is kept when the first one is only abstracted, and
    when it is nearly the same but says something critical.
    """
    _mark_images([item for item in items if item.image is not None])
    _mark_texts([item for item in items if item.image is None], near)
    for item in items:
        if item.twin is not None:
            twin = items[item.twin].rule.action
            if twin not in ("preserve", "cache") or (not item.exact and item.rule.critical):
                item.twin, item.exact = None, True


def _mark_images(images: Sequence[Item]) -> None:
    anchors: dict[bytes, Item] = {}
    for item in images:
        assert item.image is not None
        anchor = anchors.setdefault(item.image, item)
        if anchor is item:
            continue
        if anchor.superseded and not item.superseded:
            # the copy that stays is the one to point at
            anchor.twin, anchors[item.image] = item.index, item
        else:
            item.twin = anchor.index


def _mark_texts(texts: Sequence[Item], near: bool) -> None:
    firsts: dict[str, Item] = {}
    for item in texts:
        first = firsts.setdefault(item.text, item)
        if first is not item:
            item.twin = first.index
    if not near:
        return
    samples = {text: _sample(text) for text in firsts}
    common = Counter(samples.values())
    roots: dict[str, Item] = {}
    for text, item in firsts.items():
        # most texts differ in their first words, and need not be normalised to tell
        if common[samples[text]] > 1:
            root = roots.setdefault(_normal(text), item)
            if root is not item:
                item.twin, item.exact = root.index, False


def _sample(text: str) -> str:
    """The first characters of a text that are no white space, so folded that texts of one normal form agree."""
    # more than is kept, because a character may fold into several. What split() takes for white space beyond
    # Unicode's is left out of all texts alike, so it tells no two apart that should not be
    found = "".join(text[: 8 * _SAMPLE].split())
    if len(found) < 2 * _SAMPLE < len(text):
        found = "".join(text.split())
    return found[: 2 * _SAMPLE].casefold()[:_SAMPLE]


def _normal(text: str) -> str:
    """A text in lower case with single spaces, and with the indentation of every line but the first."""
    lowered = text.lower()
    if not any(f"\n{space}" in lowered for space in _SPACES):
        return " ".join(words(lowered))
    parts: list[str] = []
    for line in lowered.split("\n"):
        if said := words(line):
            indent = line[: line.index(said[0])] if line[0] in WHITE_SPACE and parts else ""
            parts.append(f"\n{indent}{' '.join(said)}" if indent else f" {' '.join(said)}")
    return trim("".join(parts))
