"""What every operation needs: the store, the embedder, the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..clock import Clock
from ..embed.base import Embedder, embed_checked
from ..errors import ProvenanceMismatch
from ..limits import MAX_EPOCH_SECONDS
from ..store.base import MemoryStore, Space, StoreView

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

# Expired records that a write sweeps along: a busy store stays clean without a sweeper, and no write gets slow
SWEEP_ALONG: Final = 16


# Durable counters
AUTOGRAPH_DROPPED: Final = "autograph.dropped"
AUTOGRAPH_FAILED: Final = "autograph.failed"


class Core:
    """A store with the embedder that reads and writes it; ``autograph`` has every remembered fact enriched."""

    def __init__(self, store: MemoryStore, embedder: Embedder, clock: Clock, *, autograph: bool = False) -> None:
        self.store = store
        self.embedder = embedder
        self.clock = clock
        self.autograph = autograph

    def identity(self) -> Space:
        """What the store records of the embedder."""
        return Space(self.embedder.fingerprint, self.embedder.dimension)

    def adopt(self) -> None:
        """Record the embedder as the one that fills the store, if nothing has filled it yet."""
        now = self.clock.now()
        with self.store.view(now) as view:
            if view.space() == self.identity():
                return
        with self.store.transaction(now) as tx:
            tx.record_space(self.identity())

    def require_space(self, view: StoreView) -> None:
        """Raise ProvenanceMismatch unless the store's vectors are those of the embedder."""
        space = view.space()
        mine = self.identity()
        if space != mine:
            theirs = f"{space.model} ({space.dimension} dimensions)" if space else "no model"
            raise ProvenanceMismatch(
                f"the store at {self.store.location} was filled by {theirs}, but the configured embedder is "
                f"{mine.model} ({mine.dimension} dimensions). Their vectors cannot be compared: go back to the former "
                "embedder (VELESDB_MEMORY_EMBEDDER), or change the store over with "
                "`velesdb-memory migrate-embeddings` (which this version lacks: `export`, then `import` into a new "
                "store). Listing, filters, links and export keep working meanwhile"
            )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, one row for each text."""
        return embed_checked(self.embedder, texts)

    def query_vector(self, query: str) -> NDArray[np.float32]:
        """The vector of a query; raises ProvenanceMismatch before the embedder is asked."""
        with self.store.view(self.clock.now()) as view:
            self.require_space(view)
        return self.embed([query])[0]


def expiry(now: int, ttl_seconds: int | None) -> int | None:
    """When something stored ``now`` ends; None and 0 both mean never."""
    return min(now + ttl_seconds, MAX_EPOCH_SECONDS) if ttl_seconds else None
