"""What goes into the context compiler and what comes out: frozen, typed, comparable.

The descriptions are those that the tools publish. Ids and hashes are unsigned 64-bit numbers.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ..limits import (
    DEFAULT_CHUNK_BYTES,
    DEFAULT_GRAPH_BOOST,
    DEFAULT_HOPS,
    DEFAULT_IMPORTANCE_CONFIDENCE,
    DEFAULT_IMPORTANCE_RECENCY,
    DEFAULT_MEMORY_K,
    DEFAULT_SEGMENT_BYTES,
)

Action: TypeAlias = Literal["preserve", "abstract", "retrieve", "drop", "cache"]
Risk: TypeAlias = Literal["low", "medium", "high"]
Boundary: TypeAlias = Literal["paragraph", "sentence", "fixed"]
TranscriptFormat: TypeAlias = Literal["auto", "plain", "jsonl"]
SegmentKind: TypeAlias = Literal["body", "code", "log"]

_ID = {"id": True}
FragmentId = Annotated[
    int, Meta(extra=_ID, description="The fragment's id: the caller's, or else the hash of its content.")
]
MemoryId = Annotated[int, Meta(extra=_ID, description="The memory that the fragment was pulled from.")]
Count = Annotated[int, Meta(ge=0)]
Handle = Annotated[str, Meta(description="ctx://source/<number>: retrieve_context_source gives the original back.")]

# What is asked


class Media(msgspec.Struct, frozen=True):
    """An image inside a fragment. ``bytes_b64`` is standard base64, at most 4 MiB of it."""

    mime: Annotated[str, Meta(description="image/png, image/jpeg, ...")]
    bytes_b64: Annotated[str, Meta(description="The image in standard base64, at most 4 MiB of it.")]


class ContextFragment(msgspec.Struct, frozen=True):
    """One piece of what could be sent: a text, an image with or without a caption, or a file by its ``path``.

    ``kind`` means something when it is ``code``, ``log`` or ``screenshot``. ``priority`` is 0 to 255, higher packs
    first among equally critical ones. ``metadata`` may say ``verbatim: true``, ``cache: true`` and, for screenshots,
    which ``target`` they show.
    """

    content: Annotated[str, Meta(description="The text, at most 1 MiB; with media, its caption.")] = ""
    id: Annotated[
        int | None,
        Meta(extra=_ID, description="An id of yours to find the decision by. Left out: the hash of the content."),
    ] = None
    path: Annotated[
        str | None,
        Meta(description="An absolute path to read the text from, under a directory that the operator has opened."),
    ] = None
    kind: Annotated[
        str | None,
        Meta(description="code, log or screenshot; anything else changes nothing."),
    ] = None
    priority: Annotated[
        Annotated[int, Meta(ge=0, le=255)],
        Meta(description="0 to 255: the higher, the earlier it is packed among equally critical fragments."),
    ] = 0
    metadata: Annotated[
        dict[str, Any] | None,
        Meta(
            description="At most 64 KiB. verbatim: true keeps it word for word, cache: true puts it in the stable "
            "prefix, target names what a screenshot shows (a later one of the same target replaces it)."
        ),
    ] = None
    media: Annotated[Media | None, Meta(description="An image; content is then its caption.")] = None


class MemoryScope(msgspec.Struct, frozen=True):
    """Which memories to compile in: the best for the query, of ``project`` when given."""

    project: Annotated[str | None, Meta(description="Only memories whose metadata says this project.")] = None
    k: Annotated[Count, Meta(description="How many at most: 5 unless given.")] = DEFAULT_MEMORY_K
    hops: Annotated[Count, Meta(description="How many links to walk from the best match: 2 unless given.")] = (
        DEFAULT_HOPS
    )
    graph_boost: Annotated[float, Meta(description="The weight of being reached by links: 0.15 unless given.")] = (
        DEFAULT_GRAPH_BOOST
    )


class ChunkPolicy(msgspec.Struct, frozen=True):
    """How a fragment that does not fit whole is cut."""

    max_chunk_bytes: Annotated[Count, Meta(description="The largest piece: 2048 unless given, at least 256.")] = (
        DEFAULT_CHUNK_BYTES
    )
    overlap_bytes: Annotated[Count, Meta(description="Accepted, and without effect: pieces never overlap.")] = 0
    boundary: Annotated[Boundary, Meta(description="Where to cut: paragraph (default), sentence or fixed.")] = (
        "paragraph"
    )


class ModelPrice(msgspec.Struct, frozen=True):
    """What a model's input costs."""

    input_micros_per_million_tokens: Annotated[
        Count, Meta(description="Millionths of the currency's unit for a million tokens.")
    ]


