"""Images inside fragments: their base64, and what showing them costs, read from their headers alone."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

Size: TypeAlias = tuple[int, int]

_PIXELS_PER_TOKEN: Final = 750
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

# The frame headers (SOF): C4, C8 and CC lie in their range and mean something else
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE: Final = frozenset(range(0xD0, 0xD9)) | {0x01}  # restarts, start of image, TEM: no length follows
_JPEG_LAST: Final = frozenset({0xD9, 0xDA})  # end of image, start of scan: no frame header comes after them
# A marker may be preceded by any number of fill bytes
_JPEG_MARKER: Final = re.compile(rb"\xff++(.)", re.DOTALL)
# A picture of 4 MiB with its largest colour profile and thumbnail has about a hundred; this bounds a crafted one
_JPEG_MAX_SEGMENTS: Final = 4_096


def decode(bytes_b64: str) -> bytes:
    """The bytes behind standard base64; bits that the last character has to spare may be anything.

    Raises ValueError for another alphabet, white space, a length that is no multiple of 4, and padding anywhere but
    at the end.
    """
    raw = bytes_b64.encode("ascii")
    padding = raw.translate(None, _BASE64)
    if len(raw) % 4 or padding not in (b"", b"=", b"==") or not raw.endswith(padding):
        raise ValueError("not standard base64")
    return binascii.a2b_base64(raw)


def image_tokens(mime: str, data: bytes) -> int | None:
    """What an image costs: width x height / 750, rounded up, as Anthropic's vision guide estimates it.

    None when ``mime`` (in any case) is not PNG, JPEG, GIF or WebP, or when the header cannot be read.
    """
    read = _READERS.get(mime.lower())
    size = read(data) if read else None
    if size is None or 0 in size:
        return None
    return -(-size[0] * size[1] // _PIXELS_PER_TOKEN)


def _big(data: bytes, start: int, length: int) -> int:
    return int.from_bytes(data[start : start + length], "big")


def _little(data: bytes, start: int, length: int) -> int:
    return int.from_bytes(data[start : start + length], "little")


def _png(data: bytes) -> Size | None:
    if len(data) < 24 or data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR":
        return None
    return _big(data, 16, 4), _big(data, 20, 4)


def _jpeg(data: bytes) -> Size | None:
    if data[:2] != b"\xff\xd8":
        return None
    position = 2
    for _ in range(_JPEG_MAX_SEGMENTS):
        found = _JPEG_MARKER.match(data, position)
        if found is None:
            return None
        marker, position = found[1][0], found.end()
        if marker in _JPEG_BARE:
            continue
        length = _big(data, position, 2)
        if marker in _JPEG_LAST or length < 2:
            return None
        if marker in _JPEG_FRAMES:
            if length < 7 or position + 7 > len(data):
                return None
            # the precision lies between the length and the height
            return _big(data, position + 5, 2), _big(data, position + 3, 2)
        position += length
    return None


def _gif(data: bytes) -> Size | None:
    if len(data) < 10 or data[:6] not in (b"GIF87a", b"GIF89a"):
        return None
    return _little(data, 6, 2), _little(data, 8, 2)


def _webp(data: bytes) -> Size | None:
    if len(data) < 25 or data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    chunk = data[12:16]
    if chunk == b"VP8L" and data[20] == 0x2F:
        bits = _little(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if len(data) < 30:
        return None
    if chunk == b"VP8X":
        return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    # a key frame of VP8, the only kind of frame that a still picture has
    if chunk == b"VP8 " and not data[20] & 1 and data[23:26] == b"\x9d\x01\x2a":
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return None


_READERS: Final[Mapping[str, Callable[[bytes], Size | None]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/jpg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
