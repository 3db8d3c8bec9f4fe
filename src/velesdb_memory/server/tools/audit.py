"""The tools that show what the memory holds and how it is set up."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...limits import DEFAULT_LIST_LIMIT
from ..declare import AnyTool, Host, Tool
from ..wire import ID
from .common import Content, Count, Filter, IdNumber, IdText, Metadata, visible


class ListMemories(msgspec.Struct, frozen=True):
    cursor: Annotated[
        int | None, Meta(extra=ID, description="The next_cursor of the page before. Left out: the first page.")
    ] = None
    limit: Annotated[
        int, Meta(ge=0, description="How many memories a page holds at most: 50 unless given, 1 to 1000.")
    ] = DEFAULT_LIST_LIMIT
    filter: Filter = None
    include_internal: Annotated[
        bool,
        Meta(
            description="Also list the store's own records (entities, sources, ...) and reserved keys. Default false."
        ),
    ] = False


class Row(msgspec.Struct, frozen=True):
    id: IdNumber
    id_str: IdText
    content: Content
    metadata: Metadata | UnsetType = UNSET


class Listed(msgspec.Struct, frozen=True):
    memories: Annotated[list[Row], Meta(description="The memories of this page, ids ascending.")]
    next_cursor: Annotated[str | None, Meta(description="Pass it as cursor to go on; null on the last page.")]


def list_memories(host: Host, args: ListMemories) -> Listed:
    page = host.service.list_memories(
        cursor=args.cursor, limit=args.limit, filter=args.filter, include_internal=args.include_internal
    )
    rows = [Row(row.id, row.id_str, row.content, visible(row.metadata)) for row in page.memories]
    return Listed(rows, page.next_cursor)


class NoArguments(msgspec.Struct, frozen=True):
    pass


class Embedder(msgspec.Struct, frozen=True):
    model: Annotated[str | None, Meta(description="The embedding model that runs; null when the host named none.")]
    dimension: Annotated[
        Count | None, Meta(description="How many numbers a vector has; null until a model server has answered.")
    ]
    semantic: Annotated[bool | None, Meta(description="False: texts match by their words; true: by their meaning.")]
    error: Annotated[str | None, Meta(description="Why it gave no vector the last time; null when it did.")]


class Provenance(msgspec.Struct, frozen=True):
    recorded: Annotated[bool, Meta(description="Whether the store knows which model filled it.")]
    model: Annotated[str | None, Meta(description="That model.")]
    dimension: Annotated[Count | None, Meta(description="How many numbers its vectors have.")]


class Extraction(msgspec.Struct, frozen=True):
    configured: Annotated[bool, Meta(description="Whether there is a default extractor for passages.")]
    autograph_active: Annotated[bool, Meta(description="Whether facts are linked to what they mention as they come.")]
    autograph_dropped: Annotated[int, Meta(ge=0, description="How many facts a full queue has left unlinked.")]
    autograph_failed: Annotated[int, Meta(ge=0, description="How many facts the extractor failed on.")]


class Corpus(msgspec.Struct, frozen=True):
    facts: Annotated[int, Meta(ge=0, description="How many facts are stored and have not expired.")]
    edges: Annotated[int, Meta(ge=0, description="How many links join them; with 0, why has nothing to follow.")]


class Storage(msgspec.Struct, frozen=True):
    path: Annotated[str, Meta(description="Where the memory is kept.")]
    backend: Annotated[str, Meta(description="By which kind of store.")]
    bytes: Annotated[int, Meta(ge=0, description="How much room it takes.")]


class Pending(msgspec.Struct, frozen=True):
    extraction: Annotated[int, Meta(ge=0, description="Passages accepted and not yet read.")]
    autograph: Annotated[int, Meta(ge=0, description="Facts not yet linked.")]


class MigrationState(msgspec.Struct, frozen=True):
    phase: Annotated[str | None, Meta(description="The phase of the last embedding migration; null before the first.")]
    running: Annotated[bool, Meta(description="Whether it is running.")]
    advice: Annotated[
        str | None, Meta(description="What has to be done about embedding models; null when nothing has.")
    ]


class Status(msgspec.Struct, frozen=True):
    embedder: Annotated[Embedder, Meta(description="The model that runs.")]
    provenance: Annotated[Provenance, Meta(description="The model that filled the store.")]
    extraction: Annotated[Extraction, Meta(description="What turns passages into facts and links.")]
    memory: Annotated[Corpus, Meta(description="How much is remembered.")]
    store: Annotated[Storage, Meta(description="Where it is kept.")]
    pending: Annotated[Pending, Meta(description="Work accepted and not ended.")]
    migration: Annotated[MigrationState, Meta(description="Whether the memory changes to another embedding model.")]


def memory_status(host: Host, _: NoArguments) -> Status:
    return msgspec.convert(host.service.memory_status(), Status, from_attributes=True)


TOOLS: Final[tuple[AnyTool, ...]] = (
    Tool(
        name="list_memories",
        title="List memories",
        description="List every stored memory page by page, ids ascending, optionally only those with given metadata "
        "values. Use it to audit or clean up: recall only shows what resembles a query. Pass next_cursor as cursor "
        "until it is null.",
        arguments=ListMemories,
        result=Listed,
        handler=list_memories,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="memory_status",
        title="Memory status",
        description="Report how the memory is set up and how much it holds. embedder is the model that runs (semantic: "
        "false means words are matched rather than meaning), provenance the model that filled the store, memory the "
        "number of facts and links, pending the work that has not ended. Call it at the start of a session, and when "
        "recall or why surprises you: with 0 edges, why has nothing to follow.",
        arguments=NoArguments,
        result=Status,
        handler=memory_status,
        read_only=True,
        idempotent=True,
    ),
)
