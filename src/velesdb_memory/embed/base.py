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

    ``model`` names it to people; ``dimension`` is the length of its vectors, None until a model that somebody else
    serves has answered for the first time; ``semantic`` is False when it sees the surface of words only.
    ``fingerprint`` is what the store records: it changes whenever the vectors do, as far as that can be known without
    asking the model.
    """

    @property
    def model(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def dimension(self) -> int | None: ...
    @property
    def semantic(self) -> bool: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text: shape (len(texts), dimension), any length but zero, finite. Raises EmbedderUnavailable
        when the model cannot be asked at present."""
        ...


def embed_checked(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """``embedder``'s vectors for ``texts``, scaled to length one: float32, shape (len(texts), dimension).

    Raises EmbedError when the embedder fails, or answers with another shape, or with a vector that is zero or not
    finite.
    """
    import numpy as np

    try:
        vectors = as_vectors(embedder.embed(texts))
    except VelesMemoryError:
        raise
    except Exception as error:
        raise EmbedError(f"embedder {embedder.model} failed: {error}") from error
    wrong = flaw(vectors, len(texts), embedder.dimension)
    if wrong:
        raise EmbedError(f"embedder {embedder.model} answered with {wrong}")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return (vectors / lengths[:, None]).astype(np.float32)


def as_vectors(numbers: object) -> NDArray[np.float32]:
    """``numbers`` as float32; what is too large for that becomes infinite. Raises ValueError or TypeError."""
    import numpy as np

    with np.errstate(over="ignore"):
        return np.asarray(numbers, dtype=np.float32)


def flaw(vectors: NDArray[np.float32], count: int, dimension: int | None) -> str | None:
    """What is wrong with the vectors of ``count`` texts, None when they can be used (C38)."""
    import numpy as np

    if vectors.ndim != 2 or len(vectors) != count:
        return f"an array of shape {vectors.shape} for {count} texts"
    if not vectors.shape[1] or dimension not in (None, vectors.shape[1]):
        return f"vectors of {vectors.shape[1]} numbers, not {dimension or 'at least one'}"
    # float64, because the square of a large float32 overflows
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    if not np.isfinite(squares).all() or not (squares > 0).all():
        return "a vector that is zero or not finite"
    return None
