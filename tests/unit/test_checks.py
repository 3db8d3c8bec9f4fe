"""What callers may pass: each refusal names the argument and the limit (memory.md §3, §5, §8; D5, D8, D14, D20)."""

from __future__ import annotations

import json
from collections import OrderedDict
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.errors import (
    EmptyFact,
    FactTooLarge,
    InvalidArgument,
    InvalidFilter,
    InvalidInput,
    InvalidMetadata,
    InvalidRelation,
    MetadataTooLarge,
    QueryTooLarge,
    ReservedKey,
)
from velesdb_memory.memory import checks
from velesdb_memory.model import ColumnFilter


def nested(levels: int, inside: Any = 0) -> Any:
    value = inside
    for _ in range(levels):
        value = {"a": value}
    return value


def sized(size: int) -> dict[str, str]:
    """Metadata whose compact JSON is ``size`` bytes."""
    found = {"k": "é" * ((size - 8) // 2) + "x" * ((size - 8) % 2)}
    assert len(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()) == size
    return found


@pytest.mark.parametrize("text", ["a" * 2_048, "é" * 1_024, " \u2003" + "a" * 2_048 + "\n"])
def test_a_fact_of_2048_bytes_once_trimmed_is_accepted(text: str) -> None:
    assert len(checks.fact(text).encode()) == 2_048


@pytest.mark.parametrize("text", ["a" * 2_049, "é" * 1_025, "é" * 1_024 + "a"])
def test_C41_a_longer_fact_is_refused_with_both_numbers(text: str) -> None:
    size = len(text.encode())
    with pytest.raises(FactTooLarge, match=f"{size}.*2048") as caught:
        checks.fact(text)
    assert (caught.value.field, caught.value.limit) == ("fact", 2_048)


@pytest.mark.parametrize("text", ["", " ", "\u3000\x85\t"])
def test_a_blank_fact_is_refused(text: str) -> None:
    with pytest.raises(EmptyFact) as caught:
        checks.fact(text)
    assert caught.value.field == "fact"


@pytest.mark.parametrize("text", ["\x1c", "\u200b", "\0", "."])
def test_D1_what_is_not_white_space_makes_a_fact(text: str) -> None:
    assert checks.fact(text) == text


def test_D20_a_query_of_64_KiB_is_accepted_and_a_longer_one_is_refused() -> None:
    assert checks.query("q" * 65_536)
    with pytest.raises(QueryTooLarge, match=r"65537.*65536") as caught:
        checks.query("q" * 65_537)
    assert (caught.value.field, caught.value.limit) == ("query", 65_536)


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, [1]])
def test_an_integer_is_an_integer(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        checks.integer(value, "k")
    assert caught.value.field == "k"


def test_an_integer_out_of_range_is_refused_with_the_bound() -> None:
    with pytest.raises(InvalidArgument) as below:
        checks.integer(-1, "max_hops")
    with pytest.raises(InvalidArgument) as above:
        checks.integer(9, "max_hops", maximum=8)
    assert [(e.value.field, e.value.limit) for e in (below, above)] == [("max_hops", 0), ("max_hops", 8)]


def test_an_absurdly_negative_integer_is_refused_like_any_other() -> None:
    with pytest.raises(InvalidArgument):
        checks.integer(-(10**5_000), "k")


def test_k_is_cut_to_a_thousand() -> None:
    assert [checks.count(k) for k in (0, 1, 1_000, 1_001, 10**30)] == [0, 1, 1_000, 1_000, 1_000]


@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_a_flag_is_a_boolean(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        checks.flag(value, "success")
    assert caught.value.field == "success"


def test_D5_no_seconds_and_zero_seconds_are_both_accepted() -> None:
    assert [checks.ttl(value) for value in (None, 0, 1)] == [None, 0, 1]


@pytest.mark.parametrize("value", [-1, 1.5, 60.0, "60", True])
def test_D5_a_duration_that_is_negative_or_no_integer_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        checks.ttl(value)
    assert caught.value.field == "ttl_seconds"


@pytest.mark.parametrize("label", ["a", " padded ", "décidé par", "x" * 512, "é" * 256, "\x80", "a\x85b", "\x1cx"[1:]])
def test_a_relation_label_is_kept_as_it_is(label: str) -> None:
    assert checks.relation(label) == label


@pytest.mark.parametrize("label", ["", " ", "\x85", "\u2003 ", "a\nb", "\0", "a\x1f", "a\x7f", "\t", None, 5, b"a"])
def test_D8_a_blank_label_or_one_with_a_control_character_is_refused(label: object) -> None:
    with pytest.raises(InvalidRelation) as caught:
        checks.relation(label)
    assert caught.value.field == "relation"


@pytest.mark.parametrize("label", ["x" * 513, "é" * 257])
def test_a_label_over_512_bytes_is_refused_with_both_numbers(label: str) -> None:
    with pytest.raises(InvalidRelation, match=f"{len(label.encode())}.*512") as caught:
        checks.relation(label)
    assert caught.value.limit == 512


@pytest.mark.parametrize(
    "key", ["content", "_veles_hub", "_veles_", "_veles_expires_at", "_veles_datex", "_veles_ctx_event"]
)
def test_a_reserved_key_is_refused_and_named(key: str) -> None:
    for check, field in ((checks.metadata, "metadata"), (checks.exact_filter, "filter")):
        with pytest.raises(ReservedKey, match=key) as caught:
            check({"fine": 1, key: 1})
        assert (caught.value.field, caught.value.key) == (field, key)


def test_only_top_level_keys_are_reserved_and_look_alikes_are_not() -> None:
    fine = {"a": {"content": 1, "_veles_hub": 2}, "Content": 1, "_VELES_hub": 1, "_velesx": 1, "expires_at": 5, "": 0}
    assert checks.metadata(fine) == fine


@pytest.mark.parametrize("date", [20260101, "not a date", None, {"y": 1}])
def test_the_date_key_takes_any_value(date: object) -> None:
    assert checks.metadata({"_veles_date": date}) == {"_veles_date": date}


def test_metadata_of_64_KiB_is_accepted_and_one_byte_more_is_refused() -> None:
    assert checks.metadata(sized(65_536)) == sized(65_536)
    with pytest.raises(MetadataTooLarge, match=r"65537.*65536") as caught:
        checks.metadata(sized(65_537))
    assert (caught.value.field, caught.value.limit) == ("metadata", 65_536)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        2**64,
        -(2**63) - 1,
        b"x",
        {1},
        range(1),
        1j,
        [float("nan")],
        {"b": [2**64]},
    ],
    ids=repr,
)
def test_C38_what_json_cannot_carry_exactly_is_refused(value: object) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        checks.metadata({"a": value})
    assert caught.value.field == "metadata"


