"""The one place that reads the wall clock, so that tests can stand still."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Whole seconds since 1970, UTC."""

    def now(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Whole seconds since 1970, UTC."""
        return int(time.time())


def yyyymmdd(seconds: int) -> int:
    """The UTC date of ``seconds`` since 1970 as an integer: 20260131 for 31 January 2026."""
    day = datetime.fromtimestamp(seconds, UTC)
    return day.year * 10_000 + day.month * 100 + day.day
