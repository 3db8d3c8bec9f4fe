"""The analyser (D13, D21): which terms a text has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.analysis import MAX_TERM_CHARACTERS, stem, terms, word_terms, words
from velesdb_memory.lexicon import IRREGULAR_FORMS, STOP_WORDS
from velesdb_memory.text import WHITE_SPACE

any_text = st.text(st.characters(exclude_categories=()))  # lone surrogates too


@given(any_text)
def test_any_text_has_terms_that_are_short_folded_and_hold_no_white_space(text: str) -> None:
    found = terms(text)
    assert found == terms(text)
    for term in found:
        assert 0 < len(term) <= MAX_TERM_CHARACTERS
        assert not set(term) & set(WHITE_SPACE)
        assert not any(sign.isascii() and sign.isupper() for sign in term)


@given(any_text, any_text)
def test_a_line_end_parts_words_and_parts_nothing_else(first: str, second: str) -> None:
    assert terms(f"{first}\n{second}") == terms(first) + terms(second)


@given(st.text(st.characters(categories=["Ll", "Lu"], max_codepoint=0xFF), min_size=2, max_size=60))
def test_case_does_not_matter_in_plain_words(text: str) -> None:
    lower = text.lower()
    assert terms(lower) == terms(lower.capitalize())


@pytest.mark.parametrize("text", ["", " \t\u3000", "!!! ... --", "the of and", "What did you do?", "___"])
def test_a_text_without_content_words_has_no_terms(text: str) -> None:
    assert terms(text) == []


def test_terms_come_in_the_order_of_the_text_with_repeats() -> None:
    assert terms("A dog saw the dogs, and a cat.") == ["dog", "saw", "dog", "cat"]


@pytest.mark.parametrize(
    "forms",
    [
        "party parties",
        "box boxes",
        "class classes",
        "plan plans planned planning",
        "make makes made making",
        "go goes went gone going",
        "happy happily",
        "reply replies replied",
        "donate donates donated donation donations",
        "child children",
        "use uses used using",
        "colour color colours",
        "organise organize organised organizing",
        "need needs",
    ],
)
def test_the_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split(" ")}) == 1


@pytest.mark.parametrize("pair", ["news new", "state station", "sing single", "evening even", "speed spend"])
def test_different_words_keep_different_stems(pair: str) -> None:
    assert len({stem(word) for word in pair.split(" ")}) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Crème brûlée, Übung, Łódź, Øre", ["crem", "brule", "ubung", "lodz", "ore"]),
        ("STRASSE Straße", ["strass", "strass"]),
        ("İstanbul", ["istanbul"]),
        ("ﬁsh Ｆｕｌｌ", ["fish", "full"]),
        ("Ёлка", ["елка"]),
        ("السَّلامُ", ["السلام"]),
        ("co\u00adoperate", ["cooperat"]),
    ],
)
def test_accents_points_and_compatibility_forms_are_folded(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京都", ["東京", "京都"]),
        ("0'東'++", ["0", "東"]),
        ("猫", ["猫"]),
        ("GPT4を使う", ["gpt4", "を使", "使う"]),
        ("한국어 책", ["한국", "국어", "책"]),
        ("ไทย", ["ไท", "ทย"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
    ],
)
def test_scripts_without_spaces_give_bigrams_and_others_keep_their_vowel_signs(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parking_lot", ["parking_lot", "park", "lot"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("fooBar2", ["foobar2", "foo", "bar", "2"]),
        ("__init__", ["init"]),
        ("PDFs", ["pdf"]),
        ("C++ c# F# dogs#", ["c++", "c#", "f#", "dog"]),
        ("2023-05-07 v1.5", ["2023", "05", "07", "v1", "5"]),
    ],
)
def test_identifiers_are_found_whole_and_by_their_parts(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_elisions_and_contractions_leave_the_content_word() -> None:
    assert terms("Ana's l'homme qu’il don't rock'n'roll") == ["ana", "homm", "rock", "roll"]


def test_a_stop_word_in_capitals_is_a_name() -> None:
    assert terms("the US and the WHO told us who I am") == ["us", "who", "tell"]


def test_emoji_are_terms_whatever_their_skin() -> None:
    assert terms("great👍🏽 👍") == ["great", "👍", "👍"]


def test_stop_words_are_marked_for_those_who_want_them() -> None:
    assert [found for word in words("the dogs") for found in word_terms(word)] == [("the", True), ("dog", False)]


def test_a_very_long_word_is_cut() -> None:
    assert terms("x" * 1_000_000) == ["x" * MAX_TERM_CHARACTERS]


def test_the_lexicon_is_folded_and_consistent() -> None:
    assert all(word == word.casefold() and words(word) == [word] for word in STOP_WORDS | IRREGULAR_FORMS.keys())
    assert not STOP_WORDS & {"son", "car", "die", "hat", "man", "met", "van", "door", "war", "todo"}
