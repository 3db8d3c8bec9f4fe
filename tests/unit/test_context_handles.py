"""Hashes and handles of originals (D3)."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.context.handles import content_hash, handle_of, parse_handle


@given(st.binary(max_size=200))
def test_the_hash_is_blake2b_of_8_bytes_as_an_unsigned_number(data: bytes) -> None:
    """D3."""
    assert content_hash(data) == int(blake2b(data, digest_size=8).hexdigest(), 16)


@given(st.integers(0, 2**64 - 1))
def test_a_handle_gives_its_hash_back(number: int) -> None:
    assert parse_handle(handle_of(number)) == number


@pytest.mark.parametrize(("handle", "number"), [("ctx://source/007", 7), ("ctx://source/+7", 7)])
def test_leading_zeros_and_a_plus_are_read(handle: str, number: int) -> None:
    assert parse_handle(handle) == number


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "7",
        "ctx://source/",
        "ctx://source/-7",
        "ctx://source/ 7",
        "ctx://source/7 ",
        "ctx://source/0x7",
        "ctx://source/7\n",
        "ctx://source/٧",
        "CTX://source/7",
        f"ctx://source/{2**64}",
        "ctx://source/" + "9" * 10_000,
    ],
)
def test_anything_else_is_no_handle(handle: str) -> None:
    assert parse_handle(handle) is None
