"""Names of originals: ``ctx://source/<hash>``, the hash a BLAKE2b of 8 bytes read as an unsigned integer."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from ..limits import MAX_ID

PREFIX: Final = "ctx://source/"
_NUMBER: Final = re.compile(r"\+?[0-9]{1,40}")


def content_hash(data: bytes) -> int:
    """The hash of exactly these bytes, an unsigned 64-bit integer."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def handle_of(number: int) -> str:
    """The handle of the original with this hash."""
    return f"{PREFIX}{number}"


def parse_handle(handle: str) -> int | None:
    """The hash in a handle, None when it is none."""
    digits = handle.removeprefix(PREFIX)
    if len(digits) == len(handle) or not _NUMBER.fullmatch(digits):
        return None
    number = int(digits)
    return number if number <= MAX_ID else None
