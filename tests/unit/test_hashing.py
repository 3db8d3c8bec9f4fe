"""The embedder without a model (D21)."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from velesdb_memory.embed.base import embed_checked
from velesdb_memory.embed.hashing import HashEmbedder
from velesdb_memory.errors import InvalidArgument
from velesdb_memory.limits import DEFAULT_DIMENSION
from velesdb_memory.text import trim

any_text = st.text(st.characters(exclude_categories=()))
embedder = HashEmbedder()


def unit(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = rows.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def similarity(first: str, second: str) -> float:
    rows = unit(embedder.embed([first, second]))
    return float(rows[0] @ rows[1])


@given(any_text.filter(trim), st.sampled_from([1, 2, 3, 16, 384]))
def test_every_text_that_is_not_blank_has_a_finite_vector_that_is_not_zero(text: str, dimension: int) -> None:
    small = HashEmbedder(dimension)
    rows = small.embed([text])
    assert rows.shape == (1, dimension)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert np.abs(rows).max() >= 0.01
    assert embed_checked(small, [text]).shape == (1, dimension)


@given(st.lists(any_text, max_size=4))
def test_a_vector_depends_on_its_own_text_only(texts: list[str]) -> None:
    together = embedder.embed(texts)
    assert together.shape == (len(texts), DEFAULT_DIMENSION)
    for row, text in zip(together, texts, strict=True):
        assert np.array_equal(row, embedder.embed([text])[0])


@pytest.mark.parametrize("text", ["!!!", "😅", "the of and", "?", "\u0301", "\ud800", "。"])
def test_signs_and_stop_words_alone_find_themselves(text: str) -> None:
    fact, other = unit(embedder.embed([text, "Ana plays the cello"]))
    query = unit(embedder.embed([text]))[0]
    assert query @ fact > query @ other + 0.02


def test_documented_vectors_d21() -> None:
    rows = embedder.embed(["Ana moved to Lisbon in May.", "東京都に住んでいます", "😅 the C++ parking_lot"])
    scaled = np.rint(rows.astype(np.float64) * 10_000).astype("<i4")
    first = [(int(n), int(scaled[0, n])) for n in np.flatnonzero(scaled[0])[:6]]
    assert first == [(1, 5000), (13, 1000), (21, 1118), (32, -5000), (42, 1000), (51, 5000)]
    assert hashlib.blake2b(scaled.tobytes(), digest_size=8).hexdigest() == "13d1b650ff08df2a"
    assert rows[0, 0] == 0.0


def test_entries_that_cancel_out_leave_no_rounding_behind() -> None:
    small = HashEmbedder(2)
    texts = [f"alphabet{n}" for n in range(300)]
    for row in small.embed(texts):
        assert abs(row[1]) >= 0.01 or row.tolist() == [1.0, 0.0]


def test_it_says_what_it_is() -> None:
    assert (embedder.model, embedder.fingerprint, embedder.semantic) == ("hash", "hash-1.1", False)
    assert embedder.dimension == DEFAULT_DIMENSION
    assert HashEmbedder(100).dimension == 100


@pytest.mark.parametrize("dimension", [0, -1])
def test_a_dimension_below_one_is_refused(dimension: int) -> None:
    with pytest.raises(InvalidArgument) as caught:
        HashEmbedder(dimension)
    assert caught.value.field == "dimension"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ana plays the cello", "ana PLAYED cellos!"),
        ("Crème brûlée", "creme brulee"),
        ("He went to Paris", "Did he go to Paris?"),
    ],
)
def test_case_accents_and_word_forms_hardly_matter(first: str, second: str) -> None:
    assert similarity(first, second) > 0.6


def test_a_misspelt_long_word_is_still_near() -> None:
    assert similarity("the archaeological museum", "the archeological museum") > 0.5
    assert similarity("photosynthesis", "photosynthetic") > similarity("photosynthesis", "democracy") + 0.05


def test_stop_words_are_damped() -> None:
    question = "What did the dentist say?"
    assert similarity(question, "dentist") > similarity(question, "what did the") + 0.2


def test_a_word_repeated_many_times_does_not_drown_the_others() -> None:
    assert similarity("cello " * 50 + "harp", "harp") > 0.2


def test_characters_without_spaces_between_words_are_compared_by_pairs() -> None:
    assert similarity("東京都に住んでいます", "東京都") > 0.4
    assert similarity("東京都に住んでいます", "京大阪") < 0.2


def test_two_texts_of_the_same_terms_have_the_same_vector() -> None:
    assert np.array_equal(embedder.embed(["Ana plays"]), embedder.embed(["  ana, PLAYED!"]))
