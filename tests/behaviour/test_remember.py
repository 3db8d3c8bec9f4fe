"""remember (memory.md §3; D1, D2, D5, D6, D7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Opener
from support.stores import assert_sound, contents, everything, files_of, listed
from velesdb_memory import ColumnFilter, Link, MemoryService
from velesdb_memory.errors import (
    EmbedError,
    EmptyFact,
    FactTooLarge,
    IdCollision,
    InvalidArgument,
    InvalidMetadata,
    InvalidRelation,
    MetadataTooLarge,
    ReservedKey,
    SelfRelation,
    UnknownMemory,
    VelesMemoryError,
)
from velesdb_memory.ids import fact_id
from velesdb_memory.testing import FixedClock, FixedEmbedder

COLLIDING = ("8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ")
MISSING = 123


def metadata_of(memory: MemoryService, number: int) -> Any:
    return next(entry.metadata for entry in listed(memory) if entry.id == number)


def refused(memory: MemoryService, kind: type[VelesMemoryError], **arguments: Any) -> VelesMemoryError:
    """The error of a call that must not have written anything."""
    before = everything(memory)
    with pytest.raises(kind) as caught:
        memory.remember(**arguments)
    assert type(caught.value) is kind
    assert everything(memory) == before
    return caught.value


def test_D2_a_remembered_fact_has_the_id_of_its_trimmed_text(memory: MemoryService) -> None:
    assert memory.remember(" \u2003 hello\n") == fact_id("hello") == 11831194018420276491
    assert contents(memory.recall("hello")) == ["hello"]


def test_C22_the_same_text_twice_is_one_memory(memory: MemoryService) -> None:
    assert memory.remember("the sky is blue") == memory.remember("the sky is blue\u00a0")
    assert memory.memory_status().memory.facts == 1


@pytest.mark.parametrize(
    "fact", ["café", "cafe\u0301", "日本語", "a\0b", "\x1chello\x1f", "\u200b", "naïve – 漢字 – 😅"]
)
def test_D1_a_text_comes_back_byte_for_byte(memory: MemoryService, fact: str) -> None:
    number = memory.remember(fact)
    assert memory.recall(fact, 1)[0].content == fact
    assert [(entry.id, entry.content) for entry in listed(memory)] == [(number, fact)]


@pytest.mark.parametrize("fact", ["a" * 2_048, "é" * 1_024])
def test_a_fact_of_2048_bytes_is_stored(memory: MemoryService, fact: str) -> None:
    memory.remember(fact)
    assert contents(memory.recall(fact)) == [fact]


@pytest.mark.parametrize("fact", ["", "  ", "\u3000\u0085"])
def test_a_blank_fact_is_refused(memory: MemoryService, fact: str) -> None:
    error = refused(memory, EmptyFact, fact=fact)
    assert isinstance(error, ValueError) and error.field == "fact"


@pytest.mark.parametrize("fact", ["a" * 2_049, "é" * 1_025])
def test_C41_a_fact_over_2048_bytes_is_refused(memory: MemoryService, fact: str) -> None:
    error = refused(memory, FactTooLarge, fact=fact)
    assert isinstance(error, ValueError)
    assert (error.field, error.limit) == ("fact", 2_048)


@pytest.mark.parametrize("fact", [None, 5, b"bytes", "\ud800"])
def test_what_is_no_text_is_refused(memory: MemoryService, fact: Any) -> None:
    assert refused(memory, InvalidArgument, fact=fact).field == "fact"


@pytest.mark.parametrize("key", ["content", "_veles_hub", "_veles_expires_at", "_veles_ctx_source"])
def test_a_reserved_key_is_refused(memory: MemoryService, key: str) -> None:
    error = refused(memory, ReservedKey, fact="x", metadata={"fine": 1, key: 1})
    assert isinstance(error, ValueError) and error.field == "metadata"


def test_metadata_over_64_KiB_is_refused(memory: MemoryService) -> None:
    memory.remember("just fits", metadata={"k": "x" * (65_536 - 8)})
    error = refused(memory, MetadataTooLarge, fact="x", metadata={"k": "x" * (65_537 - 8)})
    assert isinstance(error, ValueError)
    assert (error.field, error.limit) == ("metadata", 65_536)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**64, -(2**63) - 1, b"x", {1}])
def test_C38_metadata_that_json_cannot_carry_is_refused(memory: MemoryService, value: Any) -> None:
    assert refused(memory, InvalidMetadata, fact="x", metadata={"deep": [{"k": value}]}).field == "metadata"


@pytest.mark.parametrize("ttl", [-1, 1.5, "60", True])
def test_D5_a_negative_or_non_integer_duration_is_refused(memory: MemoryService, ttl: Any) -> None:
    assert refused(memory, InvalidArgument, fact="x", ttl_seconds=ttl).field == "ttl_seconds"


@pytest.mark.parametrize("label", ["", " ", "\u0085", "a\nb", "x" * 513])
def test_D8_a_bad_label_is_refused_before_any_target_is_looked_up(memory: MemoryService, label: str) -> None:
    links = [Link(MISSING, "fine"), Link(MISSING, label)]
    assert refused(memory, InvalidRelation, fact="x", links=links).field == "links[1].relation"


def test_a_link_to_an_unknown_memory_is_refused(memory: MemoryService) -> None:
    known = memory.remember("known")
    error = refused(memory, UnknownMemory, fact="x", links=[Link(known, "ok"), Link(MISSING, "to")])
    assert isinstance(error, KeyError)
    assert (error.field, str(error)) == ("links[1].target", f"memory {MISSING} does not exist")


def test_a_new_fact_cannot_link_to_itself_because_it_is_not_there_yet(memory: MemoryService) -> None:
    refused(memory, UnknownMemory, fact="myself", links=[Link(fact_id("myself"), "is")])


def test_C41_a_stored_fact_cannot_link_to_itself(memory: MemoryService) -> None:
    number = memory.remember("myself")
    error = refused(memory, SelfRelation, fact="myself", links=[Link(number, "is")])
    assert isinstance(error, ValueError)
    assert error.field == "links[0].target"


@pytest.mark.parametrize("wrong", [1.5, -1, 2**64, True, None, "x"])
def test_D4_C01_a_link_target_that_is_no_id_is_refused(memory: MemoryService, wrong: Any) -> None:
    assert refused(memory, InvalidArgument, fact="x", links=[Link(wrong, "to")]).field == "links[0].target"


def test_D4_C01_a_link_target_as_a_float_is_refused_even_where_no_digit_is_lost(memory: MemoryService) -> None:
    target = next(n for n in range(100_000) if int(float(fact_id(f"fact {n}"))) == fact_id(f"fact {n}"))
    number = memory.remember(f"fact {target}")
    assert refused(memory, InvalidArgument, fact="x", links=[Link(float(number), "to")]).field == "links[0].target"  # type: ignore[arg-type]


def test_D4_a_link_target_may_be_a_decimal_string(memory: MemoryService) -> None:
    number = memory.remember("target")
    memory.remember("source", links=[Link(f" +{number} ", "to")])  # type: ignore[arg-type]
    assert [edge.target for edge in memory.why("source").edges] == [number]


@pytest.mark.parametrize("link", [None, "x", {"target": 1, "relation": "to"}, (1, "to")])
def test_a_link_that_is_none_is_refused(memory: MemoryService, link: Any) -> None:
    refused(memory, InvalidArgument, fact="x", links=[link])


def test_the_first_fault_in_the_documented_order_is_the_one_reported(memory: MemoryService) -> None:
    wrong: dict[str, Any] = {
        "fact": " ",
        "ttl_seconds": -1,
        "metadata": {"content": 1},
        "links": [Link(MISSING, "")],
    }
    for kind, cure in (
        (EmptyFact, {"fact": "x"}),
        (InvalidArgument, {"ttl_seconds": 1}),
        (ReservedKey, {"metadata": {"k": "x" * 70_000}}),
        (MetadataTooLarge, {"metadata": {}}),
        (InvalidRelation, {"links": [Link(MISSING, "to")]}),
        (UnknownMemory, {"links": []}),
    ):
        refused(memory, kind, **wrong)
        wrong |= cure
    memory.remember(**wrong)


def test_D2_a_text_whose_id_another_text_holds_is_refused_and_overwrites_nothing(memory: MemoryService) -> None:
    first, second = COLLIDING
    number = memory.remember(first, metadata={"k": 1})
    memory.feedback(number, True)
    error = refused(memory, IdCollision, fact=second, metadata={"k": 2})
    assert isinstance(error, RuntimeError)
    assert contents(memory.recall(second)) == [first]
    assert_sound(memory)


def test_D2_the_id_is_free_again_once_the_first_text_is_forgotten(memory: MemoryService) -> None:
    memory.forget(memory.remember(COLLIDING[0]))
    memory.remember(COLLIDING[1])
    assert contents(memory.recall("x")) == [COLLIDING[1]]
    assert_sound(memory)


def test_links_become_edges_and_duplicates_one_edge(memory: MemoryService) -> None:
    cause, other = memory.remember("cause"), memory.remember("other")
    memory.remember("effect", links=[Link(cause, "because"), Link(other, "see"), Link(cause, "because")])
    memory.remember("effect", links=[Link(cause, "because")])
    edges = memory.why("effect").edges
    assert [(edge.target, edge.relation) for edge in edges] == [(cause, "because"), (other, "see")]
    assert memory.memory_status().memory.edges == 2


def test_the_day_is_stamped_and_everything_comes_back_in_key_order(memory: MemoryService) -> None:
    number = memory.remember("dated", metadata={"b": [1, {"c": None}], "a": 2**63, "_z": 1.5})
    assert list(metadata_of(memory, number).items()) == [
        ("_veles_date", 20231114),
        ("_z", 1.5),
        ("a", 2**63),
        ("b", [1, {"c": None}]),
    ]


def test_before_1970_no_day_is_stamped_and_metadata_is_none(open_memory: Opener) -> None:
    memory = open_memory(clock=FixedClock(-5))
    assert metadata_of(memory, memory.remember("old")) is None


@pytest.mark.parametrize("date", [19991231, "sometime", None, [2023]])
def test_D7_a_day_that_the_caller_gives_stays_also_when_the_fact_is_remembered_again(
    memory: MemoryService, date: Any
) -> None:
    number = memory.remember("dated", metadata={"_veles_date": date})
    memory.remember("dated")
    assert metadata_of(memory, number) == {"_veles_date": date}
    memory.remember("dated", metadata={"_veles_date": 20200101})
    assert metadata_of(memory, number) == {"_veles_date": 20200101}


def test_D7_an_automatic_day_is_stamped_anew(memory: MemoryService, clock: FixedClock) -> None:
    number = memory.remember("today")
    clock.advance(86_400)
    memory.remember("today")
    assert metadata_of(memory, number) == {"_veles_date": 20231115}


def test_D7_remembering_again_replaces_metadata_and_keeps_edges_and_confidence(
    memory: MemoryService, clock: FixedClock
) -> None:
    cause = memory.remember("cause")
    number = memory.remember("effect", links=[Link(cause, "because")], metadata={"a": 1, "b": 2})
    back = memory.relate(cause, number, "leads_to")
    memory.feedback(number, True)
    memory.remember("effect", metadata={"b": 3})
    assert metadata_of(memory, number) == {"_veles_date": 20231114, "b": 3}
    assert memory.recall_where("effect", [ColumnFilter("a", "eq", 1)]) == []
    assert contents(memory.recall("effect", filter={"b": 3})) == ["effect"]
    assert memory.feedback(number, True) == pytest.approx(0.7)
    assert [edge.relation for edge in memory.why("effect", direction="both").edges] == ["because", "leads_to"]
    assert memory.relate(cause, number, "leads_to") == back
    assert memory.memory_status().memory.edges == 2
    assert_sound(memory)


def test_the_length_of_a_vector_does_not_matter(open_memory: Opener) -> None:
    memory = open_memory(embedder=FixedEmbedder({"tiny": [1e-30, 0], "huge": [1e30, 1e30], "q": [3, 0]}))
    memory.remember("tiny")
    memory.remember("huge")
    assert [(hit.content, hit.score) for hit in memory.recall("q")] == [
        ("tiny", 1.0),
        ("huge", pytest.approx(0.5**0.5)),
    ]


def test_D7_remembering_again_with_a_new_vector_moves_the_fact(folder: Path, clock: FixedClock) -> None:
    class Changing(FixedEmbedder):
        def embed(self, texts: Any) -> Any:
            return np.array([[1, 0] if text == "q" else self.now for text in texts], np.float32)

    embedder = Changing(dimension=2)
    with MemoryService(folder, embedder, clock=clock) as memory:
        embedder.now = [1, 0]
        number = memory.remember("moving")
        embedder.now = [0, 1]
        assert memory.recall("q")[0].score == 1.0
        assert memory.remember("moving") == number
        assert [hit.score for hit in memory.recall("q")] == [0.0]
        assert_sound(memory)


class Faulty(FixedEmbedder):
    """Answers for everything but facts that start with ``bad`` as it should."""

    def __init__(self, answer: Any) -> None:
        super().__init__(dimension=4)
        self.answer = answer

    def embed(self, texts: Any) -> Any:
        if not any(text.startswith("bad") for text in texts):
            return super().embed(texts)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        [[float("nan")] * 4], [[float("inf"), 0, 0, 0]], [[0.0] * 4], [[1e300, 0, 0, 0]], [[1e-300, 0, 0, 0]],
        [[1.0] * 3], [1.0] * 4, [[1.0] * 4] * 2, [], None, "vector", [["a"] * 4], [[1.0] * 4, [1.0]],
        ConnectionError("down"), KeyError("k"),
    ],
    ids=repr,
)  # fmt: skip
def test_C38_an_embedder_that_fails_or_answers_nonsense_costs_nothing(folder: Path, answer: Any) -> None:
    with MemoryService(folder, Faulty(answer)) as memory:
        target = memory.remember("good")
        before = everything(memory)
        for call in (
            lambda: memory.remember("bad", links=[Link(target, "to")]),
            lambda: memory.recall("bad"),
            lambda: memory.recall_where("bad", [ColumnFilter("a", "eq", 1)]),
            lambda: memory.why("bad"),
        ):
            with pytest.raises(EmbedError) as caught:
                call()
            assert isinstance(caught.value, RuntimeError)
        assert everything(memory) == before
        assert contents(memory.recall("good")) == ["good"]


def test_C40_nothing_is_dropped_while_the_embedder_is_down(folder: Path) -> None:
    with MemoryService(folder, Faulty(None)) as memory:
        number = memory.remember("good", metadata={"k": 1})
        assert (memory.feedback(number, True), len(listed(memory)), memory.forget(number)) == (
            pytest.approx(0.6),
            1,
            True,
        )


def test_a_refused_call_does_not_ask_the_embedder(memory: MemoryService, embedder: FixedEmbedder) -> None:
    refused(memory, UnknownMemory, fact="x", links=[Link(MISSING, "to")])
    refused(memory, ReservedKey, fact="x", metadata={"content": 1})
    assert embedder.asked == []


def test_D6_a_target_that_vanishes_while_the_embedder_thinks_leaves_nothing_half_written(folder: Path) -> None:
    class Slow(FixedEmbedder):
        def embed(self, texts: Any) -> Any:
            if "late" in texts:
                memory.forget(target)
            return super().embed(texts)

    with MemoryService(folder, Slow()) as memory:
        target = memory.remember("target")
        with pytest.raises(UnknownMemory):
            memory.remember("late", links=[Link(target, "to")])
        assert memory.memory_status().memory.facts == 0
        assert_sound(memory)


def test_a_refusal_does_not_touch_the_files(open_memory: Opener, folder: Path) -> None:
    memory = open_memory()
    memory.remember("x")
    before = files_of(folder)
    with pytest.raises(EmptyFact):
        memory.remember("")
    assert files_of(folder) == before


def test_a_closed_service_says_so(memory: MemoryService) -> None:
    from velesdb_memory.errors import StorageError

    memory.close()
    memory.close()
    for call in (
        lambda: memory.remember("x"),
        lambda: memory.recall("x"),
        memory.list_memories,
        lambda: memory.forget(1),
    ):
        with pytest.raises(StorageError):
            call()
