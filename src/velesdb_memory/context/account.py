"""The account of a compilation: a decision and a reason for each fragment, and what it all saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from ..limits import WARNING_RELEVANCE
from .assemble import fragment_id
from .classify import DUPLICATE, EXTERNALIZE, NEAR_DUPLICATE, SUPERSEDED
from .handles import handle_of
from .item import Item
from .model import Action, CompileRequest, Decision, Insights, PulledMemory, RetrievalHandle, Risk, Source
from .model import Warning as ContextWarning
from .pricing import cost_micros
from .relevance import single

_RISKS: Final[tuple[Risk, ...]] = ("low", "medium", "high")
_WARN_FROM: Final = single(WARNING_RELEVANCE)


def decisions(items: Sequence[Item], memories: Sequence[PulledMemory], callers: int) -> list[Decision]:
    """One decision for each item; those from ``callers`` on are about ``memories``."""
    found: list[Decision] = []
    for item in items:
        action, rule, risk, reason, recoverable = _verdict(item, items)
        memory = memories[item.index - callers] if item.index >= callers else None
        found.append(
            Decision(
                fragment_id(item),
                item.content_hash,
                action,
                rule,
                item.relevance,
                risk,
                reason if memory is None else f"{reason}; pulled from memory {memory.id}: {memory.why}",
                UNSET if memory is None else memory.id,
                handle_of(item.original_hash) if recoverable else UNSET,
            )
        )
    return found


def _verdict(item: Item, items: Sequence[Item]) -> tuple[Action, str, Risk, str, bool]:
    """(action, rule, risk, reason, whether a handle leads back)."""
    rule = item.rule
    missed: Risk = "high" if rule.critical else "medium"
    if item.twin is not None:
        return _dropped(item, items, missed)
    if item.superseded:
        return "retrieve", SUPERSEDED, "medium", "a later screenshot shows the same target", True
    if item.whole:
        return rule.action, rule.id, "medium" if rule.action == "abstract" else "low", _kept(item), False
    if item.packed:
        return rule.action, rule.id, missed, f"{_kept(item)}; {_extent(item)} fitted the budget", True
    return "retrieve", EXTERNALIZE, missed, f"it did not fit the budget ({rule.words})", True


def _kept(item: Item) -> str:
    masked = item.collapsed is not None and item.collapsed.normalised
    return f"{item.rule.words}; lines that differ in their time count as the same" if masked else item.rule.words


def _extent(item: Item) -> str:
    if item.collapsed is not None:
        return "only the groups of lines that matter most"
    return f"its beginning ({len(item.blocks)} {'piece' if len(item.blocks) == 1 else 'pieces'})"


def _dropped(item: Item, items: Sequence[Item], missed: Risk) -> tuple[Action, str, Risk, str, bool]:
    assert item.twin is not None
    twin = items[item.twin]
    root = twin
    while root.twin is not None:
        root = items[root.twin]
    rule = DUPLICATE if item.exact else NEAR_DUPLICATE
    words = f"{'the same as' if item.exact else 'the same but for case and spacing as'} fragment #{twin.index}"
    if not root.whole:
        return "drop", rule, missed, f"{words}, which is not all in the output: the handle is the way back", True
    if item.image is not None and item.text != twin.text:
        words += ", as far as the image goes: the captions differ, and this one is behind "
        words += handle_of(item.content_hash)
    else:
        words += ", which is in the output"
    return "drop", rule, "low", words, True


def sources(items: Sequence[Item], made: Sequence[Decision]) -> list[Source]:
    """Where the original of each fragment that is not a repetition is kept."""
    return [
        Source(decision.fragment_id, handle_of(item.original_hash), decision.memory_id)
        for item, decision in zip(items, made, strict=True)
        if item.twin is None
    ]


def retrieval_handles(items: Sequence[Item], made: Sequence[Decision]) -> list[RetrievalHandle]:
    """What was set aside whole."""
    return [
        RetrievalHandle(handle_of(item.original_hash), decision.fragment_id, item.tokens)
        for item, decision in zip(items, made, strict=True)
        if decision.action == "retrieve"
    ]


def warnings(made: Sequence[Decision]) -> list[ContextWarning]:
    """The relevant ones among what was set aside."""
    return [
        ContextWarning(decision.reason, decision.fragment_id, decision.action, decision.relevance)
        for decision in made
        if decision.action == "retrieve" and decision.relevance >= _WARN_FROM
    ]


def highest_risk(made: Sequence[Decision]) -> Risk:
    """The highest risk of any decision."""
    return _RISKS[max((_RISKS.index(decision.risk) for decision in made), default=0)]


def insights(
    items: Sequence[Item],
    made: Sequence[Decision],
    tokens_out: int,
    request: CompileRequest,
) -> Insights:
    """What came in, what goes out, and what each rule saved."""
    tokens_in = sum(item.tokens for item in items)
    saved = max(0, tokens_in - tokens_out)
    by_rule: dict[str, int] = {}
    for item, decision in zip(items, made, strict=True):
        if item.spent < item.tokens:
            by_rule[decision.rule_id] = by_rule.get(decision.rule_id, 0) + item.tokens - item.spent
    by_rule = dict(sorted(by_rule.items()))
    pricing = request.policy.pricing
    cost = cost_micros(saved, request.target_model, pricing)
    if cost is None or pricing is None:
        return Insights(tokens_in, tokens_out, saved, by_rule)
    return Insights(tokens_in, tokens_out, saved, by_rule, cost, pricing.currency, pricing.version)
