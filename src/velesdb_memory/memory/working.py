"""Working contexts: the distilled state of a session, saved for the next one to take up."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from ..context.model import LoadedWorkingContext, WorkingContext, WorkingContextSession
from ..errors import ContextOverLimit, IdCollision, InvalidArgument, StoreCorrupt, WorkingContextCodec
from ..ids import parse_id, working_id
from ..limits import MAX_EPOCH_SECONDS, MAX_FACT_BYTES, MAX_INTEGER
from ..model import JsonObject
from ..store.base import PROJECT, Kind, Record, StoreTransaction, StoreView, Stub
from ..text import require_text, trim
from . import checks
from .core import SWEEP_ALONG, Core

SESSION: Final = "_veles_ctx_session"
SAVED_AT: Final = "_veles_ctx_saved_at"  # Unix seconds
SAVE: Final = "_veles_ctx_save"  # saves of a project in their order, whatever the clock does
_STEPS_A_SECOND: Final = 2**20
_LISTS: Final = (
    "active_constraints",
    "verified_facts",
    "open_hypotheses",
    "decisions",
    "exact_evidence",
    "pending_actions",
)


def save(core: Core, project: str, session: str, working: WorkingContext | JsonObject) -> int:
    """Save a session's state instead of the one it has; see MemoryService.save_working_context."""
    _filled(project, "project")
    _filled(session, "session")
    body = encoded(working)
    number, now = working_id(project, session), core.clock.now()
    with core.store.transaction(now) as tx:
        _require_own(tx, number, project, session)
        latest = max((_order(stub) for stub in tx.internals(Kind.WORKING, project)), default=-1)
        # follows the clock where it can, so that what is imported is in order too
        order = max(latest + 1, now * _STEPS_A_SECOND)
        tx.put(_record(number, body, project, session, now, order), None)
        tx.sweep(SWEEP_ALONG)
    return number


def _filled(value: object, field: str) -> str:
    name = checks.name(value, field)
    if not trim(name):
        raise InvalidArgument(f"{field} must not be blank", field=field)
    return name


def _record(number: int, body: str, project: str, session: str, saved_at: int, order: int) -> Record:
    metadata = {PROJECT: project, SESSION: session, SAVED_AT: saved_at, SAVE: order}
    return Record(number, Kind.WORKING, body, metadata)


def _order(stub: Stub) -> int:
    return stub.metadata[SAVE]


def _is_of(stub: Stub, project: str, session: str) -> bool:
    held = stub.metadata.get(PROJECT), stub.metadata.get(SESSION)
    return stub.kind is Kind.WORKING and held == (project, session)


def _require_own(view: StoreView, number: int, project: str, session: str) -> None:
    held = view.peek(number)
    if held is not None and not _is_of(held, project, session):
        raise IdCollision(
            f"id {number} of this working context already belongs to something else, and nothing was overwritten: "
            "choose another session",
            field="session",
        )


def encoded(working: WorkingContext | JsonObject) -> str:
    """A state as compact JSON. Raises InvalidArgument for one that is none, or records nothing, and ContextOverLimit
    for one over 1 MiB."""
    try:
        given: object = msgspec.to_builtins(working)
        if not isinstance(given, dict):
            raise InvalidArgument(f"working must be an object, not {type(given).__name__}", field="working")
        state = msgspec.convert(_with_ids(cast("JsonObject", given)), WorkingContext)
        fields: JsonObject = msgspec.to_builtins(state)
        if fields["goal"] is None:
            del fields["goal"]
        body = msgspec.json.encode(fields)
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"working cannot be saved: {error}", field="working") from None
    if not trim(state.goal or "") and not any(fields[name] for name in _LISTS):
        raise InvalidArgument(
            "working records nothing: give it a goal, or an entry in at least one of its lists. What was saved before "
            "stays",
            field="working",
        )
    if len(body) > MAX_FACT_BYTES:
        raise ContextOverLimit(
            f"working is {len(body)} bytes as JSON, over the cap of {MAX_FACT_BYTES}: keep long texts as context "
            "sources or facts, and refer to them",
            field="working",
            limit=MAX_FACT_BYTES,
        )
    return body.decode()


def _with_ids(fields: JsonObject) -> JsonObject:
    """Ids as numbers, however they came."""
    for name in ("decisions", "exact_evidence"):
        entries: object = fields.get(name)
        for index, entry in enumerate(cast("list[object]", entries) if isinstance(entries, list) else []):
            # what else is wrong with it is found out when it is converted
            reference = cast("JsonObject", entry) if isinstance(entry, dict) else {}
            for key in ("fragment_id", "memory_id"):
                if reference.get(key) is not None:
                    reference[key] = parse_id(reference[key], f"working.{name}[{index}].{key}")
    return fields


def load(core: Core, project: str, session: str) -> LoadedWorkingContext:
    """What was saved for a session; see MemoryService.load_working_context."""
    require_text(session, "session")
    with core.store.view(core.clock.now()) as view:
        sessions = _sessions(view, project)
        stub = next((stub for stub in sessions if stub.metadata[SESSION] == session), None)
        working = None if stub is None else _decoded(view, stub)
    others = [_listed(each) for each in sessions if each is not stub]
    return LoadedWorkingContext(working is not None, working, others)


def _decoded(view: StoreView, stub: Stub) -> WorkingContext:
    try:
        record = view.get(stub.id)
        return msgspec.json.decode("" if record is None else record.content, type=WorkingContext)
    except (StoreCorrupt, msgspec.DecodeError) as error:
        raise WorkingContextCodec(
            f"the working context saved for this session cannot be read ({error}); saving again replaces it",
            field="session",
        ) from error


def sessions(core: Core, project: str) -> list[WorkingContextSession]:
    """The saved sessions of a project; see MemoryService.list_working_contexts."""
    with core.store.view(core.clock.now()) as view:
        return [_listed(stub) for stub in _sessions(view, project)]


def _sessions(view: StoreView, project: str) -> list[Stub]:
    """The saved sessions of a project, latest save first."""
    return sorted(view.internals(Kind.WORKING, require_text(project, "project")), key=_order, reverse=True)


def _listed(stub: Stub) -> WorkingContextSession:
    return WorkingContextSession(stub.metadata[SESSION], stub.metadata[SAVED_AT])


def take(tx: StoreTransaction, number: int, content: str, metadata: JsonObject) -> bool:
    """Take over a state that an export brings, unless a later one is there; whether anything changed.

    An export of the reference has no order of saves within a second. Raises InvalidInput for what is no state.
    """
    project, session = _filled(metadata.get(PROJECT), PROJECT), _filled(metadata.get(SESSION), SESSION)
    if number != working_id(project, session):
        raise InvalidArgument(f"{number} is not the id of this session ({working_id(project, session)})", field="id")
    saved_at = checks.integer(metadata.get(SAVED_AT, 0), SAVED_AT, maximum=MAX_EPOCH_SECONDS)
    order = checks.integer(metadata.get(SAVE, saved_at * _STEPS_A_SECOND), SAVE, maximum=MAX_INTEGER)
    try:
        body = encoded(msgspec.json.decode(content, type=dict[str, Any]))
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"content is no working context: {error}", field="content") from None
    _require_own(tx, number, project, session)
    former = tx.peek(number)
    if former is not None and _order(former) >= order:
        return False
    tx.put(_record(number, body, project, session, saved_at, order), None)
    return True
