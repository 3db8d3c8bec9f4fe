"""The tools that make text fit a token budget, and account for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ...context.model import (
    BudgetSuggestion,
    CompiledContext,
    CompiledTranscript,
    CompilePolicy,
    CompileRequest,
    ContextFragment,
    ContextSavings,
    ContextSource,
    Count,
    Decision,
    SegmentationPolicy,
    TranscriptRequest,
)
from ...errors import IngestPath, InvalidArgument
from ..declare import AnyTool, Host, Tool
from ..wire import ID


def _read(host: Host, request: CompileRequest) -> CompileRequest:
    """The request with its files read. Raises IngestPath for a fragment that says too much or nothing, before any file
    is looked at."""
    _check_shapes(request.fragments)
    return msgspec.structs.replace(request, fragments=host.roots.resolve_fragments(request.fragments))


def _check_shapes(fragments: Sequence[ContextFragment]) -> None:
    for index, fragment in enumerate(fragments):
        given = fragment.content != "" or fragment.media is not None
        if fragment.path is not None and given:
            raise IngestPath(
                f"fragments[{index}] has a path and content or media: pass the path alone", field=f"fragments[{index}]"
            )
        if fragment.path is None and not given:
            raise IngestPath(
                f"fragments[{index}] is empty: it needs content, media or a path", field=f"fragments[{index}]"
            )


# compile_context


def compile_context(host: Host, args: CompileRequest) -> CompiledContext:
    return host.service.compile_context(_read(host, args))


# compile_transcript


class CompileTranscript(msgspec.Struct, frozen=True):
    query: Annotated[str, Meta(description="What the agent is working on: it decides what is relevant.")]
    token_budget: Annotated[
        Count, Meta(description="The most tokens that content may have; 10,000,000 at most are used.")
    ]
    transcript: Annotated[
        str | None,
        Meta(
            description="The session's text, at most 8 MiB: turns that begin with 'User:', 'Assistant:', ..., or lines "
            "of JSON."
        ),
    ] = None
    path: Annotated[
        str | None,
        Meta(description="Instead of transcript: an absolute path to read it from, where the operator has opened it."),
    ] = None
    project: Annotated[str | None, Meta(description="The project that the saving is counted for.")] = None
    target_model: Annotated[str | None, Meta(description="The model that the saving is priced for.")] = None
    policy: Annotated[CompilePolicy, Meta(description="The knobs; left out ones have their defaults.")] = (
        CompilePolicy()
    )
    segmentation: Annotated[SegmentationPolicy, Meta(description="How the session is cut into fragments.")] = (
        SegmentationPolicy()
    )


def compile_transcript(host: Host, args: CompileTranscript) -> CompiledTranscript:
    if (args.transcript is None) == (args.path is None):
        raise InvalidArgument("pass either transcript or path, and not both", field="transcript")
    text = args.transcript if args.path is None else host.roots.read_transcript(args.path)
    return host.service.compile_transcript(
        TranscriptRequest(
            args.query,
            text or "",
            args.token_budget,
            args.project,
            args.target_model,
            args.policy,
            args.segmentation,
        )
    )


# explain_compilation


class ExplainCompilation(msgspec.Struct, frozen=True):
    request: Annotated[CompileRequest, Meta(description="The request of compile_context to explain, as it was sent.")]
    fragment_id: Annotated[
        int, Meta(extra=ID, description="The fragment_id of the decision, as compile_context answered it.")
    ]
    fragment_index: Annotated[
        Count | None,
        Meta(
            description="The fragment's place in request.fragments, counted from 0. It goes before fragment_id, and "
            "tells fragments of equal content apart."
        ),
    ] = None


def explain_compilation(host: Host, args: ExplainCompilation) -> Decision:
    return host.service.explain_compilation(_read(host, args.request), args.fragment_id, args.fragment_index)


# retrieve_context_source, context_savings, suggest_budget


class RetrieveContextSource(msgspec.Struct, frozen=True):
    handle: Annotated[str, Meta(description="A ctx://source/<number> from a compiled context.")]


def retrieve_context_source(host: Host, args: RetrieveContextSource) -> ContextSource:
    return host.service.retrieve_context_source(args.handle)


class Savings(msgspec.Struct, frozen=True):
    project: Annotated[str | None, Meta(description="Only what was compiled for this project.")] = None


def context_savings(host: Host, args: Savings) -> ContextSavings:
    return host.service.context_savings(args.project)


class SuggestBudget(msgspec.Struct, frozen=True):
    target_model: Annotated[str, Meta(description="The model's name; upper or lower case does not matter.")]
    reserve_tokens: Annotated[Count, Meta(description="Tokens to keep free for the answer. Default 0.")] = 0


def suggest_budget(host: Host, args: SuggestBudget) -> BudgetSuggestion:
    return host.service.suggest_budget(args.target_model, args.reserve_tokens)


def _strings_for(args: CompileRequest | CompileTranscript) -> bool:
    return args.policy.ids_as_strings


def _strings_for_request(args: ExplainCompilation) -> bool:
    return _strings_for(args.request)


TOOLS: Final[tuple[AnyTool, ...]] = (
    Tool(
        name="compile_context",
        title="Fit context into a budget",
        description="Make one prompt context of many texts and images, within a token budget, without a model: code, "
        "rules ('never ...') and exact values go first and stay word for word, repetitions are dropped, logs are "
        "folded, and what does not fit is set aside under a handle. Use it before sending more than the model's window "
        "or your budget takes. Look at risk before you use content: high means that something critical is missing; "
        "then raise token_budget, or fetch the originals named in decisions and retrieval_handles with "
        "retrieve_context_source. With memory_scope the best stored facts are compiled in too. The same request gives "
        "the same context.",
        arguments=CompileRequest,
        result=CompiledContext,
        handler=compile_context,
        ids_as_strings=_strings_for,
    ),
    Tool(
        name="compile_transcript",
        title="Fit a transcript into a budget",
        description="Fit a raw agent session into a token budget: it is cut into turns, code and logs, and these are "
        "compiled as compile_context does. Pass the whole text as transcript, or a path to it. segmentation in the "
        "answer tells which bytes became which fragment.",
        arguments=CompileTranscript,
        result=CompiledTranscript,
        handler=compile_transcript,
        ids_as_strings=_strings_for,
    ),
    Tool(
        name="explain_compilation",
        title="Explain a compilation",
        description="Tell why one fragment of a compile_context request was kept, shortened, set aside or dropped. "
        "Pass the same request again: it is compiled anew, and nothing is stored or counted. Stored facts and files "
        "are those of now.",
        arguments=ExplainCompilation,
        result=Decision,
        handler=explain_compilation,
        read_only=True,
        idempotent=True,
        ids_as_strings=_strings_for_request,
    ),
    Tool(
        name="retrieve_context_source",
        title="Retrieve an original",
        description="Get back the original behind a ctx://source/ handle, byte for byte, with its image if it had one. "
        "Use it when what compile_context set aside, shortened or dropped is needed after all.",
        arguments=RetrieveContextSource,
        result=ContextSource,
        handler=retrieve_context_source,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="context_savings",
        title="Count what compiling saved",
        description="Sum up the tokens, and the money where prices were given, that compilations saved so far, for one "
        "project or all. The numbers are estimates made at each compilation, summed exactly; no provider's bill.",
        arguments=Savings,
        result=ContextSavings,
        handler=context_savings,
        read_only=True,
        idempotent=True,
    ),
    Tool(
        name="suggest_budget",
        title="Suggest a token budget",
        description="Look up the context window of a model, and what it leaves beside reserve_tokens, as a "
        "token_budget to start from. The table is built in, and nothing is asked over a network; null means that it "
        "does not know the model.",
        arguments=SuggestBudget,
        result=BudgetSuggestion,
        handler=suggest_budget,
        read_only=True,
        idempotent=True,
    ),
)
