"""The part of the memory service that compiles contexts and keeps sessions resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import StorageError
from .memory.core import Core
from .model import JsonObject, PurgeReport

if TYPE_CHECKING:
    from .context.compiler import ContextCompiler
    from .context.model import (
        BudgetSuggestion,
        CompiledContext,
        CompiledTranscript,
        CompileRequest,
        ContextSavings,
        ContextSource,
        Decision,
        LoadedWorkingContext,
        TranscriptRequest,
        WorkingContext,
        WorkingContextSession,
    )
    from .memory.fused import Reranker


class ContextService:
    """What :class:`~velesdb_memory.MemoryService` does beside remembering; it is not made by itself."""

    _core: Core
    _compiler: ContextCompiler | None
    _closed: bool

    def _compiling(self, compiler: ContextCompiler | None) -> ContextCompiler:
        if self._closed:
            raise StorageError("the store is closed")
        if compiler is not None:
            return compiler
        if self._compiler is None:
            from .context.compiler import ContextCompiler

            self._compiler = ContextCompiler()
        return self._compiler

    def compile_context(self, request: CompileRequest, compiler: ContextCompiler | None = None) -> CompiledContext:
        """Make one context of the request's fragments, within its token budget, with a reason for each decision.

        With a ``memory_scope`` the best stored facts for the query are compiled in behind the fragments: found as
        ``recall_fused`` finds, weighed by ``policy.importance``. Unless the policy says otherwise the distinct
        originals are kept, so that every handle leads back (``retrieve_context_source``), and the saving is counted
        (``context_savings``), in one transaction. When that fails, or the search had to do without vectors, the
        context comes with a warning. ``project``, ``target_model`` and a currency are at most 256 bytes.

        Raises ContextBudget, ContextOverLimit, MetadataTooLarge, IngestDisabled (only a server reads paths),
        QueryTooLarge, InvalidArgument, and what ``recall_fused`` raises.
        """
        from .memory import compiling

        return compiling.compile_context(self._core, self._compiling(compiler), request)

    def compile_context_reranked(
        self, request: CompileRequest, reranker: Reranker, compiler: ContextCompiler | None = None
    ) -> CompiledContext:
        """``compile_context`` with ``reranker`` choosing the memories: it gets all candidates, best first, and its
        first k are compiled in. Raises RerankError when it fails."""
        from .memory import compiling

        return compiling.compile_context(self._core, self._compiling(compiler), request, reranker)

    def compile_transcript(
        self, request: TranscriptRequest, compiler: ContextCompiler | None = None
    ) -> CompiledTranscript:
        """``compile_context`` for a raw session of up to 8 MiB, which is cut into turns, code and logs first.

        Raises SegmentationError for an empty transcript or one that is not in the format asked for.
        """
        from .memory import compiling

        return compiling.compile_transcript(self._core, self._compiling(compiler), request)

    def explain_compilation(
        self,
        request: CompileRequest,
        fragment_id: int | str,
        fragment_index: int | None = None,
        compiler: ContextCompiler | None = None,
    ) -> Decision:
        """The decision on one fragment, by compiling the request again; nothing is kept or counted.

        ``fragment_index`` counts the request's fragments from 0 and goes before ``fragment_id``, which finds the first
        decision under that id. With a ``memory_scope`` the memories are those of now. Raises
        FragmentIndexOutOfBounds, FragmentNotFound, and what ``compile_context`` raises.
        """
        from .memory import compiling

        return compiling.explain(self._core, self._compiling(compiler), request, fragment_id, fragment_index)

    def retrieve_context_source(self, handle: str) -> ContextSource:
        """The original behind a handle, byte for byte. Raises UnknownHandle when there is none: never kept, expired,
        forgotten or purged."""
        from .memory import sources

        return sources.retrieve(self._core, handle)

    def purge_sources(
        self, older_than_seconds: int, project: str | None = None, dry_run: bool = False
    ) -> PurgeReport:
        """Delete the originals that no compilation has used for so long (a day more at most); with ``project`` only
        those that no other project used. 0 means all. ``dry_run`` only reports.

        The room is used again by what is stored next.
        """
        from .memory import sources

        return sources.purge(self._core, older_than_seconds, project, dry_run)

    def context_savings(self, project: str | None = None) -> ContextSavings:
        """What all recorded compilations saved, or those of ``project``: exact sums, capped at 2^64 - 1 each."""
        from .memory import savings

        return savings.savings(self._core, project)

    def suggest_budget(self, target_model: str, reserve_tokens: int = 0) -> BudgetSuggestion:
        """The context window of a model in tokens, by a table of this version, and what it leaves beside
        ``reserve_tokens``; both None for a model that is not in it."""
        from .context import windows
        from .memory import checks
        from .text import require_text

        reserve = checks.integer(reserve_tokens, "reserve_tokens")
        return windows.suggest(require_text(target_model, "target_model"), reserve)

    def save_working_context(self, project: str, session: str, working: WorkingContext | JsonObject) -> int:
        """Save the distilled state of a session instead of what was saved for it before; returns the record's id.

        ``project`` and ``session`` are 1 to 256 bytes, not blank, and kept as they are. ``working`` is at most 1 MiB
        as JSON; its ids may be decimal strings. A state that records nothing is refused, and the one before stays.
        ``forget`` removes it by its id. Raises InvalidArgument, ContextOverLimit, IdCollision.
        """
        from .memory import working as contexts

        return contexts.save(self._core, project, session, working)

    def load_working_context(self, project: str, session: str) -> LoadedWorkingContext:
        """What was saved for a session, if anything, and the project's other sessions, latest save first.

        Raises WorkingContextCodec when what is stored cannot be read.
        """
        from .memory import working

        return working.load(self._core, project, session)

    def list_working_contexts(self, project: str) -> list[WorkingContextSession]:
        """The sessions of a project that can be resumed, latest save first; none is no error."""
        from .memory import working

        return working.sessions(self._core, project)
