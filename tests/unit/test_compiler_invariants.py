"""What holds for every compilation, whatever comes in (context.md §32)."""

from __future__ import annotations

import re

import msgspec
from hypothesis import given, settings

from support.fragments import requests
from velesdb_memory.context.chunk import pieces
from velesdb_memory.context.compiler import Compilation, ContextCompiler
from velesdb_memory.context.handles import content_hash, parse_handle
from velesdb_memory.context.media import decode
from velesdb_memory.context.model import CompileRequest

COMPILER = ContextCompiler()
NOTE = re.compile(r"\[… [0-9]+ lines?(?:, [0-9]+ distinct)?\]")
STUB = re.compile(r"\[set aside, [0-9]+ tokens: ctx://source/[0-9]+\]")


def usable(request: CompileRequest) -> int:
    return request.token_budget - request.policy.response_reserve_tokens


def handles(compilation: Compilation) -> list[str]:
    context = compilation.context
    of_decisions = [decision.handle for decision in context.decisions if decision.handle is not msgspec.UNSET]
    return [
        *of_decisions,
        *(entry.handle for entry in context.sources),
        *(entry.handle for entry in context.retrieval_handles),
    ]


@settings(max_examples=700, deadline=None)
@given(requests)
def test_a_compilation_fits_its_budget_and_is_the_same_every_time(request: CompileRequest) -> None:
    first, second = COMPILER.compile(request), COMPILER.compile(request)
    assert first == second
    assert COMPILER.estimator.count(first.content) <= first.insights.tokens_out <= usable(request)
    assert first.insights.tokens_saved == max(0, first.insights.tokens_in - first.insights.tokens_out)
    assert first.content == "\n\n".join(section.content for section in first.sections)


@settings(max_examples=700, deadline=None)
@given(requests)
def test_every_fragment_has_a_decision_and_every_handle_leads_to_an_original(request: CompileRequest) -> None:
    compilation = COMPILER.run(request)
    decisions = compilation.context.decisions
    assert len(decisions) == len(request.fragments)
    originals = {original.hash: original for original in compilation.originals}
    for handle in handles(compilation):
        assert parse_handle(handle) in originals
    for fragment, decision in zip(request.fragments, decisions, strict=True):
        assert decision.content_hash == content_hash(fragment.content.encode())
        assert decision.fragment_id == (decision.content_hash if fragment.id is None else fragment.id)
        if decision.action in ("retrieve", "drop"):
            assert decision.handle is not msgspec.UNSET
        # every byte that came in is kept
        if fragment.media is None:
            assert originals[decision.content_hash].content == fragment.content
        else:
            kept = originals[content_hash(decode(fragment.media.bytes_b64))]
            assert kept.media is not None and decode(kept.media.bytes_b64) == decode(fragment.media.bytes_b64)
            if fragment.content:
                assert fragment.content in (kept.content, originals.get(decision.content_hash, kept).content)


@settings(max_examples=700, deadline=None)
@given(requests)
def test_nothing_goes_out_that_did_not_come_in(request: CompileRequest) -> None:
    content = COMPILER.compile(request).content
    whole = [fragment.content for fragment in request.fragments]
    for line in content.split("\n"):
        said = re.sub(r" \(x[0-9]+\)$", "", line)
        if line and not STUB.fullmatch(line) and not NOTE.fullmatch(line):
            assert any(said in text or line in text for text in whole), line


@settings(max_examples=700, deadline=None)
@given(requests)
def test_what_is_critical_is_there_word_for_word_or_the_risk_is_high(request: CompileRequest) -> None:
    context = COMPILER.compile(request)
    bodies = "\0".join(section.content for section in context.sections)
    for fragment, decision in zip(request.fragments, context.decisions, strict=True):
        critical = decision.rule_id.startswith("preserve.") and decision.rule_id != "preserve.default"
        if (critical or decision.rule_id == "cache.stable_prefix") and decision.risk != "high":
            assert fragment.content in bodies
    order = ["low", "medium", "high"]
    assert context.risk == max((decision.risk for decision in context.decisions), key=order.index, default="low")


@settings(max_examples=300, deadline=None)
@given(requests)
def test_the_stable_prefix_does_not_depend_on_the_query(request: CompileRequest) -> None:
    other = msgspec.structs.replace(request, query="an entirely different question about 4821")

    def prefix(asked: CompileRequest) -> list[str]:
        return [section.content for section in COMPILER.compile(asked).sections if section.kind == "cache"]

    assert prefix(request) == prefix(other)


@settings(max_examples=500, deadline=None)
@given(requests)
def test_pieces_partition_every_text(request: CompileRequest) -> None:
    policy = request.policy.chunk
    for fragment in request.fragments:
        cut = list(pieces(fragment.content, max(256, policy.max_chunk_bytes), policy.boundary))
        assert "".join(cut) == fragment.content
        assert all(cut)
