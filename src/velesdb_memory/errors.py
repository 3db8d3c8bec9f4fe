"""Every error this package raises, in one tree.

::

    VelesMemoryError
    ├── InvalidInput (ValueError)          the caller can fix it; JSON-RPC -32602
    │   ├── EmptyFact  FactTooLarge  QueryTooLarge
    │   ├── ReservedKey  InvalidMetadata  MetadataTooLarge
    │   ├── InvalidFilter  InvalidRelation  SelfRelation
    │   ├── InvalidArgument                an id, a count, a cursor, a duration, a setting
    │   ├── TransferFormat                 an import file that is not one
    │   ├── ContextBudget                  nothing can be sent within the budget
    │   ├── ContextOverLimit               a fragment, a file, an image, a transcript, a working context is too large
    │   ├── IngestDisabled  IngestOutsideRoots  IngestPath
    │   ├── FragmentIndexOutOfBounds  FragmentNotFound
    │   ├── SegmentationError              a transcript that is not in the format it was said to be in
    │   ├── JobConflict                    an idempotency key re-used with another payload
    │   ├── MalformedFile                  another program's configuration is not what that program reads
    │   ├── ReadOnlyAccess                 a write, with a token that may only read
    │   └── MigrationRefused               a migration is in a state, or a target has changed, so that this cannot be
    ├── NotFound (KeyError)                nothing lives under that id; JSON-RPC -32602
    │   ├── UnknownMemory
    │   ├── UnknownHandle                  no original is kept behind a context handle
    │   └── UnknownRequest
    └── Internal (RuntimeError)            not the caller's fault; JSON-RPC -32603
        ├── StorageError
        │   ├── StoreForeign  StoreCorrupt  StoreTooNew  StoreFull  StoreUnwritable
        │   └── JournalFull                a migration cannot keep up with the writes
        ├── IdCollision                    two texts, one 64-bit id
        ├── EmbedError
        │   ├── EmbedderUnavailable        the model cannot be asked now; what needs it can be tried again later
        │   └── ProvenanceMismatch         the store was filled by another model
        ├── ExtractError
        │   └── ExtractorUnavailable       none configured, or not the one asked for
        ├── WorkingContextCodec            a stored working context cannot be read
        ├── QueueFull                      too many jobs are waiting; try again later
        ├── ServiceFailed                  the operating system would not run the daemon
        ├── Cancelled                      the caller withdrew the call before it was done
        └── RerankError

Each error carries ``code`` (the class name, stable), ``category``, and, where they apply, ``field`` (the argument
at fault) and ``limit`` (the number that was exceeded). The wording of messages is not part of the contract.
"""

from __future__ import annotations

from enum import StrEnum


class Category(StrEnum):
    """Whose fault an error is; edges map this, never a class or a message."""

    INVALID_INPUT = "invalid_input"
    NOT_FOUND = "not_found"
    INTERNAL = "internal"


