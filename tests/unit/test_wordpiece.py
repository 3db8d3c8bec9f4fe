"""Text as BERT models read it. The expected pieces are those of the Hugging Face tokenizer of all-MiniLM-L6-v2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.embed.minilm import read_vocabulary
from velesdb_memory.embed.wordpiece import WordPiece

VOCABULARY = read_vocabulary()
TOKENS = WordPiece(VOCABULARY)
PIECES = {number: piece for piece, number in VOCABULARY.items()}


def pieces(text: str, limit: int = 512) -> list[str]:
    return [PIECES[number] for number in TOKENS.encode(text, limit)]


def test_the_vocabulary_is_that_of_the_model() -> None:
    assert len(VOCABULARY) == 30_522
    assert (VOCABULARY["[PAD]"], VOCABULARY["hello"], VOCABULARY["##s"]) == (0, 7592, 2015)
    assert set(PIECES) == set(range(30_522))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!", "hello , world !"),
        ("naïve Café Ångström", "naive cafe ang ##strom"),
        ("parking_lot v2.3's mutex", "parking _ lot v ##2 . 3 ' s mute ##x"),
        ("unaffable embeddings", "una ##ffa ##ble em ##bed ##ding ##s"),
        ("漢字テスト한국어 ok", "漢 [UNK] テ ##ス ##ト ##ᄒ ##ᅡ ##ᆫ ##ᄀ ##ᅮ ##ᆨ ##ᄋ ##ᅥ ok"),
        ("a\tb\r\nc\u00a0d\u2003e\x00\u200bf", "a b c d e ##f"),
        ("$5.00 + 10%", "$ 5 . 00 + 10 %"),
        ("😀 smile", "[UNK] smile"),
        ("x" * 101, "[UNK]"),
        ("İstanbul ß ﬁ", "istanbul ß ﬁ"),
        ("don't—stop…“now”", "don ' t — stop … “ now ”"),
        ("Ünïcödé ½ ²", "unicode ½ ²"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_a_text_is_cut_into_the_pieces_of_the_reference(text: str, expected: str) -> None:
    assert pieces(text) == ["[CLS]", *expected.split(), "[SEP]"]


def test_a_long_text_is_cut_at_the_limit_and_still_ended() -> None:
    assert pieces("one two three four", 4) == ["[CLS]", "one", "two", "[SEP]"]
    assert pieces("embeddings", 4) == ["[CLS]", "em", "##bed", "[SEP]"]
    assert len(pieces("word " * 10_000)) == 512


@given(st.text())
def test_any_text_becomes_numbers_of_the_vocabulary(text: str) -> None:
    numbers = TOKENS.encode(text, 64)
    assert 2 <= len(numbers) <= 64
    assert (PIECES[numbers[0]], PIECES[numbers[-1]]) == ("[CLS]", "[SEP]")
    assert all(number in PIECES for number in numbers)
