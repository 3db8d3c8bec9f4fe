"""What a program that uses this package needs to test itself: a clock that stands still, an embedder without a model.

>>> clock = FixedClock(1_700_000_000)
>>> embedder = FixedEmbedder({"close": [1.0, 0.0], "far": [0.0, 1.0]})
>>> memory = MemoryService(folder, embedder, clock=clock)
>>> memory.remember("close", ttl_seconds=60)
>>> clock.advance(60)
>>> memory.recall("close")
[]
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .text import words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FixedClock", "FixedEmbedder"]


class FixedClock:
    """A clock that shows ``now``, whole seconds since 1970 (UTC), until it is told otherwise."""

    def __init__(self, now: int = 1_700_000_000) -> None:
        self._now = now

    def now(self) -> int:
        """Whole seconds since 1970, UTC."""
        return self._now

    def advance(self, seconds: int) -> None:
        """Let ``seconds`` pass; a negative number goes back."""
        self._now += seconds


class FixedEmbedder:
    """An embedder that gives the vectors you chose, and the same vector for the same text everywhere.

    A text that ``vectors`` does not hold gets the sum of one fixed vector for each of its words, so that texts
    resemble each other as far as they share words. ``dimension`` is that of the chosen vectors, else 32. ``model`` is
    also the fingerprint: a store filled under one name refuses another. ``asked`` lists the texts embedded so far.
    """

    def __init__(
        self,
        vectors: Mapping[str, Sequence[float]] | None = None,
        *,
        dimension: int | None = None,
        model: str = "fixed",
        semantic: bool = True,
    ) -> None:
        self._vectors = dict(vectors or {})
        lengths = {len(vector) for vector in self._vectors.values()}
        if dimension is not None:
            lengths.add(dimension)
        if len(lengths) > 1:
            raise ValueError(f"vectors of different lengths: {sorted(lengths)}")
        self._dimension = lengths.pop() if lengths else 32
        self._model = model
        self._semantic = semantic
        self.asked: list[str] = []

    @property
    def model(self) -> str:
        return self._model

    @property
    def fingerprint(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def semantic(self) -> bool:
        return self._semantic

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, float32, shape (len(texts), dimension)."""
        import numpy as np

        self.asked += texts
        if not texts:
            return np.empty((0, self._dimension), np.float32)
        return np.array([self._vector(text) for text in texts], dtype=np.float32)

    def _vector(self, text: str) -> Sequence[float] | NDArray[np.float64]:
        if text in self._vectors:
            return self._vectors[text]
        total = _word_vector("", self._dimension) * 1e-3
        for word in words(text):
            total = total + _word_vector(word, self._dimension)
        return total


def _word_vector(word: str, dimension: int) -> NDArray[np.float64]:
    import numpy as np

    data = hashlib.shake_256(word.encode("utf-8", "surrogatepass")).digest(2 * dimension)
    # the half keeps every component away from zero, and so every vector
    return (np.frombuffer(data, "<u2") + 0.5) / 32_768 - 1
