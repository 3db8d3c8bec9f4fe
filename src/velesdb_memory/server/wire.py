"""What arguments look like on the wire: a flat schema to publish, and a lenient decoder.

A tool's arguments are declared once, as a msgspec struct, which :class:`Arguments` walks.

Leniency is one rule, driven by the declared type: a slot that is not text also takes a string holding the JSON of
exactly that type, because some clients encode every argument that is not text. Text is never read as JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar, cast

import msgspec
from msgspec import inspect

from ..errors import InvalidArgument
from ..ids import parse_id
from ..limits import MAX_INTEGER, MIN_INTEGER
from ..model import JsonObject
from ..text import utf8_size

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MAX_DEPTH: Final = 128  # nesting of one argument; the domain's own bounds are tighter
_SHOWN: Final = 60  # characters of a refused value that a message repeats
_LONGEST: Final = 200  # of a path

ID: Final = {"id": True}  # Meta(extra=ID) marks an integer as a memory id

A = TypeVar("A", bound=msgspec.Struct)
Path: TypeAlias = "tuple[Path, str | int] | None"


# Words for messages


def shown(value: object) -> str:
    """``value`` in at most a few printable ASCII characters, whatever it holds."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {shown(value)}"
    if isinstance(value, int | float):
        return f"the number {shown(value)}"
    if isinstance(value, str):
        return f"the string {shown(value)}"
    if isinstance(value, list):
        return f"the array {shown(cast('object', value))}"
    return f"the object {shown(value)}"


def _name(path: Path) -> str:
    parts: list[str] = []
    while path is not None:
        path, part = path
        parts.append(f"[{part}]" if isinstance(part, int) else f".{_printable(part)}")
    return "".join(reversed(parts)).removeprefix(".")[:_LONGEST] or "arguments"


def _printable(name: str) -> str:
    return name if name.isprintable() and len(name) <= _SHOWN else shown(name)


def _refuse(path: Path, expected: str, came: object) -> NoReturn:
    name = _name(path)
    raise InvalidArgument(f"{name} must be {expected}, got {_kind(came)}", field=name)


