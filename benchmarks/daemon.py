"""One daemon under many clients, beside stdio servers on the same store, and a signal in the middle of it.

    python benchmarks/daemon.py [--seconds 60] [--clients 50] [--stdio 4] [--json daemon.json]

Every client is a session of its own over HTTPS and mixes reads and writes as fast as it gets answers: 3 in 10 calls
store a fact, the others search. After the time is up the daemon gets SIGTERM while the calls go on. The program fails
unless the daemon exits with 0, no call had an error, and the store holds exactly what was acknowledged. Clients and
servers share this machine: latencies hold the clients' own work, and a call's wait behind the others'.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2

from measuring import SETTINGS, Client, machine, resident_memory
from velesdb_memory import MemoryService

VERSION: Final = "2025-11-25"
WORDS: Final = tuple(
    f"{first}{second}"
    for first in ("ca", "de", "lo", "mi", "pa", "qu", "re", "so", "tu", "ve")
    for second in ("bin", "cker", "dge", "flow", "gram", "ment", "nel", "ster", "ting", "vice")
)
READS: Final = ("recall", "recall", "recall", "recall", "recall_fused", "recall_fused", "why")


@dataclass
class Tally:
    """What happened, in all threads."""

    latencies: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    acknowledged: list[str] = field(default_factory=list[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    ready: list[int] = field(default_factory=list[int])  # clients that are connected
    go: threading.Event = field(default_factory=threading.Event)
    leaving: bool = False  # the daemon has been told to end: being refused is no error any more
    over: bool = False

    def took(self, tool: str, seconds: float) -> None:
        self.latencies.setdefault(tool, []).append(seconds)


def calls(name: str, seed: int) -> Callable[[], tuple[str, dict[str, Any]]]:
    """An endless mix of calls, the same for each run."""
    chance = random.Random(seed)
    number = 0

    def following() -> tuple[str, dict[str, Any]]:
        nonlocal number
        words = " ".join(chance.choices(WORDS, k=6))
        if chance.random() < 0.3:
            number += 1
            return "remember", {"fact": f"{words} {name} {number}", "metadata": {"client": name, "n": number}}
        tool = chance.choice(READS)
        return (tool, {"decision": words}) if tool == "why" else (tool, {"query": words, "k": 10})

    return following


def start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A daemon on a free port, and its address."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    ours = {f"{SETTINGS}PATH": str(folder / "store"), f"{SETTINGS}TLS_DIR": str(folder / "tls")}
    process = subprocess.Popen(
        [sys.executable, "-m", "velesdb_memory", "--http", "--http-port", "0", "--http-max-sessions", "1000"],
        env={**inherited, **ours},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if " at https://" in line:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, line.split()[-1]
    raise SystemExit("the daemon does not start")


async def over_https(url: str, context: ssl.SSLContext, number: int, tally: Tally) -> None:
    following = calls(f"https-{number}", number)
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION}
    async with httpx2.AsyncClient(verify=context, timeout=60, headers=headers, trust_env=False) as client:

        async def post(method: str, request_id: int | None, **params: Any) -> httpx2.Response:
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            return await client.post(url, json=message if request_id is None else {**message, "id": request_id})

        try:
            hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
            client.headers["mcp-session-id"] = (await post("initialize", 0, **hello)).headers["mcp-session-id"]
            await post("notifications/initialized", None)
            tally.ready.append(number)
            while not tally.go.is_set():
                await anyio.sleep(0.05)
            for request_id in range(1, sys.maxsize):
                tool, arguments = following()
                begun = time.perf_counter()
                answer = await post("tools/call", request_id, name=tool, arguments=arguments)
                if answer.status_code == 503 and tally.leaving:
                    return
                took = time.perf_counter() - begun
                data = next(line for line in answer.text.splitlines() if line.startswith("data: {"))
                result = json.loads(data.removeprefix("data: "))["result"]["structuredContent"]
                if not tally.leaving:
                    tally.took(tool, took)
                if tool == "remember":
                    tally.acknowledged.append(result["id_str"])
        except httpx2.TransportError as error:
            if not tally.leaving:
                tally.errors[repr(error)] += 1
        except (KeyError, StopIteration) as error:
            tally.errors[f"no answer: {error!r}"] += 1


def over_stdio(folder: Path, number: int, tally: Tally) -> None:
    following = calls(f"stdio-{number}", 1000 + number)
    client = Client(folder / "store")
    try:
        client.begin()
        tally.ready.append(number)
        tally.go.wait()
        while not tally.over:
            tool, arguments = following()
            begun = time.perf_counter()
            result = client.ask("tools/call", name=tool, arguments=arguments)["structuredContent"]
            tally.took(f"{tool} (stdio)", time.perf_counter() - begun)
            if tool == "remember":
                tally.acknowledged.append(result["id_str"])
        client.end()
    except (Exception, SystemExit) as error:
        tally.errors[repr(error)] += 1


async def load(
    url: str, folder: Path, options: argparse.Namespace, process: subprocess.Popen[str], tally: Tally
) -> tuple[float, list[tuple[float, float | None, float | None]]]:
    context = ssl.create_default_context(cafile=str(folder / "tls" / "ca-cert.pem"))
    memory: list[tuple[float, float | None, float | None]] = []
    async with anyio.create_task_group() as tasks:
        for number in range(options.clients):
            tasks.start_soon(over_https, url, context, number, tally)
        while len(tally.ready) < options.clients + options.stdio and not tally.errors:
            await anyio.sleep(0.05)
        tally.go.set()
        begun = time.perf_counter()
        while (elapsed := time.perf_counter() - begun) < options.seconds:
            memory.append((elapsed, *resident_memory(process.pid)))
            await anyio.sleep(min(options.seconds / 12, 5))
        memory.append((elapsed, *resident_memory(process.pid)))
        tally.leaving = True
        process.send_signal(signal.SIGTERM)
    return elapsed, memory


def report(tally: Tally, seconds: float, memory: list[Any], stored: set[str], code: int) -> dict[str, Any]:
    acknowledged = set(tally.acknowledged)
    rows = {
        tool: {
            "calls": len(taken),
            "p50_ms": statistics.median(taken) * 1000,
            "p99_ms": statistics.quantiles(taken, n=100)[98] * 1000 if len(taken) > 1 else taken[0] * 1000,
        }
        for tool, taken in sorted(tally.latencies.items())
    }
    return {
        "machine": machine(),
        "seconds": seconds,
        "calls": rows,
        "calls_per_second": sum(row["calls"] for row in rows.values()) / seconds,
        "errors": dict(tally.errors),
        "acknowledged": len(acknowledged),
        "lost": len(acknowledged - stored),
        "stored_without_an_answer": len(stored - acknowledged),
        "exit_code": code,
        "daemon_memory": [{"second": at, "resident_mb": rss, "own_mb": own} for at, rss, own in memory],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--stdio", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process, url = start(folder)
        threads = [
            threading.Thread(target=over_stdio, args=(folder, number, tally)) for number in range(options.stdio)
        ]
        for thread in threads:
            thread.start()
        seconds, memory = anyio.run(load, url, folder, options, process, tally)
        code = process.wait(60)
        tally.over = True
        for thread in threads:
            thread.join()
        with MemoryService(folder / "store") as kept:
            stored = {str(line["id"]) for line in kept.export() if "content" in line}
    found = report(tally, seconds, memory, stored, code)
    show(found, options)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2), encoding="utf-8")
    good = not found["errors"] and not found["lost"] and not found["stored_without_an_answer"] and code == 0
    return 0 if good else 1


def show(found: dict[str, Any], options: argparse.Namespace) -> None:
    print(f"{options.clients} clients over HTTPS, {options.stdio} stdio servers, {found['seconds']:.0f} seconds")
    print(f"{'call':<22} {'calls':>8} {'p50 ms':>8} {'p99 ms':>8}")
    for tool, row in found["calls"].items():
        print(f"{tool:<22} {row['calls']:>8,} {row['p50_ms']:>8.1f} {row['p99_ms']:>8.1f}")
    print(f"{found['calls_per_second']:,.0f} calls a second")
    for sample in found["daemon_memory"]:
        if sample["resident_mb"]:
            own = f", its own {sample['own_mb']:.0f}" if sample["own_mb"] else ""
            print(f"after {sample['second']:4.0f} s: daemon holds {sample['resident_mb']:.0f} MB{own}")
    print(
        f"{found['acknowledged']:,} facts acknowledged, {found['lost']} lost, "
        f"{found['stored_without_an_answer']} stored without an answer, "
        f"errors: {found['errors'] or 'none'}, exit code {found['exit_code']}"
    )


if __name__ == "__main__":
    sys.exit(main())
