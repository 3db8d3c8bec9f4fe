"""Terms, and the share of the query's terms that a text holds (context.md §5)."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.context.relevance import Relevance, single, terms_of

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "vectors.json").read_text(encoding="utf-8"))


def relevance(query: str, text: str) -> float:
    return Relevance(query).of(terms_of(text.lower()))


@pytest.mark.parametrize(("query", "text", "expected"), VECTORS["relevance"])
def test_relevance_is_that_of_the_vectors(query: str, text: str, expected: float) -> None:
    assert relevance(query, text) == expected


def test_a_vowel_sign_belongs_to_its_word() -> None:
    assert terms_of("हिन्दी में") == {"हिन्दी", "में"}


def test_a_term_counts_once_however_often_it_occurs() -> None:
    assert relevance("alpha alpha beta", "alpha alpha alpha") == 0.5


def test_relevance_has_single_precision() -> None:
    assert relevance("a b c", "a") == single(1 / 3) != 1 / 3


@given(st.text(max_size=60))
def test_terms_hold_no_white_space_and_no_punctuation(text: str) -> None:
    for term in terms_of(text.lower()):
        assert not any(unicodedata.category(character)[0] in "ZP" for character in term)


@given(st.text(min_size=1, max_size=40))
def test_a_text_is_wholly_relevant_to_itself_if_it_has_terms_at_all(text: str) -> None:
    assert relevance(text, text) == (1.0 if terms_of(text.lower()) else 0.0)


@given(st.text(max_size=30), st.text(max_size=30))
def test_relevance_lies_between_0_and_1(query: str, text: str) -> None:
    assert 0.0 <= relevance(query, text) <= 1.0
