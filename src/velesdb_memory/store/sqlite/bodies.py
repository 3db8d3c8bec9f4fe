"""What is long in sources and working contexts, kept beside their records: texts deflated, images as they are."""

from __future__ import annotations

import json
import sqlite3
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ...errors import StoreCorrupt
from ...model import JsonObject
from ..base import MEDIA, Kind, Record, in_pages

KINDS: Final = (Kind.SOURCE, Kind.WORKING)
# 90 to 180 MB/s on texts of a megabyte where level 6 does 23 to 56, for a sixth more bytes; on short texts all levels
# are alike. The write lock is held meanwhile.
_LEVEL: Final = 1
_PAGE: Final = 256
_COLUMNS: Final = "b.content, b.deflated, b.mime, b.media, b.spelled"


class Body(NamedTuple):
    """The long part of a record: its text, and an image as ``{"mime", "bytes_b64"}``."""

    content: str
    media: JsonObject | None


def of(record: Record) -> Body:
    """The long part of ``record``."""
    return Body(record.content, record.metadata.get(MEDIA))


def rest(record: Record) -> tuple[str, JsonObject]:
    """What of the text and the metadata of ``record`` is kept with the record itself."""
    if record.kind not in KINDS:
        return record.content, record.metadata
    return "", {key: value for key, value in record.metadata.items() if key != MEDIA}


def write(connection: sqlite3.Connection, slot: int, body: Body) -> None:
    """Keep ``body`` for the record in ``slot``, instead of the one it has."""
    text = body.content.encode()
    packed = zlib.compress(text, _LEVEL)
    deflated = len(packed) < len(text)
    media, spelled = _image(body.media["bytes_b64"]) if body.media else (None, None)
    connection.execute(
        "INSERT OR REPLACE INTO body VALUES (?, ?, ?, ?, ?, ?)",
        (slot, packed if deflated else text, deflated, body.media and body.media["mime"], media, spelled),
    )


def _image(base64: str) -> tuple[bytes, bool]:
    # an image is compressed already, and base64 adds a third; some bytes have several spellings, though
    try:
        image = b64decode(base64, validate=True)
    except ValueError:
        image = b""
    usual = b64encode(image).decode() == base64
    return (image, False) if usual else (base64.encode(), True)


def read(connection: sqlite3.Connection, slot: int) -> Body | None:
    """What is kept for the record in ``slot``; None when nothing is, or nothing that can be read."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM body AS b WHERE b.slot = ?", (slot,)).fetchone()
    return None if row is None else _body(row)


def _body(row: Sequence[Any]) -> Body | None:
    content, deflated, mime, media, spelled = row
    try:
        text = (zlib.decompress(content) if deflated else content).decode()
        base64 = None if media is None else (media if spelled else b64encode(media)).decode()
    except (zlib.error, UnicodeDecodeError):
        return None
    return Body(text, None if base64 is None else {"mime": mime, "bytes_b64": base64})


def filled(connection: sqlite3.Connection, records: Sequence[Record]) -> Iterator[Record]:
    """``records`` with what is long in them. Raises StoreCorrupt for what cannot be read."""
    for page in in_pages(records, _PAGE):
        wanted = [record.id - 2**63 for record in page if record.kind in KINDS]
        if not wanted:
            yield from page
            continue
        rows = connection.execute(
            f"SELECT m.id, {_COLUMNS} FROM json_each(?) AS wanted CROSS JOIN memory AS m ON m.id = wanted.value"
            " CROSS JOIN body AS b ON b.slot = m.slot",
            (json.dumps(wanted),),
        )
        bodies = {key + 2**63: _body(row) for key, *row in rows}
        for record in page:
            if record.kind not in KINDS:
                yield record
                continue
            body = bodies.get(record.id)
            if body is None:
                raise StoreCorrupt(
                    f"the content of record {record.id} cannot be read: `velesdb-memory doctor` takes it out"
                )
            metadata = record.metadata if body.media is None else {**record.metadata, MEDIA: body.media}
            yield msgspec.structs.replace(record, content=body.content, metadata=metadata)


def strays(connection: sqlite3.Connection) -> list[int]:
    """The slots of what is kept for no record."""
    rows = connection.execute(
        "SELECT b.slot FROM body AS b WHERE NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.slot = b.slot)"
    )
    return [slot for (slot,) in rows]


def damaged(connection: sqlite3.Connection) -> tuple[int, list[int]]:
    """How many records should have a body, and the ids (as stored) of those whose body is gone or cannot be read."""
    rows = connection.execute(
        f"SELECT m.id, {_COLUMNS} FROM memory AS m LEFT JOIN body AS b ON b.slot = m.slot"
        " WHERE m.kind <> 0 AND m.kind IN (2, 4)"
    )
    total, bad = 0, list[int]()
    for key, *row in rows:
        total += 1
        if row[0] is None or _body(row) is None:
            bad.append(key)
    return total, bad
