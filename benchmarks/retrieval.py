"""How much of the evidence comes back: recall@5, @10 and @20 of the product on LoCoMo or HotpotQA, with its latency.

    python benchmarks/retrieval.py PATH/locomo10.json --modes recall,fused --lexical-boost 0,1,2,3,4 --json out.json

Facts go in through ``MemoryService.remember`` and come out through its searches, with the embedder that the
environment selects (``VELESDB_MEMORY_EMBEDDER`` and its model), which is loaded once. Each group of facts (a
conversation; the ten paragraphs of a question) is a store of its own, and a question is asked of its group only;
``--merged`` puts everything into one store instead. The share of a question's evidence among the first k hits is
averaged over the questions, each with the same weight; "all @5" is how many questions have all of it among the first
five.

With ``--graph`` facts are stored with the entities that they are about (HotpotQA: titles), as an extractor would find
them, and the fused search walks two links.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from datasets import Dataset, Group, load
from measuring import resident_memory
from velesdb_memory import Embedder, FusionOptions, MemoryService, config
from velesdb_memory.extract.base import ExtractedFact, Extraction
from velesdb_memory.model import Recollection

CUTS: Final = (5, 10, 20)
MODES: Final = ("recall", "fused")

Search = Callable[[MemoryService, str], Sequence[Recollection]]


@dataclass
class Tally:
    """What one mode found so far: the summed shares at each of CUTS, and each query's seconds."""

    shares: list[float] = field(default_factory=lambda: [0.0] * len(CUTS))
    complete: int = 0  # questions with all their evidence at the first of CUTS
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """One line of the table: recall in percent, latency in milliseconds."""

    mode: str
    questions: int
    recall: dict[str, float]
    complete: float
    p50_ms: float
    p95_ms: float


class Topics:
    """An extractor that finds the facts of a group with their entities; what it is given to read does not matter."""

    name = "benchmark"

    def __init__(self, group: Group) -> None:
        topics = group.topics or ((),) * len(group.facts)
        self._facts = [ExtractedFact(text, list(names)) for text, names in zip(group.facts, topics, strict=True)]

    def extract(self, text: str) -> Extraction:
        return Extraction(self._facts)


def searches(
    modes: Sequence[str], boosts: Sequence[float | None], hops: int, weights: Sequence[float]
) -> dict[str, Search]:
    """The searches to compare, by the name they have in the table."""
    found: dict[str, Search] = {}
    if "recall" in modes:
        found["recall"] = lambda service, query: service.recall(query, k=max(CUTS))
    if "fused" in modes:
        for boost in boosts:
            for weight in weights:
                options = FusionOptions(hops=hops, graph_boost=weight, lexical_boost=boost)
                name = "fused" if boost is None else f"fused, lexical_boost {boost:g}"
                name += f", graph_boost {weight:g}" if hops else ""
                found[name] = lambda service, query, options=options: service.recall_fused(
                    query, k=max(CUTS), options=options
                )
    return found


