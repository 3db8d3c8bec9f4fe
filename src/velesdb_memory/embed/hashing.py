"""The embedder that needs no model: signed feature hashing of words and of pieces of words (D21).

A text becomes a bag of features, and each feature a few signed entries of the vector: Weinberger et al., "Feature
Hashing for Large Scale Multitask Learning" (ICML 2009); several entries a feature as in Kane and Nelson, "Sparser
Johnson-Lindenstrauss Transforms" (JACM 2014). It sees the surface of words only, hence ``semantic`` is False.

The weights were chosen by measurement: docs/retrieval.md. Any change of them needs a new ``HASHING_VERSION``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from ..analysis import ANALYSER_VERSION, word_terms, words
from ..errors import InvalidArgument
from ..limits import DEFAULT_DIMENSION
from ..text import WHITE_SPACE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HASHING_VERSION: Final = 1

# A word weighs 1; all its pieces together weigh _PIECES, as a vector.
_ENTRIES: Final = 4  # a feature
_STOP_WORD: Final = 0.2
_PIECES: Final = 0.5
_PIECE_CHARACTERS: Final = 4
_PIECED_CHARACTERS: Final = 5  # and more
_SATURATION: Final = 1.0  # with 1, a term that occurs n times counts 2 n / (n + 1) times
# Below the smallest entry: nothing was there, or entries cancelled out, as they can in a few dimensions, and what is
# left is rounding
_LEAST: Final = 0.01

_CACHED_TERMS: Final = 16_384
_CACHED_TERM_CHARACTERS: Final = 32


class HashEmbedder:
    """Texts to vectors of ``dimension`` numbers, the same on every platform.

    Raises InvalidArgument for a dimension below 1. Instances hold no state and may be shared between threads.
    """

    def __init__(self, dimension: int = DEFAULT_DIMENSION) -> None:
        if dimension < 1:
            raise InvalidArgument(f"dimension must be at least 1, not {dimension}", field="dimension")
        self._dimension = dimension

    @property
    def model(self) -> str:
        """``hash``."""
        return "hash"

    @property
    def fingerprint(self) -> str:
        """The model with the versions of this file and of the analyser."""
        return f"hash-{HASHING_VERSION}.{ANALYSER_VERSION}"

    @property
    def dimension(self) -> int:
        """The length of the vectors."""
        return self._dimension

    @property
    def semantic(self) -> bool:
        """False: synonyms have nothing in common."""
        return False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text: float32, shape (len(texts), dimension), finite, never zero."""
        import numpy as np

        rows = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if self._dimension > 1:
                row[1:] = self._hashed(text)
            if np.abs(row).max() < _LEAST:
                row[:] = 0.0
                row[0] = 1.0
        return rows

    def _hashed(self, text: str) -> NDArray[np.float64]:
        """The features of ``text``, in all places but the first, which stands for texts without any."""
        import numpy as np

        size = self._dimension - 1
        places: list[NDArray[np.uint32]] = []
        weights: list[NDArray[np.float64]] = []
        for (term, is_stop), count in _bag(text).items():
            find = _cached_entries if len(term) <= _CACHED_TERM_CHARACTERS else _entries
            term_places, term_weights = find(term, is_stop)
            places.append(term_places)
            weights.append(term_weights if count == 1 else term_weights * _damped(count))
        if not places:
            return np.zeros(size)
        summed = np.bincount(np.concatenate(places) % size, weights=np.concatenate(weights), minlength=size)
        return cast("NDArray[np.float64]", summed)  # integers only where there are no weights


def _damped(count: int) -> float:
    return (1 + _SATURATION) * count / (count + _SATURATION)


def _bag(text: str) -> dict[tuple[str, bool], int]:
    """How often each term occurs, with whether it is a stop word; of signs alone, each sign is a term."""
    bag: dict[tuple[str, bool], int] = {}
    for word in words(text):
        for term in word_terms(word):
            bag[term] = bag.get(term, 0) + 1
    if not bag:
        for sign in text:
            if sign not in WHITE_SPACE:
                bag[sign, False] = bag.get((sign, False), 0) + 1
    return bag


def _entries(term: str, is_stop: bool) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """The places of a term's features, not yet reduced to the dimension, and their signed weights."""
    if is_stop:
        return _spread([(term, _STOP_WORD)])
    features = [(term, 1.0)]
    if len(term) >= _PIECED_CHARACTERS:
        marked = f"\x01{term}\x01"
        pieces = [marked[start : start + _PIECE_CHARACTERS] for start in range(len(marked) - _PIECE_CHARACTERS + 1)]
        # told from words by a sign that no word has
        features += [(f"\x03{piece}", _PIECES / len(pieces) ** 0.5) for piece in pieces]
    return _spread(features)


_cached_entries = lru_cache(maxsize=_CACHED_TERMS)(_entries)


def _spread(features: list[tuple[str, float]]) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    import numpy as np

    # a lone surrogate is no UTF-8, yet it is text that was asked for
    digests = [
        hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=4 * _ENTRIES).digest()
        for feature, _ in features
    ]
    hashes = np.frombuffer(b"".join(digests), dtype="<u4")
    scale = _ENTRIES**-0.5
    sizes = [weight * scale for _, weight in features for _ in range(_ENTRIES)]
    # the lowest bit is the sign
    return hashes >> np.uint32(1), np.array(sizes, dtype=np.float64) * ((hashes & 1) * 2.0 - 1.0)
