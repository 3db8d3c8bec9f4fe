"""White space, canonical names and what counts as text (D1)."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.errors import InvalidArgument
from velesdb_memory.text import WHITE_SPACE, canonical, lines, require_text, trim, utf8_size, words


def test_D1_white_space_is_unicode_white_space() -> None:
    # PropList.txt: the separators, five controls, NEL
    characters = map(chr, range(sys.maxunicode + 1))
    separators = {one for one in characters if unicodedata.category(one) in ("Zs", "Zl", "Zp")}
    assert set(WHITE_SPACE) == separators | set("\t\n\v\f\r\x85")
    assert len(WHITE_SPACE) == 25


@pytest.mark.parametrize("character", ["\x1c", "\x1d", "\x1e", "\x1f", "\u200b", "\ufeff", "\u180e", "\0"])
def test_D1_what_python_or_others_take_for_white_space_stays(character: str) -> None:
    assert trim(f" {character}a{character} ") == f"{character}a{character}"
    assert words(f"a{character}b") == [f"a{character}b"]


@given(st.text())
def test_D1_trimming_takes_white_space_from_the_ends_only(text: str) -> None:
    trimmed = trim(text)
    assert trimmed in text
    assert not set(trimmed[:1] + trimmed[-1:]) & set(WHITE_SPACE)
    assert trim(trimmed) == trimmed


@given(
    st.lists(st.text(alphabet=st.characters(exclude_characters=WHITE_SPACE), min_size=1)), st.sampled_from(WHITE_SPACE)
)
def test_D1_words_are_what_white_space_parts(parts: list[str], space: str) -> None:
    assert words(space + (space * 2).join(parts)) == parts


def test_a_line_ends_at_a_line_feed_and_nothing_else() -> None:
    assert lines("a\r\nb\nc\x0bd\x85e\u2028f\rg\n") == ["a", "b", "c\x0bd\x85e\u2028f\rg", ""]


@pytest.mark.parametrize(
    ("name", "known_as"),
    [(" Théo  Durand\u00a0", "théo  durand"), ("İ", "i̇"), ("ẞ", "ß"), ("ΑΣ", "ας"), ("cafe\u0301", "cafe\u0301")],
)
def test_a_canonical_name_is_trimmed_and_lower_case_and_nothing_more(name: str, known_as: str) -> None:
    assert canonical(name) == known_as


def test_sizes_are_bytes_of_utf8() -> None:
    assert [utf8_size(text, "x") for text in ("", "a", "é", "漢", "😅")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff", "\udcff"])
def test_a_lone_surrogate_is_no_text(text: str) -> None:
    with pytest.raises(InvalidArgument, match="surrogate") as caught:
        require_text(text, "fact")
    assert caught.value.field == "fact"


@pytest.mark.parametrize("value", [None, 1, b"text", ["text"]])
def test_what_is_not_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        require_text(value, "query")
    assert caught.value.field == "query"
