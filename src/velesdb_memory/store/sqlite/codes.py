"""Vector codes: every vector as int8 in a file that all processes map, so that a search is one scan of memory.

A vector is turned by a random orthogonal matrix (the same for a whole space, from its stored seed), then each component
is divided by the vector's own scale and rounded. The turn spreads the weight of sparse vectors evenly over the
components: on hashed vectors recall@10 was 0.967 without it and 0.999 with it. Codes only choose candidates; the exact
vectors in the database rank them, so that a damaged code can hide a fact until it is noticed but never change a score.

Three files hold a row for each vector, in ascending order of slot: ``codes-<name>.i8`` (dimension bytes),
``scales-<name>.f4`` (a float32) and ``slots-<name>.u4`` (the slot). They only ever grow, by whole steps, and the row of
a deleted vector stays; a new generation, without such rows, gets a new name.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...errors import StoreFull, StoreUnwritable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MIN_BLOCK: Final = 32  # smaller blocks would need many rounds to mix
_MAX_BLOCK: Final = 128  # larger ones cost more and mix no better after three rounds
STEP: Final = 16_384  # rows by which files grow
_BLOCK: Final = 8_192  # rows that the numpy scan widens to floats at a time
# float32 holds every dot product of two int8 vectors exactly up to here: 127 * 127 * 1,024 < 2^24
_EXACT_FLOAT32: Final = 1_024


_ROUNDS: Final = 3


@lru_cache(maxsize=4)
def _rotation(dimension: int, seed: int) -> NDArray[np.float32]:
    """An orthogonal matrix, shape (dimension, dimension), that spreads every component over all of them.

    Rounds of random order, random signs and a Hadamard transform of blocks that divide the dimension (Ailon and
    Chazelle, "The Fast Johnson-Lindenstrauss Transform", 2009). Made in milliseconds, where the QR of a random matrix
    takes tens of them, and the same everywhere, because the randomness is SHAKE's and not a library's.
    """
    import numpy as np

    matrix = np.eye(dimension, dtype=np.float64)
    block = min(dimension & -dimension, _MAX_BLOCK)
    stream = hashlib.shake_256(f"velesdb-memory rotation {seed}".encode()).digest(16 * dimension * _ROUNDS)
    numbers = np.frombuffer(stream, "<u8").reshape(_ROUNDS, 2, dimension)
    for order, signs in numbers:
        matrix = matrix[:, np.argsort(order, kind="stable")] * np.where(signs & 1, 1.0, -1.0)
        if block >= _MIN_BLOCK:
            matrix = (matrix.reshape(dimension, -1, block) @ _hadamard(block)).reshape(dimension, dimension)
        else:
            # two overlapping blocks, one from each end, mix every component
            width = 1 << (dimension.bit_length() - 1)
            matrix[:, :width] = matrix[:, :width] @ _hadamard(width)
            matrix[:, dimension - width :] = matrix[:, dimension - width :] @ _hadamard(width)
    return matrix.astype(np.float32)


def _hadamard(size: int) -> NDArray[np.float64]:
    import numpy as np

    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / np.sqrt(size)


class Codec:
    """Vectors of one space to codes. Deterministic up to one unit of rounding between machines."""

    def __init__(self, dimension: int, seed: int) -> None:
        self.dimension = dimension
        self._seed = seed

    def encode(self, vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Codes, shape (n, dimension), and scales, shape (n,), of unit vectors, shape (n, dimension)."""
        import numpy as np

        turned = vectors @ _rotation(self.dimension, self._seed)
        scales = np.abs(turned).max(axis=1) / np.float32(127)
        return np.rint(turned / scales[:, None]).astype(np.int8), scales.astype(np.float32)


class Rows(NamedTuple):
    """Codes, shape (n, dimension); scales, shape (n,); slots, shape (n,), ascending."""

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    slots: NDArray[np.uint32]


