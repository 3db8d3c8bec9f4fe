"""What results look like on the wire: the schema to publish, and JSON that is sure to fit it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import inspect

from ..errors import StorageError
from ..model import JsonObject
from .wire import integer_schema, unwrap

# How the ids of a result are written, where its declaration marks them: always one way, or as each call asks
Ids: TypeAlias = Literal["numbers", "strings", "either"]
_ID_TYPES: dict[Ids, object] = {"strings": "string", "either": ["integer", "string"]}


def output_schema(declared: type[msgspec.Struct], ids: Ids = "numbers") -> JsonObject:
    """The schema of a result. An absent key is absent, a null one is declared so."""
    return _output(inspect.type_info(declared), ids)


def _output(declared: inspect.Type, ids: Ids, marked: bool = False) -> JsonObject:
    plain, about, here = unwrap(declared)
    marked = marked or here
    match plain:
        case inspect.UnionType(types=types):
            members = [_output(member, ids, marked) for member in types]
            merged: JsonObject = {}
            for member in members:
                merged |= member
            merged["type"] = [kind for member in members for kind in _kinds(member)]
            if "enum" in merged and "null" in merged["type"]:
                merged["enum"] = [*merged["enum"], None]
            return {**merged, **about}
        case inspect.StrType():
            schema: JsonObject = {"type": "string"}
        case inspect.IntType() if marked and ids != "numbers":
            schema = {"type": _ID_TYPES[ids]}
        case inspect.IntType(ge=low, le=high):
            schema = integer_schema(0 if marked else low, high)
        case inspect.FloatType():
            schema = {"type": "number"}
        case inspect.BoolType():
            schema = {"type": "boolean"}
        case inspect.NoneType():
            schema = {"type": "null"}
        case inspect.LiteralType(values=values):
            schema = {"type": "string", "enum": list(values)}
        case inspect.ListType(item_type=item):
            schema = {"type": "array", "items": _output(item, ids)}
        case inspect.DictType(value_type=inspect.AnyType()):
            schema = {"type": "object", "additionalProperties": True}
        case inspect.DictType(value_type=item):
            schema = {"type": "object", "additionalProperties": _output(item, ids)}
        case inspect.StructType(cls=cls, fields=fields):
            properties = {field.encode_name: _output(field.type, ids) for field in fields}
            schema = {"type": "object", "properties": properties}
            # a field whose default is UNSET, or is left out, may be missing in the answer; every other is always there
            partial = cls.__struct_config__.omit_defaults
            required = [
                field.encode_name for field in fields if field.required or not (partial or _may_be_unset(field))
            ]
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


Rewrite: TypeAlias = "Callable[[Any], Any] | None"


def ids_to_strings(declared: type[msgspec.Struct]) -> Rewrite:
    """What turns the marked ids of such a result, as a JSON object, into decimal strings, in place."""
    return _rewrite(inspect.type_info(declared), False)


def _rewrite(declared: inspect.Type, marked: bool) -> Rewrite:
    plain, _, here = unwrap(declared)
    marked = marked or here
    match plain:
        case inspect.IntType() if marked:
            return str
        case inspect.UnionType(types=types):
            inner = next((found for member in types if (found := _rewrite(member, marked))), None)
            return inner and (lambda value: None if value is None else inner(value))
        case inspect.ListType(item_type=item):
            inner = _rewrite(item, False)
            return inner and (lambda value: [inner(entry) for entry in value])
        case inspect.StructType(fields=fields):
            found = {field.encode_name: _rewrite(field.type, False) for field in fields}
            inners = {name: inner for name, inner in found.items() if inner}
            return (lambda value: _replaced(value, inners)) if inners else None
        case _:
            return None


def _replaced(value: JsonObject, inners: dict[str, Callable[[Any], Any]]) -> JsonObject:
    for name, inner in inners.items():
        if name in value:
            value[name] = inner(value[name])
    return value


def encode(result: msgspec.Struct, rewrite: Rewrite = None) -> tuple[JsonObject, str]:
    """A result as a JSON object and as its text. JSON has no NaN, so a result that holds one is a fault of ours."""
    found: JsonObject = msgspec.to_builtins(result)
    if rewrite:
        found = rewrite(found)
    try:
        # the strict standard encoder refuses what msgspec would turn into null
        return found, json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise StorageError("a stored number is not finite") from None
