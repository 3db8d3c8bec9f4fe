"""A process that reads and writes a store while another one migrates it.

Run as ``python user.py STORE NAME``. It remembers facts of its own and searches for them until standard input is
closed, and acknowledges each with a line. Refused because the store was switched, it does what its operator would: it
opens the store again with the target's embedder, and says so. The last line is a JSON object with what it did.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from processes.worker import fact
from support.migrations import target
from velesdb_memory import MemoryService
from velesdb_memory.errors import ProvenanceMismatch
from velesdb_memory.testing import FixedEmbedder

SWITCHED = "switched"


def tell(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def main() -> None:
    store, name = sys.argv[1:]
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    memory = MemoryService(store, FixedEmbedder())
    switched = 0
    for index in count():
        if ended.is_set():
            break
        while True:
            try:
                number = memory.remember(fact(name, index), metadata={"by": name, "index": index})
                found = memory.recall(fact(name, index), k=1)
                assert found[0].id == number, "an acknowledged fact is not found"
                early = fact(name, index - index % 5)
                assert memory.recall_fused(early, k=1)[0].content == early
                if index % 5 == 4:
                    assert memory.forget(number)
                break
            except ProvenanceMismatch as refusal:
                # once, and only because of the switch
                assert "target (24 dimensions)" in str(refusal) and not switched, refusal
                switched += 1
                memory.close()
                memory = MemoryService(store, target())
                tell(SWITCHED)
        tell(str(index))
    memory.close()
    tell(json.dumps({"written": index, "switched": switched}))


if __name__ == "__main__":
    main()
