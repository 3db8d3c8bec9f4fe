"""Typed facets: each top-level metadata field of a fact as a row that an index can answer for.

The tag keeps JSON types apart, so that 1, 1.0, true and "1" are four values:

====  ==============================================  =================================
tag   JSON                                            stored as
====  ==============================================  =================================
i     integer below 2^63                              INTEGER
u     integer from 2^63                               INTEGER, less 2^63
f     number with a fraction or an exponent           REAL
s     text                                            TEXT, compared byte by byte
b     true, false                                     1, 0
z     null                                            0
j     array, object                                   TEXT, canonical JSON
====  ==============================================  =================================
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from ...model import JsonObject
from ..base import Predicate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HALF: Final = 2**63
_TYPES: Final = {"i": "number", "u": "number", "f": "number", "s": "string", "b": "boolean", "z": "null", "j": "json"}
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {"lt": lt, "le": le, "gt": gt, "ge": ge}
_SQL: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}

# A filter that matches a sixth of the store is broad: a search walks its ranking and checks what it meets. It is never
# broad up to the first number, and always beyond the second. What matches fewer facts is fetched as a set.
FETCHED_AT_LEAST: Final = 4_096
FETCHED_AT_MOST: Final = 20_000


def broad_from(rows: int) -> int:
    """How many matches make a filter broad in a store of ``rows`` facts."""
    return max(FETCHED_AT_LEAST, min(FETCHED_AT_MOST, rows // 6))


def canonical_json(value: Any) -> str:
    """Compact JSON with sorted keys: equal values of equal types give equal text."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def encode(value: Any) -> tuple[str, int | float | str]:
    """The tag and the stored form of a JSON value."""
    if value is None:
        return "z", 0
    if isinstance(value, bool):
        return "b", int(value)
    if isinstance(value, int):
        return ("i", value) if value < _HALF else ("u", value - _HALF)
    if isinstance(value, float):
        # one zero: a negative one would be another key to an index and the same number to everybody else
        return "f", value + 0.0
    if isinstance(value, str):
        return "s", value
    return "j", canonical_json(value)


Test = Callable[[JsonObject], bool]


def matcher(where: Sequence[Predicate]) -> Test:
    """A test of whether every predicate holds for a record's metadata."""
    tests = [(predicate.field, _test(predicate)) for predicate in where]
    return lambda metadata: all(field in metadata and holds(metadata[field]) for field, holds in tests)


def _test(predicate: Predicate) -> Callable[[Any], bool]:
    op, wanted = predicate.op, predicate.value
    code, kind = encode(wanted), _type(wanted)
    if op == "is":
        return lambda stored: encode(stored) == code
    if op == "ne":
        return lambda stored: stored is not None and not (_type(stored) == kind and stored == wanted)
    if op == "eq":
        return lambda stored: _type(stored) == kind and stored == wanted
    if kind == "boolean":
        return lambda stored: False
    # the order of UTF-8 is that of code points, and so is Python's
    compare = _ORDER[op]
    return lambda stored: _type(stored) == kind and compare(stored, wanted)


def _type(value: Any) -> str:
    return _TYPES[encode(value)[0]]


class _Run(NamedTuple):
    """A contiguous run of the facet index: one tag, and a condition on the value (None: all of it)."""

    tag: str
    condition: str | None
    bound: int | float | str | None


def _number_runs(op: str, value: int | float) -> Iterator[_Run]:
    """The runs that hold the numbers which compare with ``value`` as ``op`` says, without rounding either side."""
    if op == "eq":
        if value == int(value):
            whole = int(value)
            if -_HALF <= whole < _HALF:
                yield _Run("i", "=", whole)
            elif _HALF <= whole < 2 * _HALF:
                yield _Run("u", "=", whole - _HALF)
        if float(value) == value:
            yield _Run("f", "=", float(value) + 0.0)
        return
    rises = op in ("gt", "ge")
    # integers: the bound as an integer, moved inwards where it had a fraction
    if isinstance(value, float):
        bound = math.ceil(value) if rises else math.floor(value)
        integer_op = op if value.is_integer() else ("ge" if rises else "le")
    else:
        bound, integer_op = value, op
    for tag, low, high in (("i", -_HALF, _HALF), ("u", _HALF, 2 * _HALF)):
        if low <= bound < high:
            yield _Run(tag, _SQL[integer_op], bound if tag == "i" else bound - _HALF)
        elif (bound < low) if rises else (bound >= high):
            yield _Run(tag, None, None)
    # floats: the nearest float, and the comparison that is exact for it
    if isinstance(value, float):
        yield _Run("f", _SQL[op], value)
        return
    nearest = float(value)
    if int(nearest) == value:
        yield _Run("f", _SQL[op], nearest)
    elif rises:
        yield _Run("f", ">=" if int(nearest) > value else ">", nearest)
    else:
        yield _Run("f", "<" if int(nearest) > value else "<=", nearest)


