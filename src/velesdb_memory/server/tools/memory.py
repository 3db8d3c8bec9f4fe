"""The tools that write, find and connect memories."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...limits import DEFAULT_RECALL_LIMIT, DEFAULT_WHY_HOPS
from ...model import ColumnFilter, Link
from ..declare import AnyTool, Host, Tool
from ..wire import ID
from .common import Content, Count, Filter, Hit, IdNumber, IdText, K, Query, hits

Label = Annotated[
    str,
    Meta(description="The label, read as 'from relation to': caused_by, depends_on, decided_in, supersedes, ..."),
]


# remember


class RememberLink(msgspec.Struct, frozen=True):
    target: Annotated[int, Meta(extra=ID, description="The id (id_str) of the memory that the link points to.")]
    relation: Label


class Remember(msgspec.Struct, frozen=True):
    fact: Annotated[
        str,
        Meta(
            description="The fact, as one self-contained sentence or short paragraph of at most 2048 bytes. Longer "
            "ones are refused, never cut: store several facts or a summary."
        ),
    ]
    links: Annotated[
        list[RememberLink] | None,
        Meta(description="Links from this fact to memories stored before, created in the same write."),
    ] = None
    metadata: Annotated[
        dict[str, Any] | None,
        Meta(
            description="What to filter by later: project, author, status, ... Keep numbers and dates as numbers, "
            "e.g. 20260131. _veles_date (YYYYMMDD) dates the fact; left out: today. At most 64 KiB."
        ),
    ] = None
    ttl_seconds: Annotated[
        Count | None,
        Meta(description="Forget the fact after so many seconds. 0: never. Left out: the server's default, if any."),
    ] = None


class Stored(msgspec.Struct, frozen=True):
    id: IdNumber
    id_str: IdText


def remember(host: Host, args: Remember) -> Stored:
    links = None if args.links is None else [Link(link.target, link.relation) for link in args.links]
    ttl = host.default_ttl if args.ttl_seconds is None else args.ttl_seconds
    memory_id = host.service.remember(args.fact, links=links, metadata=args.metadata, ttl_seconds=ttl)
    return Stored(memory_id, str(memory_id))


# recall and recall_where


class Recall(msgspec.Struct, frozen=True):
    query: Query
    k: K = DEFAULT_RECALL_LIMIT
    filter: Filter = None


class Recalled(msgspec.Struct, frozen=True):
    memories: Annotated[list[Hit], Meta(description="The memories found, best first.")]


def recall(host: Host, args: Recall) -> Recalled:
    return Recalled(hits(host.service.recall(args.query, k=args.k, filter=args.filter)))


class Predicate(msgspec.Struct, frozen=True):
    field: Annotated[
        str, Meta(description="The metadata field: ASCII letters, digits and underscores, at most 128 of them.")
    ]
    op: Annotated[
        Literal["eq", "ne", "lt", "le", "gt", "ge"],
        Meta(
            description="The comparison: stored value op this value. A memory without the field, or with null in it, "
            "never matches."
        ),
    ]
    value: Annotated[
        str | int | float | bool,
        Meta(description="What to compare with. Types never convert: the number 2020 does not match the text '2020'."),
    ]


class RecallWhere(msgspec.Struct, frozen=True):
    query: Query
    filters: Annotated[
        list[Predicate],
        Meta(
            description='Conditions that must all hold, e.g. [{"field": "_veles_date", "op": "ge", "value": 20260101}].'
        ),
    ]
    k: K = DEFAULT_RECALL_LIMIT


class RecalledWhere(msgspec.Struct, frozen=True):
    memories: Annotated[list[Hit], Meta(description="The memories found, most similar first.")]
    warnings: Annotated[
        list[str] | UnsetType,
        Meta(description="Conditions that nothing could meet because the field holds values of another type."),
    ] = UNSET


def recall_where(host: Host, args: RecallWhere) -> RecalledWhere:
    filters = [ColumnFilter(each.field, each.op, each.value) for each in args.filters]
    found = host.service.recall_where(args.query, filters, k=args.k)
    return RecalledWhere(hits(found), found.warnings or UNSET)


# relate, unrelate, forget, feedback


class Relation(msgspec.Struct, frozen=True):
    from_id: Annotated[int, Meta(extra=ID, description="The id (id_str) of the memory the link points from.")] = (
        msgspec.field(name="from")
    )
    to_id: Annotated[int, Meta(extra=ID, description="The id (id_str) of the memory the link points to.")] = (
        msgspec.field(name="to")
    )
    relation: Label


class Related(msgspec.Struct, frozen=True):
    edge_id: Annotated[int, Meta(ge=0, description="The link's id; the same three arguments give the same one.")]
    edge_id_str: IdText


def relate(host: Host, args: Relation) -> Related:
    edge_id = host.service.relate(args.from_id, args.to_id, args.relation)
    return Related(edge_id, str(edge_id))


class UnrelateResult(msgspec.Struct, frozen=True):
    found: Annotated[bool, Meta(description="Whether there was such a link.")]
    removed: Annotated[int, Meta(ge=0, description="How many links were removed: 0 or 1.")]


def unrelate(host: Host, args: Relation) -> UnrelateResult:
    outcome = host.service.unrelate(args.from_id, args.to_id, args.relation)
    return UnrelateResult(outcome.found, outcome.removed)


class Forget(msgspec.Struct, frozen=True):
    id: Annotated[int, Meta(extra=ID, description="The id (id_str) of the memory to delete.")]


class Forgotten(msgspec.Struct, frozen=True):
    id: IdNumber
    id_str: IdText
    found: Annotated[bool, Meta(description="False when nothing was stored under that id: nothing was deleted.")]


def forget(host: Host, args: Forget) -> Forgotten:
    return Forgotten(args.id, str(args.id), host.service.forget(args.id))


class Feedback(msgspec.Struct, frozen=True):
    id: Annotated[int, Meta(extra=ID, description="The id (id_str) of the memory that was recalled.")]
    success: Annotated[bool, Meta(description="true: the memory was useful; false: it was noise.")]


class Confidence(msgspec.Struct, frozen=True):
    id: IdNumber
    id_str: IdText
    confidence: Annotated[float, Meta(description="What has been learned about the memory, 0 to 1; it starts at 0.5.")]


def feedback(host: Host, args: Feedback) -> Confidence:
    return Confidence(args.id, str(args.id), host.service.feedback(args.id, args.success))


# why


class Why(msgspec.Struct, frozen=True):
    decision: Annotated[str, Meta(description="The decision or fact to explain, in plain words.")]
    max_hops: Annotated[
        int, Meta(ge=0, description="How many links away to go from the best match: 2 unless given, up to 10.")
    ] = DEFAULT_WHY_HOPS
    filter: Filter = None
    direction: Annotated[
        Literal["out", "in", "both"],
        Meta(description="Follow links as they point (out, the default), against that (in), or both ways."),
    ] = "out"


class Node(msgspec.Struct, frozen=True):
    id: IdNumber
    id_str: IdText
    content: Content
    hop: Annotated[int, Meta(ge=0, description="How many links away from the best match, which is 0.")]
    score: Annotated[
        float | UnsetType, Meta(description="Only on the best match: how similar it is to the question, -1 to 1.")
    ] = UNSET


class Edge(msgspec.Struct, frozen=True):
    source: Annotated[int, Meta(ge=0, description="The id of the memory the link points from.")] = msgspec.field(
        name="from"
    )
    source_str: IdText = msgspec.field(name="from_str")
    target: Annotated[int, Meta(ge=0, description="The id of the memory the link points to.")] = msgspec.field(
        name="to"
    )
    target_str: IdText = msgspec.field(name="to_str")
    relation: Annotated[str, Meta(description="The link's label.")]


class Explained(msgspec.Struct, frozen=True):
    nodes: Annotated[
        list[Node], Meta(description="The best match and what its links reach; empty when nothing matched.")
    ]
    edges: Annotated[list[Edge], Meta(description="The links that were followed.")]
    truncated: Annotated[bool, Meta(description="True when a limit cut the walk short: there is more to see.")]


def why(host: Host, args: Why) -> Explained:
    found = host.service.why(args.decision, max_hops=args.max_hops, filter=args.filter, direction=args.direction)
    nodes = [
        Node(node.id, str(node.id), node.content, node.hop, UNSET if node.score is None else node.score)
        for node in found.nodes
    ]
    edges = [Edge(edge.source, str(edge.source), edge.target, str(edge.target), edge.relation) for edge in found.edges]
    return Explained(nodes, edges, found.truncated)


# A former name of k, accepted for one more version of the contract
LIMIT_FOR_K: Final = {"limit": "k"}

TOOLS: Final[tuple[AnyTool, ...]] = (
    Tool(
        name="remember",
        title="Remember a fact",
        description="Store a fact in durable local memory, with optional links, metadata and expiry. Use it for what a "
        "later session should know: decisions and their reasons, preferences, incidents, how things work here. Storing "
        "the same text again updates it in place under the same id, so it is safe to repeat; its metadata and expiry "
        "become those of the new call. Returns the id: keep id_str to link to it, forget it or give feedback. Facts "
        "are dated with today unless metadata._veles_date says otherwise.",
        arguments=Remember,
        result=Stored,
        handler=remember,
        # it adds: what a repeated call replaces is what the same fact said before
        idempotent=True,
    ),
    Tool(
        name="recall",
        title="Recall memories",
        description="Find the stored facts that answer a question, best first, optionally only those with given "
        "metadata values. Call it before you start on a task and whenever the user refers to something earlier. "
        "Ranking combines similarity with what feedback has taught; score is the plain similarity. For ranges and "
        "comparisons use recall_where; to follow links from the best match use why.",
        arguments=Recall,
        result=Recalled,
        handler=recall,
        read_only=True,
        idempotent=True,
        aliases=LIMIT_FOR_K,
    ),
    Tool(
        name="recall_where",
        title="Recall with conditions",
        description="Find the stored facts that answer a question among those whose metadata meets typed conditions: "
        "equality, inequality and ranges, all of which must hold. Dates are numbers: the facts of January 2026 have "
        "_veles_date ge 20260101 and le 20260131. Types never convert; when a condition met nothing only because the "
        "field holds another type, warnings says so.",
        arguments=RecallWhere,
        result=RecalledWhere,
        handler=recall_where,
        read_only=True,
        idempotent=True,
        aliases=LIMIT_FOR_K,
    ),
    Tool(
        name="relate",
        title="Link two memories",
        description="Link two stored memories by a labelled, directed edge, such as decision caused_by incident. why "
        "follows links from 'from' to 'to': point from what you will ask about to its evidence. Relating the same "
        "pair with the same label again changes nothing and returns the same edge_id.",
        arguments=Relation,
        result=Related,
        handler=relate,
        idempotent=True,
    ),
    Tool(
        name="unrelate",
        title="Remove a link",
        description="Remove one link between two memories: the exact undo of relate. Both memories stay. A link that "
        "is not there answers found: false, so a clean-up can be repeated. To correct what was derived from a fact, "
        "prefer to forget that fact and remember it again.",
        arguments=Relation,
        result=UnrelateResult,
        handler=unrelate,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="forget",
        title="Forget a memory",
        description="Delete one memory for good, with its links. An id under which nothing is stored answers "
        "found: false. There is no undo; for a fact that should fade by itself give remember a ttl_seconds.",
        arguments=Forget,
        result=Forgotten,
        handler=forget,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="feedback",
        title="Rate a recalled memory",
        description="Tell whether a recalled memory was useful, so that recall ranks it higher or lower from now on. "
        "Call it after you have used, or had to discard, something that recall returned. Returns the new confidence.",
        arguments=Feedback,
        result=Confidence,
        handler=feedback,
    ),
    Tool(
        name="why",
        title="Explain a decision",
        description="Explain a decision: find the best matching memory and return what its links reach, step by step. "
        "This brings up the incident, ticket or measurement behind a decision even when it shares no word with the "
        "question. Nodes carry hop, their distance from the match; truncated tells that the walk was cut short. Check "
        "the score of the node at hop 0 before you trust the chain.",
        arguments=Why,
        result=Explained,
        handler=why,
        read_only=True,
        idempotent=True,
    ),
)
