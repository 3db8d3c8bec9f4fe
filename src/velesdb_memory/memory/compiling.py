"""Compiling with a store behind the compiler: memories go in, originals and counts are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ..context import validation
from ..context.compiler import Compilation, ContextCompiler, decision_for, slimmed
from ..context.model import CompiledContext, CompiledTranscript, CompileRequest, Decision, TranscriptRequest
from ..context.model import Warning as ContextWarning
from ..errors import Internal
from ..ids import parse_id
from . import bridge, checks, savings, sources
from .core import SWEEP_ALONG, Core, expiry

if TYPE_CHECKING:
    from .fused import Reranker


def compile_context(
    core: Core, compiler: ContextCompiler, request: CompileRequest, reranker: Reranker | None = None
) -> CompiledContext:
    """Compile, and keep what the policy says; see MemoryService.compile_context."""
    _check(request)
    compilation, warnings = _compile(core, compiler, request, reranker)
    return _finished(core, request, compilation, warnings)


def compile_transcript(core: Core, compiler: ContextCompiler, request: TranscriptRequest) -> CompiledTranscript:
    """Cut a session up and compile it; see MemoryService.compile_transcript."""
    _check(request)
    compilation, segmentation = compiler.run_transcript(request)
    return CompiledTranscript(_finished(core, request, compilation, []), segmentation)


def explain(
    core: Core,
    compiler: ContextCompiler,
    request: CompileRequest,
    fragment_id: int | str,
    fragment_index: int | None,
) -> Decision:
    """The decision on one fragment; see MemoryService.explain_compilation."""
    number = parse_id(fragment_id, "fragment_id")
    index = None if fragment_index is None else checks.integer(fragment_index, "fragment_index")
    compilation, _ = _compile(core, compiler, request, None)
    return decision_for(compilation.context, request, number, index)


def _check(request: CompileRequest | TranscriptRequest) -> None:
    policy = request.policy
    for name, field in ((request.project, "project"), (request.target_model, "target_model")):
        if name is not None:
            checks.name(name, field)
    if policy.pricing is not None:
        checks.name(policy.pricing.currency, "policy.pricing.currency")
    for seconds, field in (
        (policy.source_ttl_seconds, "policy.source_ttl_seconds"),
        (policy.event_ttl_seconds, "policy.event_ttl_seconds"),
    ):
        checks.ttl(seconds, field)


def _compile(
    core: Core, compiler: ContextCompiler, request: CompileRequest, reranker: Reranker | None
) -> tuple[Compilation, list[str]]:
    # a request that cannot be compiled costs no search
    admitted = validation.admit(request)
    memories, warnings = bridge.pull(core, request, reranker)
    return compiler.run_admitted(admitted, memories), warnings


def _finished(
    core: Core, request: CompileRequest | TranscriptRequest, compilation: Compilation, warnings: Sequence[str]
) -> CompiledContext:
    context = compilation.context
    told = [ContextWarning(words) for words in (*warnings, *_kept(core, request, compilation))]
    if told:
        context = msgspec.structs.replace(context, warnings=[*context.warnings, *told])
    return slimmed(context, request.policy)


def _kept(core: Core, request: CompileRequest | TranscriptRequest, compilation: Compilation) -> list[str]:
    """Keep the originals and count the compilation, as one transaction; what could not be kept, in words.

    What was compiled is of use without them, so a store that fails costs no more than them.
    """
    policy = request.policy
    if not policy.store_sources and not policy.record_events:
        return []
    now = core.clock.now()
    problems: list[str] = []
    try:
        with core.store.transaction(now) as tx:
            if policy.store_sources:
                expires_at = expiry(now, policy.source_ttl_seconds)
                problems += sources.keep(tx, compilation.originals, request.project, expires_at)
            if policy.record_events:
                expires_at = expiry(now, policy.event_ttl_seconds)
                insights = compilation.context.insights
                problem = savings.count(tx, request.project, request.target_model, insights, expires_at)
                problems += [problem] if problem else []
            tx.sweep(SWEEP_ALONG)
    except Internal as error:
        lost = ["the originals were not kept, so that no handle leads back"] if policy.store_sources else []
        lost += ["the saving was not counted"] if policy.record_events else []
        return [f"{', and '.join(lost)}: {error}"]
    return problems
