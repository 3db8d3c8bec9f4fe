"""The outline grammar, line by line (D1, D35)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.errors import ExtractError
from velesdb_memory.extract.base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction
from velesdb_memory.extract.outline import OutlineExtractor
from velesdb_memory.limits import MAX_INTEGER, MAX_METADATA_DEPTH, MIN_INTEGER


def read(text: str) -> Extraction:
    return OutlineExtractor().extract(text)


def value_of(source: str) -> object:
    return read(f"attr: Theo | key | {source}").attributes[0].value


def test_the_three_directives_become_a_fact_a_relation_and_an_attribute() -> None:
    found = read(
        "fact: Camille ships the parser. | Camille, Parser\n"
        "edge: Camille | sister of | Theo\n"
        "attr: Theo | age | 15"
    )
    assert found == Extraction(
        facts=[ExtractedFact("Camille ships the parser.", ["camille", "parser"])],
        relations=[ExtractedRelation("camille", "sister of", "theo")],
        attributes=[ExtractedAttribute("theo", "age", 15)],
    )


def test_its_name_is_outline() -> None:
    assert OutlineExtractor().name == "outline"


@pytest.mark.parametrize(
    ("line", "text", "topics"),
    [
        ("Plain prose.", "Plain prose.", []),
        ("Prose with | Topics, Of its OWN", "Prose with", ["topics", "of its own"]),
        ("fact:glued|a", "glued", ["a"]),
        ("fact: x | a | b, c", "x", ["a | b", "c"]),
        ("fact: x | tea, Tea ,, ", "x", ["tea", "tea"]),
        ("Edge: a | b | c", "Edge: a", ["b | c"]),
        ("FACT: x", "FACT: x", []),
        ("fact :x", "fact :x", []),
        ("# not a comment", "# not a comment", []),
        ("// nor this", "// nor this", []),
        ("fact: x | ---, ??, ok", "x", ["ok"]),
        ("fact: x | Théo, THEO  Durand", "x", ["théo", "theo  durand"]),
        ("fact: fact: twice", "fact: twice", []),
    ],
)
def test_a_fact_line_is_text_and_then_topics_after_the_first_bar(
    line: str, text: str, topics: list[str]
) -> None:
    assert read(line).facts == [ExtractedFact(text, topics)]


def test_lines_end_at_lf_with_an_optional_cr_and_nowhere_else_d1() -> None:
    found = read("one\r\ntwo\x0bstill two\u2028and still\x85so\n\n \u3000 \nthree")
    assert [fact.text for fact in found.facts] == ["one", "two\x0bstill two\u2028and still\x85so", "three"]


@pytest.mark.parametrize("text", ["", "  \n\r\n\u3000\n"])
def test_a_blank_text_states_nothing(text: str) -> None:
    assert read(text) == Extraction()


def test_an_edge_canonicalises_its_ends_and_only_trims_its_predicate() -> None:
    assert read("edge:  Theo D |  Sister OF | CAMILLE ").relations == [
        ExtractedRelation("theo d", "Sister OF", "camille")
    ]
    assert read("edge:: a|r|b").relations == [ExtractedRelation(": a", "r", "b")]


def test_an_attribute_trims_its_key_and_keeps_the_type_of_its_value() -> None:
    found = read('attr: Bob | Home Town | "Paris"')
    assert found.attributes == [ExtractedAttribute("bob", "Home Town", "Paris")]
    for source, value in [
        ("15", 15),
        ("1.0", 1.0),
        ("true", True),
        ("null", None),
        ('["a", 1]', ["a", 1]),
        ('{"a": {"b": []}}', {"a": {"b": []}}),
        (str(MIN_INTEGER), MIN_INTEGER),
        (str(MAX_INTEGER), MAX_INTEGER),
    ]:
        assert value_of(source) == value
        assert type(value_of(source)) is type(value)


@pytest.mark.parametrize(
    "source",
    [
        "Paris",
        "'Paris'",
        "NaN",
        "-Infinity",
        "1e999",
        "1 2",
        "{} x",
        "[1,]",
        "01",
        str(MIN_INTEGER - 1),
        str(MAX_INTEGER + 1),
        "9" * 5_000,
        '"\\ud800"',
        '{"\\ud800": 1}',
        "[" * (MAX_METADATA_DEPTH + 1) + "]" * (MAX_METADATA_DEPTH + 1),
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
    ],
)
def test_a_value_that_is_not_strict_json_is_refused_with_its_line_d35(source: str) -> None:
    with pytest.raises(ExtractError, match=r"line 1, attr: the value"):
        value_of(source)


@pytest.mark.parametrize(
    ("text", "line", "directive", "part"),
    [
        ("ok\n\nedge: a | b", 3, "edge", "2 given"),
        ("edge: a | b | c | d", 1, "edge", "4 given"),
        ("\n\nedge: | b | c", 3, "edge", "subject is blank"),
        ("edge: a | \u3000 | c", 1, "edge", "predicate is blank"),
        ("edge: a | b |", 1, "edge", "object is blank"),
        ("attr: a | b", 1, "attr", "2 given"),
        ('attr: a | b | "x|y"', 1, "attr", "4 given"),
        ("attr: | b | 1", 1, "attr", "entity is blank"),
        ("attr: a | | 1", 1, "attr", "key is blank"),
        ("attr: a | b |", 1, "attr", "value is blank"),
        ("one\r\nfact:", 2, "fact", "text is blank"),
        ("fact: | x", 1, "fact", "text is blank"),
        ("| x", 1, "fact", "text is blank"),
    ],
)
def test_an_error_names_the_line_and_the_directive_d35(
    text: str, line: int, directive: str, part: str
) -> None:
    with pytest.raises(ExtractError, match=rf"line {line}, {directive}: .*{re.escape(part)}"):
        read(text)


def test_an_error_never_quotes_the_passage_d59() -> None:
    with pytest.raises(ExtractError) as caught:
        read("attr: Theo | diagnosis | hypertension")
    assert not any(word in str(caught.value) for word in ("Theo", "diagnosis", "hypertension"))


def test_edges_and_attributes_of_punctuation_are_dropped_and_counted_d35() -> None:
    found = read("edge: - | r | .\nedge: a | r | --\nattr: ?? | k | 1\nedge: a | r | b")
    assert found.relations == [ExtractedRelation("a", "r", "b")]
    assert found.attributes == []
    assert found.dropped == {"no_alphanumeric_name": 3}


def test_a_malformed_edge_of_punctuation_is_still_an_error() -> None:
    with pytest.raises(ExtractError):
        read("edge: - | | .")


_LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "fact:", "edge:", "attr:", "Edge:"]),
        st.text('ab |,:"[]{}1.-\r\u2028é', max_size=30),
    )
)


@given(_LINES)
def test_any_text_is_read_or_refused_and_never_otherwise(lines: list[tuple[str, str]]) -> None:
    try:
        found = read("\n".join(prefix + rest for prefix, rest in lines))
    except ExtractError:
        return
    assert all(fact.text for fact in found.facts)
    assert all(relation.subject and relation.predicate and relation.object for relation in found.relations)


@given(st.text())
def test_any_string_at_all_is_read_or_refused(text: str) -> None:
    try:
        found = read(text)
    except ExtractError:
        return
    assert isinstance(found, Extraction)
