"""Ranking the vectors of a space: a scan of the codes chooses candidates, the exact vectors decide."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from .codes import Codec, Rows, approximate, best
from .facets import Test, broad_from, matcher, matching_slots, metadata_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..base import Predicate
    from .spaces import SpaceRow

_RERANK_ALL: Final = 256  # up to this many matches are ranked without a scan
_GATHER: Final = 16  # a row that is copied out costs as much as this many that are scanned in place
_OVERFETCH: Final = 48  # candidates beyond those wanted, for the rounding of codes
_MIN_FETCH: Final = 96
_WALK: Final = 8_192  # candidates checked against a broad filter before it is answered as a set
# Twenty times what rounding can do to a score (see codes.py): beyond it the codes are not those of the vectors
_MAX_ERROR: Final = 0.05


class Ranked(NamedTuple):
    """Live facts with their exact scores, best first, ties by smaller id."""

    ids: list[int]
    scores: list[float]
    confidences: list[float | None]


class Damaged(Exception):
    """The code files do not agree with the vectors."""


def unpack(vectors: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """Stored vectors as an array of shape (n, dimension)."""
    import numpy as np

    return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), dimension)


def cosines(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The similarity of each row to ``vector``, all of length one; equal rows give equal numbers, which a BLAS product
    does not promise."""
    import numpy as np

    return np.clip(np.einsum("ij,j->i", vectors, vector), -1.0, 1.0)


class Search:
    """One search in one snapshot. ``suspicious`` says whether what does not add up is to be taken for damage."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        space: SpaceRow,
        vector: NDArray[np.float32],
        limit: int,
        now: int,
    ) -> None:
        self._connection = connection
        self._space = space
        self._vector = vector
        self._limit = limit
        self._now = now
        self.suspicious = True

    def run(self, rows: Rows, where: Sequence[Predicate]) -> Ranked:
        matched = matching_slots(self._connection, where, broad_from(self._space.rows)) if where else None
        if matched is not None:
            return self._among(rows, matched)
        return self._walk(rows, None, matcher(where) if where else None) or self._among(
            rows, matching_slots(self._connection, where, None)
        )

    def _among(self, rows: Rows, slots: NDArray[np.uint32] | None) -> Ranked:
        """Rank the facts of ``slots``, which satisfy the filter already."""
        import numpy as np

        assert slots is not None
        places = np.minimum(np.searchsorted(rows.slots, slots), len(rows.slots) - 1)
        places = places[rows.slots[places] == slots]
        if self.suspicious and len(places) != len(slots):
            raise Damaged
        if len(places) <= _RERANK_ALL:
            return self._rank(rows, places, None, None)[0]
        found = self._walk(rows, places, None)
        assert found is not None
        return found

    def _walk(self, rows: Rows, places: NDArray[np.intp] | None, holds: Test | None) -> Ranked | None:
        """Rank ever more of the best candidates until no other can belong among the best ``limit``.

        The candidates are ``places``, or all rows; ``holds`` is a filter that has still to be checked. None when so
        many were checked in vain that the filter had better be answered first.
        """
        import numpy as np

        scores, margin = self._scores(rows, places)
        count = max(_MIN_FETCH, self._limit + _OVERFETCH)
        while True:
            order = best(scores, count)
            approximations = scores[order]
            if not np.isfinite(approximations).all():
                raise Damaged
            chosen = order if places is None else places[order]
            ranked, vectors = self._rank(rows, chosen, approximations, holds)
            if len(order) == len(scores):
                if self.suspicious and holds is None and places is None:
                    self._require(vectors == self._space.rows - self._space.dead and self._ordered(rows.slots))
                return ranked
            if len(ranked.ids) >= self._limit and ranked.scores[-1] >= approximations.min() + margin:
                return ranked
            if holds is not None and count > _WALK:
                return None
            count *= 4

    def _ordered(self, slots: NDArray[np.uint32]) -> bool:
        last = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'memory'").fetchone()
        return bool((slots[1:] > slots[:-1]).all()) and (not len(slots) or int(slots[-1]) <= last[0])

    def _require(self, true: bool) -> None:
        if not true:
            raise Damaged

    def _scores(self, rows: Rows, places: NDArray[np.intp] | None) -> tuple[NDArray[np.float32], float]:
        """Approximate scores, and how far the exact ones may lie from them: six standard deviations of rounding."""
        import numpy as np

        codes, scales = Codec(self._space.dimension, self._space.seed).encode(self._vector[None, :])
        if places is not None and len(places) * _GATHER < len(rows.slots):
            scores = approximate(codes[0], rows.codes[places], rows.scales[places])
        else:
            scores = approximate(codes[0], rows.codes, rows.scales)
            scores = scores if places is None else scores[places]
        margin = 6 * math.sqrt((float(rows.scales.max()) ** 2 + float(scales[0]) ** 2) / 12)
        with np.errstate(all="ignore"):
            return scores * scales[0], margin

    def _rank(
        self,
        rows: Rows,
        places: NDArray[np.intp],
        approximations: NDArray[np.float32] | None,
        holds: Test | None,
    ) -> tuple[Ranked, int]:
        """The best ``limit`` of the rows at ``places``, and how many of those have a vector."""
        candidates: list[int] = rows.slots[places].tolist()
        if holds is not None:
            candidates = [slot for slot, metadata in metadata_of(self._connection, candidates) if holds(metadata)]
        fetched = self._connection.execute(
            "SELECT wanted.value, e.vector, m.id, m.confidence, m.expires_at FROM json_each(?) AS wanted"
            " CROSS JOIN embedding AS e ON e.key = wanted.value + ?"
            " LEFT JOIN memory AS m ON m.slot = wanted.value AND m.kind = 0",
            (json.dumps(candidates), self._space.key(0)),
        ).fetchall()
        exact = cosines(unpack([row[1] for row in fetched], self._space.dimension), self._vector)
        if approximations is not None and fetched:
            self._compare(rows.slots[places], approximations, [row[0] for row in fetched], exact)
        found = [
            (-score, memory_id, confidence)
            for score, (_, _, memory_id, confidence, expires_at) in zip(exact.tolist(), fetched, strict=True)
            if memory_id is not None and (expires_at is None or expires_at > self._now)
        ]
        found.sort(key=itemgetter(0, 1))
        del found[self._limit :]
        ranked = Ranked([hit[1] + 2**63 for hit in found], [-hit[0] for hit in found], [hit[2] for hit in found])
        return ranked, len(fetched)

    def _compare(
        self,
        candidates: NDArray[np.uint32],
        approximations: NDArray[np.float32],
        slots: list[int],
        exact: NDArray[np.float32],
    ) -> None:
        """Raise Damaged when an exact score lies where rounding cannot have moved it."""
        import numpy as np

        ascending = np.argsort(slots)
        keys = np.array(slots, np.uint32)[ascending]
        where = np.searchsorted(keys, candidates)
        where[where == len(keys)] = 0
        held = keys[where] == candidates
        error = np.abs(approximations[held] - exact[ascending][where[held]])
        self._require(bool((error < _MAX_ERROR).all()))
