"""Choosing what goes out: the most critical and relevant first, and never more than fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from ..limits import MIN_CHUNK_BYTES
from ..text import trim
from . import chunk, logs
from .handles import handle_of
from .item import Item
from .model import CompilePolicy
from .relevance import Relevance

if TYPE_CHECKING:
    from .tokens import TokenEstimator

JOINER: Final = "\n\n"
_AT_ONCE: Final = 64  # pieces that are counted together at most
_STUBS: Final = 4  # at most one part in this many of the budget is kept for stubs


def order(items: Sequence[Item]) -> list[Item]:
    """Those that compete, in the order they are given room: critical ones first, then by priority, then the stable
    prefix, then by relevance, then as they came. The prefix does not look at relevance, so that no query changes it."""
    return sorted(
        (item for item in items if item.out),
        key=lambda item: (
            not item.rule.critical,
            -item.fragment.priority,
            not item.cached,
            0.0 if item.cached else -item.rank,
            item.index,
        ),
    )


class Packer:
    """Gives fragments their room, one after the other, and remembers what is left."""

    def __init__(self, estimator: TokenEstimator, relevance: Relevance, policy: CompilePolicy, usable: int) -> None:
        self._estimator = estimator
        self._relevance = relevance
        self._policy = policy
        self._ceiling = chunk.ceiling(policy.chunk, usable, estimator.bytes_per_token)
        self._left = usable
        self._joiner = estimator.count(JOINER)
        self._joined = 0  # what the next block pays to be joined to those before it
        self._reserved = 0
        self._usable = usable

    def pack(self, items: Sequence[Item]) -> list[Item]:
        """Fill in what goes out of each of ``items``; those of which something does, in the order they got room."""
        ordered = order(items)
        stubs = self._stub_costs(ordered) if self._policy.inline_handles else {}
        promised = self._promise(ordered, stubs)
        for item in ordered:
            if item.index in promised:
                self._reserved -= stubs[item.index]
            self._take(item)
            if not item.whole and item.index in promised:
                self._leave_stub(item, stubs[item.index])
        for item in ordered:
            if not item.whole and not item.stub and item.index in stubs and stubs[item.index] <= self._left:
                self._leave_stub(item, stubs[item.index])
        return [item for item in ordered if item.packed or item.stub]

    # -- one fragment -------------------------------------------------------------------------------------------

    def _room(self) -> int:
        return self._left - self._reserved - self._joined

    def _take(self, item: Item) -> None:
        if item.image is not None:
            self._take_image(item)
        elif not item.text:
            item.packed = item.whole = True
        elif item.collapsed is not None:
            self._take_log(item, item.collapsed)
        elif item.tokens <= self._room():
            self._put(item, [item.text], item.tokens)
            item.whole = True
        elif self._room() > 0 and item.size > self._ceiling:
            self._take_pieces(item)

    def _take_image(self, item: Item) -> None:
        # an image without a caption is no block, so nothing joins it
        room = self._room() if item.text else self._left - self._reserved
        if item.tokens <= room:
            if item.text:
                self._put(item, [item.text], item.tokens)
            else:
                self._left -= item.tokens
                item.spent = item.tokens
                item.packed = True
            item.whole = True

    def _take_log(self, item: Item, collapsed: logs.Collapsed) -> None:
        text = logs.render(collapsed.groups)
        cost = self._estimator.count(text)
        if cost <= self._room():
            self._put(item, [text], cost)
            item.whole = True
            return
        if self._room() <= 0:
            return
        shorter = logs.abridge(collapsed.groups, self._relevance.matches, self._estimator.count, self._room())
        if shorter is not None:
            self._put(item, [shorter], self._estimator.count(shorter))

    def _take_pieces(self, item: Item) -> None:
        boundary = self._policy.chunk.boundary
        smallest = next(chunk.pieces(item.text, MIN_CHUNK_BYTES, boundary))
        if self._estimator.count(smallest) > self._room():
            return
        # where even the first piece is too much, as of text that is all numbers, smaller ones are tried
        for ceiling in dict.fromkeys((self._ceiling, MIN_CHUNK_BYTES)):
            taken, spent = self._fitting(chunk.pieces(item.text, ceiling, boundary))
            # white space alone says nothing
            if trim("".join(taken)):
                self._put(item, taken, spent)
                return

    def _fitting(self, pieces: Iterator[str]) -> tuple[list[str], int]:
        """The first pieces, as many as there is room for, and their cost."""
        room, taken, spent, at_once = self._room(), list[str](), 0, 1
        while some := list(islice(pieces, at_once)):
            for piece, cost in zip(some, self._estimator.count_many(some), strict=True):
                if spent + cost > room:
                    return taken, spent
                taken.append(piece)
                spent += cost
            at_once = min(2 * at_once, _AT_ONCE)
        return taken, spent

    def _put(self, item: Item, blocks: Sequence[str], cost: int) -> None:
        item.blocks, item.packed, item.spent = blocks, True, cost
        self._left -= cost + self._joined
        self._joined = self._joiner

    # -- stubs --------------------------------------------------------------------------------------------------

    def _stub_costs(self, ordered: Sequence[Item]) -> dict[int, int]:
        """What the stub of each fragment would cost with what joins it, by fragment."""
        costs = self._estimator.count_many([stub_of(item) for item in ordered])
        return {item.index: cost + self._joiner for item, cost in zip(ordered, costs, strict=True)}

    def _promise(self, ordered: Sequence[Item], stubs: Mapping[int, int]) -> set[int]:
        """Keep room for the stubs of the first fragments, up to a part of the budget; which these are."""
        promised: set[int] = set()
        for item in ordered:
            cost = stubs.get(item.index, 0)
            if (self._reserved + cost) * _STUBS > self._usable:
                break
            promised.add(item.index)
            self._reserved += cost
        return promised & stubs.keys()

    def _leave_stub(self, item: Item, cost: int) -> None:
        item.stub = stub_of(item)
        # its cost includes a joiner, which a stub behind its own block does not need
        self._left -= cost
        if not item.blocks:
            self._joined = self._joiner


def stub_of(item: Item) -> str:
    """The line that stands for what was set aside."""
    return f"[set aside, {item.tokens} tokens: {handle_of(item.original_hash)}]"