class Pricing(msgspec.Struct, frozen=True):
    """A price table of the caller's; there is none built in."""

    version: Annotated[str, Meta(description="Repeated in the answer.")]
    currency: Annotated[str, Meta(description="Repeated in the answer.")]
    models: Annotated[
        dict[str, Annotated[ModelPrice, Meta(description="What its input costs.")]],
        Meta(description="Prices by the exact name of the model."),
    ]


class Importance(msgspec.Struct, frozen=True):
    """How much a pulled memory's learned confidence and its date count beside its match."""

    confidence: Annotated[float, Meta(description="Weight of learned confidence: 0.2 unless given.")] = (
        DEFAULT_IMPORTANCE_CONFIDENCE
    )
    recency: Annotated[float, Meta(description="Weight of being recent: 0.1 unless given.")] = (
        DEFAULT_IMPORTANCE_RECENCY
    )
    recency_field: Annotated[str | None, Meta(description="The metadata field with a number that grows with time.")] = (
        None
    )


class CompilePolicy(msgspec.Struct, frozen=True):
    """The knobs of a compilation."""

    response_reserve_tokens: Annotated[Count, Meta(description="Kept free of token_budget. Default 0.")] = 0
    near_dup_dedup: Annotated[
        bool, Meta(description="Drop texts that differ only in case and spacing. Default true.")
    ] = True
    disabled_rules: Annotated[
        list[str], Meta(description="Rule ids that are not applied; preserve.default always is.")
    ] = []
    chunk: Annotated[ChunkPolicy, Meta(description="How a fragment that does not fit whole is cut.")] = ChunkPolicy()
    record_events: Annotated[bool, Meta(description="Count this for context_savings. Default true.")] = True
    store_sources: Annotated[
        bool, Meta(description="Keep the originals, so that every handle resolves. Default true.")
    ] = True
    source_ttl_seconds: Annotated[
        Count | None, Meta(description="How long originals are kept. Left out or 0: for ever.")
    ] = None
    event_ttl_seconds: Annotated[
        Count | None, Meta(description="How long this counts for context_savings. Left out or 0: for ever.")
    ] = None
    pricing: Annotated[Pricing | None, Meta(description="Prices, to have the saving in money.")] = None
    importance: Annotated[Importance, Meta(description="What else counts for pulled memories.")] = Importance()
    normalize_log_timestamps: Annotated[
        bool, Meta(description="Take log lines that differ only in their time for equal. Default false.")
    ] = False
    inline_handles: Annotated[
        bool, Meta(description="Leave a line with the handle where content was set aside. Default false.")
    ] = False
    ids_as_strings: Annotated[
        bool, Meta(description="Answer with ids as decimal strings, which no client rounds. Default false.")
    ] = False
    slim_response: Annotated[bool, Meta(description="Leave sections and decisions empty. Default false.")] = False


class CompileRequest(msgspec.Struct, frozen=True):
    """A compilation: what the agent works on, what could be sent, and how much may be."""

    query: Annotated[str, Meta(description="What the agent is working on: it decides what is relevant.")]
    fragments: Annotated[
        list[ContextFragment], Meta(description="What could be sent, at most 1024 fragments, in order.")
    ]
    token_budget: Annotated[
        Count, Meta(description="The most tokens that content may have; 10,000,000 at most are used.")
    ]
    project: Annotated[str | None, Meta(description="The project that the saving is counted for.")] = None
    target_model: Annotated[str | None, Meta(description="The model that the saving is priced for.")] = None
    memory_scope: Annotated[MemoryScope | None, Meta(description="Also compile the best stored memories in.")] = None
    policy: Annotated[CompilePolicy, Meta(description="The knobs; left out ones have their defaults.")] = (
        CompilePolicy()
    )


class SegmentationPolicy(msgspec.Struct, frozen=True):
    """How a transcript is cut into fragments."""

    format: Annotated[TranscriptFormat, Meta(description="auto (default), plain or jsonl.")] = "auto"
    min_segment_bytes: Annotated[
        Count, Meta(description="Smaller neighbours of one kind in one turn are joined: 256 unless given.")
    ] = DEFAULT_SEGMENT_BYTES
    cache_system_turn: Annotated[
        bool, Meta(description="Put a first turn by the system in the stable prefix. Default true.")
    ] = True


