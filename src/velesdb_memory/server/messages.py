"""JSON-RPC messages as every transport reads them: what is one, and the answer to what is none."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from ..limits import MAX_INTEGER, MIN_INTEGER
from .wire import parse_json

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603


class NotAMessage(Exception):
    """What a client sent is no JSON-RPC message; ``answer`` is what to send back."""

    def __init__(self, code: int, message: str, request_id: str | int | None = None) -> None:
        super().__init__(message)
        self.answer = error(request_id, code, message)


def error(request_id: str | int | None, code: int, message: str) -> bytes:
    """An error response, as JSON."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})


def read(data: bytes, source: str) -> dict[str, Any]:
    """The message in ``data``: an object with valid ``jsonrpc``, ``id``, ``method`` and ``params``.

    Raises NotAMessage, which calls the data ``source`` ("the line") and quotes nothing of it.
    """
    try:
        message = parse_json(data.decode().removeprefix("\ufeff"))
    except ValueError:
        raise NotAMessage(PARSE_ERROR, f"parse error: {source} is not JSON in UTF-8") from None
    if not isinstance(message, dict):
        what = "batches are not part of MCP" if isinstance(message, list) else "not an object"
        raise NotAMessage(INVALID_REQUEST, f"invalid request: {what}; send one object at a time")
    found = cast("dict[str, Any]", message)
    request_id = _request_id(found.get("id"))
    problem = ""
    if found.get("jsonrpc") != "2.0":
        problem = 'jsonrpc must be "2.0"'
    elif "id" in found and request_id is None:
        problem = "id must be a string or a 64-bit integer"
    elif isinstance(found.get("method"), str) and not _is_unicode(found["method"]):
        problem = "method must be Unicode text"
    elif "method" in found and not isinstance(found.get("params", {}), dict):
        problem = "params must be an object"
    if problem:
        raise NotAMessage(INVALID_REQUEST, f"invalid request: {problem}", request_id)
    return found


def _is_unicode(text: str) -> bool:
    """False for lone surrogates, which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _request_id(value: object) -> str | int | None:
    """``value`` if it may be the id of a request and can be sent back, else None."""
    if isinstance(value, str):
        return value if _is_unicode(value) else None
    if type(value) is int and MIN_INTEGER <= value <= MAX_INTEGER:
        return value
    return None
