"""remember_extracted: reading a passage and storing it at once (operations.md §1.1, §1.8; D5, D6, D9, D32)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.stores import assert_sound, everything, listed
from velesdb_memory import MemoryService
from velesdb_memory.errors import (
    EmbedError,
    EmptyFact,
    ExtractError,
    ExtractorUnavailable,
    IdCollision,
    InvalidArgument,
    InvalidMetadata,
    MetadataTooLarge,
    ProvenanceMismatch,
    ReservedKey,
)
from velesdb_memory.extract.base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction
from velesdb_memory.extract.outline import OutlineExtractor
from velesdb_memory.ids import fact_id, hub_id
from velesdb_memory.model import ExtractionResult
from velesdb_memory.store.base import Kind, Record
from velesdb_memory.store.sqlite.transaction import SqliteTransaction
from velesdb_memory.testing import FixedClock, FixedEmbedder

Opener = Callable[..., MemoryService]
OUTLINE = OutlineExtractor()


class Says:
    """An extractor that finds what it was told to, whatever it is given."""

    name = "says"

    def __init__(
        self, *facts: Any, relations: Sequence[Any] = (), attributes: Sequence[Any] = (), **dropped: int
    ) -> None:
        self.found = Extraction(
            [fact if isinstance(fact, ExtractedFact) else ExtractedFact(*fact) for fact in facts],
            [ExtractedRelation(*relation) for relation in relations],
            [ExtractedAttribute(*attribute) for attribute in attributes],
            dropped,
        )
        self.read: list[str] = []

    def extract(self, text: str) -> Extraction:
        self.read.append(text)
        return self.found


class Fails:
    name = "fails"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def extract(self, text: str) -> Extraction:
        raise self.error


# -- what is stored ----------------------------------------------------------------------------------------------------


def test_ids_come_in_the_order_of_the_passage_and_repeats_count_each_time(memory: MemoryService) -> None:
    result = memory.remember_extracted("zebra\nfact: apple | fruit\nzebra\n\n  zebra  \nmango", OUTLINE)
    ids = {text: fact_id(text) for text in ("zebra", "apple", "mango")}
    assert result == ExtractionResult([ids["zebra"], ids["apple"], ids["zebra"], ids["zebra"], ids["mango"]], 0, {})
    assert memory.memory_status().memory.facts == 3


def test_the_same_passage_again_adds_nothing(memory: MemoryService) -> None:
    passage = "Ada rows. | ada\nedge: ada | knows | bob\nattr: ada | age | 15"
    first = memory.remember_extracted(passage, OUTLINE)
    before = everything(memory)
    assert memory.remember_extracted(passage, OUTLINE) == first
    assert everything(memory) == before


@pytest.mark.parametrize("size", [2047, 2048, 2049, 2050])
def test_a_fact_over_2048_bytes_is_left_out_and_counted(memory: MemoryService, size: int) -> None:
    text = "é" * (size // 2) + "x" * (size % 2)
    result = memory.remember_extracted(f"before | a\n{text} | lonely\nafter | b", OUTLINE)
    fits = size <= 2048
    assert result.skipped_over_cap == (not fits)
    assert result.ids == [fact_id("before"), *([fact_id(text)] if fits else []), fact_id("after")]
    assert memory.entity("lonely").found == fits


def test_a_passage_of_which_nothing_is_left_stores_nothing(memory: MemoryService) -> None:
    before = everything(memory)
    result = memory.remember_extracted("anything", Says(("x" * 3000, ["a"]), (" \n", ["b"])))
    assert result == ExtractionResult([], 1, {"blank_fact": 1})
    assert everything(memory) == before


def test_D32_every_unusable_item_is_dropped_and_counted_by_its_reason(memory: MemoryService) -> None:
    extractor = Says(
        ("Ada met Bob.", ["ada", "...", ""]),
        ("\u3000", ["ghost"]),
        ("x" * 2049, ["ghost"]),
        relations=[
            ("ada", "knows", "bob"),
            ("ada", "is", " ADA "),
            ("ada", "", "bob"),
            ("ada", " \t ", "bob"),
            ("ada", "r" * 513, "bob"),
            ("ada", "a\x7fb", "bob"),
            ("!", "knows", "bob"),
            ("ada", "knows", ""),
        ],
        attributes=[
            ("ada", "age", 15),
            ("ada", " ", 1),
            ("?", "k", 1),
            ("ada", "content", 1),
            ("ada", "_veles_expires_at", 1),
            ("ada", "weight", math.nan),
            ("ada", "size", 2**64),
        ],
        malformed_fact=2,
    )
    result = memory.remember_extracted("anything", extractor)
    assert result == ExtractionResult(
        [fact_id("Ada met Bob.")],
        1,
        {
            "attribute_incomplete": 1,
            "attribute_not_json": 2,
            "blank_fact": 1,
            "invalid_relation": 4,
            "malformed_fact": 2,
            "no_alphanumeric_name": 3,
            "reserved_attribute": 2,
            "self_relation": 1,
        },
    )
    assert list(result.skipped) == sorted(result.skipped)
    shown = {entry.content for entry in listed(memory, include_internal=True)}
    assert shown == {"Ada met Bob.", "Entity: ada", "Entity: bob"}
    assert memory.entity("ada").attributes == {"age": 15}
    assert_sound(memory)


def test_an_attribute_may_carry_a_date(memory: MemoryService) -> None:
    memory.remember_extracted("attr: ada | _veles_date | 20200101", OUTLINE)
    assert memory.entity("ada").attributes == {"_veles_date": 20200101}


@pytest.mark.parametrize("value", [None, True, 0, 2**64 - 1, -(2**63), 1.0, 1e300, "é", [1, [2.5]], {"b": {"a": None}}])
def test_attributes_keep_their_type(memory: MemoryService, value: Any) -> None:
    memory.remember_extracted("x", Says(("Ada rows.", []), attributes=[("ada", "k", value)]))
    known = memory.entity("ada").attributes["k"]
    assert known == value and type(known) is type(value)


def test_an_entity_whose_attributes_are_too_large_keeps_those_that_fit(memory: MemoryService) -> None:
    passage = f'attr: bob | first | 1\nattr: bob | blob | "{"x" * 65_536}"\nattr: bob | last | 2'
    result = memory.remember_extracted(passage, OUTLINE)
    assert result.skipped == {"attributes_over_cap": 1}
    assert memory.entity("bob").attributes == {"first": 1, "last": 2}


def test_a_large_attribute_may_be_taught_again_or_anew(memory: MemoryService) -> None:
    """A value takes the place of the former one, and so does its size."""
    for letter in "xxy":
        result = memory.remember_extracted(f'Bob. | bob\nattr: bob | blob | "{letter * 40_000}"', OUTLINE)
        assert result.skipped == {}
        assert memory.entity("bob").attributes == {"blob": letter * 40_000}


def test_metadata_and_the_date_are_on_the_facts_and_not_on_the_entities(memory: MemoryService) -> None:
    memory.remember_extracted("Ada rows. | ada\nBob naps.", OUTLINE, metadata={"project": "p", "n": [1]})
    shown = {entry.content: entry.metadata for entry in listed(memory, include_internal=True)}
    stamped = {"_veles_date": 20231114, "n": [1], "project": "p"}
    assert shown == {"Ada rows.": stamped, "Bob naps.": stamped, "Entity: ada": {"_veles_hub": True}}


def test_D7_a_date_in_the_metadata_is_kept(memory: MemoryService) -> None:
    memory.remember_extracted("Ada rows.", OUTLINE, metadata={"_veles_date": 20200101})
    assert memory.recall("Ada")[0].metadata == {"_veles_date": 20200101}


def test_confidence_that_a_fact_has_learned_stays(memory: MemoryService) -> None:
    memory.feedback(memory.remember("Ada rows."), True)
    memory.remember_extracted("Ada rows. | ada", OUTLINE)
    assert memory.feedback(fact_id("Ada rows."), True) == pytest.approx(0.7)


def test_facts_of_a_passage_are_embedded_together_and_once_each(memory: MemoryService, embedder: FixedEmbedder) -> None:
    embedder.asked.clear()
    memory.remember_extracted("one | topic\ntwo | topic\none", OUTLINE)
    assert embedder.asked == ["one", "two"]


def test_a_passage_without_facts_needs_no_embedder(open_memory: Opener) -> None:
    open_memory().remember("fills the store")
    other = open_memory(embedder=FixedEmbedder(model="another"))
    assert other.remember_extracted("attr: ada | age | 15", OUTLINE).ids == []
    assert other.entity("ada").attributes == {"age": 15}
    with pytest.raises(ProvenanceMismatch):
        other.remember_extracted("Ada rows.", OUTLINE)
    assert not any(entry.content == "Ada rows." for entry in listed(other))


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " \n\u3000"])
def test_a_blank_passage_is_refused_and_nobody_reads_it(memory: MemoryService, text: str) -> None:
    extractor = Says()
    with pytest.raises(EmptyFact) as caught:
        memory.remember_extracted(text, extractor)
    assert caught.value.field == "text" and extractor.read == []


def test_a_passage_may_be_a_mebibyte_and_no_more(memory: MemoryService) -> None:
    extractor = Says()
    memory.remember_extracted("é" * 524_288, extractor)
    with pytest.raises(InvalidArgument) as caught:
        memory.remember_extracted("é" * 524_288 + "x", extractor)
    assert (caught.value.field, caught.value.limit) == ("text", 1_048_576)
    assert len(extractor.read) == 1


@pytest.mark.parametrize("text", [None, 5, b"x", "\ud800"])
def test_a_passage_that_is_no_text_is_refused(memory: MemoryService, text: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        memory.remember_extracted(text, OUTLINE)
    assert caught.value.field == "text"


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"content": 1}, ReservedKey),
        ({"_veles_hub": True}, ReservedKey),
        ({"x": "y" * 65_536}, MetadataTooLarge),
        ({"x": math.nan}, InvalidMetadata),
    ],
)
def test_D6_metadata_is_checked_before_the_extractor_is_asked(
    memory: MemoryService, metadata: dict[str, Any], error: type[Exception]
) -> None:
    before, extractor = everything(memory), Says(("Ada rows.", ["ada"]))
    with pytest.raises(error):
        memory.remember_extracted("anything", extractor, metadata=metadata)
    assert extractor.read == [] and everything(memory) == before


@pytest.mark.parametrize("line", ["edge: a | b", "attr: a | k | Paris", "fact: | x", "attr: a | k | NaN"])
def test_D35_a_malformed_outline_names_the_line_and_stores_nothing(memory: MemoryService, line: str) -> None:
    before = everything(memory)
    with pytest.raises(ExtractError, match="line 3"):
        memory.remember_extracted(f"Ada rows. | ada\n\n{line}\nBob naps.", OUTLINE)
    assert everything(memory) == before


@pytest.mark.parametrize("error", [ValueError("odd"), KeyError("k"), RecursionError()])
def test_whatever_goes_wrong_in_an_extractor_is_an_extraction_error(memory: MemoryService, error: Exception) -> None:
    before = everything(memory)
    with pytest.raises(ExtractError) as caught:
        memory.remember_extracted("x", Fails(error))
    assert caught.value.__cause__ is error and isinstance(caught.value, RuntimeError)
    assert everything(memory) == before


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"facts": []},
        Extraction([ExtractedFact("Ada rows.", None)]),  # type: ignore[arg-type]
        Extraction([], [ExtractedRelation(None, "knows", "bob")]),  # type: ignore[arg-type]
        Extraction([], [], [ExtractedAttribute("bob", 5, 1)]),  # type: ignore[arg-type]
        Extraction([ExtractedFact("Ada rows.", ["ada\ud800"])]),
    ],
)
def test_D32_an_extractor_that_answers_with_something_else_is_an_extraction_error_or_loses_the_item(
    memory: MemoryService, answer: Any
) -> None:
    class Odd:
        name = "odd"

        def extract(self, text: str) -> Any:
            return answer

    before = everything(memory)
    try:
        result = memory.remember_extracted("x", Odd())
    except ExtractError:
        assert everything(memory) == before
    else:
        assert sum(result.skipped.values()) == 1


class OneTimeEmbedder(FixedEmbedder):
    """Works once, and then the model is gone."""

    calls = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        if self.calls > 1:
            raise EmbedError("the model is gone")
        return super().embed(texts)


def test_D6_an_embedder_that_fails_leaves_nothing_behind(open_memory: Opener) -> None:
    memory = open_memory(embedder=OneTimeEmbedder())
    memory.remember("a first fact")
    before = everything(memory)
    with pytest.raises(EmbedError):
        memory.remember_extracted("Ada rows. | ada\nedge: ada | knows | bob\nattr: ada | age | 15", OUTLINE)
    assert everything(memory) == before
    assert_sound(memory)


def test_D6_D2_a_collision_in_the_middle_leaves_nothing_behind(memory: MemoryService) -> None:
    with memory._core.store.transaction(1_700_000_000) as tx:
        vector = memory._core.embed(["other"])[0]
        tx.put(Record(fact_id("Bob naps."), Kind.FACT, "another text with the same hash", {}), vector)
    before = everything(memory)
    with pytest.raises(IdCollision):
        memory.remember_extracted("Ada rows. | ada\nBob naps. | bob", OUTLINE)
    assert everything(memory) == before


def test_D2_a_fact_that_holds_the_id_of_an_entity_is_not_taken_for_it(memory: MemoryService) -> None:
    with memory._core.store.transaction(1_700_000_000) as tx:
        vector = memory._core.embed(["crafted"])[0]
        tx.put(Record(hub_id("bob"), Kind.FACT, "crafted to collide", {}), vector)
    before = everything(memory)
    with pytest.raises(IdCollision):
        memory.remember_extracted("Ada met Bob. | bob", OUTLINE)
    assert everything(memory) == before


def test_without_an_extractor_the_call_says_how_to_get_one(memory: MemoryService) -> None:
    with pytest.raises(ExtractorUnavailable, match="outline") as caught:
        memory.remember_extracted("Ada rows.")
    assert isinstance(caught.value, RuntimeError) and caught.value.field == "extractor"


def test_the_services_own_extractor_reads_when_the_call_does_not_say(tmp_path: Any, clock: FixedClock) -> None:
    extractor = Says(("Ada rows.", []))
    with MemoryService(tmp_path, FixedEmbedder(), extractor=extractor, clock=clock) as memory:
        memory.remember_extracted(" something ")
        memory.remember_extracted("Bob naps.", OUTLINE)
    assert extractor.read == ["something"]


# -- large passages ----------------------------------------------------------------------------------------------------


def test_C47_work_grows_with_the_passage_and_not_with_its_square(
    memory: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it is one transaction, for which every other process waits. A passage may be 25 times as long as this."""
    written = 0
    add_edge = SqliteTransaction.add_edge

    def counted(self: SqliteTransaction, *edge: Any, **taught: Any) -> int:
        nonlocal written
        written += 1
        return add_edge(self, *edge, **taught)

    monkeypatch.setattr(SqliteTransaction, "add_edge", counted)
    lines = [f"fact: clerk {n} works at desk {n}" for n in range(100)]
    lines += [f"edge: stranger {n} | sits by | visitor {n}" for n in range(100)]
    memory.remember_extracted("\n".join(lines), OUTLINE)
    assert written <= 10 * len(lines)
