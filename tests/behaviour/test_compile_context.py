"""Compiling fragments through the library: what is refused, what is kept, what is said about it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from msgspec import UNSET

from support.fragments import png
from velesdb_memory.context.compiler import ContextCompiler
from velesdb_memory.context.handles import content_hash
from velesdb_memory.context.model import (
    ChunkPolicy,
    CompiledContext,
    CompilePolicy,
    CompileRequest,
    ContextFragment,
    Media,
    ModelPrice,
    Pricing,
    PulledMemory,
)
from velesdb_memory.errors import (
    ContextBudget,
    ContextOverLimit,
    IngestDisabled,
    InvalidArgument,
    InvalidInput,
    InvalidMetadata,
    MetadataTooLarge,
    QueryTooLarge,
)

COMPILER = ContextCompiler()


def compiled(*fragments: ContextFragment | str, budget: int = 10_000, query: str = "", **more: Any) -> CompiledContext:
    given = [ContextFragment(entry) if isinstance(entry, str) else entry for entry in fragments]
    names = ("project", "target_model", "memory_scope")
    rest = {name: more.pop(name) for name in names if name in more}
    return COMPILER.compile(CompileRequest(query, given, budget, policy=CompilePolicy(**more), **rest))


def refusal(error: type[InvalidInput], *fragments: ContextFragment | str, **more: Any) -> InvalidInput:
    with pytest.raises(error) as caught:
        compiled(*fragments, **more)
    return caught.value


# What is refused


def test_sizes_at_the_cap_pass_and_one_more_is_refused_by_name() -> None:
    compiled("x" * 1_048_576)
    error = refusal(ContextOverLimit, "fine", "x" * 1_048_577)
    assert (error.field, error.limit) == ("fragments[1].content", 1_048_576)
    compiled(*["same"] * 1_024)
    assert refusal(ContextOverLimit, *["same"] * 1_025).limit == 1_024
    # {"k":"..."} is 8 bytes and the value
    compiled(ContextFragment("x", metadata={"k": "é" * 32_764}))
    error = refusal(MetadataTooLarge, ContextFragment("x", metadata={"k": "é" * 32_764 + "x"}))
    assert (error.field, error.limit) == ("fragments[0].metadata", 65_536)


def test_images_are_bounded_one_by_one_and_in_total() -> None:
    large = Media("image/png", "A" * 4_194_304)
    error = refusal(ContextOverLimit, ContextFragment(media=Media("image/png", "A" * 4_194_308)))
    assert (error.field, error.limit) == ("fragments[0].media.bytes_b64", 4_194_304)
    error = refusal(ContextOverLimit, *[ContextFragment(media=large)] * 16, ContextFragment(media=png(1, 1)))
    assert (error.field, error.limit) == ("fragments[16].media.bytes_b64", 67_108_864)


def test_sixty_four_mebibytes_of_images_compile() -> None:
    media = [Media("image/x", base64.b64encode(bytes([n]) * 3_145_728).decode()) for n in range(16)]
    context = compiled(*[ContextFragment(f"image {n}", media=entry) for n, entry in enumerate(media)], budget=50)
    assert [decision.action for decision in context.decisions] == ["retrieve"] * 16


@pytest.mark.parametrize("garbage", ["A", "AAA", "A===", "====", "AA=A", "AAA\n", "AA-_", "AAAé", "\x00AAA"])
def test_what_is_no_base64_is_refused_by_index(garbage: str) -> None:
    error = refusal(ContextOverLimit, "text", ContextFragment(media=Media("image/png", garbage)))
    assert error.field == "fragments[1].media.bytes_b64"


def test_budget_errors_come_last() -> None:
    assert refusal(ContextBudget, "text", budget=0).field == "token_budget"
    refusal(ContextBudget, "text", budget=10, response_reserve_tokens=10)
    refusal(ContextBudget, "text", budget=10**9, response_reserve_tokens=10_000_000)
    refusal(ContextOverLimit, "x" * 1_048_577, budget=0)


def test_a_budget_over_ten_million_is_cut_not_refused() -> None:
    assert compiled("text", budget=10**18).content == "text"


def test_a_path_is_refused_where_nobody_reads_files() -> None:
    assert refusal(IngestDisabled, "text", ContextFragment(path="/etc/hosts")).field == "fragments[1].path"


def test_bad_values_are_refused_by_name() -> None:
    assert refusal(InvalidArgument, "a\ud800b").field == "fragments[0].content"
    assert refusal(InvalidArgument, ContextFragment("x", priority=256)).limit == 255
    refusal(InvalidMetadata, ContextFragment("x", metadata={"k": object()}))
    refusal(QueryTooLarge, "text", query="q" * 65_537)
    refusal(InvalidArgument, "text", budget=-1)


# What is kept


def test_nothing_at_all_compiles_to_nothing() -> None:
    context = compiled()
    assert (context.content, context.decisions, context.risk) == ("", [], "low")


def test_an_empty_fragment_is_taken_by_the_library() -> None:
    """D36."""
    context = compiled(ContextFragment())
    assert [decision.action for decision in context.decisions] == ["preserve"]


def test_a_caption_goes_out_with_its_image_and_costs_beside_it() -> None:
    """D36."""
    context = compiled(ContextFragment("the login page", media=png(300, 200)))
    assert context.content == "the login page"
    assert context.insights.tokens_in == 80 + COMPILER.estimator.count("the login page")


def test_as_many_tokens_as_the_budget_fit() -> None:
    """D42."""
    text = "five words and no more"
    size = COMPILER.estimator.count(text)
    assert compiled(text, budget=size).content == text
    both = size * 2 + COMPILER.estimator.count("\n\n")
    assert compiled(text, text + "!", budget=both, near_dup_dedup=False).insights.tokens_out <= both
    assert compiled(text, budget=size - 1).decisions[0].action == "retrieve"


def test_every_byte_comes_back_behind_a_handle() -> None:
    """D37."""
    texts = ["Amber is on.", "amber  is on.", "tick\ntick\n" * 20]
    compilation = COMPILER.run(CompileRequest("", [ContextFragment(text) for text in texts], 10_000))
    assert [original.content for original in compilation.originals] == texts
    assert [original.hash for original in compilation.originals] == [content_hash(text.encode()) for text in texts]


def test_captions_of_one_image_are_all_kept() -> None:
    """D37."""
    shots = [ContextFragment(caption, media=png(9, 9)) for caption in ("before", "after", "")]
    compilation = COMPILER.run(CompileRequest("", shots, 10_000))
    assert {original.content for original in compilation.originals} == {"before", "after"}


def test_a_log_that_does_not_fit_is_cut_to_what_matters() -> None:
    """D41."""
    lines = [f"INFO step {n} of the nightly build finished" for n in range(400)]
    lines[200] = "ERROR the linker ran out of memory"
    log = "\n".join([*lines, *lines])
    context = compiled(ContextFragment(log, kind="log"), budget=200, query="linker")
    assert "ERROR the linker ran out of memory (x2)" in context.content
    decision = context.decisions[0]
    assert (decision.action, decision.rule_id, decision.risk) == ("abstract", "abstract.log_dedup", "medium")
    assert decision.handle is not UNSET
    assert context.insights.tokens_out <= 200


def test_an_unlabelled_log_is_recognised() -> None:
    """D45."""
    log = "\n".join(f"2026-11-03T04:{n:02}:31Z WARN pool exhausted" for n in range(20))
    assert compiled(log).content == "2026-11-03T04:00:31Z WARN pool exhausted (x20)"
    assert "2026-11-03T04:19:31Z" in compiled(ContextFragment(log, kind="log")).content


def test_inline_code_marks_make_no_code_block() -> None:
    """D44."""
    assert compiled("say ``` to open one").decisions[0].rule_id == "preserve.default"
    assert compiled("~~~\ncode\n~~~").decisions[0].rule_id == "preserve.code_fence"


def test_a_stub_stands_where_content_was_set_aside() -> None:
    """D47."""
    long = "word " * 400
    for budget in (60, 300):
        plain = compiled("kept", long, budget=budget)
        context = compiled("kept", long, budget=budget, inline_handles=True)
        handle = context.decisions[1].handle
        assert isinstance(handle, str)
        assert handle not in plain.content
        assert handle in context.content
        assert context.insights.tokens_out <= budget


def test_the_stable_prefix_comes_first_and_in_its_order() -> None:
    cache = {"cache": True}
    context = compiled("body", ContextFragment("two", metadata=cache), ContextFragment("one", metadata=cache))
    assert [(section.kind, section.content) for section in context.sections] == [
        ("cache", "two\n\none"),
        ("body", "body"),
    ]


def test_what_is_critical_goes_before_what_is_urgent_and_relevant() -> None:
    fragments = [
        ContextFragment("the canary deploy is green " * 4, priority=255),
        ContextFragment("Never deploy on friday. " * 4),
    ]
    context = compiled(*fragments, budget=COMPILER.estimator.count(fragments[1].content), query="canary deploy")
    assert [decision.action for decision in context.decisions] == ["retrieve", "preserve"]
    assert [warning.relevance for warning in context.warnings] == [1.0]


def test_disabled_rules_are_passed_over() -> None:
    assert compiled("1 2 3", disabled_rules=["preserve.exact_values"]).decisions[0].rule_id == "preserve.default"
    assert compiled("plain", disabled_rules=["preserve.default"]).decisions[0].rule_id == "preserve.default"
    shot = ContextFragment("a 1 2 3", media=png(300, 200))
    context = compiled(shot, disabled_rules=["media.atomic"])
    assert context.decisions[0].rule_id == "preserve.exact_values"
    assert context.insights.tokens_out >= 80


def test_a_saving_is_priced_only_for_the_exact_model() -> None:
    pricing = Pricing("2026-q4", "EUR", {"gpt-5": ModelPrice(2_500_000)})
    text = "word " * 1_000
    priced = compiled(text, text, target_model="gpt-5", pricing=pricing).insights
    assert priced.estimated_cost_saved_micros == priced.tokens_saved * 2_500_000 // 1_000_000
    assert (priced.currency, priced.pricing_version) == ("EUR", "2026-q4")
    assert compiled(text, target_model="GPT-5", pricing=pricing).insights.currency is UNSET


def test_a_slim_answer_has_no_sections_and_decisions() -> None:
    context = compiled("kept", "word " * 400, budget=20, slim_response=True, query="word")
    assert (context.sections, context.decisions) == ([], [])
    assert context.content and context.sources and context.retrieval_handles and context.warnings


def test_pulled_memories_are_packed_by_what_found_them() -> None:
    """D40."""
    filler = "the checkout queue and its many neighbours " * 3
    memory = PulledMemory(7, "worker threads were starved by a hook", 0.9, "reached by links")
    budget = COMPILER.estimator.count(memory.content)
    request = CompileRequest("checkout queue of worker nodes", [ContextFragment(filler)], budget)
    context = COMPILER.run(request, [memory]).context
    assert context.content == memory.content
    decision = context.decisions[1]
    assert (decision.memory_id, round(decision.relevance, 6)) == (7, 0.9)
    assert "reached by links" in decision.reason


def test_only_what_was_pulled_is_said_to_be_pulled() -> None:
    context = COMPILER.run(
        CompileRequest("", [ContextFragment("twin")], 100), [PulledMemory(7, "twin", 1.0, "x")]
    ).context
    assert context.decisions[0].memory_id is UNSET
    assert (context.decisions[1].memory_id, context.decisions[1].action) == (7, "drop")


def test_pieces_are_taken_from_the_beginning_while_they_fit() -> None:
    paragraphs = [f"Paragraph {'abcdefgh'[n]} says the same as all the others do, more or less." for n in range(8)]
    text = "\n\n".join(paragraphs)
    context = compiled(text, budget=90, chunk=ChunkPolicy(256))
    assert text.startswith(context.content) and context.content
    decision = context.decisions[0]
    assert (decision.action, decision.risk) == ("preserve", "medium")
    assert decision.handle is not UNSET
    assert context.retrieval_handles == []
