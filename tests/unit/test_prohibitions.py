"""Which texts forbid something (D43)."""

from __future__ import annotations

import json
from pathlib import Path
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.context.prohibitions import forbids
from velesdb_memory.context.relevance import terms_of

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "vectors.json").read_text(encoding="utf-8"))
RULE = "preserve.negative_constraint"
# where D43 is better than the reference: whole words, every apostrophe, any spacing, more phrases
CHANGED = {
    "whenever you": False,
    "undo not": False,
    "condone past": False,
    "don’t": True,
    "n'est pas": True,
    "cannot": True,
    "“never”": True,
    "do  not": True,
}


def forbidden(text: str) -> bool:
    return forbids(text.lower(), terms_of(text.lower()))


@pytest.mark.parametrize(("text", "rule"), VECTORS["classify_text_only"])
def test_what_the_reference_finds_is_found_but_for_the_listed_cases(text: str, rule: str) -> None:
    """D43."""
    assert forbidden(text) is CHANGED.get(text, rule == RULE)


@pytest.mark.parametrize(
    "text",
    [
        "You can't do that.",
        "you CAN’T do that",
        "This must not be merged.",
        "this mustn't be merged",
        "must-not, ever",
        "do_not_delete",
        "do    not touch",
        "We should not retry",
        "we shouldn’t retry",
        "It won't be supported; don't ask.",
        "Avoid the staging cluster",
        "(never)",
        "Ne touchez pas au broker",
        "N'utilisez pas ce compte",
        "n’oubliez jamais",
        "À éviter en production",
        "No borrar la tabla",
        "no se debe reiniciar",
        "Nunca reinicies el nodo",
        "Não altere a tabela",
        "não deve ser apagado",
        "Non toccare il nodo",
        "non si deve riavviare",
        "non riavviarlo mai",
        "Das darf man niemals löschen",
        "Der Knoten darf nicht neu gestartet werden",
        "Auf keinen Fall neu starten",
        "Zugriff verboten",
    ],
)
def test_a_prohibition_is_found_in_each_language(text: str) -> None:
    """D43."""
    assert forbidden(text)


@pytest.mark.parametrize(
    "text",
    [
        "nevermore",
        "whenever you like",
        "they condone past mistakes",
        "the knot is tight",
        "notable users do note it",
        "no longer in use",
        "no user was found and no other node",
        "non-hardware parts",
        "le 3 mai 2026",
        "un pas de plus",
        "avoidance is unavoidable",
        "he did it and not she",
        "do\nnot",
        "dont",
    ],
)
def test_words_that_only_look_like_one_forbid_nothing(text: str) -> None:
    """D43."""
    assert not forbidden(text)


@pytest.mark.parametrize("filler", ["do ", "do not-", "ne ", "no ", "non ", "darf ", "n'", "do" + " " * 50, "not "])
def test_no_text_makes_the_search_slow(filler: str) -> None:
    text = "no non ne do not\ndo\nnot" + filler * (300_000 // len(filler)) + " pas mai nicht"
    began = thread_time()
    forbidden(text)
    # a quadratic search would take minutes
    assert thread_time() - began < 5


@given(st.text(max_size=80))
def test_any_text_can_be_asked_about(text: str) -> None:
    assert forbidden(text) in (True, False)
