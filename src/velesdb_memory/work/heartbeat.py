"""Keeping a lease while the work that it is for goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def heartbeat(name: str, every: float, beat: Callable[[], None]) -> Generator[None]:
    """While the block runs, call ``beat`` in a thread called ``name``, every so many seconds. It must not raise."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every):
            beat()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
