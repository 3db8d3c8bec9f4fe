"""A coding session of twelve turns, sent as it is and sent through the compiler.

    python examples/coding_session.py [BUDGET]

An agent that re-sends its history pays for every file it read twice, every log line that repeats and every screenshot
that a later one replaces, again in each turn. Here each turn's history is compiled to at most BUDGET tokens (default
6000). The program then makes sure that nothing was lost: a second run gives the same bytes, and every number, date,
address, prohibition and code block of the input is in the output or behind a handle that gives it back. Tokens are
counted by an exact tokenizer when the extra `tokens` is installed. Exits with 1 when anything is missing.
"""

from __future__ import annotations

import base64
import re
import struct
import sys
import tempfile
import zlib

import msgspec

from velesdb_memory import MemoryService
from velesdb_memory.context.compiler import ContextCompiler
from velesdb_memory.context.model import CompiledContext, CompilePolicy, CompileRequest, ContextFragment, Media
from velesdb_memory.context.tokens import TokenEstimator, make_estimator
from velesdb_memory.errors import InvalidInput

QUERY = "why does the invoice export time out for large tenants, and how do we fix it without changing the totals"
POLICY = CompilePolicy(normalize_log_timestamps=True)  # lines that differ in their time alone say the same
EXACT = re.compile(r"https?://[^\s)]+|\b\d{4}-\d{2}-\d{2}\b|\d+(?:\.\d+)?")

SYSTEM = """You are the coding agent of the billing team.
Never push to main; open a pull request against release/4.2.
Do not change the rounding of totals: finance signed it off on 2026-08-14.
Run the tests with `pytest -q billing` before you answer."""

EXPORT = """```python
# billing/export.py
def export_invoices(tenant, since):
    rows = []
    for invoice in fetch_invoices(tenant, since, page_size=50):
        for line in invoice.lines:
            rate = fetch_rate(line.currency, invoice.date)   # one request a line
            rows.append((invoice.number, line.amount * rate))
    return write_csv(rows)
```"""

FIXED = """```python
# billing/export.py
def export_invoices(tenant, since):
    rates = RateCache(fetch_rates_for_period(since))          # one request in all
    return write_csv(
        (invoice.number, line.amount * rates[line.currency, invoice.date])
        for invoice in fetch_invoices(tenant, since, page_size=500)
        for line in invoice.lines
    )
```"""


def server_log(first_minute: int, lines: int) -> str:
    """What the worker wrote: four messages over and over, and the one that matters."""
    said = [
        "INFO export worker picked up tenant 8841",
        "WARN rate service answered in 1900 ms",
        "INFO fetched page of 50 invoices",
        "WARN retrying rate request, attempt 2 of 3",
    ]
    written = [
        f"2026-11-{3 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:07Z {said[minute % 4]}"
        for minute in range(first_minute, first_minute + lines)
    ]
    written.insert(
        lines // 2, "2026-11-03T04:17:31Z ERROR export of tenant 8841 timed out after 900 s at invoice 20417"
    )
    return "\n".join(written)


def test_run(failed: int) -> str:
    """The output of a test runner."""
    passed = [f"billing/test_export.py::test_case_{number} PASSED" for number in range(1, 41)]
    tail = "1 failed, 40 passed in 12.31s" if failed else "41 passed in 3.02s"
    trace = "E   AssertionError: total 1042.35 != 1042.34 (billing/test_export.py:88)" if failed else ""
    return "\n".join([*passed, trace, tail])


