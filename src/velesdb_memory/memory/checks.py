"""What callers may pass. Each check raises an InvalidInput that names the field, the problem and the limit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, get_args

from ..errors import (
    EmptyFact,
    FactTooLarge,
    InvalidArgument,
    InvalidFilter,
    InvalidMetadata,
    InvalidRelation,
    MetadataTooLarge,
    QueryTooLarge,
    ReservedKey,
)
from ..ids import parse_id
from ..limits import (
    MAX_EMBEDDABLE_TEXT_BYTES,
    MAX_FIELD_BYTES,
    MAX_FILTERS,
    MAX_INTEGER,
    MAX_METADATA_BYTES,
    MAX_METADATA_DEPTH,
    MAX_QUERY_BYTES,
    MAX_RECALL_LIMIT,
    MAX_RELATION_BYTES,
    MAX_WORKING_NAME_BYTES,
    MIN_INTEGER,
)
from ..model import ColumnFilter, JsonObject, Link, Operator
from ..store.base import Predicate
from ..text import require_text, shown, trim, utf8_size

DATE_KEY: Final = "_veles_date"
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_]+")
_OPERATORS: Final[tuple[str, ...]] = get_args(Operator)


def is_reserved(key: str) -> bool:
    """Whether a metadata key belongs to the store itself."""
    return key == "content" or (key.startswith("_veles_") and key != DATE_KEY)


def visible(metadata: JsonObject) -> JsonObject | None:
    """The part of a record's metadata that is the caller's; None when there is none."""
    return {key: value for key, value in metadata.items() if not is_reserved(key)} or None


def fact(value: object, field: str = "fact") -> str:
    """The trimmed text of a fact: 1 to 2,048 bytes."""
    text = trim(require_text(value, field))
    if not text:
        raise EmptyFact(field)
    size = utf8_size(text, field)
    if size > MAX_EMBEDDABLE_TEXT_BYTES:
        raise FactTooLarge(size, MAX_EMBEDDABLE_TEXT_BYTES, field)
    return text


def query(value: object, field: str = "query") -> str:
    """The trimmed text of a query, possibly empty: up to 64 KiB."""
    text = require_text(value, field)
    size = utf8_size(text, field)
    if size > MAX_QUERY_BYTES:
        raise QueryTooLarge(size, MAX_QUERY_BYTES, field)
    return trim(text)


def integer(value: object, field: str, *, minimum: int = 0, maximum: int | None = None) -> int:
    """An integer in a range; a boolean is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgument(f"{field} must be an integer, not {type(value).__name__}", field=field)
    if value < minimum:
        raise InvalidArgument(f"{field} is {shown(value)}, below its minimum of {minimum}", field=field, limit=minimum)
    if maximum is not None and value > maximum:
        raise InvalidArgument(f"{field} is {shown(value)}, over its maximum of {maximum}", field=field, limit=maximum)
    return value


def count(value: object, field: str = "k") -> int:
    """How many results are wanted: not negative, cut to 1,000."""
    return min(integer(value, field), MAX_RECALL_LIMIT)


def flag(value: object, field: str) -> bool:
    """A boolean, and nothing that only looks like one."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{field} must be true or false, not {type(value).__name__}", field=field)
    return value


def ttl(value: object, field: str = "ttl_seconds") -> int | None:
    """Seconds to live: None or a non-negative integer, where 0 means for ever."""
    return None if value is None else integer(value, field)


def name(value: object, field: str) -> str:
    """What a project, a session or a model is called: text of up to 256 bytes. Not trimmed."""
    text = require_text(value, field)
    size = utf8_size(text, field)
    if size > MAX_WORKING_NAME_BYTES:
        raise InvalidArgument(
            f"{field} is {size} bytes of UTF-8, over the cap of {MAX_WORKING_NAME_BYTES}",
            field=field,
            limit=MAX_WORKING_NAME_BYTES,
        )
    return text


def relation(value: object, field: str = "relation") -> str:
    """An edge label: some character that is not white space, no control character, up to 512 bytes. Not trimmed."""
    if not isinstance(value, str):
        raise InvalidRelation(f"it must be text, not {type(value).__name__}", field=field)
    label = require_text(value, field)
    if not trim(label):
        raise InvalidRelation("it is empty or only white space", field=field)
    size = utf8_size(label, field)
    if size > MAX_RELATION_BYTES:
        raise InvalidRelation(
            f"it is {size} bytes of UTF-8, over the cap of {MAX_RELATION_BYTES}", field=field, limit=MAX_RELATION_BYTES
        )
    for character in label:
        if character < " " or character == "\x7f":
            raise InvalidRelation(f"it holds the control character U+{ord(character):04X}", field=field)
    return label


def links(value: Sequence[Link] | None) -> list[Link]:
    """Links with valid labels; the targets are looked up later."""
    given: list[object] = list(value or ())
    for index, link in enumerate(given):
        if not isinstance(link, Link):
            raise InvalidArgument(f"links[{index}] must be a Link, not {type(link).__name__}", field=f"links[{index}]")
        relation(link.relation, f"links[{index}].relation")
    checked = cast("list[Link]", given)
    return [Link(parse_id(link.target, f"links[{i}].target"), link.relation) for i, link in enumerate(checked)]


def metadata(value: object, field: str = "metadata") -> JsonObject:
    """A JSON object without reserved keys, up to 64 KiB as compact JSON. None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidMetadata(f"{field} must be an object, not {type(value).__name__}", field=field)
    checked = cast("JsonObject", _json(cast("Mapping[Any, Any]", value), field, field, 1))
    for key in checked:
        if is_reserved(key):
            raise ReservedKey(key, field)
    size = len(json.dumps(checked, ensure_ascii=False, separators=(",", ":")).encode())
    if size > MAX_METADATA_BYTES:
        raise MetadataTooLarge(size, MAX_METADATA_BYTES, field)
    return checked


