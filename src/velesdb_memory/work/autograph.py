"""Enriching remembered facts: the extractor reads each one, and what it finds is wired to it."""

from __future__ import annotations

from ..errors import StorageError
from ..memory.core import AUTOGRAPH_FAILED, Core
from ..memory.extraction import Plan, run_extractor
from ..model import Outcome
from ..store.base import Record
from .extractors import Extractors


def perform(core: Core, extractors: Extractors, fact: Record, worker: str) -> Outcome:
    """Enrich a claimed fact, or give it back. A failure is counted and ends it."""
    extractor = extractors.default
    if extractor is None:
        return "given back"
    try:
        plan = Plan(run_extractor(extractor, fact.content))
        with core.store.transaction(core.clock.now()) as tx:
            if not tx.finish_enrichment(fact.id, worker):
                return "given back"
            if tx.get(fact.id) is not None:
                plan.enrich(tx, fact.id, fact.content)
        return "committed"
    except StorageError:
        # a full disk or a busy store passes
        raise
    except Exception:
        with core.store.transaction(core.clock.now()) as tx:
            if tx.finish_enrichment(fact.id, worker):
                tx.raise_tally(AUTOGRAPH_FAILED)
        return "failed"
