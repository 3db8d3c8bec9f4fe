"""The lenient decoder, slot by slot (C01, C02, C03, D4, D24)."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from velesdb_memory.errors import InvalidInput
from velesdb_memory.server.tools import ALL
from velesdb_memory.server.wire import ID, MAX_DEPTH, Arguments, parse_json


class Inner(msgspec.Struct):
    target: Annotated[int, Meta(extra=ID)]
    rank: Annotated[int, Meta(ge=0)] = 0


class Every(msgspec.Struct):
    """One slot of every type a tool can declare."""

    text: str = ""
    count: Annotated[int, Meta(ge=0)] = 0
    whole: int | None = None
    number: float = 0.0
    flag: bool = False
    id: Annotated[int | None, Meta(extra=ID)] = None
    choice: Literal["out", "in"] = "out"
    any: dict[str, Any] | None = None
    rows: list[Inner] | None = None
    names: list[str] | None = None
    table: dict[str, Inner] | None = None
    scalar: str | int | float | bool = ""


EVERY = Arguments(Every, {"cnt": "count"})

U64 = st.integers(0, 2**64 - 1)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)
FITS: dict[str, st.SearchStrategy[Any]] = {
    "count": U64,
    "whole": st.integers(-(2**63), 2**64 - 1),
    "number": NUMBERS,
    "flag": st.booleans(),
    "any": st.dictionaries(TEXT, VALUES, max_size=3),
    "rows": st.lists(st.fixed_dictionaries({"target": U64 | U64.map(str), "rank": U64}), max_size=3),
    "names": st.lists(TEXT, max_size=3),
    "table": st.dictionaries(TEXT, st.fixed_dictionaries({"target": U64}), max_size=3),
}


def fits(slot: str, value: Any) -> bool:
    """Whether JSON ``value`` is of the declared type of ``slot``, said independently of the decoder."""
    match slot, value:
        case ("flag", _):
            return isinstance(value, bool)
        case (_, bool()):
            return False
        case ("count", int()):
            return 0 <= value < 2**64
        case ("whole", int()):
            return -(2**63) <= value < 2**64
        case ("number", int() | float()):
            return True
        case (("any" | "table"), dict()):
            return slot == "any" or not value
        case (("rows" | "names"), list()):
            return not value or (slot == "names" and all(isinstance(item, str) for item in value))
        case _:
            return False


def read(slot: str, value: Any) -> Any:
    return getattr(EVERY.decode({slot: value}), slot)


def refused(slot: str, value: Any, *words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        EVERY.decode({slot: value})
    message = str(caught.value)
    assert "\n" not in message
    assert message.isprintable()
    assert len(message) < 400
    for word in (slot, *words):
        assert word in message


@pytest.mark.parametrize("slot", FITS)
@given(data=st.data())
def test_d24_a_fitting_value_and_its_json_in_a_string_read_alike(slot: str, data: st.DataObject) -> None:
    value = data.draw(FITS[slot])
    plain = read(slot, value)
    assert read(slot, json.dumps(value)) == plain
    assert read(slot, f" \t{json.dumps(value)}\r\n") == plain
    # once, not twice
    refused(slot, json.dumps(json.dumps(value)))


@pytest.mark.parametrize("slot", FITS)
@given(value=VALUES)
def test_d24_every_slot_that_is_not_text_refuses_incompatible_forms(slot: str, value: Any) -> None:
    if value is None or fits(slot, value):
        return
    if not isinstance(value, str):
        refused(slot, value)
        refused(slot, json.dumps(value))
        return
    try:
        inner = parse_json(value)
    except ValueError:
        refused(slot, value)
    else:
        if inner is not None and not fits(slot, inner):
            refused(slot, value)


@given(value=TEXT)
def test_text_is_never_read_as_json(value: str) -> None:
    assert read("text", value) == value
    assert read("scalar", value) == value


@given(value=VALUES.filter(lambda value: not isinstance(value, str) and value is not None))
def test_text_takes_nothing_else(value: Any) -> None:
    refused("text", value)


@pytest.mark.parametrize("word", ["6.0", "1.5", "1e2", "+6", "six", "", "0x1", "1_000", "True", "[6]", '{"a": 1}', "٦"])
def test_c03_an_integer_takes_no_near_miss(word: str) -> None:
    refused("count", word, "integer")


@pytest.mark.parametrize("value", [6.0, 1e2, True, -1, 2**64, 10**30])
def test_an_integer_takes_no_float_no_boolean_and_nothing_out_of_range(value: Any) -> None:
    refused("count", value, "integer")


@pytest.mark.parametrize("word", ["yes", "1", "0", "TRUE", "on"])
def test_a_boolean_takes_no_other_word(word: str) -> None:
    refused("flag", word, "true or false")


@pytest.mark.parametrize("slot", ["number", "scalar", "any"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2**64, -(2**63) - 1])
def test_c38_numbers_are_finite_and_of_64_bits(slot: str, value: float) -> None:
    refused(slot, {"deep": [value]} if slot == "any" else value, "number")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", '{"a": NaN}'])
def test_json_in_a_string_is_json(word: str) -> None:
    refused("any" if word.startswith("{") else "number", word)


@given(value=U64)
def test_d4_an_id_is_an_integer_or_a_decimal_string(value: int) -> None:
    for form in (value, str(value), f" {value}\u2003", f"+{value}", f"000{value}"):
        assert read("id", form) == value


@given(value=U64)
def test_c01_a_float_id_is_refused_with_the_advice(value: int) -> None:
    refused("id", float(value), "id_str")


@pytest.mark.parametrize(
    "value", ["", "-1", "1.0", "0x1", "1_0", "١", "1 2", "++1", True, [], {}, -1, 2**64, str(2**64)]
)
def test_c02_what_is_no_id_is_refused(value: Any) -> None:
    refused("id", value, "id_str")


@pytest.mark.parametrize("slot", sorted(set(Every.__struct_fields__) - {"text", "choice", "scalar"}))
@pytest.mark.parametrize("nothing", [None, "null"])
def test_d24_null_means_absent_where_a_value_is_optional(slot: str, nothing: Any) -> None:
    assert EVERY.decode({slot: nothing}) == EVERY.decode({})


def test_the_word_null_is_text_where_text_is_declared() -> None:
    assert read("text", "null") == "null"
    assert read("text", None) == ""
    refused("choice", "null", "one of")


@pytest.mark.parametrize("slot", ["text", "scalar", "choice"])
def test_lone_surrogates_are_refused(slot: str) -> None:
    refused(slot, "a\ud800")


@pytest.mark.parametrize("value", [{"a": "\udfff"}, {"\ud800": 1}, {"a": [{"b": "x\ud83d"}]}])
def test_lone_surrogates_are_refused_in_metadata(value: Any) -> None:
    refused("any", value, "surrogate")


def test_nesting_is_bounded() -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = {"a": value}
        return value

    assert read("any", nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(InvalidInput, match="deep"):
        EVERY.decode({"any": nested(MAX_DEPTH + 1)})
    with pytest.raises(InvalidInput, match="any must be an object"):
        EVERY.decode({"any": '{"a":' * 100_000})


def test_messages_name_the_place() -> None:
    for rows, place in (
        ([{"target": 1}, {"target": True}], "rows[1].target"),
        ([{"target": 1, "rank": "x"}], "rows[0].rank"),
        ('[{"target": 1, "rank": 1.5}]', "rows[0].rank"),
        ([{}], "rows[0].target is required"),
        ([{"target": 1, "rnk": 1}], "unknown argument 'rnk' in rows[0]; did you mean 'rank'?"),
        ([1], "rows[0] must be an object, got the number 1"),
    ):
        refused("rows", rows, place)


def test_d22_unknown_arguments_are_refused_with_the_closest_one() -> None:
    for name, words in (("txt", "'text'"), ("Count", "'count'"), ("zzz", "choice, count"), ("a\nb\ud800", "unknown")):
        with pytest.raises(InvalidInput) as caught:
            EVERY.decode({name: 1})
        assert words in str(caught.value)
        assert str(caught.value).isprintable()


def test_a_former_name_is_read_alone_and_never_published() -> None:
    assert EVERY.decode({"cnt": "7"}).count == 7
    assert "cnt" not in EVERY.schema["properties"]
    for both in ({"cnt": 7, "count": 7}, {"count": None, "cnt": 7}):
        with pytest.raises(InvalidInput, match="'cnt' is the former name of 'count'"):
            EVERY.decode(both)


def example(slot: dict[str, Any]) -> Any:
    """A value that fits a published slot."""
    match slot["type"]:
        case "array":
            return [example(slot["items"])]
        case "object":
            return {name: example(inner) for name, inner in slot.get("properties", {}).items()}
        case "string":
            return slot["enum"][0] if "enum" in slot else "7"
        case kind:
            return {"integer": 7, "number": 0.5, "boolean": True}.get(str(kind), "7")


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_c03_every_declared_slot_takes_its_value_and_its_json(tool: Any) -> None:
    schema = tool.decoder.schema
    plain = {name: example(slot) for name, slot in schema["properties"].items()}
    encoded = {
        name: value if schema["properties"][name]["type"] == "string" else json.dumps(value)
        for name, value in plain.items()
    }
    assert tool.decoder.decode(plain) == tool.decoder.decode(encoded)


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_every_declared_slot_that_is_not_text_refuses_incompatible_forms(tool: Any) -> None:
    schema = tool.decoder.schema
    plain = {name: example(slot) for name, slot in schema["properties"].items()}
    wrong = {
        "integer": [1.5, "1.5", True, "true", "six", "", [1], {}, -1],
        "number": ["NaN", True, "half", [], {}],
        "boolean": [0, 1, "yes", "True", [], {}],
        "array": [{}, "{}", 1, "x", True],
        "object": [[], "[]", 1, "x", True],
        "string": [1.5, True, [], {}],
    }
    for name, slot in schema["properties"].items():
        for value in wrong[slot["type"]]:
            with pytest.raises(InvalidInput) as caught:
                tool.decoder.decode({**plain, name: value})
            assert name in str(caught.value)


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_every_required_argument_is_asked_for_by_name(tool: Any) -> None:
    schema = tool.decoder.schema
    plain = {name: example(slot) for name, slot in schema["properties"].items()}
    for name in schema.get("required", []):
        rest = {key: value for key, value in plain.items() if key != name}
        with pytest.raises(InvalidInput, match=f"^{name} is required and missing"):
            tool.decoder.decode(rest)
        with pytest.raises(InvalidInput, match=f"^{name} (must be|is None)"):
            tool.decoder.decode({**plain, name: None})
