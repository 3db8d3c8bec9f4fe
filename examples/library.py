"""The library in one page: facts, filters, links, a passage, and a walk along the links.

    python examples/library.py [DIRECTORY]
"""

from __future__ import annotations

import sys
import tempfile

from velesdb_memory import ColumnFilter, Link, MemoryService, OutlineExtractor

PASSAGE = """\
fact: The nightly backup of the ledger failed on 3 May. | ledger, backup
fact: The ledger's certificate expired on 2 May. | ledger, certificate
edge: certificate | protects | ledger
attr: ledger | owner | "Ana Ruiz"
"""


def main(directory: str) -> None:
    with MemoryService(directory) as memory:
        cause = memory.remember("Every worker held a poisoned lock", metadata={"project": "checkout"})
        memory.remember(
            "We chose parking_lot for the checkout service",
            links=[Link(cause, "decided_because")],
            metadata={"project": "checkout", "_veles_date": 20260610},
        )
        for hit in memory.recall_where("locks", [ColumnFilter("_veles_date", "ge", 20260101)], k=3):
            print(f"{hit.score:.2f}  {hit.content}")

        result = memory.remember_extracted(PASSAGE, OutlineExtractor())
        print(f"{len(result.ids)} facts taken from a passage; the ledger: {memory.entity('ledger').attributes}")

        explanation = memory.why("why did the backup fail", max_hops=2)
        for node in explanation.nodes:
            print("  " * node.hop + node.content)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(scratch)
