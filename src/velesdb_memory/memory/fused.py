"""Searching by meaning, words and links at once: recall_fused and its variants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from ..analysis import terms
from ..errors import EmbedError, RerankError
from ..limits import (
    DEFAULT_GRAPH_BOOST,
    DEFAULT_LEXICAL_BOOST,
    DEFAULT_LEXICAL_BOOST_SEMANTIC,
    MAX_RECALL_LIMIT,
    MAX_WHY_HOPS,
)
from ..model import DatedContext, FusionOptions, JsonObject, Recollection, Recollections, Signals
from ..store.base import Kind, Predicate, Record, StoreView
from ..text import trim
from . import checks
from .core import Core
from .graph import Walk, walk
from .recall import pool_size
from .switching import follows_switch, inherited
from .wiring import MENTIONS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SMALLEST: Final = 2.22e-16  # no score to normalise by is smaller: a pool of zeros stays zeros


class Reranker(Protocol):
    """A second stage of your own: a cross-encoder, a model that judges. Returns ``candidates`` in its own order."""

    def rerank(self, query: str, candidates: Sequence[Recollection]) -> Sequence[Recollection]: ...


class _Fusion(msgspec.Struct, frozen=True):
    """Options with their defaults filled in."""

    hops: int
    graph_boost: float
    pool: int
    lexical_boost: float


class Candidate(msgspec.Struct):
    """A fact on the way into a ranking: what found it, each in [0, 1], and the sum that it is ranked by."""

    id: int
    cosine: float = 0.0
    vector: float = 0.0
    lexical: float = 0.0
    graph: float = 0.0
    fused: float = 0.0


def recall_fused(
    core: Core, query: str, k: int, filter: JsonObject | None, options: FusionOptions | None
) -> Recollections:
    """The best ``k`` by the fused score; see MemoryService.recall_fused."""
    wanted = checks.count(k)
    return _search(core, query, wanted, wanted, filter, options)


def recall_fused_reranked(
    core: Core,
    query: str,
    k: int,
    filter: JsonObject | None,
    options: FusionOptions | None,
    reranker: Reranker,
) -> Recollections:
    """The best ``k`` in the reranker's order; see MemoryService.recall_fused_reranked."""
    wanted = checks.count(k)
    found = _search(core, query, wanted, None, filter, options)
    return Recollections(reranked(reranker, query, found)[:wanted], found.warnings) if found else found


def reranked(reranker: Reranker, query: str, found: Sequence[Recollection]) -> list[Recollection]:
    """``found`` as the reranker orders it. Raises RerankError when it fails."""
    try:
        return list(reranker.rerank(trim(query), list(found)))
    except Exception as error:
        raise RerankError(f"the reranker failed: {error}") from error


def recall_fused_dated(
    core: Core,
    query: str,
    k: int,
    filter: JsonObject | None,
    options: FusionOptions | None,
    date_field: str,
) -> tuple[Recollections, DatedContext | None]:
    """The best ``k``, and as a timeline; see MemoryService.recall_fused_dated."""
    field = checks.query(date_field, "date_field")
    found = recall_fused(core, query, k, filter, options)
    return found, dated_context(found, field)


def dated_context(found: Sequence[Recollection], date_field: str) -> DatedContext | None:
    """Recollections as lines ``- [YYYY-MM-DD] content``, oldest first, then the undated as ``- content``.

    None when nothing is dated. A date is an integer YYYYMMDD that names a real day.
    """
    dated: list[tuple[int, str]] = []
    undated: list[str] = []
    for hit in found:
        day: object = (hit.metadata or {}).get(date_field)
        if isinstance(day, int) and is_date(day):
            dated.append((day, hit.content))
        else:
            undated.append(f"- {hit.content}")
    if not dated:
        return None
    dated.sort(key=lambda entry: entry[0])
    lines = [f"- [{_iso(day)}] {content}" for day, content in dated]
    return DatedContext("\n".join(lines + undated), _iso(dated[-1][0]))