@pytest.mark.parametrize("value", ["text", 5, [("a", 1)], True])
def test_metadata_is_an_object(value: object) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        checks.metadata(value)
    assert caught.value.field == "metadata"


@pytest.mark.parametrize("value", [{1: "a"}, {None: "a"}, {"a": {2: 3}}])
def test_a_key_is_text(value: object) -> None:
    with pytest.raises(InvalidMetadata):
        checks.metadata(value)


@pytest.mark.parametrize("value", [{"a": "\ud800"}, {"\udfff": 1}, {"a": [{"b": "\udcff"}]}])
def test_a_lone_surrogate_in_metadata_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="surrogate"):
        checks.metadata(value)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, -(2**63), 2**53 + 1, 1.5, -0.0, 1e300, "a\0b", None, True, [], {}])
def test_what_json_can_carry_comes_through_unchanged(value: object) -> None:
    found = checks.metadata({"a\0": value})["a\0"]
    assert found == value and type(found) is type(value)


def test_metadata_of_64_levels_is_accepted_and_one_more_is_refused() -> None:
    assert checks.metadata(nested(64)) == nested(64)
    with pytest.raises(InvalidMetadata) as caught:
        checks.metadata(nested(65))
    assert caught.value.limit == 64


def test_metadata_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = [loop]
    with pytest.raises(InvalidMetadata):
        checks.metadata(loop)


