"""What results look like on the wire: the schema to publish, and JSON that is sure to fit it."""

from __future__ import annotations

import json
from typing import cast

import msgspec
from msgspec import inspect

from ..errors import StorageError
from ..model import JsonObject
from .wire import unwrap


def output_schema(declared: type[msgspec.Struct]) -> JsonObject:
    """The schema of a result. An absent key is absent, a null one is declared so."""
    return _output(inspect.type_info(declared))


def _output(declared: inspect.Type) -> JsonObject:
    plain, about, _ = unwrap(declared)
    match plain:
        case inspect.UnionType(types=types):
            members = [_output(member) for member in types]
            merged: JsonObject = {}
            for member in members:
                merged |= member
            merged["type"] = [kind for member in members for kind in _kinds(member)]
            if "enum" in merged and "null" in merged["type"]:
                merged["enum"] = [*merged["enum"], None]
            return {**merged, **about}
        case inspect.StrType():
            schema: JsonObject = {"type": "string"}
        case inspect.IntType(ge=low):
            schema = {"type": "integer"} if low is None else {"type": "integer", "minimum": low}
        case inspect.FloatType():
            schema = {"type": "number"}
        case inspect.BoolType():
            schema = {"type": "boolean"}
        case inspect.NoneType():
            schema = {"type": "null"}
        case inspect.LiteralType(values=values):
            schema = {"type": "string", "enum": list(values)}
        case inspect.ListType(item_type=item):
            schema = {"type": "array", "items": _output(item)}
        case inspect.DictType(value_type=inspect.AnyType()):
            schema = {"type": "object", "additionalProperties": True}
        case inspect.DictType(value_type=item):
            schema = {"type": "object", "additionalProperties": _output(item)}
        case inspect.StructType(fields=fields):
            schema = {"type": "object", "properties": {field.encode_name: _output(field.type) for field in fields}}
            # a field whose default is UNSET may be left out of the answer; every other is always there
            required = [field.encode_name for field in fields if field.required or not _may_be_unset(field)]
            if required:
                schema["required"] = required
        case _:
            raise TypeError(f"no result can be declared as {plain}")
    return {**schema, **about}


def _kinds(schema: JsonObject) -> list[str]:
    kind = schema["type"]
    return cast("list[str]", kind) if isinstance(kind, list) else [cast("str", kind)]


def _may_be_unset(field: inspect.Field) -> bool:
    return field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT


def encode(result: msgspec.Struct) -> tuple[JsonObject, str]:
    """A result as a JSON object and as its text. JSON has no NaN, so a result that holds one is a fault of ours."""
    found: JsonObject = msgspec.to_builtins(result)
    try:
        # the strict standard encoder refuses what msgspec would turn into null
        return found, json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise StorageError("a stored number is not finite") from None
