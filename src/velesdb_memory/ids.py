"""Stable 64-bit ids: FNV-1a over the content, so that the same text has the same id everywhere.

FNV-1a is by Fowler, Noll and Vo; the 64-bit constants are those of draft-eastlake-fnv.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from .errors import InvalidArgument
from .limits import MAX_ID
from .text import canonical, shown, trim

FNV_OFFSET: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3
_MASK: Final = 2**64 - 1
_DECIMAL: Final = re.compile(r"\+?[0-9]+")
_HUB_SALT: Final = "\0_veles_entity_hub\0"
_WORKING_SALT: Final = "veles-ctx-working:"
_SEPARATOR: Final = "\x1f"


def fnv1a64(data: bytes, seed: int = FNV_OFFSET) -> int:
    """FNV-1a of ``data``, an unsigned 64-bit integer; ``seed`` chains several calls."""
    value = seed
    for byte in data:
        value = ((value ^ byte) * FNV_PRIME) & _MASK
    return value


_SOURCE_SEED: Final = fnv1a64(b"veles-ctx-source:")


def fact_id(text: str) -> int:
    """The id of a fact: the hash of its trimmed text. No case folding and no Unicode normalisation."""
    return fnv1a64(trim(text).encode())


def edge_id(source: int, target: int, relation: str) -> int:
    """The id of an edge: the hash of both ends (8 little-endian bytes each) and the label."""
    return fnv1a64(source.to_bytes(8, "little") + target.to_bytes(8, "little") + relation.encode())


def hub_id(name: str) -> int:
    """The id of an entity's hub; ``name`` is canonicalised first. Never equal to the id of the same text as a fact
    but by collision."""
    return fnv1a64((_HUB_SALT + canonical(name)).encode())


@lru_cache(maxsize=8_192)  # the same originals come again and again, by the thousand
def source_id(number: int) -> int:
    """The id of the record that keeps the original with this hash."""
    return fnv1a64(str(number).encode(), _SOURCE_SEED)


def working_id(project: str, session: str) -> int:
    """The id of the working context of a session."""
    name = f"{project}{_SEPARATOR}{session}"
    if name.count(_SEPARATOR) > 1:
        # where a name holds the separator, lengths tell the two apart; at least three separators, so never a plain name
        name = f"{len(project)}{_SEPARATOR}{name}"
    return fnv1a64((_WORKING_SALT + name).encode())


def parse_id(value: object, field: str) -> int:
    """An id as callers give it: an integer, or a decimal string (trimmed, one leading ``+`` allowed).

    Raises InvalidArgument for everything else; a float is refused with the advice to pass the string, because it
    has lost digits already.
    """
    if isinstance(value, float):
        raise InvalidArgument(
            f"{field} is the float {value!r}: ids above 2^53 lose digits as floats, pass the id_str instead",
            field=field,
        )
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value <= MAX_ID:
            return value
    elif isinstance(value, str):
        digits = trim(value)
        # 40 digits are enough for any zero-padded id, and keep int() from being handed a megabyte
        if len(digits) <= 40 and _DECIMAL.fullmatch(digits):
            number = int(digits)
            if number <= MAX_ID:
                return number
    raise InvalidArgument(
        f"{field} is {shown(value)}, not a memory id: pass the id_str, "
        f"a decimal string of an unsigned 64-bit number (at most {MAX_ID}), or that number",
        field=field,
        limit=MAX_ID,
    )
