"""What an online migration costs those who use the store meanwhile, and whether it misses anything.

    python benchmarks/migration.py [--facts 20000] [--to local] [--clients 4] [--think 0.02] [--budget 500]

Fills a store with synthetic facts by the hash embedder, has several processes read and write it, each with a pause to
think between its calls, and migrates it. Prints the latencies of writes and reads before and during the migration, the
pause, the throughput, and how many vectors differ from a fresh embedding of their fact.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, perf_counter, sleep
from typing import Any

import numpy as np

from corpus import facts
from measuring import machine
from velesdb_memory import MemoryService
from velesdb_memory.config import load, make_target
from velesdb_memory.embed.base import Embedder, embed_checked
from velesdb_memory.errors import ProvenanceMismatch
from velesdb_memory.memory.transfer import MANIFEST

BEFORE = 20.0  # seconds of use without a migration
CHECKED = 64  # vectors embedded again at a time


def embedder_of(backend: str) -> Embedder:
    return make_target(load({}), backend)


def lines(number: int) -> Iterator[str]:
    """Facts as the lines of an import."""
    from velesdb_memory.ids import fact_id

    yield json.dumps({MANIFEST: 1})
    for fact in facts(number):
        yield json.dumps({"id_str": str(fact_id(fact.text)), "content": fact.text, "metadata": fact.metadata})


def client(store: str, name: str, think: float, backend: str) -> None:
    """Use the store until standard input is closed; print each call as a line [what, when, seconds]."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    memory, done, refused = MemoryService(store), list[tuple[str, float, float]](), 0

    def timed(what: str, call: Any, *arguments: Any) -> Any:
        began, at = perf_counter(), monotonic()
        answer = call(*arguments)
        done.append((what, at, perf_counter() - began))
        return answer

    lost: list[str] = []
    for index in count():
        if ended.is_set():
            break
        text = f"{name} moved crate {index * 7919 % 100_003} past gate {name}x{index}"
        while True:
            try:
                number = timed("write", memory.remember, text)
                if timed("read", memory.recall, text)[0].id != number:
                    lost.append(text)
                break
            except ProvenanceMismatch:
                # what D30 says to those who are configured for the former model, once; then an operator's restart
                refused += 1
                memory.close()
                memory = MemoryService(store, embedder_of(backend))
                memory.recall("warm up")
        sleep(think)
    memory.close()
    print(json.dumps({"calls": done, "refused": refused, "written": index, "lost": lost}))


def summary(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "none"
    high = quantiles(seconds, n=20)[18]
    return f"p50 {median(seconds) * 1000:.2f} ms, p95 {high * 1000:.2f} ms ({len(seconds)} calls)"


def differing(folder: Path, embedder: Embedder) -> tuple[int, int]:
    """How many facts there are, and how many have no vector that a fresh embedding gives."""
    import sqlite3

    connection = sqlite3.connect(folder / "memory.db")
    rows = connection.execute(
        "SELECT m.content, e.vector FROM memory AS m, space AS s"
        " LEFT JOIN embedding AS e ON e.key = (s.id << 40) + m.slot WHERE m.kind = 0 AND s.state = 'active'"
    ).fetchall()
    connection.close()
    wrong = 0
    for start in range(0, len(rows), CHECKED):
        page = rows[start : start + CHECKED]
        fresh = embed_checked(embedder, [text for text, _ in page])
        for (_, stored), vector in zip(page, fresh, strict=True):
            held = None if stored is None else np.frombuffer(stored, "<f4")
            # a batch of another make-up may be rounded otherwise; another text or model is nowhere near
            wrong += held is None or held.shape != vector.shape or float(held @ vector) < 0.995
    return len(rows), wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=20_000)
    parser.add_argument("--to", default="local")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--think", type=float, default=0.02)
    parser.add_argument("--budget", type=int, default=500)
    parser.add_argument("--client", nargs=2, metavar=("STORE", "NAME"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.client:
        client(*chosen.client, chosen.think, chosen.to)
        return
    print(json.dumps(machine()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with MemoryService(folder, targets=embedder_of) as memory:
            memory.import_(lines(chosen.facts))
            clients = [
                subprocess.Popen(
                    [sys.executable, __file__, "--think", str(chosen.think), "--to", chosen.to,
                     "--client", name, f"client{index}"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                )
                for index in range(chosen.clients)
            ]  # fmt: skip
            sleep(3)  # until all have started
            usual = monotonic()
            sleep(BEFORE)
            began = monotonic()
            status = memory.migrate(chosen.to, chosen.budget)
            ended = monotonic()
            sleep(3)
            reports = [json.loads(each.communicate()[0]) for each in clients]
        job = status.job
        assert job is not None
        print(f"phase {job.phase}, last_error {job.last_error}, recovery_action {job.recovery_action}")
        for what in ("write", "read"):
            calls = [(at, took) for report in reports for kind, at, took in report["calls"] if kind == what]
            before = [took for at, took in calls if usual <= at < began]
            during = [took for at, took in calls if began <= at < ended]
            print(f"{what}s before  {summary(before)}\n{what}s during  {summary(during)}")
            if before and during:
                print(f"{what}s: p50 during / before = {median(during) / median(before):.2f}")
        progress = job.progress
        print(
            f"{progress.base_facts} facts copied, {progress.input_watermark} changes captured, in "
            f"{ended - began:.1f} s ({(progress.base_facts + progress.input_watermark) / (ended - began):.0f} facts/s)"
        )
        print(f"pause estimated {progress.estimated_pause_ms} ms, measured {progress.measured_cutover_ms} ms of "
              f"{chosen.budget} ms")  # fmt: skip
        print(f"refused after the switch, once each: {[report['refused'] for report in reports]}")
        print(f"acknowledged facts not found at once: {sum(len(report['lost']) for report in reports)}")
        total, wrong = differing(folder, embedder_of(chosen.to))
        written = sum(report["written"] for report in reports)
        print(f"{total} facts stored, {written} of them by the clients; vectors missing or stale: {wrong}")


if __name__ == "__main__":
    main()
