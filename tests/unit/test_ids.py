"""Ids: the same text has the same id everywhere (D2, D4; C01, C02)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.errors import InvalidArgument
from velesdb_memory.ids import edge_id, fact_id, fnv1a64, hub_id, parse_id

IDS = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("hello", 11831194018420276491),
        ("the sky is blue", 4097445984918472597),
        ("café", 5253592154431032713),
        ("日本語", 17194429697725099911),
        ("we chose parking_lot to avoid lock poisoning", 7771249936881126162),
        ("PR #42 swaps the mutex", 9998739088937856104),
        ("a", 12638187200555641996),
        ("Hello", 7201466553693376363),
        ("  hello  ", 11831194018420276491),
        ("\u2003hello\u0085", 11831194018420276491),
    ],
)
def test_D2_a_fact_has_the_id_that_it_has_in_the_reference(text: str, number: int) -> None:
    assert fact_id(text) == number


@pytest.mark.parametrize("text", ["\x1chello", "hello\x1f", "\u200bhello", "\ufeffhello", "cafe\u0301", "he llo"])
def test_D1_what_is_not_white_space_at_an_end_is_part_of_a_fact(text: str) -> None:
    assert fact_id(text) not in (fact_id("hello"), fact_id("café"))


def test_D2_two_known_texts_collide() -> None:
    assert fact_id("8yn0iYCKYHlIj4-BwPqk") == fact_id("GReLUrM4wMqfg9yzV3KQ")


@pytest.mark.parametrize(
    ("source", "target", "relation", "number"),
    [
        (0, 0, "", 0x88201FB960FF6465),
        (1, 2, "knows", 0x083A4358F69489C6),
        (fact_id("alpha"), fact_id("beta"), "knows", 11689923964802794373),
    ],
)
def test_D2_an_edge_has_the_id_that_it_has_in_the_reference(
    source: int, target: int, relation: str, number: int
) -> None:
    assert edge_id(source, target, relation) == number


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("theo durand", 8837841004643242023),
        ("camille", 7639933331338354350),
        ("  Camille ", 7639933331338354350),
        ("bob", 277964408576168628),
    ],
)
def test_D2_a_hub_has_the_id_that_it_has_in_the_reference(name: str, number: int) -> None:
    assert hub_id(name) == number


def test_a_fact_worded_like_a_hub_has_another_id() -> None:
    assert fact_id("Entity: bob") == 5438084819534987083 != hub_id("bob")


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_a_hash_can_be_computed_in_pieces(head: bytes, tail: bytes) -> None:
    assert fnv1a64(tail, fnv1a64(head)) == fnv1a64(head + tail) < 2**64


@given(IDS)
def test_D4_an_id_is_read_back_from_the_integer_and_from_every_decimal_string(number: int) -> None:
    for form in (number, str(number), f"+{number}", f"  {number}\u3000", f" +{number} ", f"000{number}"):
        assert parse_id(form, "id") == number


def test_C02_a_padded_id_is_accepted() -> None:
    assert parse_id(" +12 ", "id") == 12


@pytest.mark.parametrize(
    "value",
    [
        1.0, 12.5, float("nan"), -1, 2**64, True, False, None, [], [12], {}, b"12", (),
        "", " ", "-1", "+", "++1", "+ 1", "1.0", "1e3", "0x1", "1_000", "１２", "٣", "12 13", "\x1c12", "a",
        "18446744073709551616",
    ],
)  # fmt: skip
def test_D4_C01_anything_else_is_refused_with_the_argument_named(value: object) -> None:
    with pytest.raises(InvalidArgument, match="id_str") as caught:
        parse_id(value, "target")
    assert caught.value.field == "target"


@given(IDS)
def test_C01_an_id_that_went_through_a_double_is_refused(number: int) -> None:
    with pytest.raises(InvalidArgument, match="float"):
        parse_id(float(number), "id")


@pytest.mark.parametrize("value", [10**5_000, -(10**5_000), "9" * 1_000_000], ids=["huge", "-huge", "megabyte"])
def test_an_absurd_number_is_refused_with_a_short_message(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_id(value, "id")
    assert len(str(caught.value)) < 400
