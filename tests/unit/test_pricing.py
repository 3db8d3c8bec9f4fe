"""What a saving is worth by the caller's own price table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.context.model import ModelPrice, Pricing
from velesdb_memory.context.pricing import cost_micros


def table(rate: int, name: str = "big") -> Pricing:
    return Pricing("2026-11", "EUR", {name: ModelPrice(rate)})


@pytest.mark.parametrize(
    ("saved", "rate", "micros"),
    [
        (0, 3_000_000, 0),
        (1, 3_000_000, 3),
        (1_000_000, 3_000_000, 3_000_000),
        (999_999, 1, 0),
        (1_000_000, 1, 1),
        (1_999_999, 1, 1),
        (894, 2_500_000, 2_235),
        (333, 1_250_000, 416),
        (5, 0, 0),
    ],
)
def test_the_saving_is_tokens_times_the_rate_for_a_million_rounded_down(saved: int, rate: int, micros: int) -> None:
    assert cost_micros(saved, "big", table(rate)) == micros


def test_a_saving_beyond_64_bits_stays_at_the_largest_number() -> None:
    largest = 2**64 - 1
    assert cost_micros(largest, "big", table(1_000_000)) == largest
    assert cost_micros(largest, "big", table(1_000_001)) == largest
    assert cost_micros(largest, "big", table(largest)) == largest
    # the product alone is beyond 64 bits, the saving is not
    assert cost_micros(largest, "big", table(2)) == largest * 2 // 1_000_000


def test_only_a_row_of_exactly_the_models_name_counts() -> None:
    for name in ("Big", "big ", "", "bigger"):
        assert cost_micros(10**6, name, table(5)) is None
    assert cost_micros(10**6, "", table(5, "")) == 5


def test_without_a_table_or_a_model_there_is_no_price() -> None:
    assert cost_micros(10**6, "big", None) is None
    assert cost_micros(10**6, None, table(5)) is None
    assert cost_micros(10**6, "big", Pricing("v", "EUR", {})) is None


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_any_saving_has_a_price_of_64_bits(saved: int, rate: int) -> None:
    micros = cost_micros(saved, "big", table(rate))
    assert micros is not None
    assert 0 <= micros < 2**64
    assert micros == 2**64 - 1 or micros * 1_000_000 <= saved * rate < (micros + 1) * 1_000_000
