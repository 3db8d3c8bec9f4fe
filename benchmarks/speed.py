"""The speed of everyday operations, by the size of the store.

    python benchmarks/speed.py 10000 100000 [--json OUT] [--quick] [--keep DIR] [--profile]

Prints one table, a row for each measure and a column for each size, and writes the same as JSON. Everything goes
through the public service, with one thread and durability "full" unless a row says otherwise. Facts are synthetic
(benchmarks/corpus.py) and the embedder is the built-in one. The first calls of each kind are warm-ups and not counted.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

from corpus import SELECTIVITIES, facts, line, questions
from measuring import Client, machine, resident_memory
from velesdb_memory import ColumnFilter, MemoryService
from velesdb_memory.embed.base import embed_checked
from velesdb_memory.embed.hashing import HashEmbedder
from velesdb_memory.ids import fact_id, hub_id
from velesdb_memory.store.sqlite import SqliteStore

WARM_UP: Final = 5
K: Final = 10
HUB_EDGES: Final = 5_000
CHAINS: Final = 20
CHAIN_LENGTH: Final = 8
HUB: Final = "the hub"
_EMBED_ROWS: Final = 8_192

Measures = dict[str, float | int | str | None]

# name -> (what the table calls it, unit); the order of the table
ROWS: Final[dict[str, tuple[str, str]]] = {
    "load_per_second": ("bulk load (import)", "facts/s"),
    "bytes_per_fact": ("disk", "bytes/fact"),
    "open_ms": ("open, fresh process, warm cache", "ms"),
    "first_recall_ms": ("first recall after open", "ms"),
    "recall_p50_ms": ("recall k=10, p50", "ms"),
    "recall_p99_ms": ("recall k=10, p99", "ms"),
    "recall_at_10": ("recall@10 against an exact scan", ""),
    **{
        f"filtered_{name}_p50_ms": (f"recall, filter matching {share:.1%}, p50", "ms")
        for name, share in SELECTIVITIES.items()
    },
    **{
        f"filtered_{name}_complete": (f"  answers that are complete ({share:.1%})", "")
        for name, share in SELECTIVITIES.items()
    },
    "where_all_p50_ms": ("recall_where, range matching all, p50", "ms"),
    "where_all_complete": ("  answers that are complete (range)", ""),
    "why_chain_p50_ms": (f"why, chain of {CHAIN_LENGTH}, p50", "ms"),
    "why_hub_p50_ms": (f"why, hub of {HUB_EDGES:,} edges, p50", "ms"),
    "fused_p50_ms": ("recall_fused k=10, p50", "ms"),
    "fused_p99_ms": ("recall_fused k=10, p99", "ms"),
    "entity_hub_p50_ms": (f"entity, hub of {HUB_EDGES:,} facts, p50", "ms"),
    "why_entity_p50_ms": (f"why, through a hub of {HUB_EDGES:,} facts, p50", "ms"),
    "fdatasync_p50_ms": ("fdatasync of this disk, p50", "ms"),
    "remember_p50_ms": ("remember, durable, p50", "ms"),
    "remember_p99_ms": ("remember, durable, p99", "ms"),
    "remember_normal_p50_ms": ("remember, synchronous=normal, p50", "ms"),
    "remember_normal_p99_ms": ("remember, synchronous=normal, p99", "ms"),
    "forget_p50_ms": ("forget, durable, p50", "ms"),
    "server_ready_ms": ("server: spawn to tools/list answered", "ms"),
    "server_rss_mb": ("server: resident after 20 recalls", "MB"),
    "server_anonymous_mb": ("server: of it anonymous", "MB"),
}


class Bench:
    """One store of ``size`` facts, and how many calls each measure takes."""

    def __init__(self, folder: Path, size: int, quick: bool) -> None:
        self.folder = folder
        self.size = size
        self.quick = quick
        self.reads = 50 if quick else 300
        self.writes = 50 if quick else 500
        self.questions = questions(self.reads + WARM_UP, size)
        self.embedder = HashEmbedder()

    def note(self, text: str) -> None:
        """Progress, for whoever waits."""
        print(f"[{self.size:,}] {text}", file=sys.stderr, flush=True)

    def service(self, *, durable: bool = True) -> MemoryService:
        store = SqliteStore(self.folder, synchronous="full" if durable else "normal")
        return MemoryService.with_store(store, self.embedder)


def timed(call: Callable[[Any], object], arguments: Sequence[Any]) -> list[float]:
    """Milliseconds of each call after the warm-ups, ascending."""
    taken: list[float] = []
    for argument in arguments:
        started = perf_counter()
        call(argument)
        taken.append((perf_counter() - started) * 1e3)
    return sorted(taken[min(WARM_UP, len(taken) - 1) :])


def percentile(ascending: Sequence[float], share: float) -> float:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]


# -- the measures; each takes a bench and returns rows of the table ---------------------------------------------------


def load(bench: Bench) -> Measures:
    """Fill the store, or use the one that a former run has kept."""
    mark = bench.folder / "loaded.json"
    if mark.exists():
        bench.note(f"the store at {bench.folder} is used again")
        return json.loads(mark.read_text(encoding="utf-8"))
    started = perf_counter()
    shown = started

    def progress(done: int) -> None:
        nonlocal shown
        now = perf_counter()
        if now - shown > 5:
            shown = now
            bench.note(f"{done:,} loaded, {done / (now - started):,.0f}/s")

    with bench.service() as memory:
        # the lines are made beforehand, a block at a time, and the making is not counted
        making = 0.0

        def lines() -> Iterator[str]:
            nonlocal making
            source = facts(bench.size)
            while True:
                begun = perf_counter()
                block = [line(fact) for _, fact in zip(range(2_048), source, strict=False)]
                making += perf_counter() - begun
                if not block:
                    return
                yield from block

        report = memory.import_(lines(), progress=progress)
        seconds = perf_counter() - started - making
        if report.problems or report.facts != bench.size:
            raise SystemExit(f"{report.facts} of {bench.size} facts loaded: {report.problems[:3]}")
    used = sum(path.stat().st_blocks * 512 if hasattr(path.stat(), "st_blocks") else path.stat().st_size
               for path in bench.folder.iterdir())  # fmt: skip
    measures: Measures = {"load_per_second": bench.size / seconds, "bytes_per_fact": used / bench.size}
    mark.write_text(json.dumps(measures), encoding="utf-8")
    return measures


_OPEN: Final = """
import sys
from time import perf_counter
from velesdb_memory import MemoryService
started = perf_counter()
memory = MemoryService(sys.argv[1])
opened = perf_counter()
memory.recall(sys.argv[2])
print((opened - started) * 1e3, (perf_counter() - opened) * 1e3)
memory.close()
"""


def opening(bench: Bench) -> Measures:
    """Open and first search, in fresh processes; the imports that they cause are part of it."""
    runs: list[list[float]] = []
    for question in bench.questions[: 3 if bench.quick else 7]:
        done = subprocess.run(
            [sys.executable, "-c", _OPEN, str(bench.folder), question], stdout=subprocess.PIPE, check=True
        )
        runs.append([float(word) for word in done.stdout.split()])
    # the first run warmed the cache
    opened, recalled = zip(*(runs[1:] or runs), strict=True)
    return {"open_ms": statistics.median(opened), "first_recall_ms": statistics.median(recalled)}


def searching(bench: Bench) -> Measures:
    with bench.service() as memory:
        taken = timed(memory.recall, bench.questions)
        asked = bench.questions[: 20 if bench.quick else 100]
        answers = [[hit.content for hit in memory.recall(question, k=K)] for question in asked]
    return {
        "recall_p50_ms": percentile(taken, 0.5),
        "recall_p99_ms": percentile(taken, 0.99),
        "recall_at_10": exactness(bench, asked, answers),
    }


def exactness(bench: Bench, asked: list[str], answers: list[list[str]]) -> float:
    """How many of each answer's facts belong to the best ten by a scan of float32 vectors fresh from the embedder.

    Facts that tie with the tenth belong to them.
    """
    bench.note("exact scan")
    queries = embed_checked(bench.embedder, asked)
    best = np.full((len(asked), K), -np.inf, np.float32)
    for texts in batches(fact.text for fact in facts(bench.size)):
        scores = queries @ embed_checked(bench.embedder, texts).T
        together = np.concatenate([best, scores], axis=1)
        best = np.partition(together, together.shape[1] - K, axis=1)[:, -K:]
    kept = 0
    for row, answer in enumerate(answers):
        scores = embed_checked(bench.embedder, answer) @ queries[row]
        kept += int((scores >= best[row].min() - 1e-6).sum())
    return kept / (len(asked) * min(K, bench.size))


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == _EMBED_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def filtering(bench: Bench) -> Measures:
    """Filters by share of the store; complete is an answer with as many facts as there can be, all of them matching."""
    matches = dict.fromkeys(SELECTIVITIES, 0)
    for fact in facts(bench.size):
        if fact.metadata["bucket"] in matches:
            matches[fact.metadata["bucket"]] += 1
    measures: Measures = {}
    few = bench.questions[: 10 if bench.quick else 40]
    with bench.service() as memory:
        for bucket, held in matches.items():
            wanted = {"bucket": bucket}
            taken = timed(lambda question, wanted=wanted: memory.recall(question, filter=wanted), bench.questions)
            complete = 0
            for question in few:
                for k in (K, 1_000):
                    found = memory.recall(question, k=k, filter=wanted)
                    right = all(hit.metadata and hit.metadata["bucket"] == bucket for hit in found)
                    complete += right and len({hit.id for hit in found}) == min(k, held)
            measures[f"filtered_{bucket}_p50_ms"] = percentile(taken, 0.5)
            measures[f"filtered_{bucket}_complete"] = f"{complete}/{2 * len(few)}"
        everything = [ColumnFilter("_veles_date", "ge", 20200101)]
        taken = timed(lambda question: memory.recall_where(question, everything), bench.questions)
        complete = sum(
            len(memory.recall_where(question, everything, k=k)) == min(k, bench.size)
            for question in few
            for k in (K, 1_000)
        )
        measures["where_all_p50_ms"] = percentile(taken, 0.5)
        measures["where_all_complete"] = f"{complete}/{2 * len(few)}"
    return measures


def explaining(bench: Bench) -> Measures:
    """Chains over facts of the corpus, and a hub that as many of them point from as may be."""
    texts = [fact.text for fact in facts(min(bench.size, CHAINS * CHAIN_LENGTH + HUB_EDGES + 1))]
    chains = [texts[start : start + CHAIN_LENGTH] for start in range(0, CHAINS * CHAIN_LENGTH, CHAIN_LENGTH)]
    hub, *spokes = texts[CHAINS * CHAIN_LENGTH :] or texts[-2:]
    edges = [(source, target) for chain in chains for source, target in pairwise(chain)]
    edges += [(hub, spoke) for spoke in spokes]
    with bench.service() as memory:
        memory.import_(
            json.dumps(
                {"edge": {"from_str": str(fact_id(a)), "to_str": str(fact_id(b)), "relation": "leads_to"}}
            )
            for a, b in edges
        )
        starts = [chain[0] for chain in chains if chain]
        asked = [starts[index % len(starts)] for index in range(bench.reads + WARM_UP)]
        chain_taken = timed(lambda question: memory.why(question, max_hops=10), asked)
        found = memory.why(starts[0], max_hops=10)
        if len(found.nodes) < min(CHAIN_LENGTH, len(chains[0])):
            raise SystemExit(f"a chain of {CHAIN_LENGTH} was walked for {len(found.nodes)} nodes only")
        hub_taken = timed(memory.why, [hub] * (bench.reads + WARM_UP))
    return {"why_chain_p50_ms": percentile(chain_taken, 0.5), "why_hub_p50_ms": percentile(hub_taken, 0.5)}


def disk(folder: Path) -> float:
    """Median milliseconds to write one page of a file in ``folder`` and have it on the disk."""
    path = folder / "fdatasync.probe"
    sync = getattr(os, "fdatasync", os.fsync)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        page = b"\x55" * 4_096
        taken: list[float] = []
        for _ in range(60):
            started = perf_counter()
            os.write(descriptor, page)
            sync(descriptor)
            taken.append((perf_counter() - started) * 1e3)
        return statistics.median(taken[10:])
    finally:
        os.close(descriptor)
        path.unlink()


def writing(bench: Bench) -> Measures:
    """Remember new facts, then forget them again, so that the store ends as it began."""
    count = bench.writes + WARM_UP
    # a seed of their own: nothing of the corpus is written again
    fresh = list(facts(2 * count, seed=2))
    measures: Measures = {"fdatasync_p50_ms": disk(bench.folder)}
    ids: list[int] = []
    for durable, name, chosen in ((True, "remember", fresh[:count]), (False, "remember_normal", fresh[count:])):
        with bench.service(durable=durable) as memory:
            taken = timed(lambda fact, m=memory: ids.append(m.remember(fact.text, metadata=fact.metadata)), chosen)
        measures[f"{name}_p50_ms"] = percentile(taken, 0.5)
        measures[f"{name}_p99_ms"] = percentile(taken, 0.99)
    with bench.service() as memory:
        measures["forget_p50_ms"] = percentile(timed(memory.forget, ids), 0.5)
        if memory.memory_status().memory.facts != bench.size:
            raise SystemExit("the store does not hold what it held before the writes")
    return measures


def serving(bench: Bench) -> Measures:
    ready: list[float] = []
    for _ in range(5):
        started = perf_counter()
        client = Client(bench.folder)
        client.begin()
        ready.append((perf_counter() - started) * 1e3)
        client.end()
    client = Client(bench.folder)
    client.begin()
    for question in bench.questions[:20]:
        client.ask("tools/call", name="recall", arguments={"query": question})
    resident, anonymous = resident_memory(client.process.pid)
    client.end()
    return {"server_ready_ms": statistics.median(ready), "server_rss_mb": resident, "server_anonymous_mb": anonymous}


def knowing(bench: Bench) -> Measures:
    """Fused recall, and an entity that 5,000 facts are about and 100 others are related to."""
    texts = [fact.text for fact in facts(min(bench.size, HUB_EDGES))]
    hub = str(hub_id(HUB))
    lines: list[dict[str, Any]] = [{"type": "entity", "name": HUB, "observations": []}]
    for text in texts:
        number = str(fact_id(text))
        lines.append({"edge": {"from_str": number, "to_str": hub, "relation": "about"}})
        lines.append({"edge": {"from_str": hub, "to_str": number, "relation": "mentions"}})
    with bench.service() as memory:
        fused = timed(memory.recall_fused, bench.questions)
        memory.import_(map(json.dumps, lines))
        repeated = bench.reads + WARM_UP
        entity = timed(memory.entity, [HUB] * repeated)
        if not memory.entity(HUB).relations_truncated and len(texts) > 4_096:
            raise SystemExit("the hub's cut was not reported")
        through = timed(lambda text: memory.why(text, max_hops=2), [texts[0]] * repeated)
        if not memory.why(texts[0]).truncated and len(texts) > 64:
            raise SystemExit("the walk's cut was not reported")
    return {
        "fused_p50_ms": percentile(fused, 0.5),
        "fused_p99_ms": percentile(fused, 0.99),
        "entity_hub_p50_ms": percentile(entity, 0.5),
        "why_entity_p50_ms": percentile(through, 0.5),
    }


MEASURES: Final[tuple[Callable[[Bench], Measures], ...]] = (
    load, opening, searching, filtering, explaining, knowing, writing, serving,
)  # fmt: skip


# -- where the time goes ----------------------------------------------------------------------------------------------


def profile(bench: Bench) -> None:
    """Print what a thousand remembers and a thousand recalls spend their time on."""
    fresh = list(facts(1_000 + WARM_UP, seed=3))
    asked = questions(1_000 + WARM_UP, bench.size, seed=4)
    with bench.service() as memory:
        ids: list[int] = []
        calls: tuple[tuple[str, Callable[[Any], object], Sequence[Any]], ...] = (
            ("remember", lambda fact: ids.append(memory.remember(fact.text, metadata=fact.metadata)), fresh),
            ("recall", memory.recall, asked),
        )
        for name, call, arguments in calls:
            for argument in arguments[:WARM_UP]:
                call(argument)
            profiler = cProfile.Profile()
            profiler.enable()
            for argument in arguments[WARM_UP:]:
                call(argument)
            profiler.disable()
            print(f"\n{name}, 1,000 calls on {bench.size:,} facts, by time spent in each function itself")
            pstats.Stats(profiler, stream=sys.stdout).strip_dirs().sort_stats("tottime").print_stats(15)
        for number in ids:
            memory.forget(number)


# -- the report -------------------------------------------------------------------------------------------------------


def shown(value: float | int | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def table(sizes: dict[int, Measures]) -> str:
    head = ["measure", "unit", *(f"{size:,}" for size in sizes)]
    body = [
        [label, unit, *(shown(measures.get(name)) for measures in sizes.values())]
        for name, (label, unit) in ROWS.items()
    ]
    widths = [max(len(row[column]) for row in (head, *body)) for column in range(len(head))]

    def row(cells: list[str]) -> str:
        sided = (str.ljust, str.ljust, *[str.rjust] * len(sizes))
        padded = [pad(cell, width) for pad, cell, width in zip(sided, cells, widths, strict=True)]
        return "  ".join(padded).rstrip()

    return "\n".join([row(head), row(["-" * width for width in widths]), *map(row, body)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="+", metavar="SIZE", help="facts in the store")
    parser.add_argument("--json", type=Path, metavar="OUT", help="default: bench-results/speed-<date>.json")
    parser.add_argument("--quick", action="store_true", help="fewer calls: for a look, not for numbers to publish")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the stores here, keep them, use them again")
    parser.add_argument("--profile", action="store_true", help="then show where one remember and one recall spend time")
    chosen = parser.parse_args()
    if min(chosen.sizes) < 1_000:
        parser.error("a store of fewer than 1,000 facts tells nothing")
    return chosen


def main() -> None:
    """Measure, print, write."""
    chosen = arguments()
    target: Path = chosen.json or Path("bench-results") / f"speed-{datetime.now(UTC):%Y-%m-%d-%H%M}.json"
    folder = chosen.keep or Path(tempfile.mkdtemp(prefix="velesdb-memory-speed-"))
    report: dict[str, Any] = {"machine": machine(), "quick": chosen.quick, "sizes": {}}
    sizes: dict[int, Measures] = {}
    try:
        for size in chosen.sizes:
            bench = Bench(folder / f"facts-{size}", size, chosen.quick)
            bench.folder.mkdir(parents=True, exist_ok=True)
            measures = sizes.setdefault(size, {})
            for measure in MEASURES:
                bench.note(measure.__name__)
                measures |= measure(bench)
            report["sizes"] = {str(size): measures for size, measures in sizes.items()}
            # after every size: a run that is cut off has not been in vain
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        print("\n".join(f"{name:<15} {value}" for name, value in report["machine"].items()))
        print(f"\n{table(sizes)}\n\nwritten to {target}")
        if chosen.profile:
            for size in chosen.sizes:
                profile(Bench(folder / f"facts-{size}", size, chosen.quick))
    finally:
        if chosen.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
