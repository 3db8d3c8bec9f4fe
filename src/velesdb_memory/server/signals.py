"""Hearing that the process should end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

GRACE: Final = 8.0  # seconds for calls in flight after a signal, whose sender waits for ten as a rule
HURRY: Final = 1.0  # the same after a second one, or where nobody can read the answers


def when_asked_to_end(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call ``stop`` on ``loop`` at each signal that asks the process to end."""

    def interrupt(_: int, __: object) -> None:
        loop.call_soon_threadsafe(stop)

    for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
        number = getattr(signal, name, None)
        if number is None:
            continue
        # neither works outside the main thread, where the host handles signals
        with suppress(ValueError, RuntimeError):
            try:
                loop.add_signal_handler(number, stop)
            except NotImplementedError:
                signal.signal(number, interrupt)
