"""The tools that turn passages into a graph, and search with it."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...limits import DEFAULT_GRAPH_BOOST, DEFAULT_HOPS, DEFAULT_RECALL_LIMIT
from ...model import EntityRelation, FusionOptions, JobState, Recollection
from ..declare import AnyTool, Host, Tool
from .common import Content, Count, Filter, IdNumber, IdText, K, Metadata, Query, visible
from .memory import LIMIT_FOR_K

# recall_fused


class RecallFused(msgspec.Struct, frozen=True):
    query: Query
    k: K = DEFAULT_RECALL_LIMIT
    filter: Filter = None
    hops: Annotated[
        int, Meta(ge=0, description="How many links to walk from the best match: 2 unless given, up to 10; 0: none.")
    ] = DEFAULT_HOPS
    graph_boost: Annotated[
        float,
        Meta(
            description="The weight of being reached by links: 0.15 unless given. For questions that ask for causes, 5 "
            "puts what links reach before what only looks alike."
        ),
    ] = DEFAULT_GRAPH_BOOST
    lexical_boost: Annotated[
        float | None,
        Meta(description="The weight of matching words. Left out: the measured default; 0: words do not count."),
    ] = None
    pool: Annotated[
        Count | None,
        Meta(description="How many candidates are ranked: max(8 k, 64) unless given, 1 to 1000."),
    ] = None
    date_field: Annotated[
        str | None,
        Meta(
            description="The metadata field that holds each fact's date as YYYYMMDD, e.g. _veles_date: adds a timeline."
        ),
    ] = None
    explain: Annotated[bool, Meta(description="Add to each memory what found it. Default false.")] = False


class HitSignals(msgspec.Struct, frozen=True):
    vector: Annotated[float, Meta(description="Similarity over the best one among the candidates, 0 to 1.")]
    lexical: Annotated[float, Meta(description="Match of words over the best one among the candidates, 0 to 1.")]
    graph: Annotated[float, Meta(description="How tellingly links from the best match reach it, 0 to 1.")]


class FusedHit(msgspec.Struct, frozen=True):
    id: IdNumber
    id_str: IdText
    score: Annotated[float, Meta(description="Cosine similarity to the query; 0 for what only links reached.")]
    content: Content
    metadata: Metadata | UnsetType = UNSET
    signals: Annotated[HitSignals | UnsetType, Meta(description="Only with explain: what found it.")] = UNSET


class RecalledFused(msgspec.Struct, frozen=True):
    memories: Annotated[list[FusedHit], Meta(description="The memories found, best first.")]
    dated_context: Annotated[
        str | UnsetType,
        Meta(description="Only with date_field: the memories as lines '- [YYYY-MM-DD] text', oldest first."),
    ] = UNSET
    now: Annotated[str | UnsetType, Meta(description="Only with date_field: the latest date among them.")] = UNSET
    warnings: Annotated[
        list[str] | UnsetType, Meta(description="What the search had to do without, and why.")
    ] = UNSET


def recall_fused(host: Host, args: RecallFused) -> RecalledFused:
    options = FusionOptions(args.hops, args.graph_boost, args.pool, args.lexical_boost, args.explain)
    if args.date_field is None:
        found, dated = host.service.recall_fused(args.query, args.k, args.filter, options), None
    else:
        found, dated = host.service.recall_fused_dated(args.query, args.k, args.filter, options, args.date_field)
    return RecalledFused(
        [_hit(hit) for hit in found],
        dated.text if dated else UNSET,
        dated.now if dated and dated.now else UNSET,
        found.warnings or UNSET,
    )


def _hit(hit: Recollection) -> FusedHit:
    signals = UNSET if hit.signals is None else HitSignals(hit.signals.vector, hit.signals.lexical, hit.signals.graph)
    return FusedHit(hit.id, str(hit.id), hit.score, hit.content, visible(hit.metadata), signals)


# entity


class Entity(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(description="The entity's name; case and surrounding spaces do not matter.")]


class FarEnd(msgspec.Struct, frozen=True):
    predicate: Annotated[str, Meta(description="The edge's label.")]
    target_id: Annotated[int, Meta(ge=0, description="The id of the other end.")]
    target_id_str: IdText
    target: Annotated[str, Meta(description="The other end: an entity's name, or a fact's text.")]
    source: Annotated[
        str | UnsetType, Meta(description="In relations_in: where the edge comes from, the same as target.")
    ] = UNSET


class Profile(msgspec.Struct, frozen=True):
    found: Annotated[bool, Meta(description="False when nothing has ever mentioned this entity.")]
    id: IdNumber
    id_str: IdText
    name: Annotated[str, Meta(description="The name as it was looked up: trimmed, lower case.")]
    attributes: Annotated[dict[str, Any], Meta(description="What is known of the entity, by key.")]
    relations: Annotated[list[FarEnd], Meta(description="Typed edges that leave the entity.")]
    relations_in: Annotated[list[FarEnd], Meta(description="Typed edges that point at the entity.")]
    relations_truncated: Annotated[bool, Meta(description="True when relations is not all there is.")]
    relations_in_truncated: Annotated[bool, Meta(description="True when relations_in is not all there is.")]


def entity(host: Host, args: Entity) -> Profile:
    found = host.service.entity(args.name)
    return Profile(
        found.found,
        found.id,
        found.id_str,
        found.name,
        found.attributes,
        [_far_end(edge) for edge in found.relations],
        [_far_end(edge) for edge in found.relations_in],
        found.relations_truncated,
        found.relations_in_truncated,
    )


def _far_end(edge: EntityRelation) -> FarEnd:
    source = UNSET if edge.source is None else edge.source
    return FarEnd(edge.predicate, edge.target_id, edge.target_id_str, edge.target, source)


# remember_extracted and extraction_status


class RememberExtracted(msgspec.Struct, frozen=True):
    text: Annotated[str, Meta(description="The passage, at most 1 MiB.")]
    metadata: Annotated[
        dict[str, Any] | None, Meta(description="Metadata for every fact that is found, as for remember.")
    ] = None
    extractor: Annotated[
        str | None,
        Meta(
            description="Who reads it: outline (lines 'fact: text | topic, topic', 'edge: a | label | b', "
            "'attr: entity | key | JSON value'), or the configured ollama or openai. Left out: the server's default."
        ),
    ] = None
    idempotency_key: Annotated[
        str | None,
        Meta(description="A key of yours, 1 to 256 bytes: a retry with it is the same job and stores nothing twice."),
    ] = None


class Receipt(msgspec.Struct, frozen=True):
    request_id: Annotated[str, Meta(description="Ask extraction_status about it.")]
    state: Annotated[JobState, Meta(description="accepted, or how far an earlier identical request has come.")]
    reused: Annotated[bool, Meta(description="True when the same request was accepted before.")]


def remember_extracted(host: Host, args: RememberExtracted) -> Receipt:
    receipt = host.service.accept_extraction(
        args.text, args.metadata, args.extractor, args.idempotency_key, host.default_ttl
    )
    return Receipt(receipt.request_id, receipt.state, receipt.reused)


class ExtractionStatus(msgspec.Struct, frozen=True):
    request_id: Annotated[str, Meta(description="The 64 hexadecimal digits of the receipt.")]


class Snapshot(msgspec.Struct, frozen=True):
    request_id: Annotated[str, Meta(description="The request that was asked about.")]
    state: Annotated[JobState, Meta(description="accepted, running, committed or failed.")]
    ids: Annotated[list[IdNumber], Meta(description="Once committed: the stored facts, in the order of the passage.")]
    ids_str: Annotated[list[IdText], Meta(description="The same ids in decimal.")]
    skipped_over_cap: Annotated[
        Count | None, Meta(description="Once committed: facts left out because they were over 2048 bytes.")
    ]
    error: Annotated[str | None, Meta(description="Once failed: why.")]
    skipped: Annotated[
        dict[str, Annotated[int, Meta(ge=0, description="How many.")]] | None,
        Meta(description="Once committed: what else was left out, counted by reason."),
    ]


def extraction_status(host: Host, args: ExtractionStatus) -> Snapshot:
    found = host.service.extraction_status(args.request_id)
    return Snapshot(
        found.request_id, found.state, found.ids, found.ids_str, found.skipped_over_cap, found.error, found.skipped
    )


TOOLS: Final[tuple[AnyTool, ...]] = (
    Tool(
        name="recall_fused",
        title="Recall by meaning, words and links",
        description="Find the stored facts that answer a question by meaning, by words and by links from the best "
        "match, in one ranking. Use it for questions that need several facts, name a thing, or ask about time: with "
        "date_field it adds the facts as a timeline. Ask for k of 32 to 64 when the answer is spread out.",
        arguments=RecallFused,
        result=RecalledFused,
        handler=recall_fused,
        read_only=True,
        idempotent=True,
        aliases=LIMIT_FOR_K,
    ),
    Tool(
        name="entity",
        title="Look up an entity",
        description="Look up everything the graph knows about one named person, project or thing: its attributes and "
        "its typed relations in both directions. Read relations_in too: 'camille sister of theo' is stored once, as "
        "an edge from camille. Facts that mention the entity are found by recall_fused and why.",
        arguments=Entity,
        result=Profile,
        handler=entity,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="remember_extracted",
        title="Remember a passage",
        description="Take a passage of text into memory: facts, entities, relations and attributes are extracted in "
        "the background and linked, so that why and entity can follow them. Returns at once, and what was accepted "
        "survives a crash; ask extraction_status for the outcome. Repeating the same request is safe.",
        arguments=RememberExtracted,
        result=Receipt,
        handler=remember_extracted,
        idempotent=True,
    ),
    Tool(
        name="extraction_status",
        title="Ask about a passage",
        description="Tell what became of a passage given to remember_extracted: whether it is still waiting, which "
        "facts were stored, or why it failed.",
        arguments=ExtractionStatus,
        result=Snapshot,
        handler=extraction_status,
        read_only=True,
        idempotent=True,
    ),
)
