"""What counts as a repetition (context.md §9, §10)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fragments import png
from velesdb_memory.context.compiler import ContextCompiler
from velesdb_memory.context.model import CompilePolicy, CompileRequest, ContextFragment, Decision
from velesdb_memory.text import words

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "vectors.json").read_text(encoding="utf-8"))


def decide(*fragments: ContextFragment | str, budget: int = 10_000, **policy: object) -> list[Decision]:
    given_ = [ContextFragment(entry) if isinstance(entry, str) else entry for entry in fragments]
    request = CompileRequest("query", given_, budget, policy=CompilePolicy(**policy))  # type: ignore[arg-type]
    return ContextCompiler().compile(request).decisions


def rules(*fragments: ContextFragment | str, **policy: object) -> list[str]:
    return [decision.rule_id for decision in decide(*fragments, **policy)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("first", "second", "rule"), VECTORS["near_duplicate"])
def test_near_duplicates_are_those_of_the_vectors(first: str, second: str, rule: str) -> None:
    assert rules(first, second)[1] == rule


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("steps:\n  - run: build", "steps:\n- run: build"),
        ("if a:\n    b()\n    c()", "if a:\n    b()\nc()"),
        ("a:\n\tb: 1", "a:\n  b: 1"),
    ],
)
def test_a_re_indented_text_is_no_duplicate(first: str, second: str) -> None:
    """D38."""
    assert rules(first, second) == ["preserve.default", "preserve.default"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("steps:\n  - run:   build", "STEPS:\n  - run: build\n"),
        ("one two\nthree", "one  two three"),
        ("  one\n", "one"),
        ("a:\n  b\n\n\n  c", "a:\n  b\n  c"),
    ],
)
def test_spacing_that_is_no_indentation_and_case_do_not_make_a_difference(first: str, second: str) -> None:
    assert rules(first, second)[1] == "drop.near_duplicate"


def test_near_duplicates_are_kept_when_the_policy_says_so() -> None:
    assert rules("Amber", "AMBER", near_dup_dedup=False) == ["preserve.default"] * 2


def test_a_thousand_copies_leave_one() -> None:
    found = rules(*["the same text"] * 1000)
    assert found == ["preserve.default"] + ["drop.duplicate"] * 999


def test_an_exact_copy_of_a_near_duplicate_survives_in_the_root() -> None:
    """D39."""
    third = decide("Amber is on.", "amber  is on.", "amber  is on.")[2]
    assert (third.rule_id, third.risk) == ("drop.duplicate", "low")
    assert "which is in the output" in third.reason


def test_a_copy_of_what_did_not_fit_is_reported_as_missing() -> None:
    first, second = decide("word " * 200, "word " * 200, budget=5)
    assert (first.action, second.action, second.risk) == ("retrieve", "drop", "medium")
    assert second.handle == first.handle


def test_an_abstracted_log_is_no_stand_in_for_its_copy() -> None:
    log = ContextFragment("tick\ntick\ntock", kind="log")
    assert rules(log, log) == ["abstract.log_dedup"] * 2


def test_a_near_duplicate_that_is_critical_is_kept_and_an_exact_one_is_not() -> None:
    assert rules("Never do X", "NEVER do x") == ["preserve.negative_constraint"] * 2
    assert rules("Never do X", "Never do X")[1] == "drop.duplicate"


def test_images_repeat_to_the_byte_whatever_their_captions() -> None:
    first = ContextFragment("before", media=png(10, 10))
    second = ContextFragment("after", media=png(10, 10))
    found = decide(first, second, ContextFragment("after", media=png(10, 10, seed=1)))
    assert [decision.rule_id for decision in found] == ["media.atomic", "drop.duplicate", "media.atomic"]
    assert found[1].handle == f"ctx://source/{found[1].handle.rsplit('/', 1)[1]}"  # type: ignore[union-attr]
    assert "the captions differ" in found[1].reason


def test_a_later_screenshot_of_the_same_target_replaces_the_former() -> None:
    def shot(seed: int, target: object) -> ContextFragment:
        return ContextFragment(kind="screenshot", media=png(10, 10, seed), metadata={"target": target})

    found = decide(shot(0, "login"), shot(1, "queue"), shot(2, "login"), shot(3, 1), shot(4, 1.0), shot(5, None))
    assert [decision.action for decision in found] == ["retrieve"] + ["preserve"] * 5
    assert (found[0].rule_id, found[0].risk) == ("retrieve.screenshot_superseded", "medium")


def test_supersession_can_be_switched_off() -> None:
    shots = [ContextFragment(kind="screenshot", media=png(9, 9, n), metadata={"target": "t"}) for n in range(2)]
    assert rules(*shots, disabled_rules=["retrieve.screenshot_superseded"]) == ["media.atomic"] * 2


def test_a_copy_that_stays_stands_in_for_one_that_is_superseded() -> None:
    old = ContextFragment(kind="screenshot", media=png(9, 9), metadata={"target": "t"})
    new = ContextFragment(kind="screenshot", media=png(9, 9, 1), metadata={"target": "t"})
    again = ContextFragment(media=png(9, 9))
    assert rules(old, new, again) == ["drop.duplicate", "media.atomic", "media.atomic"]


@given(st.lists(st.sampled_from(["a b", "A  b", "ab", "a\n b", "a\nb", " a b ", "straße", "STRASSE"]), max_size=8))
def test_what_is_dropped_has_the_words_of_something_that_is_kept(texts: list[str]) -> None:
    found = decide(*texts)
    kept = [text for text, decision in zip(texts, found, strict=True) if decision.action == "preserve"]
    for text in texts:
        assert [word.lower() for word in words(text)] in [[word.lower() for word in words(entry)] for entry in kept]
