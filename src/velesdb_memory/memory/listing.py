"""Looking at the whole: list_memories and memory_status."""

from __future__ import annotations

from typing import Final

from ..ids import parse_id
from ..limits import MAX_LIST_LIMIT
from ..model import JsonObject, ListedMemory, MemoryPage
from ..store.base import Kind, Record, StoreView
from . import checks
from .core import Core

_MARKERS: Final = {
    Kind.SOURCE: "_veles_ctx_source",
    Kind.EVENT: "_veles_ctx_event",
    Kind.WORKING: "_veles_ctx_working",
}


def list_memories(
    core: Core, cursor: int | str | None, limit: int, filter: JsonObject | None, include_internal: bool
) -> MemoryPage:
    """One page of everything, by ascending id; see MemoryService.list_memories."""
    after = None if cursor is None else parse_id(cursor, "cursor")
    rows = min(max(checks.integer(limit, "limit"), 1), MAX_LIST_LIMIT)
    where = checks.exact_filter(filter)
    internal = checks.flag(include_internal, "include_internal")
    with core.store.view(core.clock.now()) as view:
        records, more = view.page(after, rows, where, internal)
        listed = [
            ListedMemory(
                record.id,
                str(record.id),
                record.content,
                verbatim(view, record) if internal else checks.visible(record.metadata),
            )
            for record in records
        ]
    return MemoryPage(listed, str(records[-1].id) if more else None)


def verbatim(view: StoreView, record: Record) -> JsonObject:
    """A record's metadata with what is reserved, under the names that the contract gives it."""
    shown = dict(record.metadata)
    if record.kind is not Kind.FACT:
        shown["_veles_hub"] = True
    if record.kind in _MARKERS:
        shown[_MARKERS[record.kind]] = True
    if record.kind is Kind.HUB:
        shown |= {attribute.key: attribute.value for attribute in view.attributes(record.id)}
    if record.expires_at is not None:
        shown["_veles_expires_at"] = record.expires_at
    if record.confidence is not None:
        shown["_veles_rl_confidence"] = record.confidence
        shown["_veles_rl_success"] = record.successes
        shown["_veles_rl_failure"] = record.failures
    return dict(sorted(shown.items()))