def screenshot(shade: int) -> Media:
    """A picture of 800 x 600 in one shade of grey."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([shade]) * 800) * 600
    header = struct.pack(">IIBBBBB", 800, 600, 8, 0, 0, 0, 0)
    picture = part(b"IHDR", header) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")
    return Media("image/png", base64.b64encode(b"\x89PNG\r\n\x1a\n" + picture).decode())


def shot(caption: str, shade: int) -> ContextFragment:
    return ContextFragment(caption, kind="screenshot", media=screenshot(shade), metadata={"target": "export page"})


def say(text: str) -> ContextFragment:
    return ContextFragment(text)


def log(text: str) -> ContextFragment:
    return ContextFragment(text, kind="log")


TURNS: list[list[ContextFragment]] = [
    [
        ContextFragment(SYSTEM, metadata={"cache": True}),
        say("The invoice export times out for tenant 8841. Ticket: https://tracker.example.com/BILL-2231"),
    ],
    [say("I read the exporter."), say(EXPORT)],
    [log(server_log(0, 400))],
    [shot("Export page with a spinner, 15 minutes after the start", 40), say("The page still spins.")],
    [say("I read the exporter again, to be sure."), say(EXPORT), log(server_log(400, 400))],
    [say("Each line asks for its rate: 20417 invoices with 6.2 lines make 126585 requests of 1.9 s.")],
    [say(FIXED), say("Rates come from https://rates.example.com/v2/period now, in one request.")],
    [log(test_run(1)), say("One total is off by 0.01: the cached rate has 6 digits, the old one had 8.")],
    [say("finance: do not round rates; the contract of 2024-02-29 asks for 8 digits."), say(EXPORT)],
    [say("RateCache keeps 8 digits now."), say(FIXED), log(test_run(0))],
    [shot("Export page, finished after 41 s", 200), log(server_log(0, 400))],
    [say("Summary for the pull request: 126585 requests became 1, 900 s became 41 s, totals unchanged.")],
]


def sent_as_it_is(history: list[ContextFragment], exact: TokenEstimator, compiler: ContextCompiler) -> int:
    images = compiler.compile(CompileRequest(QUERY, [entry for entry in history if entry.media], 10_000_000))
    captions = sum(compiler.estimator.count(entry.content) for entry in history if entry.media)
    return exact.count("\n\n".join(entry.content for entry in history)) + images.insights.tokens_in - captions


def missing(history: list[ContextFragment], compiled: CompiledContext, memory: MemoryService) -> list[str]:
    """What of the input is neither in the output nor behind a handle."""
    reachable = compiled.content + "".join(
        memory.retrieve_context_source(decision.handle).content
        for decision in compiled.decisions
        if decision.handle is not msgspec.UNSET
    )
    # what an abstracted log left out is behind the handle of its source
    reachable += "".join(memory.retrieve_context_source(source.handle).content for source in compiled.sources)
    lost = [exact for entry in history for exact in EXACT.findall(entry.content) if exact not in reachable]
    lost += [entry.content for entry in history if "```" in entry.content and entry.content not in reachable]
    return lost + [
        line
        for entry in history
        for line in entry.content.split("\n")
        if re.search("never|do not", line.lower()) and line not in reachable
    ]


def main() -> int:
    budget = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000
    try:
        exact = make_estimator("o200k")
        exact.count("")
    except InvalidInput as error:
        print(f"{error}; the estimate stands in for it")
        exact = make_estimator("estimate")
    compiler = ContextCompiler()
    history: list[ContextFragment] = []
    before = after = 0
    trouble: list[str] = []
    with tempfile.TemporaryDirectory() as folder, MemoryService(folder) as memory:
        print(f"tokens by {exact.name}; budget {budget} a turn\n\nturn  as it is  compiled  risk")
        for number, turn in enumerate(TURNS, 1):
            history += turn
            request = CompileRequest(QUERY, history, budget, project="billing", policy=POLICY)
            compiled = memory.compile_context(request)
            if memory.compile_context(request) != compiled:
                trouble.append(f"turn {number} compiles to something else the second time")
            trouble += [f"turn {number} lost {what!r}" for what in missing(history, compiled, memory)]
            plain = sent_as_it_is(history, exact, compiler)
            images = compiled.insights.tokens_out - compiler.estimator.count(compiled.content)
            sent = exact.count(compiled.content) + images
            before, after = before + plain, after + sent
            print(f"{number:4}  {plain:8}  {sent:8}  {compiled.risk}")
        print(f" all  {before:8}  {after:8}  {100 * (before - after) / before:.1f} % saved")
    for line in trouble:
        print(line, file=sys.stderr)
    print("nothing is lost" if not trouble else f"{len(trouble)} losses")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
