"""What the server says of its work on standard error: one line a call and one a request, and never content (D59).

Paths and methods are a client's words too, so only those that the server knows are repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Final

LEVELS: Final = ("off", "error", "warn", "info")
_METHODS: Final = ("GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH")


class Log:
    """``level`` is ``off``, ``error`` (what failed here), ``warn`` (what was refused too) or ``info`` (everything)."""

    def __init__(self, level: str = "off") -> None:
        self._level = LEVELS.index(level)

    def wants(self, level: str) -> bool:
        """Whether a line of ``level`` would be written."""
        return LEVELS.index(level) <= self._level

    def call(self, tool: str, verdict: str, level: str, *, ms: float, received: int, sent: int) -> None:
        """One tool call; ``level`` is ``info`` if it succeeded. Sizes are bytes of JSON."""
        self._say(level, f"tool={tool} verdict={verdict} ms={ms:.1f} in={received} out={sent}")

    def request(
        self, method: str, path: str, status: int, *, ms: float, received: int, sent: int, paths: Collection[str]
    ) -> None:
        """One HTTP request, answered with ``status``; ``paths`` are those that the server serves. Sizes are bytes."""
        level = "error" if status >= 500 else "warn" if status >= 400 else "info"
        known = method if method in _METHODS else "other"
        place = path if path in paths else "other"
        self._say(level, f"method={known} path={place} status={status} ms={ms:.1f} in={received} out={sent}")

    def _say(self, level: str, line: str) -> None:
        if self.wants(level):
            print(f"velesdb-memory: {line}", file=sys.stderr, flush=True)
