"""Long passages are cut where they may be (D33)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.errors import InvalidArgument
from velesdb_memory.extract.base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction
from velesdb_memory.extract.prompt import PASSAGE_BYTES, merge, split_passage
from velesdb_memory.limits import MAX_FACT_BYTES
from velesdb_memory.text import WHITE_SPACE


def test_a_short_passage_is_one_trimmed_piece() -> None:
    assert split_passage("  One.\n\nTwo.  ") == ["One.\n\nTwo."]
    assert split_passage("x" * PASSAGE_BYTES) == ["x" * PASSAGE_BYTES]


@pytest.mark.parametrize("text", ["", " \n\u3000"])
def test_a_blank_passage_has_no_pieces(text: str) -> None:
    assert split_passage(text) == []


def test_paragraphs_stay_whole_while_they_fit_d33() -> None:
    paragraphs = ["a" * 30 + ".\n" + "b" * 20, "c" * 40, "d" * 10, "e" * 60]
    assert split_passage("\n\n".join(paragraphs), 64) == [
        paragraphs[0],
        paragraphs[1] + "\n\n" + paragraphs[2],
        paragraphs[3],
    ]


def test_a_blank_line_may_hold_white_space_and_end_in_cr_lf() -> None:
    assert split_passage("one one\r\n \t\r\ntwo two", 10) == ["one one", "two two"]


def test_a_paragraph_too_long_is_cut_at_a_line_then_a_sentence_then_a_word_then_a_character_d33() -> None:
    assert split_passage("First line.\nSecond. Third", 20) == ["First line.", "Second. Third"]
    assert split_passage("He said “go!” Then. More words", 22) == ["He said “go!”", "Then. More words"]
    assert split_passage("版本一。版本二。版本三", 20) == ["版本一。", "版本二。", "版本三"]
    assert split_passage("alpha beta gamma", 12) == ["alpha beta", "gamma"]
    assert split_passage("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert split_passage("é" * 5, 5) == ["éé", "éé", "é"]


def test_an_end_exactly_at_the_limit_counts() -> None:
    assert split_passage("12345\n\n6789", 5) == ["12345", "6789"]
    assert split_passage("1. 345. 789", 7) == ["1. 345.", "789"]


def test_a_decimal_point_is_not_the_end_of_a_sentence() -> None:
    assert split_passage("It costs 3.14159265 euros", 18) == ["It costs", "3.14159265 euros"]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("unit", [".", "\n", " ", "a\n", "a" + " " * 2_000, "。", '."'])
def test_no_passage_of_the_largest_size_takes_long(unit: str) -> None:
    text = "a" + unit * (MAX_FACT_BYTES // len(unit))
    assert "".join(split_passage(text)).count("a") == text.count("a")


def test_a_bound_below_one_character_is_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        split_passage("x", 3)
    assert caught.value.limit == 4


def _solid(text: str) -> str:
    return text.translate(dict.fromkeys(map(ord, WHITE_SPACE)))


@given(st.text(st.sampled_from("ab.!。\n\r \u3000é😀\u0301\ud800"), max_size=120), st.integers(4, 40))
def test_the_pieces_are_the_whole_text_in_order_and_keep_to_the_bound(text: str, bound: int) -> None:
    pieces = split_passage(text, bound)
    assert all(0 < len(piece.encode("utf-8", "surrogatepass")) <= bound for piece in pieces)
    assert not any(piece[0] in WHITE_SPACE or piece[-1] in WHITE_SPACE for piece in pieces)
    assert _solid("".join(pieces)) == _solid(text)
    position = 0
    for piece in pieces:
        found = text.index(piece, position)
        assert not _solid(text[position:found])
        position = found + len(piece)


@given(st.lists(st.text("ab .", min_size=1, max_size=20), max_size=12), st.integers(24, 60))
def test_no_paragraph_that_fits_is_ever_cut(paragraphs: list[str], bound: int) -> None:
    whole = [paragraph.strip(" ") for paragraph in paragraphs if paragraph.strip(" ")]
    pieces = split_passage("\n\n".join(whole), bound)
    assert [part for piece in pieces for part in piece.split("\n\n")] == whole


def test_merging_keeps_the_order_and_adds_the_counts_d33() -> None:
    one = Extraction(
        [ExtractedFact("1")], [ExtractedRelation("a", "r", "b")], [], {"fact_blank": 1, "self_relation": 1}
    )
    two = Extraction(
        [ExtractedFact("2"), ExtractedFact("1")], [], [ExtractedAttribute("a", "k", 1)], {"fact_blank": 2}
    )
    assert merge([one, two]) == Extraction(
        [ExtractedFact("1"), ExtractedFact("2"), ExtractedFact("1")],
        [ExtractedRelation("a", "r", "b")],
        [ExtractedAttribute("a", "k", 1)],
        {"fact_blank": 3, "self_relation": 1},
    )
    assert merge([]) == Extraction()
