"""What saved tokens would have cost, by the caller's own price table: none is built in."""

from __future__ import annotations

from ..limits import MAX_INTEGER
from .model import Pricing


def cost_micros(tokens_saved: int, target_model: str | None, pricing: Pricing | None) -> int | None:
    """The saving in millionths of the table's currency, rounded down, at most 2^64 - 1.

    None without a table, or when it has no row of exactly the name ``target_model``.
    """
    row = pricing.models.get(target_model) if pricing is not None and target_model is not None else None
    if row is None:
        return None
    return min(tokens_saved * row.input_micros_per_million_tokens // 1_000_000, MAX_INTEGER)