def json_value(value: object, field: str) -> Any:
    """A value that JSON can carry exactly, as plain dicts, lists and scalars."""
    return _json(value, field, field, 1)


def _json(value: object, field: str, path: str, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        utf8_size(value, path)
        return value
    if isinstance(value, int):
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise InvalidMetadata(
                f"{path} is an integer outside {MIN_INTEGER} to {MAX_INTEGER}", field=field, limit=MAX_INTEGER
            )
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidMetadata(f"{path} is {value}, which JSON cannot carry", field=field)
        return value
    if depth > MAX_METADATA_DEPTH:
        raise InvalidMetadata(
            f"{path[:80]} is nested deeper than {MAX_METADATA_DEPTH} levels", field=field, limit=MAX_METADATA_DEPTH
        )
    if isinstance(value, Mapping):
        checked: JsonObject = {}
        for key, inner in cast("Mapping[Any, Any]", value).items():
            if not isinstance(key, str):
                raise InvalidMetadata(f"{path} has a key that is not text but {type(key).__name__}", field=field)
            utf8_size(key, path)
            checked[key] = _json(inner, field, f"{path}.{key[:40]}", depth + 1)
        return checked
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return [_json(inner, field, f"{path}[{index}]", depth + 1) for index, inner in enumerate(items)]
    raise InvalidMetadata(f"{path} is of type {type(value).__name__}, which JSON cannot carry", field=field)


def exact_filter(value: object, field: str = "filter") -> list[Predicate]:
    """An exact-match filter: every key must hold just this value, of just this type."""
    if value is None:
        return []
    return [Predicate(key, "is", wanted) for key, wanted in metadata(value, field).items()]


def column_filters(value: object) -> list[Predicate]:
    """Typed comparisons; a field is a plain identifier, a value is text, a number or a boolean."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidFilter(f"filters must be a list, not {type(value).__name__}")
    filters = cast("Sequence[ColumnFilter]", value)
    if len(filters) > MAX_FILTERS:
        raise InvalidFilter(f"{len(filters)} filters are over the cap of {MAX_FILTERS}", limit=MAX_FILTERS)
    return [_column_filter(entry, f"filters[{index}]") for index, entry in enumerate(filters)]


def _column_filter(entry: ColumnFilter, path: str) -> Predicate:
    given = cast("object", entry)
    if not isinstance(given, ColumnFilter):
        raise InvalidFilter(f"{path} is of type {type(given).__name__}, not a ColumnFilter", path)
    name, op, value = cast("tuple[object, object, object]", (entry.field, entry.op, entry.value))
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name) or len(name) > MAX_FIELD_BYTES:
        raise InvalidFilter(
            f"{shown(name)} is not a plain identifier (1 to {MAX_FIELD_BYTES} ASCII letters, digits and underscores)",
            f"{path}.field",
            MAX_FIELD_BYTES,
        )
    if is_reserved(name):
        raise InvalidFilter(f"'{name}' is reserved", f"{path}.field")
    if not isinstance(op, str) or op not in _OPERATORS:
        raise InvalidFilter(f"{path}.op is {shown(op)}, not one of {', '.join(_OPERATORS)}", f"{path}.op")
    if not isinstance(value, str | int | float):
        raise InvalidFilter(
            f"{path}.value is of type {type(value).__name__}; only text, a number or a boolean can be compared",
            f"{path}.value",
        )
    try:
        return Predicate(name, cast("Operator", op), json_value(value, f"{path}.value"))
    except InvalidMetadata as error:
        raise InvalidFilter(error.message, f"{path}.value") from None


def number(value: object, field: str) -> float:
    """A number, possibly not finite; a boolean is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidArgument(f"{field} must be a number, not {type(value).__name__}", field=field)
    try:
        return float(value)
    except OverflowError:
        raise InvalidArgument(f"{field} is too large for a number", field=field) from None