def suggestion(name: str, valid: Iterable[str]) -> str:
    """The end of a message that refuses ``name``: the closest valid one, or all of them."""
    names = sorted(valid)
    close = get_close_matches(name[:200], names, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"valid: {', '.join(names)}" if names else "there are none"


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse_json(text: str | bytes) -> Any:
    """``text`` as JSON, to the letter: NaN and Infinity are refused, integers keep every digit.

    Raises ValueError for everything that is not JSON, and for what is nested too deeply to be read.
    """
    try:
        return json.loads(text, parse_constant=_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


# Slots


class Slot:
    """One place for a value: the schema it is advertised by and how a value is read."""

    lenient = True  # takes the JSON of its type in a string
    nothing = True  # takes the string "null" for an absent value
    expected = ""

    def __init__(self, schema: JsonObject) -> None:
        self.schema = schema

    def read(self, value: Any, path: Path) -> Any:
        """The value of this slot; raises InvalidArgument naming the path."""
        if self.lenient and isinstance(value, str):
            try:
                inner = parse_json(value)
            except ValueError:
                _refuse(path, self.expected, value)
            if isinstance(inner, str):
                _refuse(path, self.expected, value)
            return self.decode(inner, path, value)
        return self.decode(value, path, value)

    def decode(self, value: Any, path: Path, came: object) -> Any:
        """As :meth:`read`, of a value that is no JSON in a string; ``came`` is what the client sent."""
        raise NotImplementedError


class Text(Slot):
    lenient = nothing = False
    expected = "a string"

    def __init__(self) -> None:
        super().__init__({"type": "string"})

    def decode(self, value: Any, path: Path, came: object) -> str:
        if not isinstance(value, str):
            _refuse(path, self.expected, came)
        if not value.isascii():
            utf8_size(value, _name(path))
        return value


class Choice(Text):
    def __init__(self, values: tuple[str, ...]) -> None:
        super().__init__()
        self.values = values
        self.schema = {"type": "string", "enum": list(values)}
        self.expected = "one of " + ", ".join(values)

    def decode(self, value: Any, path: Path, came: object) -> str:
        if isinstance(value, str) and value not in self.values:
            name = _name(path)
            close = get_close_matches(value[:200].lower(), self.values, n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise InvalidArgument(f"{name} must be {self.expected}, got {_kind(came)}{hint}", field=name)
        return super().decode(value, path, came)


def integer_schema(low: int | None, high: int | None) -> JsonObject:
    """The schema of an integer, bounded where it is."""
    bounds = {"minimum": low, "maximum": high}
    return {"type": "integer", **{word: bound for word, bound in bounds.items() if bound is not None}}


class Integer(Slot):
    def __init__(self, low: int | None, high: int | None) -> None:
        super().__init__(integer_schema(low, high))
        self.low = MIN_INTEGER if low is None else low
        self.high = MAX_INTEGER if high is None else high
        self.expected = "an integer" if low is None else f"an integer of at least {low}"
        if high is not None:
            self.expected = f"an integer from {self.low} to {high}"

    def decode(self, value: Any, path: Path, came: object) -> int:
        if type(value) is not int:
            _refuse(path, self.expected, came)
        if value < self.low:
            _refuse(path, self.expected, came)
        if value > self.high:
            most = f" and at most {MAX_INTEGER}" if self.high == MAX_INTEGER else ""
            _refuse(path, self.expected + most, came)
        return value


class Identifier(Slot):
    """A memory id. Advertised as text, the one form that survives a client whose numbers are floats."""

    lenient = False

    def __init__(self) -> None:
        super().__init__({"type": "string"})

    def decode(self, value: Any, path: Path, came: object) -> int:
        return parse_id(value, _name(path))


class Number(Slot):
    expected = "a number"

    def __init__(self) -> None:
        super().__init__({"type": "number"})

    def decode(self, value: Any, path: Path, came: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            _refuse(path, self.expected, came)
        _check_number(value, path)
        return float(value)


class Boolean(Slot):
    expected = "true or false"

    def __init__(self) -> None:
        super().__init__({"type": "boolean"})

    def decode(self, value: Any, path: Path, came: object) -> bool:
        if not isinstance(value, bool):
            _refuse(path, self.expected, came)
        return value


class Scalar(Slot):
    """Text, a number or a boolean, kept as it came: ``"1"`` and ``1`` are different values here."""

    lenient = nothing = False
    expected = "a string, a number or a boolean"

    def __init__(self) -> None:
        super().__init__({"type": ["string", "number", "boolean"]})

    def decode(self, value: Any, path: Path, came: object) -> str | int | float | bool:
        if not isinstance(value, str | int | float):
            _refuse(path, self.expected, came)
        _check_json(value, path, 0)
        return value


class Open(Slot):
    """An object whose keys are the caller's."""

    expected = "an object"

    def __init__(self) -> None:
        super().__init__({"type": "object", "additionalProperties": True})

    def decode(self, value: Any, path: Path, came: object) -> JsonObject:
        if not isinstance(value, dict):
            _refuse(path, self.expected, came)
        found = cast("JsonObject", value)
        _check_json(found, path, 0)
        return found


class Table(Slot):
    """An object with the caller's keys and values of one type."""

    expected = "an object"

    def __init__(self, item: Slot) -> None:
        super().__init__({"type": "object", "additionalProperties": item.schema})
        self.item = item

    def decode(self, value: Any, path: Path, came: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            _refuse(path, self.expected, came)
        found = cast("JsonObject", value)
        for key in found:
            utf8_size(key, f"a key of {_name(path)}")
        return {key: self.item.read(entry, (path, key)) for key, entry in found.items()}


class Array(Slot):
    expected = "an array"

    def __init__(self, item: Slot) -> None:
        super().__init__({"type": "array", "items": item.schema})
        self.item = item

    def decode(self, value: Any, path: Path, came: object) -> list[Any]:
        if not isinstance(value, list):
            _refuse(path, self.expected, came)
        entries = cast("list[Any]", value)
        read = self.item.read
        return [read(entry, (path, index)) for index, entry in enumerate(entries)]


class Record(Slot):
    """An object with declared keys and no others."""

    expected = "an object"

    def __init__(self, cls: type[msgspec.Struct], fields: Iterable[inspect.Field]) -> None:
        self.cls = cls
        self.slots: dict[str, tuple[str, Slot]] = {}
        self.required: list[str] = []
        properties: JsonObject = {}
        for field in fields:
            slot, about = _slot(field.type)
            properties[field.encode_name] = {**slot.schema, **about}
            self.slots[field.encode_name] = (field.name, slot)
            if field.required:
                self.required.append(field.encode_name)
        super().__init__({"type": "object", "properties": properties, "additionalProperties": False})
        if self.required:
            self.schema["required"] = self.required

    def decode(self, value: Any, path: Path, came: object) -> Any:
        if not isinstance(value, dict):
            _refuse(path, self.expected, came)
        found = cast("JsonObject", value)
        given: dict[str, Any] = {}
        for name, entry in found.items():
            if name not in self.slots:
                place = f" in {_name(path)}" if path else ""
                raise InvalidArgument(
                    f"unknown argument '{_printable(name)}'{place}; {suggestion(name, self.slots)}",
                    field=_printable(name),
                )
            attribute, slot = self.slots[name]
            absent = entry is None or (slot.nothing and entry == "null")
            if not absent or name in self.required:
                given[attribute] = slot.read(entry, (path, name))
        for name in self.required:
            if name not in found:
                where = _name((path, name))
                raise InvalidArgument(f"{where} is required and missing", field=where)
        return self.cls(**given)


def _check_number(value: float, path: Path) -> None:
    if isinstance(value, int):
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            _refuse(path, "a number of at most 64 bits", value)
    elif not math.isfinite(value):
        _refuse(path, "a finite number", str(value))


def _check_json(value: object, path: Path, depth: int) -> None:
    if isinstance(value, str):
        if not value.isascii():
            utf8_size(value, _name(path))
    elif isinstance(value, int | float):
        _check_number(value, path)
    elif isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            name = _name(path)
            raise InvalidArgument(f"{name} is nested over {MAX_DEPTH} levels deep", field=name)
        if isinstance(value, dict):
            for key, entry in cast("JsonObject", value).items():
                if not key.isascii():
                    utf8_size(key, f"a key of {_name(path)}")
                _check_json(entry, (path, key), depth + 1)
        else:
            for index, entry in enumerate(cast("list[object]", value)):
                _check_json(entry, (path, index), depth + 1)


# From declared types


def unwrap(declared: inspect.Type) -> tuple[inspect.Type, JsonObject, bool]:
    """The type under its annotations, the schema keywords they add, and whether it is marked as an id."""
    about: JsonObject = {}
    marked = False
    while isinstance(declared, inspect.Metadata):
        keywords, extra = cast(
            "tuple[JsonObject, JsonObject]", (declared.extra_json_schema or {}, declared.extra or {})
        )
        about = {**keywords, **about}
        marked = marked or extra.get("id") is True
        declared = declared.type
    return declared, about, marked


def _slot(declared: inspect.Type, marked: bool = False) -> tuple[Slot, JsonObject]:
    plain, about, here = unwrap(declared)
    marked = marked or here
    if isinstance(plain, inspect.UnionType):
        members = [member for member in plain.types if not isinstance(member, inspect.NoneType)]
        if len(members) == 1:
            slot, inner = _slot(members[0], marked)
            return slot, {**inner, **about}
        kinds = {type(member) for member in members}
        if kinds == {inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType}:
            return Scalar(), about
        raise TypeError(f"an argument has one type, not {plain}")
    return _simple_slot(plain, marked), about


def _simple_slot(plain: inspect.Type, marked: bool) -> Slot:
    match plain:
        case inspect.StrType():
            return Text()
        case inspect.IntType(ge=low, le=high):
            return Identifier() if marked else Integer(low, high)
        case inspect.FloatType():
            return Number()
        case inspect.BoolType():
            return Boolean()
        case inspect.LiteralType(values=values) if all(isinstance(value, str) for value in values):
            return Choice(cast("tuple[str, ...]", values))
        case inspect.ListType(item_type=item):
            slot, about = _slot(item)
            slot.schema = {**slot.schema, **about}
            return Array(slot)
        case inspect.DictType(value_type=inspect.AnyType()):
            return Open()
        case inspect.DictType(value_type=item):
            slot, about = _slot(item)
            slot.schema = {**slot.schema, **about}
            return Table(slot)
        case inspect.StructType(cls=cls, fields=fields):
            return Record(cls, fields)
        case _:
            raise TypeError(f"no argument can be declared as {plain}")


class Arguments(Generic[A]):
    """The arguments of one tool: ``schema`` to publish and :meth:`decode` to read them.

    ``aliases`` are former names of arguments: read, never advertised.
    """

    def __init__(self, declared: type[A], aliases: Mapping[str, str] | None = None) -> None:
        plain = inspect.type_info(declared)
        if not isinstance(plain, inspect.StructType):
            raise TypeError(f"{declared} is not a struct")
        self._record = Record(plain.cls, plain.fields)
        self._aliases = dict(aliases or {})
        self.schema: JsonObject = {"$schema": DIALECT, **self._record.schema}

    def decode(self, arguments: Mapping[str, Any] | None) -> A:
        """The arguments as declared; raises InvalidArgument naming the one at fault."""
        given = dict(arguments or {})
        for old, new in self._aliases.items():
            if old in given:
                if new in given:
                    raise InvalidArgument(f"'{old}' is the former name of '{new}': pass only '{new}'", field=old)
                given[new] = given.pop(old)
        return self._record.decode(given, None, given)
