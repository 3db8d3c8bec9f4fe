"""What every operation needs: the store, the embedder, the clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ..clock import Clock
from ..embed.base import Embedder, embed_checked
from ..errors import EmbedError, ProvenanceMismatch
from ..limits import MAX_EPOCH_SECONDS
from ..store.base import MemoryStore, Record, Space, StoreView

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

# Expired records that a write sweeps along: a busy store stays clean without a sweeper, and no write gets slow
SWEEP_ALONG: Final = 16

# A served model can be replaced under its name while we run. One stored fact embedded again gives that away: the same
# model on other hardware stays above this cosine, another model is nowhere near it
SAME_MODEL: Final = 0.95
COMPARE_EVERY: Final = 600.0  # seconds

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
        self.trouble: str | None = None  # why the embedder gave no vectors the last time
        self.heir: Core | None = None  # takes over once a migration has switched the store to it: switching.py
        self.successor: Core | None = None
        self._compared_at: float | None = None  # None until the embedder has answered

    def identity(self) -> Space | None:
        """What the store records of the embedder; None as long as nobody knows the length of its vectors."""
        dimension = self.embedder.dimension
        return None if dimension is None else Space(self.embedder.fingerprint, dimension)

    def adopt(self) -> None:
        """Record the embedder as the one that fills the store, if nothing has filled it yet and it is known."""
        mine = self.identity()
        if mine is None:
            return
        now = self.clock.now()
        with self.store.view(now) as view:
            if view.space() == mine:
                return
        with self.store.transaction(now) as tx:
            tx.record_space(mine)

    def fits(self, view: StoreView) -> bool:
        """Whether the store's vectors are those of the embedder, as far as that is known without asking it."""
        space = view.space()
        mine = self.identity()
        if mine is not None:
            return space == mine
        return space is None or space.model == self.embedder.fingerprint or not view.counts().facts

    def require_space(self, view: StoreView) -> None:
        """Raise ProvenanceMismatch unless the store's vectors are those of the embedder, as far as that is known."""
        if not self.fits(view):
            space = view.space()
            theirs = f"{space.model} ({space.dimension} dimensions)" if space else "no model"
            raise ProvenanceMismatch(
                f"the store at {self.store.location} was filled by {theirs}, but the configured embedder is "
                f"{self.embedder.fingerprint} ({self.embedder.dimension or 'unknown'} dimensions). Their vectors "
                "cannot be compared: go back to the former embedder (VELESDB_MEMORY_EMBEDDER), or change the store "
                "over with `velesdb-memory migrate-embeddings`. Listing, filters, links and export keep working "
                "meanwhile"
            )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, one row for each text. Raises EmbedError, and ProvenanceMismatch when the model is not the one
        of its name any more."""
        try:
            vectors = self._embed(texts)
        except EmbedError as error:
            self.trouble = error.message
            raise
        self.trouble = None
        return vectors

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        before = self._compared_at
        if before is not None and time.monotonic() - before < COMPARE_EVERY:
            return embed_checked(self.embedder, texts)
        known = self._known_fact()
        vectors = embed_checked(self.embedder, [*texts, known.content] if known else texts)
        if before is None:
            # only now a served model's dimension is known
            self.adopt()
        if known:
            self._require_same_model(known, vectors[-1])
        self._compared_at = time.monotonic()
        return vectors[: len(texts)]

    def _known_fact(self) -> Record | None:
        """A fact whose stored vector the embedder should still make of its text, if there is any."""
        with self.store.view(self.clock.now()) as view:
            if not self.fits(view):
                return None
            facts, _ = view.page(None, 1, [], False)
        return facts[0] if facts else None

    def _require_same_model(self, fact: Record, vector: NDArray[np.float32]) -> None:
        with self.store.view(self.clock.now()) as view:
            self.require_space(view)
            cosine = view.cosines(vector, [fact.id]).get(fact.id, 1.0)
        if cosine < SAME_MODEL:
            raise ProvenanceMismatch(
                f"the model {self.embedder.model} is not the one any more that filled the store at "
                f"{self.store.location}: what it makes of a stored fact has a cosine of {cosine:.2f} with what it made "
                "then. Put the former model back; or give the new one a name of its own, set that "
                "(VELESDB_MEMORY_EMBEDDER_MODEL), and change the store over with `velesdb-memory migrate-embeddings`. "
                "Listing, filters, links and export keep working meanwhile"
            )

    def query_vector(self, query: str) -> NDArray[np.float32]:
        """The vector of a query; raises ProvenanceMismatch before the embedder is asked."""
        with self.store.view(self.clock.now()) as view:
            self.require_space(view)
        return self.embed([query])[0]


def expiry(now: int, ttl_seconds: int | None) -> int | None:
    """When something stored ``now`` ends; None and 0 both mean never."""
    return min(now + ttl_seconds, MAX_EPOCH_SECONDS) if ttl_seconds else None
