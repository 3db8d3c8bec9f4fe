"""The index of words: BM25 against a plain computation of it (D13)."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from velesdb_memory.store.sqlite import lexical

WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "é", "long" * 40, "long" * 40 + "er"])
DOCUMENTS = st.lists(st.lists(WORDS, max_size=6), max_size=90)


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE tally (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID")
        connection.execute(
            "CREATE TABLE posting (term TEXT NOT NULL, first INTEGER NOT NULL, size INTEGER NOT NULL,"
            " data BLOB NOT NULL, PRIMARY KEY (term, first)) WITHOUT ROWID"
        )
        yield connection


def index(connection: sqlite3.Connection, documents: dict[int, list[str]], batch: int) -> None:
    connection.execute("DELETE FROM posting")
    connection.execute("DELETE FROM tally")
    pending = lexical.Pending()
    for done, (slot, terms) in enumerate(documents.items(), 1):
        pending.add(slot, terms)
        if done % batch == 0:
            pending.flush(connection)
    pending.flush(connection)


def bm25(documents: dict[int, list[str]], query: list[str]) -> dict[int, float]:
    """Robertson and Zaragoza 2009, a document at a time."""
    average = sum(map(len, documents.values())) / len(documents) if documents else 1
    cut = {slot: Counter(terms) for slot, terms in documents.items()}
    scores: Counter[int] = Counter()
    for term in set(query):
        held = sum(term in counts for counts in cut.values())
        rarity = math.log(1 + (len(documents) - held + 0.5) / (held + 0.5))
        for slot, counts in cut.items():
            if counts[term]:
                damping = lexical.K1 * (1 - lexical.B + lexical.B * len(documents[slot]) / average)
                scores[slot] += rarity * counts[term] * (lexical.K1 + 1) / (counts[term] + damping)
    return dict(scores)


def assert_ranked(connection: sqlite3.Connection, documents: dict[int, list[str]], query: list[str]) -> None:
    slots, scores = lexical.scores(connection, query)
    expected = bm25(documents, query)
    assert slots.tolist() == sorted(expected)
    assert np.allclose(scores, [expected[slot] for slot in slots.tolist()])


@settings(max_examples=60)
@given(documents=DOCUMENTS, query=st.lists(WORDS, max_size=4), batch=st.integers(1, 100), data=st.data())
def test_D13_scores_are_bm25_of_what_is_there_also_after_removals(
    connection: sqlite3.Connection, documents: list[list[str]], query: list[str], batch: int, data: st.DataObject
) -> None:
    held = {3 * number + 1: terms for number, terms in enumerate(documents)}
    index(connection, held, batch)
    assert_ranked(connection, held, query)
    gone = data.draw(st.sets(st.sampled_from(sorted(held)), max_size=80) if held else st.just(set()))
    for slot in gone:
        lexical.remove(connection, slot, held.pop(slot))
    assert_ranked(connection, held, query)
    assert lexical.totals(connection) == (len(held), sum(map(len, held.values())))


def test_a_repeated_term_of_a_query_counts_once(connection: sqlite3.Connection) -> None:
    index(connection, {1: ["alpha"], 2: ["beta"]}, 1)
    assert lexical.scores(connection, ["alpha", "alpha"])[1] == lexical.scores(connection, ["alpha"])[1]


def test_no_terms_and_unknown_terms_find_nothing(connection: sqlite3.Connection) -> None:
    index(connection, {1: ["alpha"]}, 1)
    assert [len(lexical.scores(connection, query)[0]) for query in ([], ["nowhere"])] == [0, 0]


def test_a_term_that_every_fact_holds_still_scores(connection: sqlite3.Connection) -> None:
    index(connection, {slot: ["alpha"] for slot in range(1, 200)}, 7)
    slots, scores = lexical.scores(connection, ["alpha"])
    assert len(slots) == 199 and (scores > 0).all()
