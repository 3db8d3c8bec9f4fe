"""Reading what a process writes, in a thread, so that a test can wait for a line with a deadline."""

from __future__ import annotations

import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import IO


def follow(stream: IO[bytes] | None) -> tuple[SimpleQueue[bytes], threading.Thread]:
    """The lines of ``stream`` as they come, an empty one at the end, and the thread that reads them."""
    assert stream is not None
    lines: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        with suppress(ValueError, OSError):
            for line in stream:
                lines.put(line)
        lines.put(b"")

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return lines, thread
