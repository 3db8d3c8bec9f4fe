"""What a question about a decision brings back of the story behind it: 24 chains of decision, pull request and problem.

    python benchmarks/chains.py --json chains.json

Each chain is three notes: a decision, the pull request that carried it out, and the problem that it was about. They are
linked decision -> pull request -> problem, and each problem is worded so that it shares no analysed word with its
decision, nor with the question asked about that decision (the program checks it): neither words nor a bag-of-words
embedder can find it, only the links can. 400 other notes of the same trade are in the store, each of them of no chain.

The share of the 24 questions whose decision, and whose problem, is among the first k hits is reported for the searches
of the product, with the embedder that the environment selects; for ``why``, among all that it walks to.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from velesdb_memory import FusionOptions, Link, MemoryService
from velesdb_memory.analysis import terms
from velesdb_memory.config import load, make_embedder

K: Final = 10
DISTRACTORS: Final = 400


class Chain(NamedTuple):
    """One story. The question asks for the decision."""

    question: str
    decision: str
    pull_request: str
    problem: str


CHAINS: Final = (
    Chain(
        "Why did we choose parking_lot for locking?",
        "We chose parking_lot over the standard mutex because it does not poison locks.",
        "PR #42 replaces std::sync::Mutex everywhere and drops 61 unwrap calls.",
        "One panicking request left every later one failing until somebody restarted the node.",
    ),
    Chain(
        "What did we settle on for retrying payments?",
        "Payment retries are capped at five with exponential backoff and jitter.",
        "PR #88 adds RetryPolicy to the billing client and a dead letter table.",
        "On Black Friday the card processor blocked our whole address range for an hour.",
    ),
    Chain(
        "Which format do we use for dates in the API?",
        "All dates in the API are ISO 8601 strings in UTC, never local time.",
        "PR #107 rewrites the serializers and adds a contract test per endpoint.",
        "Guests from Lisbon saw their booking moved to the evening before.",
    ),
    Chain(
        "How are feature flags evaluated?",
        "Feature flags are evaluated on the server and sent down with the session.",
        "PR #119 removes the flag SDK from the bundle and caches rules for a minute.",
        "Anybody with developer tools could read the unreleased pricing plans.",
    ),
    Chain(
        "Why is the search index rebuilt nightly?",
        "We rebuild the search index every night instead of patching it.",
        "PR #131 schedules reindex.py at 02:00 and swaps an alias when it is done.",
        "Deleted products kept turning up for shoppers weeks after they were gone.",
    ),
    Chain(
        "What is our policy on third-party fonts?",
        "Fonts are self-hosted; no third-party font service may be loaded.",
        "PR #144 vendors Inter as woff2 and tightens the content security policy.",
        "A Munich court fined a competitor over visitors' addresses leaking to America.",
    ),
    Chain(
        "Why does the mobile app use SQLite for drafts?",
        "Drafts in the mobile app are kept in SQLite rather than shared preferences.",
        "PR #152 introduces DraftStore with migrations and imports the old blob once.",
        "People lost half an essay whenever their phone ran out of battery mid-sentence.",
    ),
    Chain(
        "How do we limit uploads?",
        "Uploads are limited to 25 MB and streamed straight to object storage.",
        "PR #160 hands out presigned URLs and deletes the multipart proxy route.",
        "Memory on web-3 climbed until the kernel killed the process, four Mondays in a row.",
    ),
    Chain(
        "Who may approve a production deploy?",
        "A production deploy needs approval by one person who did not write the change.",
        "PR #171 turns on required reviewers and blocks self-merge on main.",
        "An intern's typo took checkout down on a Sunday and nobody had looked at it.",
    ),
    Chain(
        "Which hashing algorithm do we use for passwords?",
        "Passwords are hashed with argon2id, 64 MiB and three passes.",
        "PR #183 rehashes at login and adds a cost benchmark to CI.",
        "The auditor cracked a third of the dump on one graphics card over lunch.",
    ),
    Chain(
        "Why did we move the cron jobs to a queue?",
        "Cron jobs moved to a durable queue with leases.",
        "PR #190 adds worker.py, heartbeats and a lock table, and empties crontab.",
        "Invoices went out twice when both replicas woke up at midnight.",
    ),
    Chain(
        "What page size do list endpoints have?",
        "List endpoints use cursor pagination with a page size of fifty.",
        "PR #201 replaces OFFSET by keyset queries and deprecates ?page=.",
        "Scrolling past the ten-thousandth order timed out and pinned a database core.",
    ),
    Chain(
        "Why are container images pinned by digest?",
        "Container images are pinned by digest, and a bot proposes updates.",
        "PR #214 resolves every tag in deploy/ and enables renovate.",
        "The same commit behaved differently on Tuesday because upstream had re-pushed latest.",
    ),
    Chain(
        "How long are access tokens valid?",
        "Access tokens are valid for ten minutes; refresh tokens rotate.",
        "PR #226 adds a token family column and revokes it on reuse.",
        "A stolen laptop could still open customer records three weeks later.",
    ),
    Chain(
        "Which library renders the charts?",
        "Charts are rendered on the server as SVG; the charting library left the client.",
        "PR #233 adds /render/chart and removes 410 kB of JavaScript.",
        "The dashboard took nine seconds on the tablets in the warehouse.",
    ),
    Chain(
        "Why do tests run against a real Postgres?",
        "Integration tests run against a real Postgres in a container, not against SQLite.",
        "PR #245 starts postgres:16 in CI and rolls back after each case.",
        "A migration that was green locally locked the accounts table for twenty minutes.",
    ),
    Chain(
        "What is the rule for log messages?",
        "Log messages carry ids and durations only, never message bodies.",
        "PR #257 adds a redacting formatter and a lint rule for f-strings in logger calls.",
        "Support staff found patients' diagnoses in plain sight while chasing an outage.",
    ),
    Chain(
        "Why is the cache keyed by tenant?",
        "Every cache key starts with the tenant id.",
        "PR #268 wraps the Redis client and forbids raw get and set.",
        "For two minutes Acme's staff were looking at somebody else's payroll.",
    ),
    Chain(
        "How do we handle schema changes?",
        "Schema changes are expand, migrate, contract, in three releases.",
        "PR #274 adds a checklist and a linter that refuses DROP COLUMN.",
        "Rolling back on Thursday was impossible: the old binary crashed at boot.",
    ),
    Chain(
        "Why did we switch the build to Bazel?",
        "The monorepo build switched to Bazel with a remote cache.",
        "PR #289 adds BUILD files for 240 packages and retires the Makefiles.",
        "Engineers waited forty minutes for a green tick and stacked five merges meanwhile.",
    ),
    Chain(
        "Which transport does the sensor gateway use?",
        "The sensor gateway speaks MQTT over TLS instead of plain HTTP polling.",
        "PR #297 adds a broker, client certificates and a last-will topic.",
        "Field batteries died within a fortnight, and farmers drove out to replace them.",
    ),
    Chain(
        "Why are emails sent from a subdomain?",
        "Transactional emails are sent from a subdomain with its own DKIM key.",
        "PR #305 moves the sender to mail.example.com and adds bounce handling.",
        "Password resets landed in spam after marketing's spring campaign.",
    ),
    Chain(
        "How do we version the public SDK?",
        "The public SDK follows semantic versioning, with deprecations kept for a year.",
        "PR #318 adds an API diff to the release job and a deprecation decorator.",
        "Three partners woke up to broken pipelines because a helper had been renamed.",
    ),
    Chain(
        "What do we do about slow database queries?",
        "Queries slower than 200 ms fail the load test.",
        "PR #326 records EXPLAIN output and compares it with the last release.",
        "Nobody noticed the missing index until the city marathon opened its registration.",
    ),
)

# Notes of no chain, put together: who, did what, with what, and when
_WHO: Final = ("Marta", "Jonas", "the platform team", "Priya", "the on-call engineer")
_DID: Final = ("reviewed", "documented", "postponed", "asked about", "measured", "cleaned up", "demonstrated", "tested")
_WHAT: Final = (
    "the payment page",
    "the search ranking",
    "date pickers in the mobile app",
    "the deploy pipeline",
    "log retention",
    "cache hit rates",
    "the email templates",
    "chart colours",
    "the upload form",
    "feature names in the API",
)
_WHEN: Final = ("before the sprint review", "in the weekly sync", "after the holidays", "with the design group")


def distractors(number: int) -> list[str]:
    """``number`` different notes, each kind of part spread over all of them."""
    mixed = list(itertools.product(_WHEN, _DID, _WHO, _WHAT))
    step = len(mixed) // number
    chosen = [mixed[(index * step + index // 7) % len(mixed)] for index in range(len(mixed))]
    notes = dict.fromkeys(f"{who[0].upper()}{who[1:]} {did} {what} {when}." for when, did, who, what in chosen)
    return list(notes)[:number]


def shared_words() -> list[str]:
    """What is wrong with the chains: problems that share a word with their question or decision."""
    found: list[str] = []
    for chain in CHAINS:
        shared = set(terms(chain.problem)) & {*terms(chain.question), *terms(chain.decision)}
        found += [f"{chain.problem!r} shares {sorted(shared)}"] if shared else []
    return found


@dataclass(frozen=True)
class Row:
    """One line of the table: how many of the questions found each end of their chain, in percent."""

    search: str
    decision: float
    pull_request: float
    problem: float


Search = Callable[[MemoryService, str], Sequence[int]]


def _fused(options: FusionOptions) -> Search:
    return lambda service, query: [hit.id for hit in service.recall_fused(query, K, None, options)]


def searches() -> dict[str, Search]:
    """The searches to compare, by the name they have in the table."""
    return {
        f"recall@{K}": lambda service, query: [hit.id for hit in service.recall(query, K)],
        f"recall_fused@{K}, hops 0": _fused(FusionOptions(hops=0)),
        f"recall_fused@{K}, hops 2, graph_boost 0.15 (default)": _fused(FusionOptions()),
        f"recall_fused@{K}, hops 2, graph_boost 0.5": _fused(FusionOptions(graph_boost=0.5)),
        f"recall_fused@{K}, hops 2, graph_boost 1": _fused(FusionOptions(graph_boost=1.0)),
        f"recall_fused@{K}, hops 2, graph_boost 2": _fused(FusionOptions(graph_boost=2.0)),
        f"recall_fused@{K}, hops 2, graph_boost 5": _fused(FusionOptions(graph_boost=5.0)),
        f"recall_fused@{K}, lexical_boost 0, graph_boost 0.15": _fused(FusionOptions(lexical_boost=0.0)),
        "why, 2 hops": lambda service, query: [node.id for node in service.why(query).nodes],
    }


def measure(service: MemoryService, number: int) -> list[Row]:
    """Store the chains among ``number`` distractors and ask every question in every way."""
    notes = distractors(number)
    stored: list[tuple[str, list[int]]] = []
    for index, chain in enumerate(CHAINS):
        for note in notes[index :: len(CHAINS)]:
            service.remember(note)
        problem = service.remember(chain.problem)
        change = service.remember(chain.pull_request, links=[Link(problem, "fixes")])
        decision = service.remember(chain.decision, links=[Link(change, "carried_out_by")])
        stored.append((chain.question, [decision, change, problem]))
    rows: list[Row] = []
    for name, search in searches().items():
        answers = [(set(search(service, question)), ids) for question, ids in stored]
        shares = [100 * sum(ids[end] in found for found, ids in answers) / len(answers) for end in range(3)]
        rows.append(Row(name, *(round(share, 1) for share in shares)))
    return rows


def table(rows: Sequence[Row]) -> str:
    """``rows`` as a Markdown table."""
    lines = ["| search | decision | pull request | problem, two links away |", "|---|---|---|---|"]
    lines += [f"| {row.search} | {row.decision:.1f} | {row.pull_request:.1f} | {row.problem:.1f} |" for row in rows]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the numbers there too")
    parser.add_argument("--distractors", type=int, default=DISTRACTORS, metavar="N", help="default: %(default)s")
    chosen = parser.parse_args()
    if problems := shared_words():
        print("\n".join(problems), file=sys.stderr)
        return 1
    embedder = make_embedder(load())
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        MemoryService(Path(directory) / "store", embedder) as service,
    ):
        rows = measure(service, chosen.distractors)
        facts = service.memory_status().memory.facts
    print(f"{len(CHAINS)} chains, {facts} notes, embedder {embedder.model}, percent of the questions\n\n{table(rows)}")
    if chosen.json:
        answer = {"embedder": embedder.model, "k": K, "chains": len(CHAINS), "notes": facts}
        chosen.json.write_text(json.dumps(answer | {"rows": [asdict(row) for row in rows]}, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
