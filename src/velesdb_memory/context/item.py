"""What the stages of a compilation know of one fragment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from .model import Action, ContextFragment

if TYPE_CHECKING:
    from .logs import Collapsed


class Rule(NamedTuple):
    """A way to treat a fragment. What is ``critical`` is packed first, and missed most."""

    id: str
    action: Action
    critical: bool
    words: str


class Item(msgspec.Struct):
    """A fragment on its way. Each stage fills in its part, in the order of the fields."""

    index: int
    fragment: ContextFragment
    # identity
    content_hash: int
    original_hash: int  # of what a handle gives back: the image, or else the text
    image: bytes | None
    # measures: the text in bytes, and what the fragment costs in tokens
    size: int
    image_tokens: int
    tokens: int
    # judgement
    relevance: float
    rank: float  # the relevance it is packed by
    rule: Rule
    collapsed: Collapsed | None = None
    superseded: bool = False
    twin: int | None = None  # the index of the fragment that this one repeats
    exact: bool = True  # repeats it to the byte
    # packing
    blocks: Sequence[str] = ()  # what of it goes out, in pieces
    packed: bool = False  # anything of it does, be it an image without a caption
    whole: bool = False
    spent: int = 0
    stub: str = ""

    @property
    def text(self) -> str:
        return self.fragment.content

    @property
    def out(self) -> bool:
        """Whether it competes for room at all."""
        return self.twin is None and not self.superseded

    @property
    def cached(self) -> bool:
        return self.rule.action == "cache"
