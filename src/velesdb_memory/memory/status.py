"""The answer of memory_status."""

from __future__ import annotations

from ..errors import EmbedError, ProvenanceMismatch
from ..model import (
    CorpusStatus,
    EmbedderStatus,
    ExtractionConfig,
    MemoryStatus,
    MigrationSummary,
    PendingStatus,
    ProvenanceStatus,
    StoreStatus,
)
from ..store.base import Finding
from .core import AUTOGRAPH_DROPPED, AUTOGRAPH_FAILED, Core
from .switching import current


def memory_status(core: Core, migration: MigrationSummary, *, extractor_configured: bool) -> MemoryStatus:
    """See MemoryService.memory_status."""
    core = current(core)
    embedder, store = core.embedder, core.store
    with store.view(core.clock.now()) as view:
        space, counts = view.space(), view.counts()
        pending = PendingStatus(view.pending_jobs(), view.pending_enrichments())
        dropped, failed = view.tally(AUTOGRAPH_DROPPED), view.tally(AUTOGRAPH_FAILED)
        # a served model that was not asked yet: what it filled the store with is known
        known = space.dimension if space and space.model == embedder.fingerprint else None
    return MemoryStatus(
        EmbedderStatus(embedder.model, embedder.dimension or known, embedder.semantic, core.trouble),
        ProvenanceStatus(space is not None, space.model if space else None, space.dimension if space else None),
        ExtractionConfig(extractor_configured, core.autograph, dropped, failed),
        CorpusStatus(counts.facts, counts.edges),
        StoreStatus(store.location, store.backend, store.size()),
        pending,
        migration,
    )


def check_embedder(core: Core) -> Finding:
    """See MemoryService.check_embedder."""
    try:
        core.query_vector("velesdb-memory")
        with core.store.view(core.clock.now()) as view:
            core.require_space(view)
            space = view.space()
    except ProvenanceMismatch as error:
        advice = (
            "set VELESDB_MEMORY_EMBEDDER and VELESDB_MEMORY_EMBEDDER_MODEL back, or run `velesdb-memory "
            "migrate-embeddings`, which embeds every fact again"
        )
        return Finding("embedder", False, str(error), advice)
    except EmbedError as error:
        advice = "start its server, install what it needs, or correct the settings that are named; nothing is lost"
        return Finding("embedder", False, str(error), advice)
    filled = f"{space.model} ({space.dimension} dimensions)" if space else core.embedder.model
    return Finding("embedder", True, f"{filled} runs and filled the store")
