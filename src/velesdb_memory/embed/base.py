"""The seam to embedding models, and the checks that their answers go through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..errors import EmbedError, VelesMemoryError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Anything that turns texts into vectors of one length.

    ``model`` names it to people; ``dimension`` is the length of its vectors; ``semantic`` is False when it sees the
    surface of words only. ``fingerprint`` is what the store records: it changes whenever the vectors do.
    """

    @property
    def model(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def semantic(self) -> bool: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text: shape (len(texts), dimension), any length but zero, finite."""
        ...


def embed_checked(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """``embedder``'s vectors for ``texts``, scaled to length one: float32, shape (len(texts), dimension).

    Raises EmbedError when the embedder fails, or answers with another shape, or with a vector that is zero or not
    finite.
    """
    import numpy as np

    try:
        vectors = np.asarray(embedder.embed(texts), dtype=np.float32)
    except VelesMemoryError:
        raise
    except Exception as error:
        raise EmbedError(f"embedder {embedder.model} failed: {error}") from error
    if vectors.shape != (len(texts), embedder.dimension):
        raise EmbedError(
            f"embedder {embedder.model} answered with shape {vectors.shape}, not ({len(texts)}, {embedder.dimension})"
        )
    # float64, because the square of a large float32 overflows
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise EmbedError(f"embedder {embedder.model} answered with a zero vector or one that is not finite")
    return (vectors / lengths[:, None]).astype(np.float32)
