"""Pulling stored facts into a compilation: found as ``recall_fused`` finds, weighed by what was learned of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ..context.model import CompileRequest, Importance, PulledMemory
from ..context.relevance import single
from ..errors import RerankError
from ..limits import (
    DEFAULT_GRAPH_BOOST,
    DEFAULT_IMPORTANCE_CONFIDENCE,
    DEFAULT_IMPORTANCE_RECENCY,
    MAX_FRAGMENTS,
    NEUTRAL_CONFIDENCE,
)
from ..model import FusionOptions
from ..store.base import Record
from . import checks, fused
from .core import Core
from .switching import follows_switch

if TYPE_CHECKING:
    from .fused import Candidate, Reranker

_SMALLEST: Final = 2.22e-16


class _Match(NamedTuple):
    """A fact, how well it matches in [0, 1], and how it was found."""

    record: Record
    base: float
    found_by: str


@follows_switch
def pull(core: Core, request: CompileRequest, reranker: Reranker | None) -> tuple[list[PulledMemory], list[str]]:
    """The memories that the request's scope asks for, best first, and what the search had to do without.

    No scope, no room for another fragment, or a blank query: none.
    """
    scope = request.memory_scope
    if scope is None:
        return [], []
    k = min(checks.count(scope.k, "memory_scope.k"), MAX_FRAGMENTS - len(request.fragments))
    if k <= 0:
        return [], []
    # a match by similarity and by words counts as 1 here, whatever words weigh, and graph_boost is relative to that
    match = 1 + fused.default_lexical_boost(core)
    graph_boost = fused.weight(scope.graph_boost, DEFAULT_GRAPH_BOOST, "memory_scope.graph_boost")
    options = FusionOptions(scope.hops, graph_boost * match)
    where = None if scope.project is None else {"project": scope.project}
    cut = k if reranker is None else None
    ranked, warnings = fused.rank(core, request.query, k, cut, where, options)
    matches = _fused(ranked) if reranker is None else _reranked(ranked, request.query, k, reranker)
    return _weighed(matches, request.policy.importance), warnings


def _fused(ranked: Sequence[tuple[Candidate, Record]]) -> list[_Match]:
    best = max([_SMALLEST, *(candidate.fused for candidate, _ in ranked)])
    return [
        _Match(
            record,
            _unit(candidate.fused / best),
            f"vector {candidate.vector:.2f}, words {candidate.lexical:.2f}, graph {candidate.graph:.2f}",
        )
        for candidate, record in ranked
    ]


def _reranked(
    ranked: Sequence[tuple[Candidate, Record]], query: str, k: int, reranker: Reranker
) -> list[_Match]:
    records = {record.id: record for _, record in ranked}
    if not records:
        return []
    ordered = fused.reranked(reranker, query, [fused.recollection(*each) for each in ranked])
    chosen = list(dict.fromkeys(hit.id for hit in ordered))[:k]
    for number in chosen:
        if number not in records:
            raise RerankError(f"the reranker returned memory {number}, which it was not given")
    return [
        _Match(records[number], single(1 - place / len(chosen)), f"place {place + 1} of {len(chosen)} by the reranker")
        for place, number in enumerate(chosen)
    ]


def _weighed(matches: list[_Match], importance: Importance) -> list[PulledMemory]:
    """The matches as fragments to be: key = match + confidence * (c - 0.5) * 2 + recency * r, where c is what feedback
    taught and r the place between the oldest and the newest of these memories. Best first; equal ones keep their order.
    """
    confidence = fused.weight(
        importance.confidence, DEFAULT_IMPORTANCE_CONFIDENCE, "policy.importance.confidence"
    )
    recency = fused.weight(importance.recency, DEFAULT_IMPORTANCE_RECENCY, "policy.importance.recency")
    if not confidence and not (recency and importance.recency_field is not None):
        return [_pulled(match, match.base, match.found_by) for match in matches]
    recent = _recency([match.record for match in matches], importance.recency_field)
    keyed: list[tuple[float, PulledMemory]] = []
    for match, newness in zip(matches, recent, strict=True):
        learned = NEUTRAL_CONFIDENCE if match.record.confidence is None else match.record.confidence
        key = match.base + confidence * (learned - NEUTRAL_CONFIDENCE) * 2 + recency * newness
        words = f"{match.found_by}, confidence {learned:.2f}, recency {newness:.2f}"
        keyed.append((key, _pulled(match, key, words)))
    keyed.sort(key=lambda pair: pair[0], reverse=True)
    return [memory for _, memory in keyed]


def _pulled(match: _Match, key: float, why: str) -> PulledMemory:
    return PulledMemory(match.record.id, match.record.content, single(_unit(key)), why)


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value)) if math.isfinite(value) else 0.0


def _recency(records: Sequence[Record], field: str | None) -> list[float]:
    """How recent each is among them, from 0 for the oldest to 1 for the newest; 0 for one without a number there."""
    dates = [_number((checks.visible(record.metadata) or {}).get(field)) if field else None for record in records]
    known = [date for date in dates if date is not None]
    oldest, newest = min(known, default=0.0), max(known, default=0.0)
    if newest <= oldest:
        return [0.0] * len(records)
    return [0.0 if date is None else (date - oldest) / (newest - oldest) for date in dates]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
