"""The originals behind the handles of compiled contexts: kept, given back, purged.

An original is a record of its own kind, under an id that the hash in its handle determines. It is found by that id and
by nothing else: no search looks at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import msgspec

from ..context import media
from ..context.handles import content_hash, handle_of, parse_handle
from ..context.model import ContextSource, Media
from ..errors import ContextOverLimit, InvalidArgument, UnknownHandle
from ..ids import source_id
from ..limits import MAX_EPOCH_SECONDS, MAX_FRAGMENT_BYTES, MAX_MEDIA_BYTES
from ..model import JsonObject, PurgeReport
from ..store.base import MEDIA, Kind, Record, StoreTransaction, Stub, in_pages
from ..text import require_text, utf8_size
from . import checks
from .core import Core

if TYPE_CHECKING:
    from ..context.compiler import Original

USED_AT: Final = "_veles_ctx_used_at"  # when it was last part of a compilation, in Unix seconds; a day late at most
PROJECTS: Final = "_veles_ctx_projects"  # those whose compilations it was part of; null for none
_TOUCHED_EVERY: Final = 86_400  # seconds
_PAGE: Final = 256
_SHOWN: Final = 80  # characters of a refused handle


def keep(
    tx: StoreTransaction, originals: Sequence[Original], project: str | None, expires_at: int | None
) -> list[str]:
    """Keep each original; one that is kept already stays as it is, and its life only ever gets longer. Returns a
    sentence for each that could not be kept."""
    problems: list[str] = []
    for page in in_pages(originals, _PAGE):
        numbers = [source_id(original.hash) for original in page]
        kept = tx.get_many(numbers)
        for number, original in zip(numbers, page, strict=True):
            former = kept.get(number)
            if former is None:
                kept[number] = _record(number, original, tx.now, [project], expires_at)
                tx.put(kept[number], None)
            elif _holds(former, original.content, original.media):
                kept[number] = _renew(tx, former, tx.now, [project], expires_at)
            else:
                problems.append(
                    f"the original of {handle_of(original.hash)} was not kept: another record has its id and was not "
                    "overwritten, so this handle does not lead back"
                )
    return problems


def _holds(record: Record, content: str, image: Media | None) -> bool:
    """Whether ``record`` is the original with these bytes; hashes alone do not tell."""
    if record.kind is not Kind.SOURCE:
        return False
    if image is None and MEDIA not in record.metadata:
        return record.content == content
    return _bytes_of(record) == _bytes(content, image)


def _record(
    number: int, original: Original, used_at: int, projects: list[str | None], expires_at: int | None
) -> Record:
    metadata: JsonObject = {USED_AT: used_at, PROJECTS: projects}
    if original.media is not None:
        metadata[MEDIA] = msgspec.to_builtins(original.media)
    return Record(number, Kind.SOURCE, original.content, metadata, expires_at=expires_at)


def _renew(
    tx: StoreTransaction, record: Record, used_at: int, projects: list[str | None], expires_at: int | None
) -> Record:
    """Note another use of a kept original, where there is anything to note; the record that is there then."""
    before: int = record.metadata[USED_AT]
    known: list[str | None] = record.metadata[PROJECTS]
    added = [project for project in projects if project not in known]
    if expires_at is not None:
        # for ever beats any moment, and a later moment an earlier one
        expires_at = None if record.expires_at is None else max(record.expires_at, expires_at)
    if not added and expires_at == record.expires_at and used_at - before < _TOUCHED_EVERY:
        return record
    metadata = {**record.metadata, USED_AT: max(before, used_at), PROJECTS: known + added}
    renewed = msgspec.structs.replace(record, metadata=metadata, expires_at=expires_at)
    tx.put(renewed, None)
    return renewed


def _bytes(content: str, image: Media | None) -> bytes:
    """What the hash in the handle is of: the image, or else the text."""
    return content.encode() if image is None else media.decode(image.bytes_b64)


def _media_of(record: Record) -> Media | None:
    found = record.metadata.get(MEDIA)
    return None if found is None else Media(found["mime"], found["bytes_b64"])


def _bytes_of(record: Record) -> bytes:
    return _bytes(record.content, _media_of(record))


def retrieve(core: Core, handle: str) -> ContextSource:
    """The original behind a handle; see MemoryService.retrieve_context_source."""
    number = parse_handle(require_text(handle, "handle"))
    if number is not None:
        with core.store.view(core.clock.now()) as view:
            record = view.get(source_id(number))
        # a caller's fact may have the id, or the original of another hash
        if record is not None and record.kind is Kind.SOURCE and content_hash(_bytes_of(record)) == number:
            return ContextSource(handle_of(number), record.content, _media_of(record) or msgspec.UNSET)
    raise UnknownHandle(handle if len(handle) <= _SHOWN else handle[:_SHOWN] + "…")


def purge(core: Core, older_than_seconds: int, project: str | None, dry_run: bool) -> PurgeReport:
    """Delete what was not used for a while; see MemoryService.purge_sources."""
    seconds = checks.integer(older_than_seconds, "older_than_seconds")
    only = None if project is None else [checks.name(project, "project")]
    checks.flag(dry_run, "dry_run")
    now = core.clock.now()

    def idle(metadata: JsonObject) -> bool:
        return metadata[USED_AT] <= now - seconds and only in (None, metadata[PROJECTS])

    with core.store.view(now) as view:
        chosen = [stub for stub in view.internals(Kind.SOURCE) if idle(stub.metadata)]
    if dry_run:
        return PurgeReport(len(chosen), sum(stub.size for stub in chosen))
    gone: list[Stub] = []
    # a transaction a page: nobody else waits long to write, and a purge that was cut is run again
    for page in in_pages(chosen, _PAGE):
        with core.store.transaction(now) as tx:
            current = (tx.peek(stub.id) for stub in page)
            idling = [stub for stub in current if stub and stub.kind is Kind.SOURCE and idle(stub.metadata)]
            for stub in idling:
                tx.delete(stub.id)
        gone += idling
    return PurgeReport(len(gone), sum(stub.size for stub in gone))


def take(tx: StoreTransaction, number: int, content: str, metadata: JsonObject, expires_at: int | None) -> bool:
    """Keep an original that an export brings; whether anything changed. Raises InvalidInput for what is none."""
    from ..context.compiler import Original

    size = utf8_size(content, "content")
    if size > MAX_FRAGMENT_BYTES:
        raise ContextOverLimit(f"content is {size} bytes, over the cap of {MAX_FRAGMENT_BYTES}", field="content")
    image = _image(metadata.get(MEDIA))
    hashed = content_hash(_bytes(content, image))
    if number != source_id(hashed):
        raise InvalidArgument(f"{number} is not the id of this original ({source_id(hashed)})", field="id")
    used_at = min(checks.integer(metadata.get(USED_AT), USED_AT), MAX_EPOCH_SECONDS)
    listed: object = metadata.get(PROJECTS)
    if not isinstance(listed, list):
        raise InvalidArgument(f"{PROJECTS} is not a list", field=PROJECTS)
    named = [None if each is None else checks.name(each, PROJECTS) for each in cast("list[object]", listed)]
    former = tx.get(number)
    if former is not None and not _holds(former, content, image):
        raise InvalidArgument(f"id {number} belongs to something else, and nothing was overwritten", field="id")
    projects = list(dict.fromkeys(named))
    if former is not None:
        return _renew(tx, former, used_at, projects, expires_at) is not former
    tx.put(_record(number, Original(hashed, content, image), used_at, projects, expires_at), None)
    return True


def _image(value: object) -> Media | None:
    if value is None:
        return None
    try:
        image = msgspec.convert(value, Media)
        if len(image.bytes_b64) > MAX_MEDIA_BYTES:
            raise ValueError(f"over the cap of {MAX_MEDIA_BYTES} bytes")
        media.decode(image.bytes_b64)
        image.mime.encode()
    except ValueError as error:
        raise InvalidArgument(f"{MEDIA} is no image in base64: {error}", field=MEDIA) from None
    return image