def _runs(predicate: Predicate) -> list[_Run]:
    op, value = predicate.op, predicate.value
    tag, stored = encode(value)
    if op == "is":
        return [_Run(tag, "=", stored)]
    numeric = tag in ("i", "u", "f")
    if op == "eq":
        return list(_number_runs("eq", value)) if numeric else [_Run(tag, "=", stored)]
    if op == "ne":
        if numeric:
            unequal = [*_number_runs("lt", value), *_number_runs("gt", value)]
            return [*unequal, *(_Run(other, None, None) for other in ("s", "b", "j"))]
        return [
            *(_Run(other, None, None) for other in ("i", "u", "f", "s", "b", "j") if other != tag),
            _Run(tag, "<>", stored),
        ]
    if numeric:
        return list(_number_runs(op, value))
    return [_Run("s", _SQL[op], stored)] if tag == "s" else []


def _select(predicate: Predicate) -> tuple[str, list[Any]]:
    """SQL for the slots that satisfy one predicate, each once."""
    parts: list[str] = []
    values: list[Any] = []
    for run in _runs(predicate):
        condition = "" if run.condition is None else f" AND value {run.condition} ?"
        parts.append(f"SELECT slot FROM facet WHERE field = ? AND tag = ?{condition}")
        values += [predicate.field, run.tag, *([] if run.condition is None else [run.bound])]
    return (" UNION ALL ".join(parts) or "SELECT slot FROM facet WHERE 0"), values


def matching_slots(
    connection: sqlite3.Connection, where: Sequence[Predicate], cap: int | None
) -> NDArray[np.uint32] | None:
    """The slots of the facts that satisfy ``where``, ascending; None when every predicate has more than ``cap``."""
    import numpy as np

    found: NDArray[np.uint32] | None = None
    broad: list[Predicate] = []
    for predicate in where:
        sql, values = _select(predicate)
        limited = sql if cap is None else f"SELECT slot FROM ({sql}) LIMIT {cap + 1}"
        # one text is much quicker to take out of SQLite than many rows
        text: str | None = connection.execute(f"SELECT group_concat(slot) FROM ({limited})", values).fetchone()[0]
        slots = np.fromstring(text or "", dtype=np.int64, sep=",").astype(np.uint32)
        if cap is not None and len(slots) > cap:
            broad.append(predicate)
            continue
        if not (slots[1:] > slots[:-1]).all():
            slots.sort()
        found = slots if found is None else np.intersect1d(found, slots, assume_unique=True)
    return found if found is None or not broad else _checked(connection, found, broad)


def _checked(
    connection: sqlite3.Connection, slots: NDArray[np.uint32], where: Sequence[Predicate]
) -> NDArray[np.uint32]:
    import numpy as np

    holds = matcher(where)
    kept = [slot for slot, metadata in metadata_of(connection, slots.tolist()) if holds(metadata)]
    return np.array(kept, dtype=np.uint32)


def metadata_of(connection: sqlite3.Connection, slots: Sequence[int]) -> Iterator[tuple[int, JsonObject]]:
    """Slot and metadata of each record that is there, in the order of ``slots``."""
    rows = connection.execute(
        "SELECT m.slot, m.metadata FROM json_each(?) AS wanted CROSS JOIN memory AS m ON m.slot = wanted.value",
        (json.dumps(slots),),
    )
    for slot, text in rows:
        yield slot, msgspec.json.decode(text)


def write(connection: sqlite3.Connection, slot: int, metadata: JsonObject) -> None:
    """Add the facets of a fact."""
    rows = [(field, *encode(value), slot) for field, value in metadata.items()]
    connection.executemany("INSERT INTO facet VALUES (?, ?, ?, ?)", rows)


def remove(connection: sqlite3.Connection, slot: int, metadata: JsonObject) -> None:
    """Take away the facets of a fact whose metadata is ``metadata``."""
    rows = [(field, *encode(value), slot) for field, value in metadata.items()]
    connection.executemany("DELETE FROM facet WHERE field = ? AND tag = ? AND value = ? AND slot = ?", rows)


def other_types(connection: sqlite3.Connection, field: str, value: str | float | bool) -> list[str]:
    """The types under which ``field`` is stored, when none of them is that of ``value``."""
    tags = [
        tag
        for tag in _TYPES
        if tag != "z"
        and connection.execute("SELECT 1 FROM facet WHERE field = ? AND tag = ? LIMIT 1", (field, tag)).fetchone()
    ]
    types = sorted({_TYPES[tag] for tag in tags})
    return [] if _type(value) in types else types
