"""``demo``: a real MCP session over stdio that ends in a ``why`` which finds what ``recall`` cannot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import count
from typing import Any, Final

# A small team's notes. The last link of the story shares no word with the question.
NOTES: Final = (
    ("Checkout failed for eleven minutes on the evening of 9 June", {"project": "checkout", "kind": "incident"}),
    ("Payment requests timed out because every worker held a poisoned lock", {"project": "checkout"}),
    ("PR #42 swaps the standard mutex for parking_lot", {"project": "checkout", "kind": "pull-request"}),
    ("Decision: the checkout service uses parking_lot", {"project": "checkout", "kind": "decision"}),
    ("Benchmarks showed 18 % less latency at 64 threads", {"project": "checkout", "kind": "benchmark"}),
    ("The checkout service is written in Rust and runs on six machines", {"project": "checkout"}),
    ("Checkout shows prices with tax since the spring release", {"project": "checkout"}),
    ("The service team chose Tuesday for its planning meeting", {"project": "team"}),
    ("Why we chose a monorepo: one review for a change that crosses services", {"project": "team"}),
    ("The search service chose Tantivy over an external cluster", {"project": "search"}),
    ("Invoices are rendered to PDF in the background", {"project": "billing"}),
    ("Refunds need the approval of two people", {"project": "billing"}),
)
LINKS: Final = ((3, 2, "decided_in"), (2, 1, "fixes"), (1, 0, "caused"), (2, 4, "measured_by"))
QUESTION: Final = "why did we choose parking_lot for the checkout service"

# A passage in the outline form, which no model is needed for
PASSAGE: Final = """\
fact: Ana Ruiz wrote the retry queue of the billing service. | Ana Ruiz, retry queue
fact: The retry queue doubles its delay after each refusal. | retry queue
edge: Ana Ruiz | works with | Tom Berg
attr: Ana Ruiz | team | "billing"
"""
ABOUT_PASSAGE: Final = "how long does it wait after a refusal"


class Session:
    """The client's side of one server process."""

    def __init__(self, store: str) -> None:
        self._numbers = count(1)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "velesdb_memory"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "VELESDB_MEMORY_PATH": store, "VELESDB_MEMORY_QUIET": "1"},
        )
        self.request(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "velesdb-memory-demo", "version": "1"},
            },
        )
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self._process.stdout is not None
        number = next(self._numbers)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == number:
                if "error" in answer:
                    raise SystemExit(f"the server refused {method}: {answer['error']['message']}")
                return answer["result"]
        raise SystemExit("the server went away")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured result."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})["structuredContent"]

    def close(self) -> None:
        """End the session as clients do, by closing the server's input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def run(*, keep: bool = False) -> int:
    """Run the session and print it."""
    store = tempfile.mkdtemp(prefix="velesdb-memory-demo-")
    session = Session(store)
    try:
        return _tell(session)
    finally:
        session.close()
        if keep:
            print(f"\nThe store is at {store}")
        else:
            shutil.rmtree(store, ignore_errors=True)


def _tell(session: Session) -> int:
    print(f"1. remember: {len(NOTES)} notes, {len(LINKS)} links between them")
    ids = [session.call("remember", fact=fact, metadata=metadata)["id_str"] for fact, metadata in NOTES]
    for source, target, relation in LINKS:
        session.call("relate", **{"from": ids[source], "to": ids[target], "relation": relation})
    print(f'\n2. recall "{QUESTION}"')
    found = session.call("recall", query=QUESTION, k=5)["memories"]
    for hit in found:
        print(f"   {hit['score']:.2f}  {hit['content']}")
    cause = ids[1]
    missed = cause not in [hit["id_str"] for hit in found]
    print(f"   -> the cause, two links away, is {'not among them' if missed else 'among them'}")
    print(f'\n3. why "{QUESTION}"')
    answer = session.call("why", decision=QUESTION, max_hops=2, filter={"project": "checkout"})
    names = {node["id_str"]: node["content"] for node in answer["nodes"]}
    for edge in answer["edges"]:
        print(f"   {names[edge['from_str']]}\n      --{edge['relation']}--> {names[edge['to_str']]}")
    reached = cause in names
    print(f"   -> the cause is {'reached' if reached else 'missing'}: {NOTES[1][0]}")
    return 0 if missed and reached and _tell_passage(session) else 1


def _tell_passage(session: Session) -> bool:
    print("\n4. remember_extracted: a passage of four lines")
    receipt = session.call("remember_extracted", text=PASSAGE, extractor="outline")
    status = session.call("extraction_status", request_id=receipt["request_id"])
    while status["state"] in ("accepted", "running"):
        status = session.call("extraction_status", request_id=receipt["request_id"])
    print(f"   -> {status['state']}: {len(status['ids'])} facts")
    ana = session.call("entity", name="ana ruiz")
    relations = [f"{edge['predicate']} {edge['target']}" for edge in ana["relations"]]
    print(f"   entity \"ana ruiz\": {ana['attributes']}, {', '.join(relations)}")
    print(f'\n5. why "{ABOUT_PASSAGE}"')
    answer = session.call("why", decision=ABOUT_PASSAGE, max_hops=2)
    for node in answer["nodes"]:
        print(f"   {'  ' * node['hop']}{node['content']}")
    author = status["ids_str"][0]
    reached = author in [node["id_str"] for node in answer["nodes"]]
    print(f"   -> the author is {'reached through the entity they share' if reached else 'missing'}")
    return reached
