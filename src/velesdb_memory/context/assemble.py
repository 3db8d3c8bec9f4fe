"""Putting together what was chosen: the stable prefix, then the rest, each in the order it came in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .item import Item
from .model import Section
from .pack import JOINER


def block_of(item: Item) -> str:
    """What of a fragment goes out."""
    text = "".join(item.blocks)
    if not item.stub:
        return text
    return f"{text}\n{item.stub}" if text else item.stub


def assemble(packed: Iterable[Item]) -> tuple[str, list[Section]]:
    """The content, and the same by section. Nothing is added to it but the blank lines between blocks."""
    sections: list[Section] = []
    ordered = sorted(packed, key=lambda item: item.index)
    kinds: tuple[Literal["cache", "body"], ...] = ("cache", "body")
    for kind in kinds:
        blocks = [(block, item) for item in ordered if item.cached is (kind == "cache") and (block := block_of(item))]
        if blocks:
            sections.append(
                Section(
                    kind,
                    JOINER.join(block for block, _ in blocks),
                    [fragment_id(item) for _, item in blocks],
                )
            )
    return JOINER.join(section.content for section in sections), sections


def fragment_id(item: Item) -> int:
    """The caller's id of a fragment, or else the hash of its content."""
    return item.content_hash if item.fragment.id is None else item.fragment.id