def measure_group(
    group: Group,
    embedder: Embedder,
    graph: bool,
    compared: dict[str, Search],
    tallies: dict[str, Tally],
    stored: list[float],
) -> None:
    """Store the facts of ``group`` in a new store, ask its questions, add to ``tallies`` and ``stored``: the seconds of
    each write."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        MemoryService(Path(directory) / "store", embedder) as service,
    ):
        # equal texts are one fact, and finding it finds both
        if graph:
            ids = service.remember_extracted(group.name or "group", Topics(group)).ids
        else:
            ids: list[int] = []
            for fact in group.facts:
                started = time.perf_counter()
                ids.append(service.remember(fact))
                stored.append(time.perf_counter() - started)
        for question in group.questions:
            evidence = {ids[position] for position in question.evidence}
            for name, search in compared.items():
                started = time.perf_counter()
                hits = search(service, question.text)
                tallies[name].seconds.append(time.perf_counter() - started)
                for index, cut in enumerate(CUTS):
                    found = evidence.intersection(hit.id for hit in hits[:cut])
                    tallies[name].shares[index] += len(found) / len(evidence)
                    tallies[name].complete += index == 0 and found == evidence


def measure(
    data: Dataset, embedder: Embedder, graph: bool, compared: dict[str, Search], stored: list[float]
) -> list[Row]:
    """One row per search over all of ``data``; the seconds of each write are added to ``stored``."""
    tallies = {name: Tally() for name in compared}
    for number, group in enumerate(data.groups, start=1):
        if sys.stderr.isatty():
            print(f"\r{data.name}: group {number} of {len(data.groups)} ", end="", file=sys.stderr, flush=True)
        measure_group(group, embedder, graph, compared, tallies, stored)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return [_row(name, tally) for name, tally in tallies.items()]


def _row(name: str, tally: Tally) -> Row:
    seconds = sorted(tally.seconds)
    count = len(seconds)
    return Row(
        mode=name,
        questions=count,
        recall={f"@{cut}": round(100 * share / count, 1) for cut, share in zip(CUTS, tally.shares, strict=True)},
        complete=round(100 * tally.complete / count, 1),
        p50_ms=round(1000 * seconds[count // 2], 2),
        p95_ms=round(1000 * seconds[min(count - 1, count * 95 // 100)], 2),
    )


def table(rows: Sequence[Row]) -> str:
    """``rows`` as a Markdown table."""
    lines = ["| mode | @5 | @10 | @20 | all @5 | p50 ms | p95 ms |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        cells = [row.mode, *(f"{value:.1f}" for value in row.recall.values())]
        lines.append(f"| {' | '.join(cells)} | {row.complete:.1f} | {row.p50_ms:.2f} | {row.p95_ms:.2f} |")
    return "\n".join(lines)


def _modes(text: str) -> list[str]:
    modes = text.split(",")
    unknown = sorted(set(modes) - set(MODES))
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(MODES)}")
    return modes


def _numbers(text: str) -> list[float | None]:
    return [float(part) for part in text.split(",")]


def _weights(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="Evidence recall of velesdb-memory on LoCoMo or HotpotQA.")
    parser.add_argument("path", type=Path, help="locomo10.json, or a HotpotQA file of the distractor setting")
    parser.add_argument("--limit-questions", type=int, metavar="N", help="only the first N questions")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the numbers here too")
    parser.add_argument("--modes", type=_modes, default=["recall"], help=f"of {','.join(MODES)}; recall")
    parser.add_argument("--lexical-boost", type=_numbers, default=[None], help="for fused; the default's")
    parser.add_argument("--graph", action="store_true", help="store facts with the entities that they are about")
    parser.add_argument("--graph-boost", type=_weights, default=[0.15], help="for fused with --graph; the default's")
    parser.add_argument("--hops", type=int, help="for fused; 2 with --graph, else 0")
    parser.add_argument("--paragraphs", action="store_true", help="HotpotQA: a fact is a paragraph, not a sentence")
    parser.add_argument("--merged", action="store_true", help="one store for all groups")
    options = parser.parse_args(arguments)
    try:
        data = load(options.path, paragraphs=options.paragraphs).limited(options.limit_questions)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if not any(group.questions for group in data.groups):
        parser.error("no question to ask")
    facts = sum(len(group.facts) for group in data.groups)
    scope = "one store for all" if options.merged else f"{len(data.groups)} stores, one per group"
    hops = options.hops if options.hops is not None else (2 if options.graph else 0)
    embedder = config.make_embedder(config.load())
    started = time.perf_counter()
    embedder.embed(["a text, so that the model is loaded"])
    loading = time.perf_counter() - started
    stored: list[float] = []
    rows = measure(
        data.merged() if options.merged else data,
        embedder,
        options.graph,
        searches(options.modes, options.lexical_boost, hops, options.graph_boost if hops else [0.15]),
        stored,
    )
    resident, _ = resident_memory(os.getpid())
    writing = sorted(stored)[len(stored) // 2] * 1000 if stored else None
    print(f"{data.name}: {rows[0].questions} questions, {facts} facts, {scope}, embedder {embedder.fingerprint}")
    print(
        f"ready in {loading:.2f} s, {f'{writing:.2f} ms' if writing else 'not measured'} a stored fact (p50), "
        f"{f'{resident:.0f} MB' if resident else 'unknown memory'} resident\n\n{table(rows)}"
    )
    if options.json is not None:
        report = {
            "dataset": data.name,
            "embedder": embedder.fingerprint,
            "facts": facts,
            "merged": options.merged,
            "ready_s": loading,
            "stored_fact_p50_ms": writing,
            "resident_mb": resident,
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
