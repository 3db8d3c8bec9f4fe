"""How long compilations take, beside the reference's published binding when an interpreter that has it is given.

    python benchmarks/compiling.py [--reference PYTHON] [--rows TEXT] [--out FILE]

Both sides get the same dictionaries and give dictionaries back, each in a process of its own, one after the other,
row by row; a row is repeated for about two seconds a side, and the median counts. Everything is made up here from a
seed. The file is also the program of both sides, so it imports nothing of the project at the top.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

WORDS = re.findall(
    "[a-z]+",
    "queue broker worker deploy canary region latency retry timeout cache shard replica index vector memory graph link "
    "budget token context prompt agent session tool answer question reason because after before while under over with "
    "the a of to in and for on is was that it at by from this be are as an or not could should will service request",
)
QUERY = "why did the broker queue stall after the canary deploy"
SECONDS = 2.0
Request = dict[str, Any]


def prose(rng: random.Random, size: int) -> str:
    """Sentences and paragraphs of ``size`` bytes."""
    parts: list[str] = []
    length = 0
    while length < size:
        sentence = " ".join(rng.choices(WORDS, k=rng.randint(6, 16))).capitalize()
        end = rng.choice([". ", ". ", ". ", ".\n\n"])
        parts.append(sentence + end)
        length += len(sentence) + len(end)
    return "".join(parts)[:size]


def log(rng: random.Random, size: int, distinct: int | None) -> str:
    """A log: of ``distinct`` different lines, or of lines that all differ."""
    lines: list[str] = []
    length = 0
    kinds = [f"WARN pool {number} exhausted, waiting for a connection" for number in range(distinct or 0)]
    while length < size:
        line = rng.choice(kinds) if distinct else f"INFO request {rng.getrandbits(60):x} took {rng.random():.6f} s"
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[:size]


def fragments(rng: random.Random, count: int, size: int) -> list[dict[str, Any]]:
    return [{"content": prose(rng, size)} for _ in range(count)]


def transcript(rng: random.Random, size: int, turns: int) -> str:
    each = size // turns
    roles = ["User", "Assistant", "Tool"]
    parts = ["System: You are a careful assistant.\n"]
    for turn in range(turns):
        role = roles[turn % 3]
        said = log(rng, each, 20) if role == "Tool" and turn % 2 else prose(rng, each)
        parts.append(f"{role}: {said}\n")
    return "".join(parts)


def jsonl(rng: random.Random, size: int, turns: int) -> str:
    roles = ["user", "assistant", "tool"]
    return "".join(
        json.dumps({"role": roles[turn % 3], "content": prose(rng, size // turns)}) + "\n" for turn in range(turns)
    )


def compile_request(parts: list[dict[str, Any]], budget: int, store: bool = False) -> Request:
    policy = {} if store else {"record_events": False, "store_sources": False}
    return {"query": QUERY, "fragments": parts, "token_budget": budget, "policy": policy}


def transcript_request(text: str, budget: int = 4_000) -> Request:
    policy = {"record_events": False, "store_sources": False}
    return {"query": QUERY, "transcript": text, "token_budget": budget, "policy": policy}


def rows() -> dict[str, Callable[[int], Request]]:
    """A request for each row; those that store get another seed each time, so that every source is new."""
    made: dict[str, Callable[[int], Request]] = {}

    def row(name: str, make: Callable[[random.Random], Request], fresh: bool = False) -> None:
        made[name] = lambda round_: make(random.Random(f"{name}{round_ if fresh else ''}"))

    for budget in (4_000, 1_000_000):
        for count in (10, 100, 1_000):
            row(
                f"{count} x 500 B, budget {budget}",
                lambda rng, count=count, budget=budget: compile_request(fragments(rng, count, 500), budget),
            )
    row("1024 x 1 KB", lambda rng: compile_request(fragments(rng, 1024, 1024), 4_000))
    row("10 x 1 MB", lambda rng: compile_request(fragments(rng, 10, 1_000_000), 4_000))
    row("10 x 1 MB, budget 10000000", lambda rng: compile_request(fragments(rng, 10, 1_000_000), 10_000_000))
    for size in (10_000, 100_000, 1_000_000):
        row(
            f"repetitive log of {size} B",
            lambda rng, size=size: compile_request([{"content": log(rng, size, 40), "kind": "log"}], 4_000),
        )
    row(
        "unique log of 1 MB",
        lambda rng: compile_request([{"content": log(rng, 1_000_000, None), "kind": "log"}], 4_000),
    )
    row("transcript of 5 MB", lambda rng: transcript_request(transcript(rng, 5_000_000, 600)))
    row("JSONL of 5 MB", lambda rng: transcript_request(jsonl(rng, 5_000_000, 900)))
    for count in (10, 100, 1_000):
        row(
            f"{count} x 500 B, all stored",
            lambda rng, count=count: compile_request(fragments(rng, count, 500), 4_000, store=True),
            fresh=True,
        )
    row("1000 x 500 B, stored before", lambda rng: compile_request(fragments(rng, 1_000, 500), 4_000, store=True))
    return made


# One side: reads the name of a row, answers with the milliseconds of each repetition


def serve(side: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = ours(folder) if side == "ours" else reference(folder)
        made = rows()
        for line in sys.stdin:
            name = line.strip()
            times: list[float] = []
            began = time.perf_counter()
            repeated = made[name](0)
            run(repeated)
            while time.perf_counter() - began < SECONDS or len(times) < 3:
                request = made[name](len(times) + 1) if name.endswith("all stored") else repeated
                start = time.perf_counter()
                run(request)
                times.append((time.perf_counter() - start) * 1e3)
            print(json.dumps(times), flush=True)


def ours(folder: str) -> Callable[[Request], Any]:
    import msgspec

    from velesdb_memory import MemoryService
    from velesdb_memory.context.model import CompileRequest, TranscriptRequest

    memory = MemoryService(folder)

    def run(request: Request) -> Any:
        if "transcript" in request:
            return msgspec.to_builtins(memory.compile_transcript(msgspec.convert(request, TranscriptRequest)))
        return msgspec.to_builtins(memory.compile_context(msgspec.convert(request, CompileRequest)))

    return run


def reference(folder: str) -> Callable[[Request], Any]:
    from velesdb import MemoryService  # type: ignore[import-not-found]

    memory = MemoryService(folder)

    def run(request: Request) -> Any:
        if "transcript" in request:
            return memory.compile_transcript(request)
        return memory.compile_context(request)

    return run


def sides(python: str | None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    for side, interpreter in (("ours", sys.executable), ("reference", python)):
        if interpreter:
            yield (
                side,
                subprocess.Popen(
                    [interpreter, __file__, "--side", side],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                ),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--reference", metavar="PYTHON", help="an interpreter that has the reference's binding")
    parser.add_argument("--rows", default="", help="only rows whose name holds this text")
    parser.add_argument("--out", type=Path, help="write the times as JSON")
    parser.add_argument("--side", choices=("ours", "reference"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.side:
        serve(chosen.side)
        return
    running = dict(sides(chosen.reference))
    found: dict[str, dict[str, float]] = {}
    print(f"{'':32}" + "".join(f"{side:>12}" for side in running) + ("       ratio" if len(running) > 1 else ""))
    for name in rows():
        if chosen.rows not in name:
            continue
        times: dict[str, float] = {}
        for side, process in running.items():
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(name + "\n")
            process.stdin.flush()
            times[side] = median(json.loads(process.stdout.readline()))
        found[name] = times
        ratio = f"{times['ours'] / times['reference']:12.2f}" if len(times) > 1 else ""
        print(f"{name:32}" + "".join(f"{ms:9.2f} ms" for ms in times.values()) + ratio, flush=True)
    for process in running.values():
        process.communicate()
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