class TranscriptRequest(msgspec.Struct, frozen=True):
    """A compilation of a raw session; ``transcript`` is its text, at most 8 MiB."""

    query: str
    transcript: str
    token_budget: int
    project: str | None = None
    target_model: str | None = None
    policy: CompilePolicy = CompilePolicy()
    segmentation: SegmentationPolicy = SegmentationPolicy()


class PulledMemory(msgspec.Struct, frozen=True):
    """A stored fact that is compiled in. ``relevance`` in [0, 1] is its blended rank, ``why`` words for the reason."""

    id: int
    content: str
    relevance: float
    why: str


# What is answered


class Section(msgspec.Struct, frozen=True):
    """A part of the content: what is the same from call to call, or the rest."""

    kind: Annotated[Literal["cache", "body"], Meta(description="cache: the stable prefix; body: the rest.")]
    content: Annotated[str, Meta(description="The section's text.")]
    fragment_ids: Annotated[list[FragmentId], Meta(description="The fragments in it, in order.")]


class Decision(msgspec.Struct, frozen=True):
    """What became of one fragment, and why."""

    fragment_id: FragmentId
    content_hash: Annotated[int, Meta(extra=_ID, description="The hash of its content.")]
    action: Annotated[Action, Meta(description="What was done with it.")]
    rule_id: Annotated[str, Meta(description="The rule that decided.")]
    relevance: Annotated[float, Meta(description="How well it matches the query, 0 to 1.")]
    risk: Annotated[Risk, Meta(description="How much could be missing because of it.")]
    reason: Annotated[str, Meta(description="The decision in words.")]
    memory_id: MemoryId | UnsetType = UNSET
    handle: Handle | UnsetType = UNSET


class Source(msgspec.Struct, frozen=True):
    """Where the original of a fragment is kept."""

    fragment_id: FragmentId
    handle: Handle
    memory_id: MemoryId | UnsetType = UNSET


class RetrievalHandle(msgspec.Struct, frozen=True):
    """Something that was set aside, and what taking it back would cost."""

    handle: Handle
    fragment_id: FragmentId
    estimated_tokens: Annotated[Count, Meta(description="The tokens of the original.")]


class Warning(msgspec.Struct, frozen=True):
    """Something that the caller should look at: relevant content that was set aside, or originals not kept."""

    reason: Annotated[str, Meta(description="The warning in words.")]
    fragment_id: FragmentId | UnsetType = UNSET
    action: Annotated[Action, Meta(description="What was done with the fragment.")] | UnsetType = UNSET
    relevance: Annotated[float, Meta(description="How well the fragment matches the query.")] | UnsetType = UNSET


class Insights(msgspec.Struct, frozen=True):
    """The account of a compilation, in tokens, and in money when prices were given."""

    tokens_in: Annotated[Count, Meta(description="The tokens of everything that came in.")]
    tokens_out: Annotated[Count, Meta(description="The tokens of content, and of the images kept.")]
    tokens_saved: Annotated[Count, Meta(description="The difference, never below 0.")]
    tokens_saved_by_rule: Annotated[
        dict[str, Annotated[Count, Meta(description="Tokens.")]], Meta(description="What each rule saved.")
    ]
    estimated_cost_saved_micros: (
        Annotated[Count, Meta(description="The saving in millionths of the currency's unit.")] | UnsetType
    ) = UNSET
    currency: Annotated[str, Meta(description="Of the price table.")] | UnsetType = UNSET
    pricing_version: Annotated[str, Meta(description="Of the price table.")] | UnsetType = UNSET


class CompiledContext(msgspec.Struct, frozen=True):
    """The prompt context, and an account of every fragment."""

    content: Annotated[str, Meta(description="What to send.")]
    sections: Annotated[list[Section], Meta(description="The content by section.")]
    decisions: Annotated[list[Decision], Meta(description="One for each fragment, in order; then pulled memories.")]
    sources: Annotated[list[Source], Meta(description="Where each distinct original is kept.")]
    retrieval_handles: Annotated[list[RetrievalHandle], Meta(description="What was set aside.")]
    insights: Annotated[Insights, Meta(description="The tokens before and after.")]
    risk: Annotated[Risk, Meta(description="The highest risk of any decision. high: something critical is missing.")]
    warnings: Annotated[list[Warning], Meta(description="Relevant content that was set aside, and other trouble.")]


class Segment(msgspec.Struct, frozen=True):
    """A piece of a transcript. Its bytes are ``byte_start`` to ``byte_end`` of the UTF-8 text."""

    index: Annotated[Count, Meta(description="Its place: the index of its decision.")]
    turn: Annotated[Count, Meta(description="The turn it belongs to.")]
    kind: Annotated[SegmentKind, Meta(description="body, code or log.")]
    byte_start: Annotated[Count, Meta(description="Where it begins in the transcript's UTF-8 bytes.")]
    byte_end: Annotated[Count, Meta(description="Where it ends.")]
    fragment_id: FragmentId
    role: Annotated[str, Meta(description="Who speaks, when the turn says so.")] | UnsetType = UNSET


