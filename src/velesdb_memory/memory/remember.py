"""Writing: remember, forget, relate, unrelate, feedback."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..clock import yyyymmdd
from ..errors import SelfRelation, UnknownMemory
from ..ids import fact_id, parse_id
from ..limits import CONFIDENCE_GAIN, CONFIDENCE_LOSS, MAX_PENDING_AUTOGRAPH, NEUTRAL_CONFIDENCE
from ..model import JsonObject, Link, Unrelated
from ..store.base import Kind, Record, StoreTransaction, StoreView
from . import checks
from .core import AUTOGRAPH_DROPPED, SWEEP_ALONG, Core, expiry
from .switching import follows_switch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@follows_switch
def remember(
    core: Core,
    fact: str,
    links: Sequence[Link] | None,
    metadata: JsonObject | None,
    ttl_seconds: int | None,
) -> int:
    """Store a fact; see MemoryService.remember."""
    text = checks.fact(fact)
    seconds = checks.ttl(ttl_seconds)
    fields = checks.metadata(metadata)
    wanted = checks.links(links)
    number = fact_id(text)
    now = core.clock.now()
    if wanted:
        # before the embedder is asked, which may be slow; once more inside the transaction
        with core.store.view(now) as view:
            _require_targets(view, wanted, number)
    vector = core.embed([text])[0]
    with core.store.transaction(now) as tx:
        core.require_space(tx)
        _require_targets(tx, wanted, number)
        put_fact(tx, number, text, fields, vector, expiry(now, seconds))
        for link in wanted:
            tx.add_edge(number, link.target, link.relation, taught_by=None)
        if core.autograph:
            _queue_enrichment(tx, number)
        tx.sweep(SWEEP_ALONG)
    return number


def _require_targets(view: StoreView, links: Sequence[Link], own: int) -> None:
    if not links:
        return
    present = view.get_many([link.target for link in links])
    for index, link in enumerate(links):
        if link.target not in present:
            raise UnknownMemory(link.target, f"links[{index}].target")
        if link.target == own:
            raise SelfRelation(own, f"links[{index}].target")


def _queue_enrichment(tx: StoreTransaction, fact: int) -> None:
    # the write never waits for a full queue; what the bound refuses is counted
    if not tx.queue_enrichment(fact, MAX_PENDING_AUTOGRAPH):
        tx.raise_tally(AUTOGRAPH_DROPPED)


def put_fact(
    tx: StoreTransaction,
    number: int,
    text: str,
    metadata: JsonObject,
    vector: NDArray[np.float32],
    expires_at: int | None,
    today: int | None = None,
) -> None:
    """Write a fact whose id is ``number``, new or again: metadata and expiry are replaced, what was learned stays.

    A date that the caller set survives until another one is set; an automatic one is ``today`` (or the
    transaction's own day).
    """
    former = tx.get(number)
    stored = dict(metadata)
    dated = checks.DATE_KEY in stored
    if not dated:
        if former is not None and former.dated:
            stored[checks.DATE_KEY], dated = former.metadata[checks.DATE_KEY], True
        elif tx.now >= 0:
            stored[checks.DATE_KEY] = today or yyyymmdd(tx.now)
    learned = former or Record(number, Kind.FACT, text, {})
    tx.put(
        Record(
            number,
            Kind.FACT,
            text,
            stored,
            dated=dated,
            confidence=learned.confidence,
            successes=learned.successes,
            failures=learned.failures,
            expires_at=expires_at,
        ),
        vector,
    )


def forget(core: Core, memory_id: int) -> bool:
    """Delete a memory; see MemoryService.forget."""
    number = parse_id(memory_id, "id")
    with core.store.transaction(core.clock.now()) as tx:
        found = tx.delete(number)
        tx.sweep(SWEEP_ALONG)
    return found


def relate(core: Core, from_id: int, to_id: int, relation: str) -> int:
    """Make a typed edge; see MemoryService.relate."""
    source, target, label = _ends(from_id, to_id, relation)
    with core.store.transaction(core.clock.now()) as tx:
        present = tx.get_many([source, target])
        for number, field in ((source, "from"), (target, "to")):
            if number not in present:
                raise UnknownMemory(number, field)
        return tx.add_edge(source, target, label, taught_by=None)


def unrelate(core: Core, from_id: int, to_id: int, relation: str) -> Unrelated:
    """Take a typed edge away; see MemoryService.unrelate."""
    source, target, label = _ends(from_id, to_id, relation)
    with core.store.transaction(core.clock.now()) as tx:
        removed = tx.remove_edge(source, target, label)
    return Unrelated(found=removed > 0, removed=removed)


def _ends(from_id: int, to_id: int, relation: str) -> tuple[int, int, str]:
    label = checks.relation(relation)
    source, target = parse_id(from_id, "from"), parse_id(to_id, "to")
    if source == target:
        raise SelfRelation(source)
    return source, target, label


def feedback(core: Core, memory_id: int, success: bool) -> float:
    """Learn from an outcome; see MemoryService.feedback."""
    number = parse_id(memory_id, "id")
    useful = checks.flag(success, "success")
    with core.store.transaction(core.clock.now()) as tx:
        record = tx.get(number)
        if record is None:
            raise UnknownMemory(number)
        before = NEUTRAL_CONFIDENCE if record.confidence is None else record.confidence
        moved = min(1.0, before + CONFIDENCE_GAIN) if useful else max(0.0, before - CONFIDENCE_LOSS)
        confidence = _float32(moved)
        tx.set_confidence(number, confidence, record.successes + useful, record.failures + (not useful))
    return confidence


def _float32(value: float) -> float:
    # the contract's numbers are those of single precision: 0.6000000238418579 after one success
    return struct.unpack("<f", struct.pack("<f", value))[0]