def test_other_mappings_and_tuples_become_plain_json() -> None:
    class Level(IntEnum):
        HIGH = 3

    found = checks.metadata(OrderedDict(a=(1, 2), b=OrderedDict(c=Level.HIGH)))
    assert found == {"a": [1, 2], "b": {"c": 3}}
    assert type(found["b"]) is dict


@pytest.mark.parametrize("field", ["a", "_", "A_9", "1n", "2024", "select", "x" * 128, "_veles_date"])
def test_D14_a_plain_identifier_is_a_field(field: str) -> None:
    assert checks.column_filters([ColumnFilter(field, "eq", 1)])[0].field == field


@pytest.mark.parametrize(
    "field", ["", " ", "a b", "a.b", "a-b", "é", "a\n", "a;--", "١", "content", "_veles_hub", None, 5]
)
def test_D14_what_is_no_plain_identifier_or_is_reserved_is_refused(field: Any) -> None:
    with pytest.raises(InvalidFilter, match="invalid filter field") as caught:
        checks.column_filters([ColumnFilter("ok", "eq", 1), ColumnFilter(field, "eq", 1)])
    assert caught.value.field == "filters[1].field"


def test_D14_a_field_over_128_bytes_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidFilter) as caught:
        checks.column_filters([ColumnFilter("x" * 129, "eq", 1)])
    assert caught.value.limit == 128


@pytest.mark.parametrize("op", ["EQ", "=", "like", "", "is", None, 1])
def test_C27_an_unknown_operator_is_refused_by_name(op: Any) -> None:
    with pytest.raises(InvalidFilter, match=repr(op)) as caught:
        checks.column_filters([ColumnFilter("a", op, 1)])
    assert caught.value.field == "filters[0].op"


@pytest.mark.parametrize("value", [None, [], [1], {}, b"x"])
def test_D14_a_filter_value_is_text_a_number_or_a_boolean(value: Any) -> None:
    with pytest.raises(InvalidFilter) as caught:
        checks.column_filters([ColumnFilter("a", "eq", value)])
    assert caught.value.field == "filters[0].value"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**64, -(2**63) - 1])
def test_D14_a_number_that_json_cannot_carry_is_an_invalid_filter(value: Any) -> None:
    with pytest.raises(InvalidFilter) as caught:
        checks.column_filters([ColumnFilter("a", "gt", value)])
    assert caught.value.field == "filters[0].value"


@pytest.mark.parametrize("filters", [None, "abc", 5, {"a": 1}, b""])
def test_D14_filters_are_a_list(filters: object) -> None:
    with pytest.raises(InvalidFilter):
        checks.column_filters(filters)


@pytest.mark.parametrize("entry", [None, {"field": "a", "op": "eq", "value": 1}, ("a", "eq", 1)])
def test_an_entry_that_is_no_filter_is_refused(entry: object) -> None:
    with pytest.raises(InvalidFilter):
        checks.column_filters([entry])


def test_64_filters_are_accepted_and_one_more_is_refused_with_the_limit() -> None:
    filters = [ColumnFilter("a", "eq", 1)] * 64
    assert len(checks.column_filters(filters)) == 64
    with pytest.raises(InvalidFilter) as caught:
        checks.column_filters([*filters, filters[0]])
    assert (caught.value.field, caught.value.limit) == ("filters", 64)


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
))  # fmt: skip
def test_checked_json_is_the_json_that_was_given(value: Any) -> None:
    assert json.dumps(checks.json_value(value, "value")) == json.dumps(value)
