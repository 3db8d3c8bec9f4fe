"""``work``: read the waiting passages and facts in the foreground."""

from __future__ import annotations

import sys
from collections import Counter

from ..config import Settings
from .progress import progress
from .serve import check_extractor, open_service


def run(settings: Settings) -> int:
    """Work until nothing is left that can be done here; 1 when something failed, or waits for somebody else."""
    check_extractor(settings)
    ended: Counter[str] = Counter()
    with open_service(settings, reads_passages=True) as memory, progress() as show:
        before = memory.memory_status().pending

        def report(what: str, outcome: str) -> None:
            ended[outcome] += 1
            if show:
                show(what, ended.total(), before.extraction + before.autograph)

        memory.work(report)
        left = memory.memory_status().pending
    waiting = left.extraction + left.autograph
    print(
        f"velesdb-memory: {ended['committed']} done, {ended['failed']} failed, {waiting} left waiting", file=sys.stderr
    )
    return 1 if ended["failed"] or waiting else 0
