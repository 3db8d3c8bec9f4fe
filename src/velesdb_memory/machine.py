"""Which start of which machine this process runs on."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def boot_id() -> str:
    """A text that changes when the machine starts: what was written but not synced before it may be lost."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        # the moment of the start, coarse; a clock that was set looks like a new start, which is only extra work
        return f"started-{int(time.time() - time.monotonic()) // 300}"


@cache
def process_space() -> str:
    """A text shared by the processes that can see each other's numbers: two containers of one machine cannot."""
    namespace = ""
    with suppress(OSError):
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return f"{boot_id()}{namespace}"