class CodeFiles:
    """The files of one generation, written by whoever holds the database's write lock and read by everyone."""

    def __init__(self, folder: Path, name: str, dimension: int) -> None:
        self.name = name
        self.paths = [folder / f"codes-{name}.i8", folder / f"scales-{name}.f4", folder / f"slots-{name}.u4"]
        self._widths = [dimension, 4, 4]
        self._dimension = dimension
        self._guard = threading.Lock()
        self._files: list[int] = []
        self._mapped: Rows | None = None

    def create(self) -> None:
        """Make empty files."""
        with self._guard:
            self._open(os.O_CREAT | os.O_EXCL)

    def present(self, rows: int) -> bool:
        """Whether all files are there and hold at least ``rows`` rows."""
        try:
            sized = zip(self.paths, self._widths, strict=True)
            return all(path.stat().st_size >= rows * width for path, width in sized)
        except OSError:
            return False

    def _open(self, extra: int = 0) -> list[int]:
        if not self._files:
            flags = os.O_RDWR | extra | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
            try:
                self._files = [os.open(path, flags, 0o600) for path in self.paths]
            except OSError as error:
                raise StoreUnwritable(f"{error.filename} cannot be opened: {error.strerror}") from error
        return self._files

    def write(self, first: int, rows: Rows) -> None:
        """Put ``rows`` in place from row ``first`` on; the files grow as needed."""
        needed = -(-(first + len(rows.slots)) // STEP) * STEP
        with self._guard:
            try:
                for descriptor, width, data in zip(self._open(), self._widths, rows, strict=True):
                    if os.fstat(descriptor).st_size < needed * width:
                        os.ftruncate(descriptor, needed * width)
                    _write_at(descriptor, data.tobytes(), first * width)
            except OSError as error:
                folder = self.paths[0].parent
                raise StoreFull(f"vector codes cannot be written to {folder}: {error.strerror}") from error

    def sync(self) -> None:
        """Make what was written survive a power loss."""
        with self._guard:
            for descriptor in self._open():
                getattr(os, "fdatasync", os.fsync)(descriptor)

    def map(self, rows: int) -> Rows | None:
        """The first ``rows`` rows, shared with the files; None when a file is missing or short.

        Never maps more than a file holds: reading past its end would kill the process.
        """
        import numpy as np

        with self._guard:
            if not self.present(rows):
                return None
            if self._mapped is None or len(self._mapped.slots) < rows:
                held = min(
                    os.fstat(descriptor).st_size // width
                    for descriptor, width in zip(self._open(), self._widths, strict=True)
                )
                if held < rows or not held:
                    return None if held < rows else Rows(*_nothing(self._dimension))
                maps = [
                    mmap.mmap(descriptor, held * width, access=mmap.ACCESS_READ)
                    for descriptor, width in zip(self._files, self._widths, strict=True)
                ]
                self._mapped = Rows(
                    np.frombuffer(maps[0], dtype=np.int8).reshape(held, self._dimension),
                    np.frombuffer(maps[1], dtype=np.float32),
                    np.frombuffer(maps[2], dtype=np.uint32),
                )
            codes, scales, slots = self._mapped
            return Rows(codes[:rows], scales[:rows], slots[:rows])

    def close(self) -> None:
        """Let go of the files. Maps end when the last array on them does."""
        with self._guard:
            self._mapped = None
            for descriptor in self._files:
                os.close(descriptor)
            self._files = []

    def unlink(self) -> None:
        """Remove the files, as far as the platform lets a mapped file go."""
        self.close()
        for path in self.paths:
            # Windows keeps a file that another process maps; the next rebuild tries again
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _nothing(dimension: int) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.uint32]]:
    import numpy as np

    return np.empty((0, dimension), np.int8), np.empty(0, np.float32), np.empty(0, np.uint32)


if sys.platform == "win32":

    def _write_at(descriptor: int, data: bytes, offset: int) -> None:
        # the caller's lock makes seek and write one step
        os.lseek(descriptor, offset, os.SEEK_SET)
        while data:
            data = data[os.write(descriptor, data) :]

else:

    def _write_at(descriptor: int, data: bytes, offset: int) -> None:
        while data:
            written = os.pwrite(descriptor, data, offset)
            data, offset = data[written:], offset + written


def _simsimd() -> Any | None:
    try:
        import simsimd
    except ImportError:
        return None
    return simsimd


def approximate(
    query: NDArray[np.int8], codes: NDArray[np.int8], scales: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The dot product of a coded query, shape (d,), with each row, times the row's scale: shape (n,).

    The integer products are exact whichever way they are computed, so both ways give the same candidates.
    """
    import numpy as np

    kernel = _simsimd()
    exact = "f32" if codes.shape[1] <= _EXACT_FLOAT32 else "f64"
    if kernel is not None and len(codes):
        products = np.asarray(kernel.cdist(query[None, :], codes, "dot", out_dtype=exact))[0]
    else:
        products = np.empty(len(codes), dtype=exact.replace("f32", "float32").replace("f64", "float64"))
        wide = query.astype(products.dtype)
        for start in range(0, len(codes), _BLOCK):
            products[start : start + _BLOCK] = codes[start : start + _BLOCK].astype(products.dtype) @ wide
    # damaged scales may be anything; who ranks the scores looks at them
    with np.errstate(all="ignore"):
        return (products * scales).astype(np.float32, copy=False)


def best(scores: NDArray[np.floating[Any]], count: int) -> NDArray[np.intp]:
    """The indices of the ``count`` highest scores, in no order."""
    import numpy as np

    if count >= len(scores):
        return np.arange(len(scores))
    if len(scores) > 32 * count:
        # a sample finds a bar that few scores pass; partitioning those is quicker than partitioning all
        sample = np.sort(scores[:: max(1, len(scores) // 4096)])
        rank = min(len(sample), 16 + 3 * count * len(sample) // len(scores))
        above = np.flatnonzero(scores >= sample[-rank])
        if count <= len(above) < len(scores) // 2:
            return above[np.argpartition(scores[above], len(above) - count)[-count:]]
    return np.argpartition(scores, len(scores) - count)[-count:]


def ranking(scores: NDArray[np.floating[Any]], count: int) -> NDArray[np.intp]:
    """The indices of the ``count`` highest scores, best first; equal scores by index, also at the cut."""
    import numpy as np

    if count < len(scores):
        bar = np.partition(scores, len(scores) - count)[len(scores) - count]
        above = np.flatnonzero(scores > bar)
        chosen = np.concatenate([above, np.flatnonzero(scores == bar)[: count - len(above)]])
    else:
        chosen = np.arange(len(scores))
    return chosen[np.lexsort((chosen, -scores[chosen]))]