class Segmentation(msgspec.Struct, frozen=True):
    """How a transcript was cut; the ranges of the segments partition it."""

    format_detected: Annotated[Literal["plain", "jsonl"], Meta(description="How the transcript was read.")]
    segments: Annotated[list[Segment], Meta(description="The pieces, in order.")]
    merged_segments: Annotated[Count, Meta(description="How many pieces were joined to a neighbour.")]


class CompiledTranscript(msgspec.Struct, frozen=True):
    """A compiled transcript and how it was cut."""

    context: Annotated[CompiledContext, Meta(description="As compile_context answers.")]
    segmentation: Annotated[Segmentation, Meta(description="How the transcript was cut.")]


class ContextSource(msgspec.Struct, frozen=True):
    """The original behind a handle."""

    handle: Handle
    content: Annotated[str, Meta(description="The text, byte for byte; for an image, its caption.")]
    media: Annotated[Media, Meta(description="The image, when there was one.")] | UnsetType = UNSET


class ContextSavings(msgspec.Struct, frozen=True):
    """The sum of recorded compilations."""

    events: Annotated[Count, Meta(description="How many compilations were counted.")]
    tokens_in: Annotated[Count, Meta(description="The tokens that came in.")]
    tokens_out: Annotated[Count, Meta(description="The tokens that came out.")]
    tokens_saved: Annotated[Count, Meta(description="The tokens that were saved.")]
    cost_saved_micros_by_currency: Annotated[
        dict[str, Annotated[Count, Meta(description="Millionths of the currency's unit.")]],
        Meta(description="The saving in millionths of the unit, by currency."),
    ]
    truncated: Annotated[bool, Meta(description="False: everything recorded is counted.")] = False


class BudgetSuggestion(msgspec.Struct, frozen=True):
    """The context window of a model, None when it is not in the table."""

    window: Annotated[Count | None, Meta(description="The model's context window in tokens; null: not in the table.")]
    suggested_budget: Annotated[Count | None, Meta(description="The window less reserve_tokens.")]
    source: Annotated[str, Meta(description="Which table says so, and as of when.")]


# Working contexts


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """A statement, and where it comes from."""

    text: Annotated[str, Meta(description="The statement.")]
    source: Annotated[str | None, Meta(description="Where it comes from.")] = None


class DecisionReference(msgspec.Struct, frozen=True):
    """A decision of a compilation."""

    fragment_id: FragmentId
    rule_id: Annotated[str, Meta(description="The rule that decided.")]


class SourceReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """An original that matters."""

    fragment_id: FragmentId
    handle: Handle
    memory_id: Annotated[int | None, Meta(extra=_ID, description="The memory it was pulled from.")] = None


class WorkingContext(msgspec.Struct, frozen=True):
    """The distilled state of a session, for the next one to take up. At most 1 MiB as JSON."""

    goal: Annotated[str | None, Meta(description="What the session is to achieve.")] = None
    active_constraints: Annotated[list[Note], Meta(description="What must be observed.")] = []
    verified_facts: Annotated[list[Note], Meta(description="What is known for sure.")] = []
    open_hypotheses: Annotated[list[Note], Meta(description="What is not settled yet.")] = []
    decisions: Annotated[list[DecisionReference], Meta(description="Decisions of compilations to remember.")] = []
    exact_evidence: Annotated[list[SourceReference], Meta(description="Originals to go back to.")] = []
    pending_actions: Annotated[list[str], Meta(description="What is still to be done.")] = []


class WorkingContextSession(msgspec.Struct, frozen=True):
    """A session that can be resumed. ``saved_at`` is in Unix seconds."""

    session: Annotated[str, Meta(description="The session's id.")]
    saved_at: Annotated[Count, Meta(description="When it was saved last, in Unix seconds.")]


class LoadedWorkingContext(msgspec.Struct, frozen=True):
    """What was saved for a session, and the other sessions of the project, latest first."""

    found: Annotated[bool, Meta(description="False when nothing is saved under exactly this pair.")]
    working: Annotated[WorkingContext | None, Meta(description="The saved state; null when there is none.")]
    other_sessions: Annotated[
        list[WorkingContextSession], Meta(description="The project's other sessions, latest first.")
    ]
