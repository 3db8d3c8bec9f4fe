"""What compilations saved, as exact counters: one row for each project, model, currency and moment of expiry."""

from __future__ import annotations

import json
from typing import Final

from msgspec import UNSET

from ..context.handles import content_hash
from ..context.model import ContextSavings, Insights
from ..errors import InvalidArgument
from ..limits import MAX_INTEGER
from ..model import JsonObject
from ..store.base import PROJECT, Kind, Record, StoreTransaction
from . import checks
from .core import Core

MODEL: Final = "_veles_ctx_model"
CURRENCY: Final = "_veles_ctx_currency"
# whose compilations these are: an import leaves the counts of another store beside one's own
STORE: Final = "_veles_ctx_store"
_LABELS: Final = (STORE, PROJECT, MODEL, CURRENCY)

EVENTS: Final = "_veles_ctx_events"
TOKENS_IN: Final = "_veles_ctx_tokens_in"
TOKENS_OUT: Final = "_veles_ctx_tokens_out"
TOKENS_SAVED: Final = "_veles_ctx_tokens_saved"
COST: Final = "_veles_ctx_cost_micros"
_COUNTERS: Final = (EVENTS, TOKENS_IN, TOKENS_OUT, TOKENS_SAVED, COST)

_CONTENT: Final = "compilations counted for context_savings"


def count(
    tx: StoreTransaction, project: str | None, target_model: str | None, insights: Insights, expires_at: int | None
) -> str | None:
    """Count one compilation; why that could not be done."""
    currency = None if insights.currency is UNSET else insights.currency
    labels = _present({STORE: tx.store_id(), PROJECT: project, MODEL: target_model, CURRENCY: currency})
    cost = insights.estimated_cost_saved_micros
    counts = {
        EVENTS: 1,
        TOKENS_IN: insights.tokens_in,
        TOKENS_OUT: insights.tokens_out,
        TOKENS_SAVED: insights.tokens_saved,
        COST: 0 if cost is UNSET else cost,
    }
    number = _id(labels, expires_at)
    former = tx.get(number)
    if former is not None:
        if not _same_row(former, labels, expires_at):
            return "what was saved was not counted: another memory has the id of the counter"
        counts = {key: min(former.metadata[key] + by, MAX_INTEGER) for key, by in counts.items()}
    tx.put(Record(number, Kind.EVENT, _CONTENT, {**labels, **counts}, expires_at=expires_at), None)
    return None


def _present(labels: dict[str, str | None]) -> JsonObject:
    return {key: value for key, value in labels.items() if value is not None}


def _id(labels: JsonObject, expires_at: int | None) -> int:
    name = json.dumps(["veles-ctx-event", expires_at, *(labels.get(key) for key in _LABELS)])
    return content_hash(name.encode())


def _same_row(record: Record, labels: JsonObject, expires_at: int | None) -> bool:
    found = {key: record.metadata[key] for key in _LABELS if key in record.metadata}
    return (record.kind, found, record.expires_at) == (Kind.EVENT, labels, expires_at)


def savings(core: Core, project: str | None) -> ContextSavings:
    """The sum of what was counted; see MemoryService.context_savings."""
    if project is not None:
        checks.name(project, "project")
    with core.store.view(core.clock.now()) as view:
        rows = [stub.metadata for stub in view.internals(Kind.EVENT, project)]
    costs: dict[str, int] = {}
    for row in rows:
        if row[COST] and CURRENCY in row:
            costs[row[CURRENCY]] = min(costs.get(row[CURRENCY], 0) + row[COST], MAX_INTEGER)
    totals = {key: min(sum(row[key] for row in rows), MAX_INTEGER) for key in _COUNTERS}
    return ContextSavings(
        totals[EVENTS], totals[TOKENS_IN], totals[TOKENS_OUT], totals[TOKENS_SAVED], dict(sorted(costs.items()))
    )


def take(tx: StoreTransaction, number: int, metadata: JsonObject, expires_at: int | None) -> bool:
    """Take over the counts that an export brings; whether anything changed. Counts of one row only ever grow, so those
    with more compilations are the later ones. Raises InvalidInput for what is none."""
    labels = _present(
        {key: None if metadata.get(key) is None else checks.name(metadata[key], key) for key in _LABELS}
    )
    if STORE not in labels or number != _id(labels, expires_at):
        raise InvalidArgument(f"{number} is not the id of these counts", field="id")
    counts = {key: checks.integer(metadata.get(key), key, maximum=MAX_INTEGER) for key in _COUNTERS}
    former = tx.get(number)
    if former is not None:
        if not _same_row(former, labels, expires_at):
            raise InvalidArgument(f"id {number} belongs to something else, and nothing was overwritten", field="id")
        if former.metadata[EVENTS] >= counts[EVENTS]:
            return False
    tx.put(Record(number, Kind.EVENT, _CONTENT, {**labels, **counts}, expires_at=expires_at), None)
    return True
