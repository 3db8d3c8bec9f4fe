"""``work``: read the waiting passages and facts in the foreground."""

from __future__ import annotations

import sys

from ..config import Settings
from .progress import progress
from .serve import check_extractor, open_service


def run(settings: Settings) -> int:
    """Work until nothing is left that can be done here; 1 when something waits that cannot."""
    check_extractor(settings)
    done = failed = 0
    with open_service(settings, reads_passages=True) as memory, progress() as show:
        before = memory.memory_status().pending

        def report(what: str, well: bool) -> None:
            nonlocal done, failed
            done, failed = done + well, failed + (not well)
            if show:
                show(what, done, before.extraction + before.autograph)

        memory.work(report)
        left = memory.memory_status().pending
    waiting = left.extraction + left.autograph
    print(f"velesdb-memory: {done} pieces of work done, {waiting} left", file=sys.stderr)
    return 1 if failed or waiting else 0
