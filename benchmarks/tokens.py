"""What the token estimate makes of texts, against the exact tokenizers, and how long counting takes.

    python benchmarks/tokens.py [DIR ...]

Without arguments the texts are those of tests/corpus; a directory's are its files that end in .txt. For each text: its
bytes, the tokens by the reference's costs, by ours, by o200k and by cl100k; then what the two estimates are of the
larger exact count, for the whole text and for the worst of its parts of at least 200 bytes. Needs the extra [tokens].
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from velesdb_memory.context.tokens import DefaultEstimator, make_estimator
from velesdb_memory.text import words

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
PART = 200  # bytes
CJK = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF))


def reference(text: str) -> int:
    """The tokens by the reference's costs."""

    def cost(character: str) -> int:
        if "0" <= character <= "9":
            return 30
        return 25 if any(first <= ord(character) <= last for first, last in CJK) else 9

    return sum(-(-sum(map(cost, word)) // 30) for word in words(text)) + (text.count("\n") + 1) // 2


def parts(text: str) -> Iterator[str]:
    """``text`` cut at line feeds into parts of at least PART bytes; what is left over goes with the last."""
    begin = end = 0
    cuts = [0]
    for line in text.splitlines(keepends=True):
        end += len(line)
        if len(text[begin:end].encode()) >= PART:
            cuts.append(end)
            begin = end
    cuts = [*cuts[:-1], len(text)] if len(cuts) > 1 else [0, len(text)]
    return (text[first:last] for first, last in pairwise(cuts))


def accuracy(folders: list[Path]) -> None:
    ours = DefaultEstimator()
    o200k, cl100k = make_estimator("o200k"), make_estimator("cl100k")

    def truth(text: str) -> int:
        return max(o200k.count(text), cl100k.count(text), 1)

    columns = "text, bytes, reference, ours, o200k, cl100k, reference/exact, ours/exact, worst part: reference, ours"
    print(f"| {columns.replace(', ', ' | ')} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for path in sorted(path for folder in folders for path in folder.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        exact = truth(text)
        counts = (len(text.encode()), reference(text), ours.count(text), o200k.count(text), cl100k.count(text))
        worst = [min(count(part) / truth(part) for part in parts(text)) for count in (reference, ours.count)]
        ratios = (counts[1] / exact, counts[2] / exact, *worst)
        print(f"| {path.stem} | {' | '.join(map(str, counts))} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")


def best(work: Callable[[], object], times: int = 7) -> float:
    """The seconds of the quickest of some runs."""
    taken: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def speed() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("code_*.txt")))
    hindi = (CORPUS / "prose_hi.txt").read_text(encoding="utf-8")
    ascii_megabyte = (code * (1 + 1_000_000 // len(code)))[:1_000_000]
    hindi_megabyte = hindi * (1_000_000 // len(hindi.encode()))
    some = [ascii_megabyte[begin : begin + 500] for begin in range(0, 500_000, 500)]
    print("\n| | estimate | o200k |\n|---|---:|---:|")
    estimators = [make_estimator("estimate"), make_estimator("o200k")]
    rows: list[tuple[str, Callable[[int], object], float, str]] = [
        ("1,000 texts of 500 bytes, each", lambda one: estimators[one].count_many(some), 1e6 / 1_000, "µs"),
        ("1 MB of code, a byte", lambda one: estimators[one].count(ascii_megabyte), 1e9 / 1e6, "ns"),
        ("1 MB of Hindi, a byte", lambda one: estimators[one].count(hindi_megabyte), 1e9 / 1e6, "ns"),
        ("one text of 40 bytes", lambda one: [estimators[one].count(code[:40]) for _ in range(100)], 1e6 / 100, "µs"),
        ("one text of 200 bytes", lambda one: [estimators[one].count(code[:200]) for _ in range(100)], 1e6 / 100, "µs"),
        ("1 MB of one letter, a byte", lambda one: estimators[one].count("a" * 1_000_000), 1e9 / 1e6, "ns"),
    ]
    for name, work, scale, unit in rows:
        times = [best(lambda one=one, work=work: work(one)) * scale for one in range(2)]
        print(f"| {name} | {' | '.join(f'{taken:.1f} {unit}' for taken in times)} |")


if __name__ == "__main__":
    accuracy([Path(folder) for folder in sys.argv[1:]] or [CORPUS])
    speed()