class VelesMemoryError(Exception):
    """Base of every error raised on purpose by this package."""

    category: Category = Category.INTERNAL

    def __init__(self, message: str, *, field: str | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.limit = limit

    @property
    def code(self) -> str:
        """The stable name of the kind of error: its class name."""
        return type(self).__name__

    def __str__(self) -> str:
        # KeyError would show the repr of its argument
        return self.message


class InvalidInput(VelesMemoryError, ValueError):
    """The request cannot be carried out as given; nothing was written."""

    category = Category.INVALID_INPUT


class NotFound(VelesMemoryError, KeyError):
    """The request names something that does not exist; nothing was written."""

    category = Category.NOT_FOUND


class Internal(VelesMemoryError, RuntimeError):
    """Storage, a model or this package failed; nothing was written."""

    category = Category.INTERNAL


class EmptyFact(InvalidInput):
    """A text that must say something is empty or only white space."""

    def __init__(self, field: str = "fact") -> None:
        super().__init__(f"{field} must not be empty: it has no character other than white space", field=field)


class FactTooLarge(InvalidInput):
    """A text is longer than what may be stored under one id."""

    def __init__(self, size: int, limit: int, field: str = "fact") -> None:
        super().__init__(
            f"{field} is {size} bytes of UTF-8, over the embeddable cap of {limit}: split it into several facts, "
            "or store a summary",
            field=field,
            limit=limit,
        )


class QueryTooLarge(InvalidInput):
    """A query is longer than what a search accepts."""

    def __init__(self, size: int, limit: int, field: str = "query") -> None:
        super().__init__(f"{field} is {size} bytes of UTF-8, over the cap of {limit}", field=field, limit=limit)


class ReservedKey(InvalidInput):
    """A metadata or filter key belongs to the store itself."""

    def __init__(self, key: str, field: str = "metadata") -> None:
        super().__init__(f"{field} key '{key}' is reserved: choose another name", field=field)
        self.key = key


class InvalidMetadata(InvalidInput):
    """Metadata is not a JSON object, or holds a value JSON cannot carry."""


class MetadataTooLarge(InvalidInput):
    """Metadata is larger than what one fact may carry."""

    def __init__(self, size: int, limit: int, field: str = "metadata") -> None:
        super().__init__(f"{field} is {size} bytes as compact JSON, over the cap of {limit}", field=field, limit=limit)


class InvalidFilter(InvalidInput):
    """A filter names no plain field, an unknown operator, or a value that cannot be compared."""

    def __init__(self, reason: str, field: str = "filters", limit: int | None = None) -> None:
        super().__init__(f"invalid filter field: {reason}", field=field, limit=limit)


class InvalidRelation(InvalidInput):
    """A relation label is blank, too long, or holds a control character."""

    def __init__(self, reason: str, *, field: str = "relation", limit: int | None = None) -> None:
        super().__init__(f"invalid relation label: {reason}", field=field, limit=limit)


class SelfRelation(InvalidInput):
    """Both ends of an edge are the same memory."""

    def __init__(self, memory_id: int, field: str = "to") -> None:
        super().__init__(f"memory {memory_id} cannot be related to itself", field=field)
        self.memory_id = memory_id


class InvalidArgument(InvalidInput):
    """An argument has the wrong type or lies outside its range."""


class TransferFormat(InvalidInput):
    """An import file is in no format this version reads."""


class JobConflict(InvalidInput):
    """An idempotency key was used before with another payload."""


class MigrationRefused(InvalidInput):
    """The migration's state does not admit what was asked for, or its target is not the one it began with."""


class ContextBudget(InvalidInput):
    """The token budget leaves no room for content."""

    def __init__(self, budget: int, reserve: int) -> None:
        super().__init__(
            f"token_budget {budget} less response_reserve_tokens {reserve} leaves no token for content",
            field="token_budget",
        )


class ContextOverLimit(InvalidInput):
    """Something that was to be compiled or kept is larger, or more numerous, than what is taken."""


class IngestDisabled(InvalidInput):
    """A fragment names a file, and no directory is open for reading files."""


class IngestOutsideRoots(InvalidInput):
    """A fragment names a file outside the directories that are open for reading files."""


class IngestPath(InvalidInput):
    """A fragment names a file that cannot be read as text, or does not say what to compile."""


class FragmentIndexOutOfBounds(InvalidInput):
    """The request to explain has no fragment at this place."""


class FragmentNotFound(InvalidInput):
    """The request to explain has no fragment with this id."""


class SegmentationError(InvalidInput):
    """A transcript is not in the format that was asked for, or is empty."""


class MalformedFile(InvalidInput):
    """A configuration file of another program is not what that program reads; ``line`` and ``column`` count from 1."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None, *, file: str = "") -> None:
        place = "" if line is None else f"line {line}, column {column}: "
        super().__init__(f"{file}{': ' if file else ''}{place}{reason}", field="file")
        self.reason, self.line, self.column = reason, line, column


class ReadOnlyAccess(InvalidInput):
    """The caller's token may read and not write."""

    def __init__(self, tool: str) -> None:
        super().__init__(f"{tool} writes, and the access token of this client may only read", field="name")
        self.tool = tool


class UnknownMemory(NotFound):
    """No live memory is stored under this id."""

    def __init__(self, memory_id: int, field: str = "id") -> None:
        super().__init__(f"memory {memory_id} does not exist", field=field)
        self.memory_id = memory_id


class UnknownHandle(NotFound):
    """No original is kept behind this context handle: it is malformed, or was never stored, or has expired."""

    def __init__(self, handle: str) -> None:
        super().__init__(f"no context source is stored under {handle!r}", field="handle")
        self.handle = handle


class UnknownRequest(NotFound):
    """No extraction job is recorded under this request id."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"extraction request {request_id} does not exist", field="request_id")
        self.request_id = request_id


class StorageError(Internal):
    """The store could not be read or written."""


class StoreForeign(StorageError):
    """The database file belongs to another program."""


class StoreCorrupt(StorageError):
    """The database file is damaged."""


class StoreTooNew(StorageError):
    """The store was written by a newer version of this package."""


class StoreFull(StorageError):
    """The disk is full; the operation was rolled back."""


class StoreUnwritable(StorageError):
    """The store's directory or files cannot be created or written."""


class JournalFull(StorageError):
    """The journal of a running migration has no room for another change; this one was refused."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the migration's journal is full (journal_max_bytes {limit}): this write was refused, because it could "
            "not be carried over. Try again once the migration has caught up; when it has stopped (migration_status), "
            "migration_recover goes on with it and migration_cancel gives it up",
            field="journal_max_bytes",
            limit=limit,
        )


class IdCollision(Internal):
    """Another text already holds the 64-bit id that this one hashes to; nothing was overwritten."""


class EmbedError(Internal):
    """The embedding model failed or answered with an unusable vector."""


class EmbedderUnavailable(EmbedError):
    """The embedding model cannot be asked: its server does not answer or lets nobody in, or it is not installed."""


class ProvenanceMismatch(EmbedError):
    """The store's vectors come from another model or dimension than the configured embedder."""


class ExtractError(Internal):
    """The extractor failed, or its answer could not be read."""


class ExtractorUnavailable(ExtractError):
    """No extractor is configured, or not the one that was asked for."""


class WorkingContextCodec(Internal):
    """A stored working context cannot be read back."""


class QueueFull(Internal):
    """As many jobs as the store admits are waiting; nothing was accepted."""


class ServiceFailed(Internal):
    """The operating system would not do what was asked of it for the daemon."""


class Cancelled(Internal):
    """The caller withdrew the call before it was done; nothing was written."""

    def __init__(self) -> None:
        super().__init__("the call was cancelled by its caller")


class RerankError(Internal):
    """The caller's reranker failed."""
