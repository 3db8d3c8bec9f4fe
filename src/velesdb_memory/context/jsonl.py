"""Transcripts of one JSON object a line, in the shapes that agents write (D46).

=====================================================  =========================================================
``{"role", "content"}``                                chat messages; also ``parts``, ``text`` or ``message``
``{"type": "user", "message": {"role", "content"}}``   session files
``{"type": "response_item", "payload": {...}}``        session files of items
``{"type": "message", "role", "content"}``             items, with calls of tools, their outputs and reasoning
``{"from": "human", "value": "..."}``                  shared conversations
``{"type": "user", "content": "..."}``                 ``type`` in the place of ``role``
=====================================================  =========================================================

Content is text or a list of blocks: text, thinking, calls of tools, their results, images and other files. It becomes
plain text, in which calls are written out by argument and files are only named.

A line of another type without text (a snapshot, a counter, a title) belongs to the range of the turn before it. Any
other object is a turn of its own without a role, as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, Final, NamedTuple, cast

import msgspec

from ..errors import SegmentationError
from ..text import trim

MAX_ROLE_CHARACTERS: Final = 64  # the rest of a longer one is cut off
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_ROLES: Final = frozenset(
    ("user", "human", "assistant", "ai", "model", "gpt", "bot", "system", "developer", "tool", "function")
)
_CONTENT: Final = ("content", "parts", "text", "message")
_ARGUMENTS: Final = ("input", "arguments", "args", "parameters", "action")
_OUTPUT: Final = ("content", "output", "result", "response")
_CALL_TYPES: Final = ("tool_use", "_call")
_OUTPUT_TYPES: Final = ("tool_result", "_output")
_FILE_TYPES: Final = ("image", "audio", "video", "document", "file")
_FILE_KEYS: Final = ("inlineData", "inline_data", "fileData", "file_data")
_Object = Mapping[str, Any]


class Message(NamedTuple):
    """A turn: who speaks, what, and the range of bytes that says so."""

    role: str | None
    text: str
    start: int
    end: int


class _Said(NamedTuple):
    role: str | None
    text: str
    certain: bool  # the line cannot be anything but a turn of a conversation


def read(data: bytes) -> list[Message]:
    """The turns of a transcript in UTF-8; their ranges partition it. Blank lines belong to the turn before them, those
    at the start to the first.

    Raises SegmentationError, which names the line from 1, for a line that is not a JSON object, and when no line is
    a turn.
    """
    body = data.removeprefix(_BYTE_ORDER_MARK)
    said: list[_Said] = []
    ends: list[int] = []
    end = len(data) - len(body)
    for number, line in enumerate(BytesIO(body), start=1):
        end += len(line)
        turn = _turn_of(line, number)
        if turn is not None:
            said.append(turn)
            ends.append(end)
        elif ends:
            ends[-1] = end
    if not any(turn.certain for turn in said):
        raise _malformed(1, "has no role and content, nor has any other line")
    return [
        Message(role, text, start, end) for (role, text, _), start, end in zip(said, [0, *ends[:-1]], ends, strict=True)
    ]


def _turn_of(line: bytes, number: int) -> _Said | None:
    if line.isspace():
        return None
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        # slower, and less strict: NaN, and halves of characters where somebody's output was cut
        value = _decoded_loosely(line, number)
        if value is None:
            return None
    if not isinstance(value, dict):
        raise _malformed(number, "is JSON, but no object")
    try:
        return _said(cast("_Object", value), line)
    except RecursionError:
        return _as_written(line)


def _decoded_loosely(line: bytes, number: int) -> Any:
    text = line.decode()
    if not trim(text):
        return None
    try:
        whole = json.dumps(json.loads(text), ensure_ascii=False)
        return json.loads(whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except ValueError as error:
        raise _malformed(number, f"is not a JSON object: {error}") from None
    except RecursionError:
        raise _malformed(number, "is not a JSON object: it is nested too deep") from None


def _malformed(number: int, problem: str) -> SegmentationError:
    return SegmentationError(
        f"line {number} of the transcript {problem}; a JSONL transcript is one JSON object a line", field="transcript"
    )


def _as_written(line: bytes) -> _Said:
    return _Said(None, trim(line.decode()), False)


# One line


def _said(value: _Object, line: bytes) -> _Said | None:
    kind = _text_at(value, ("type",))
    inner = value.get("payload") if kind == "response_item" else value.get("message")
    if isinstance(inner, dict) and "content" not in value:
        inner = cast("_Object", inner)
        return _said(inner if "role" in inner or kind not in _ROLES else {"role": kind, **inner}, line)
    if isinstance(text := value.get("value"), str) and (role := _text_at(value, ("from",))) is not None:
        return _Said(role[:MAX_ROLE_CHARACTERS], text, True)
    role = _text_at(value, ("role",)) or (kind if kind in _ROLES else None)
    if role is not None:
        parts = _message_parts(value)
        return _as_written(line) if parts is None else _Said(role[:MAX_ROLE_CHARACTERS], _joined(parts), True)
    if kind is None:
        return _as_written(line)
    if kind.endswith(_CALL_TYPES):
        return _Said("assistant", _call(value), False)
    if kind.endswith(_OUTPUT_TYPES):
        return _Said("tool", _output(value), False)
    if kind == "reasoning":
        return _Said("assistant", _flat(value), False)
    content = _first(value, (*_CONTENT, kind))
    text = _flat(content) if isinstance(content, str | list) else ""
    return _Said(kind[:MAX_ROLE_CHARACTERS], text, False) if text else None


def _message_parts(value: _Object) -> list[str] | None:
    """The texts of a message; None for an object that has nothing a message has."""
    calls = [value.get("function_call"), *_list(value.get("tool_calls"))]
    written = [_call(cast("_Object", call)) for call in calls if isinstance(call, dict)]
    if not written and not any(key in value for key in _CONTENT):
        return None
    return [_flat(_first(value, _CONTENT)), *written]


def _first(value: _Object, keys: Iterable[str]) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _text_at(value: _Object, keys: Iterable[str]) -> str | None:
    return next((found for key in keys if isinstance(found := value.get(key), str)), None)


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


# Content as plain text


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return _joined(_flat(part) for part in cast("list[Any]", content))
    if isinstance(content, dict):
        return _block(cast("_Object", content))
    return _as_json(content)


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _block(block: _Object) -> str:
    kind = _text_at(block, ("type",)) or ""
    if kind in ("thinking", "reasoning"):
        thoughts = _flat(_first(block, ("thinking", "text", "content", "summary")))
        return f"[thinking]\n{thoughts}" if thoughts else ""
    if (text := _text_at(block, ("text",))) is not None:
        return text
    if kind.endswith(_CALL_TYPES):
        return _call(block)
    if isinstance(call := block.get("functionCall"), dict):
        return _call(cast("_Object", call))
    if kind.endswith(_OUTPUT_TYPES):
        return _result(block)
    if isinstance(result := block.get("functionResponse"), dict):
        return _result(cast("_Object", result))
    if any(word in kind for word in _FILE_TYPES) or any(key in block for key in _FILE_KEYS):
        return _file(block, kind)
    if kind == "redacted_thinking":
        return ""
    inner = _first(block, _CONTENT)
    return _as_json(block) if inner is None else _flat(inner)


def _call(call: _Object) -> str:
    function = call.get("function")
    if isinstance(function, dict):
        call = cast("_Object", function)
    name = _text_at(call, ("name", "tool_name", "tool", "type")) or ""
    arguments = _first(call, _ARGUMENTS)
    if isinstance(arguments, str):
        arguments = _object_in(arguments) or arguments
    by_name = isinstance(arguments, dict)
    return _labelled(f"tool call {name}", _by_name(cast("_Object", arguments)) if by_name else _flat(arguments))


def _result(result: _Object) -> str:
    failed = result.get("is_error") is True or result.get("status") == "error"
    return _labelled("tool error" if failed else "tool result", _output(result))


def _labelled(label: str, text: str) -> str:
    return f"[{label}]\n{text}" if text else f"[{label}]"


def _output(result: _Object) -> str:
    output = _first(result, _OUTPUT)
    if isinstance(output, str) and output.startswith('{"output":'):
        output = _object_in(output) or output
    if isinstance(output, dict) and "type" not in output:
        return _by_name(cast("_Object", output))
    return _flat(output)


def _object_in(text: str) -> _Object | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast("_Object", value) if isinstance(value, dict) else None


def _by_name(values: _Object) -> str:
    """The entries one by one, so that lines of text in them are lines again."""
    lines: list[str] = []
    for key, value in values.items():
        text = value if isinstance(value, str) else _as_json(value)
        lines.append(f"{key}:\n{text}" if "\n" in text else f"{key}: {text}")
    return "\n".join(lines)


def _file(block: _Object, kind: str) -> str:
    source = _first(block, (*_FILE_KEYS, "source", kind))
    described = cast("_Object", source) if isinstance(source, dict) else block
    if described.get("type") == "text" and (text := _text_at(described, ("data",))) is not None:
        return text
    words = (
        kind or "file",
        _text_at(block, ("title", "name", "filename")),
        _text_at(described, ("media_type", "mime_type", "mimeType")),
    )
    return f"[{' '.join(word for word in words if word)}]"


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
