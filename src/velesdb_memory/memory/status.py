"""The answer of memory_status."""

from __future__ import annotations

from ..model import (
    CorpusStatus,
    EmbedderStatus,
    ExtractionConfig,
    MemoryStatus,
    PendingStatus,
    ProvenanceStatus,
    StoreStatus,
)
from .core import AUTOGRAPH_DROPPED, AUTOGRAPH_FAILED, Core


def memory_status(core: Core, *, extractor_configured: bool) -> MemoryStatus:
    """See MemoryService.memory_status."""
    embedder, store = core.embedder, core.store
    with store.view(core.clock.now()) as view:
        space, counts = view.space(), view.counts()
        pending = PendingStatus(view.pending_jobs(), view.pending_enrichments())
        dropped, failed = view.tally(AUTOGRAPH_DROPPED), view.tally(AUTOGRAPH_FAILED)
    return MemoryStatus(
        EmbedderStatus(embedder.model, embedder.dimension, embedder.semantic),
        ProvenanceStatus(space is not None, space.model if space else None, space.dimension if space else None),
        ExtractionConfig(extractor_configured, core.autograph, dropped, failed),
        CorpusStatus(counts.facts, counts.edges),
        StoreStatus(store.location, store.backend, store.size()),
        pending,
    )
