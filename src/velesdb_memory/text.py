"""What this package takes for white space, and what a canonical name is.

White space is Unicode White_Space, everywhere. Python's own ``str.strip`` and ``str.split`` also take U+001C to
U+001F, which are not White_Space, so they are not used on the texts of callers.
"""

from __future__ import annotations

import re
from typing import Final

from .errors import InvalidArgument

WHITE_SPACE: Final = (
    "\u0009\u000a\u000b\u000c\u000d\u0020\u0085\u00a0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_RUNS: Final = re.compile(f"[^{WHITE_SPACE}]+")


def trim(text: str) -> str:
    """``text`` without white space at both ends."""
    return text.strip(WHITE_SPACE)


def words(text: str) -> list[str]:
    """The runs of ``text`` between white space."""
    return _RUNS.findall(text)


def lines(text: str) -> list[str]:
    """The lines of ``text``, each ended by LF or CR LF, and by nothing else."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def canonical(name: str) -> str:
    """The name an entity is known by: trimmed, lower case. Accents and inner spaces stay."""
    return trim(name).lower()


def utf8_size(text: str, field: str) -> int:
    """The length of ``text`` in bytes of UTF-8. Raises InvalidArgument for a lone surrogate, which has none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{field} holds a lone surrogate (U+{ord(text[error.start]):04X} at character {error.start}), "
            "which is not Unicode text",
            field=field,
        ) from None


def shown(value: object) -> str:
    """A value of any type for an error message: its repr, cut at 80 characters."""
    if isinstance(value, int) and value.bit_length() > 256:
        # Python refuses to print integers of thousands of digits
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"


def require_text(value: object, field: str) -> str:
    """``value`` if it is text that UTF-8 can carry; raises InvalidArgument otherwise."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{field} must be text, not {type(value).__name__}", field=field)
    utf8_size(value, field)
    return value
