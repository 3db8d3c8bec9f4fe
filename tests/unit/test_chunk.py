"""Cutting texts into pieces (context.md §11)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.context.chunk import ceiling, pieces
from velesdb_memory.context.model import Boundary, ChunkPolicy


def cut(text: str, limit: int, boundary: Boundary = "paragraph") -> list[str]:
    return list(pieces(text, limit, boundary))


def test_a_text_that_fits_is_one_piece_and_an_empty_one_none() -> None:
    assert cut("one\n\ntwo", 8) == ["one\n\ntwo"]
    assert cut("", 8) == []


def test_paragraphs_are_cut_after_their_blank_lines_and_joined_while_they_fit() -> None:
    assert cut("one\n\ntwo\n\n\nthree four", 10) == ["one\n\n", "two\n\n\n", "three four"]
    assert cut("one\n\ntwo\n\nthree four", 12) == ["one\n\ntwo\n\n", "three four"]


def test_a_carriage_return_between_two_line_ends_is_no_blank_line() -> None:
    assert cut("one\r\n\r\ntwo", 9) == ["one\r\n\r\ntw", "o"]


def test_sentences_are_cut_after_the_space_that_follows_them() -> None:
    assert cut("One. Two! Three? Four", 7, "sentence") == ["One. ", "Two! ", "Three? ", "Four"]


def test_fixed_pieces_have_the_full_size() -> None:
    assert cut("one\n\ntwo. three", 6, "fixed") == ["one\n\nt", "wo. th", "ree"]


def test_a_fenced_block_is_one_piece_however_long() -> None:
    """D44."""
    block = "```\n" + "code\n\n" * 10 + "```\n"
    assert cut(f"before\n\n{block}after", 20) == ["before\n\n", block, "after"]


def test_a_fence_that_is_never_closed_runs_to_the_end() -> None:
    """D44."""
    assert cut("before\n\n~~~\n" + "code\n\n" * 10, 20) == ["before\n\n", "~~~\n" + "code\n\n" * 10]


def test_no_character_is_cut_in_two() -> None:
    assert cut("あいう", 7, "fixed") == ["あい", "う"]


def test_the_ceiling_follows_the_budget_down_to_256_bytes() -> None:
    assert ceiling(ChunkPolicy(), 10_000, 3) == 2048
    assert ceiling(ChunkPolicy(), 200, 3) == 600
    assert ceiling(ChunkPolicy(), 1, 3) == 256
    assert ceiling(ChunkPolicy(max_chunk_bytes=0), 10_000, 3) == 256


@given(st.text(max_size=200), st.integers(4, 40), st.sampled_from(["paragraph", "sentence", "fixed"]))
def test_pieces_partition_the_text_and_are_no_larger_than_asked_unless_fenced(
    text: str, limit: int, boundary: Boundary
) -> None:
    found = cut(text, limit, boundary)
    assert "".join(found) == text
    if "```" not in text and "~~~" not in text:
        assert all(0 < len(piece.encode()) <= limit for piece in found)
