"""Searching by meaning: recall and recall_where."""

from __future__ import annotations

from collections.abc import Sequence

from ..limits import CONFIDENCE_WEIGHT, NEUTRAL_CONFIDENCE, POOL_FACTOR, POOL_MIN
from ..model import ColumnFilter, JsonObject, Recollection, Recollections
from ..store.base import Hit, Predicate, StoreView
from . import checks
from .core import Core
from .switching import follows_switch


def pool_size(k: int) -> int:
    """How many candidates are ranked to find the best ``k``."""
    return max(POOL_FACTOR * k, POOL_MIN)


@follows_switch
def recall(core: Core, query: str, k: int, filter: JsonObject | None) -> list[Recollection]:
    """Find by similarity and learned confidence; see MemoryService.recall."""
    text, wanted = checks.query(query), checks.count(k)
    if not text or not wanted:
        return []
    where = checks.exact_filter(filter)
    vector = core.query_vector(text)
    with core.store.view(core.clock.now()) as view:
        core.require_space(view)
        hits = view.nearest(vector, pool_size(wanted), where)
        hits.sort(key=lambda hit: (-_confident(hit), -hit.score, hit.id))
        return recollect(view, hits[:wanted])


def _confident(hit: Hit) -> float:
    """Similarity moved to [0, 1] and weighed by confidence, 0.5 to 1.5; it never changes the reported score."""
    confidence = NEUTRAL_CONFIDENCE if hit.confidence is None else min(1.0, max(0.0, hit.confidence))
    return (hit.score + 1) / 2 * (1 + CONFIDENCE_WEIGHT * (2 * confidence - 1))


@follows_switch
def recall_where(core: Core, query: str, filters: Sequence[ColumnFilter], k: int) -> Recollections:
    """Find by similarity among what satisfies every comparison; see MemoryService.recall_where."""
    text, wanted = checks.query(query), checks.count(k)
    if not text or not wanted:
        return Recollections()
    where = checks.column_filters(filters)
    if not where:
        return Recollections(recall(core, text, wanted, None))
    vector = core.query_vector(text)
    with core.store.view(core.clock.now()) as view:
        core.require_space(view)
        hits = view.nearest(vector, wanted, where)
        return Recollections(recollect(view, hits), [] if hits else _warnings(view, where))


def _warnings(view: StoreView, where: Sequence[Predicate]) -> list[str]:
    """Which predicates no stored value could satisfy, because the field holds other types only."""
    warnings: list[str] = []
    for predicate in where:
        others = view.other_types(predicate.field, predicate.value) if predicate.op != "ne" else []
        if others:
            kind = "boolean" if isinstance(predicate.value, bool) else (
                "string" if isinstance(predicate.value, str) else "number"
            )
            warnings.append(
                f"'{predicate.field}' is stored as {' and '.join(others)}, never as {kind}: {predicate.op} with a "
                f"{kind} matches nothing, because types are not converted"
            )
    return warnings


def recollect(view: StoreView, hits: Sequence[Hit]) -> list[Recollection]:
    """The hits as callers see them, in the order given."""
    records = view.get_many([hit.id for hit in hits])
    return [
        Recollection(hit.id, hit.score, records[hit.id].content, checks.visible(records[hit.id].metadata))
        for hit in hits
    ]
