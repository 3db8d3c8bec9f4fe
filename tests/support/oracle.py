"""The rules of filters written down a second time, as plainly as they can be: what tests compare the store with."""

from __future__ import annotations

import operator
from typing import Any

from hypothesis import strategies as st

EDGES = [
    0, 1, -1, 2, 0.5, 1.0, 1.5, -1.0, -0.0, 2.0, 1e300, -1e300, 5e-324,
    2**53 - 1, 2**53, 2**53 + 1, float(2**53), -(2**53) - 1, float(-(2**53)), 2**53 + 2.0,
    2**63 - 1, 2**63, 2**63 + 1, float(2**63), -(2**63), float(-(2**63)), 2.0**63 - 1024, 2.0**63 + 2048,
    2**64 - 1, 2**64 - 2, float(2**64), 2.0**64 - 2048, 2.0**65,
]  # fmt: skip
NUMBERS = (
    st.sampled_from(EDGES)
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-2, 3)
)
TEXTS = st.sampled_from(["", "a", "A", "ab", "b", "é", "z\0", "z", "1", "true", "\U0001f600", "\uffff"]) | st.text(
    max_size=3
)
SCALARS = NUMBERS | TEXTS | st.booleans()
NESTED = st.sampled_from(
    [[], {}, [1], [1.0], [True], ["1"], {"a": 1}, {"a": 1.0}, {"a": {"b": None}}, {"b": 1, "a": 2}, [[0.0]]]
)
VALUES = SCALARS | st.none() | NESTED

_ORDER = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}


def kind(value: Any) -> str:
    """The JSON type that comparisons know."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "json"


def same(left: Any, right: Any) -> bool:
    """Strict JSON equality: 1, 1.0, true and "1" are four values, at every depth."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def satisfies(metadata: dict[str, Any], field: str, op: str, wanted: Any) -> bool:
    """Whether a field compares with a value as ``op`` says. Python compares integers with floats exactly."""
    stored = metadata.get(field)
    if stored is None:
        return False
    if op in ("eq", "ne"):
        return (kind(stored) == kind(wanted) and stored == wanted) == (op == "eq")
    if kind(stored) != kind(wanted) or kind(stored) not in ("number", "string"):
        return False
    return _ORDER[op](stored, wanted)


def holds(metadata: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether an exact filter keeps a fact."""
    return all(key in metadata and same(metadata[key], value) for key, value in wanted.items())
