"""Enriching remembered facts: the extractor reads each one, and what it finds is wired to it."""

from __future__ import annotations

from ..errors import VelesMemoryError
from ..memory.core import AUTOGRAPH_FAILED, Core
from ..memory.extraction import Plan, run_extractor
from ..store.base import Record
from .extractors import Extractors


def perform(core: Core, extractors: Extractors, fact: Record, worker: str) -> bool:
    """Enrich a claimed fact; False when it was lost to another worker. A failure is counted and ends it."""
    extractor = extractors.default
    if extractor is None:
        return False
    try:
        plan = Plan(run_extractor(extractor, fact.content))
    except VelesMemoryError:
        plan = None
    with core.store.transaction(core.clock.now()) as tx:
        if not tx.finish_enrichment(fact.id, worker):
            return False
        if plan is None:
            tx.raise_tally(AUTOGRAPH_FAILED)
        elif tx.get(fact.id) is not None:
            plan.enrich(tx, fact.id, fact.content)
    return True