def is_date(value: object) -> bool:
    """Whether ``value`` is an integer YYYYMMDD that names a real day; years may be longer than four digits."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return False
    year, month, day = value // 10_000, value // 100 % 100, value % 100
    try:
        # leap years repeat every 400 years, and datetime ends with year 9999
        date(year % 400 + 400, month, day)
    except ValueError:
        return False
    return True


def _iso(value: int) -> str:
    return f"{value // 10_000:04}-{value // 100 % 100:02}-{value % 100:02}"


def _options(core: Core, k: int, options: FusionOptions | None) -> _Fusion:
    given = options or FusionOptions()
    pool = pool_size(k) if given.pool is None else max(1, checks.integer(given.pool, "pool"))
    return _Fusion(
        min(checks.integer(given.hops, "hops"), MAX_WHY_HOPS),
        weight(given.graph_boost, DEFAULT_GRAPH_BOOST, "graph_boost"),
        min(pool, MAX_RECALL_LIMIT),
        weight(given.lexical_boost, default_lexical_boost(core), "lexical_boost"),
    )


def default_lexical_boost(core: Core) -> float:
    """What matching words weigh beside a similarity of 1, by the class of the embedder."""
    return DEFAULT_LEXICAL_BOOST_SEMANTIC if core.embedder.semantic else DEFAULT_LEXICAL_BOOST


def weight(value: object, default: float, field: str) -> float:
    """A weight that a caller gave; ``default`` for None and for what is not finite."""
    if value is None:
        return default
    number = checks.number(value, field)
    return number if math.isfinite(number) else default


@follows_switch
def _search(
    core: Core, query: str, k: int, cut: int | None, filter: JsonObject | None, options: FusionOptions | None
) -> Recollections:
    explain = options is not None and options.explain
    ranked, warnings = rank(core, query, k, cut, filter, options)
    return Recollections([recollection(candidate, record, explain) for candidate, record in ranked], warnings)


def rank(
    core: Core, query: str, k: int, cut: int | None, filter: JsonObject | None, options: FusionOptions | None
) -> tuple[list[tuple[Candidate, Record]], list[str]]:
    """The first ``cut`` candidates (None: all) of a search for ``k``, best first, and what it had to do without."""
    text = checks.query(query)
    if not text or not k:
        return [], []
    fusion, where = _options(core, k, options), checks.exact_filter(filter)
    warnings: list[str] = []
    try:
        vector = core.query_vector(text)
    except EmbedError as reason:
        # words and links do not depend on the embedder; the caller is told what is missing
        if not fusion.lexical_boost or inherited(core):
            raise
        vector = None
        warnings.append(f"searched by words and links only: {reason}")
    with core.store.view(core.clock.now()) as view:
        if vector is not None:
            core.require_space(view)
        ranked = _Fuse(view, fusion, where).rank(vector, text)[:cut]
        records = view.get_many([candidate.id for candidate in ranked])
    return [(candidate, records[candidate.id]) for candidate in ranked], warnings


def recollection(candidate: Candidate, record: Record, explain: bool = False) -> Recollection:
    """A candidate as callers see it."""
    signals = Signals(candidate.vector, candidate.lexical, candidate.graph) if explain else None
    return Recollection(record.id, candidate.cosine, record.content, checks.visible(record.metadata), signals)


class _Fuse:
    """One fused ranking in one snapshot.

    fused = vector + graph_boost * graph + lexical_boost * lexical, where vector is the cosine (negative ones are 0)
    over the best cosine of the pool, and lexical the BM25 over the best BM25. The sum of scores normalised by their
    maximum did much better than reciprocal ranks: docs/retrieval.md.
    """

    def __init__(self, view: StoreView, fusion: _Fusion, where: Sequence[Predicate]) -> None:
        self._view = view
        self._fusion = fusion
        self._where = where
        self._candidates: dict[int, Candidate] = {}

    def rank(self, vector: NDArray[np.float32] | None, text: str) -> list[Candidate]:
        """All candidates, best first; ``vector`` None leaves words and links to find them."""
        hits = [] if vector is None else self._view.nearest(vector, self._fusion.pool, self._where)
        cosines = {hit.id: hit.score for hit in hits}
        words: dict[int, float] = {}
        if self._fusion.lexical_boost:
            found = self._view.lexical(terms(text), self._fusion.pool, self._where, list(cosines))
            words = {hit.id: hit.score for hit in found}
        best_cosine = max([_SMALLEST, *cosines.values()])
        best_words = max([_SMALLEST, *words.values()])
        if vector is not None:
            # what only the words found has a similarity too
            cosines |= self._view.cosines(vector, [memory_id for memory_id in words if memory_id not in cosines])
        pool = list(dict.fromkeys((*cosines, *words)))
        for memory_id in pool:
            cosine = cosines.get(memory_id, 0.0)
            self._candidates[memory_id] = Candidate(
                memory_id,
                cosine,
                min(1.0, max(cosine, 0.0) / best_cosine),
                words.get(memory_id, 0.0) / best_words,
            )
        if pool and self._fusion.hops:
            self._reach(self._view.get_many(pool[:1])[pool[0]])
        for candidate in self._candidates.values():
            candidate.fused = (
                candidate.vector
                + self._fusion.graph_boost * candidate.graph
                + self._fusion.lexical_boost * candidate.lexical
            )
        # stable: equal scores keep the order of the pool, then that of the walk
        return sorted(self._candidates.values(), key=lambda candidate: candidate.fused, reverse=True)

    def _reach(self, seed: Record) -> None:
        """Weigh what the graph reaches from the best match, and add what the pool does not hold."""
        result = walk(self._view, seed, self._fusion.hops)
        reached = [record for record, hop in result.found.values() if hop and record.kind is Kind.FACT]
        kept = {record.id for record in self._view.matching([record.id for record in reached], self._where)}
        weights = self._weights(result)
        for record in reached:
            if record.id in kept:
                candidate = self._candidates.setdefault(record.id, Candidate(record.id))
                candidate.graph = weights.get(record.id, 1.0)

    def _weights(self, result: Walk) -> dict[int, float]:
        """For what an entity mentions: how telling the rarest of those entities is, ln(n / d) / ln(n) for one with d
        edges in a store of n records. Everything else weighs 1."""
        mentions = [edge for edge in result.edges if edge.relation == MENTIONS]
        if not mentions:
            return {}
        total = self._view.records()
        rarity: dict[int, float] = {}
        weights: dict[int, float] = {}
        for edge in mentions:
            if edge.source not in rarity:
                degree = self._view.degree(edge.source)
                rarity[edge.source] = math.log(total / degree) / math.log(total) if degree and total > 1 else 0.0
            weights[edge.target] = max(weights.get(edge.target, 0.0), rarity[edge.source])
        return weights
