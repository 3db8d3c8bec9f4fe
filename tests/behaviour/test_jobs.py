"""Passages in the durable queue (seed, remember_extracted and extraction_status; operations.md §3; D5, D30, D34)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.jobs import PASSAGE, PENDING, SECRET, Opener, Reads, raises, rows
from support.model_server import ModelServer
from support.stores import assert_sound, everything, listed
from velesdb_memory import ExtractionReceipt, ExtractionSnapshot, MemoryService
from velesdb_memory.errors import (
    EmptyFact,
    ExtractorUnavailable,
    InvalidArgument,
    InvalidMetadata,
    JobConflict,
    QueueFull,
    ReservedKey,
    UnknownRequest,
)
from velesdb_memory.extract.base import ExtractedAttribute, ExtractedFact, Extraction
from velesdb_memory.extract.ollama import OllamaExtractor
from velesdb_memory.ids import fact_id
from velesdb_memory.limits import (
    MAX_JOB_ATTEMPTS,
    MAX_PENDING_JOBS,
)
from velesdb_memory.testing import FixedClock

# -- acceptance --------------------------------------------------------------------------------------------------------


def test_a_passage_is_accepted_before_anybody_reads_it(service: Opener) -> None:
    extractor = Reads()
    memory = service(extractor)
    receipt = memory.accept_extraction(PASSAGE)
    assert re.fullmatch("[0-9a-f]{64}", receipt.request_id)
    assert receipt == ExtractionReceipt(receipt.request_id, "accepted", reused=False)
    assert memory.extraction_status(receipt.request_id) == ExtractionSnapshot(receipt.request_id, "accepted", *PENDING)
    assert extractor.read == [] and listed(memory) == []
    assert memory.memory_status().pending.extraction == 1


def test_an_accepted_passage_is_stored_by_a_worker(memory: MemoryService) -> None:
    receipt = memory.accept_extraction(PASSAGE + f"\n{'x' * 3000}\nedge: ! | knows | b", {"project": "p"}, "outline")
    assert memory.work() == 1
    number = fact_id("Ada rows.")
    assert memory.extraction_status(receipt.request_id) == ExtractionSnapshot(
        receipt.request_id, "committed", [number], [str(number)], 1, None, {"no_alphanumeric_name": 1}
    )
    assert memory.recall("Ada rows.")[0].metadata == {"_veles_date": 20231114, "project": "p"}
    assert memory.entity("ada").attributes == {"age": 15}
    assert memory.memory_status().pending.extraction == 0
    assert memory.work() == 0
    assert_sound(memory)


def test_a_job_stores_what_remember_extracted_stores(
    memory: MemoryService, open_memory: Opener, tmp_path: Path
) -> None:
    from velesdb_memory.extract.outline import OutlineExtractor

    memory.accept_extraction(PASSAGE, {"project": "p"}, "outline")
    memory.work()
    other = open_memory(tmp_path / "other")
    other.remember_extracted(PASSAGE, OutlineExtractor(), {"project": "p"})
    assert everything(memory) == everything(other)


def test_ids_come_in_the_order_of_the_passage_with_repeats(memory: MemoryService) -> None:
    receipt = memory.accept_extraction("zebra\napple\nzebra", extractor="outline")
    memory.work()
    snapshot = memory.extraction_status(receipt.request_id)
    assert snapshot.ids == [fact_id("zebra"), fact_id("apple"), fact_id("zebra")]
    assert snapshot.ids_str == [str(number) for number in snapshot.ids]


def test_D34_passages_of_one_second_are_stored_in_the_order_they_came(memory: MemoryService) -> None:
    for age in range(12):
        memory.accept_extraction(f"attr: bob | age | {age}", extractor="outline")
    memory.work()
    assert memory.entity("bob").attributes == {"age": 11}


# -- the same request again --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "k"])
def test_the_same_request_is_the_same_job_at_every_stage(service: Opener, key: str | None) -> None:
    seen: list[ExtractionReceipt] = []

    def again() -> ExtractionReceipt:
        # spaces around the text and the order of metadata make no other request
        return memory.accept_extraction(f"  {PASSAGE}\n", {"b": 2, "a": 1}, idempotency_key=key)

    extractor = Reads(lambda text: seen.append(again()))
    memory = service(extractor)
    first = memory.accept_extraction(PASSAGE, {"a": 1, "b": 2}, "reads", key)
    assert again() == ExtractionReceipt(first.request_id, "accepted", reused=True)
    memory.work()
    assert seen == [ExtractionReceipt(first.request_id, "running", reused=True)]
    assert again() == ExtractionReceipt(first.request_id, "committed", reused=True)
    assert len(extractor.read) == 1 and memory.work() == 0


def test_a_failed_job_stays_failed_and_another_key_is_another_try(service: Opener) -> None:
    memory = service(Reads(raises(ValueError("no"))))
    first = memory.accept_extraction(PASSAGE)
    memory.work()
    assert memory.accept_extraction(PASSAGE) == ExtractionReceipt(first.request_id, "failed", reused=True)
    assert memory.accept_extraction(PASSAGE, idempotency_key="retry").reused is False


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"text": PASSAGE + "\nmore"}, False),
        ({"metadata": {"a": 1.0}}, False),
        ({"metadata": None}, False),
        ({"extractor": "outline"}, False),
        ({"text": f"\u3000{PASSAGE} "}, True),
        ({"extractor": None}, True),
        # the time to live counts from acceptance, and belongs to no payload
        ({"ttl_seconds": 5}, True),
    ],
)
def test_a_key_with_another_payload_is_a_conflict(service: Opener, change: dict[str, Any], same: bool) -> None:
    memory = service(Reads())
    request = {"text": PASSAGE, "metadata": {"a": 1}, "extractor": "reads"}
    first = memory.accept_extraction(**request, idempotency_key="k")
    before = memory.memory_status().pending
    if same:
        assert memory.accept_extraction(**request | change, idempotency_key="k").request_id == first.request_id
    else:
        with pytest.raises(JobConflict) as caught:
            memory.accept_extraction(**request | change, idempotency_key="k")
        assert isinstance(caught.value, ValueError) and caught.value.field == "idempotency_key"
    assert memory.memory_status().pending == before


def test_without_a_key_every_payload_is_its_own_request(service: Opener) -> None:
    memory = service(Reads())
    receipts = [
        memory.accept_extraction(*request)
        for request in [("a",), ("b",), ("a", {"k": 1}), ("a", {"k": 1.0}), ("a", {"k": "1"}), ("a", None, "outline")]
    ]
    keyed = [memory.accept_extraction("a", idempotency_key=key) for key in ("k", "K", " k", f"payload:{'0' * 64}")]
    assert len({receipt.request_id for receipt in receipts + keyed}) == 10


def test_empty_metadata_is_no_metadata(service: Opener) -> None:
    memory = service(Reads())
    assert memory.accept_extraction("a", {}).request_id == memory.accept_extraction("a", None).request_id


@pytest.mark.parametrize("key", ["x", "x" * 256, "é" * 128])
def test_a_key_may_be_1_to_256_bytes(memory: MemoryService, key: str) -> None:
    assert memory.accept_extraction("a", extractor="outline", idempotency_key=key).reused is False


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "error", "field"),
    [
        ({"text": " \u3000"}, EmptyFact, "text"),
        ({"text": "x" * 1_048_577}, InvalidArgument, "text"),
        ({"text": None}, InvalidArgument, "text"),
        ({"metadata": {"content": 1}}, ReservedKey, "metadata"),
        ({"metadata": [1]}, InvalidMetadata, "metadata"),
        ({"idempotency_key": ""}, InvalidArgument, "idempotency_key"),
        ({"idempotency_key": "x" * 257}, InvalidArgument, "idempotency_key"),
        ({"idempotency_key": "é" * 129}, InvalidArgument, "idempotency_key"),
        ({"idempotency_key": 5}, InvalidArgument, "idempotency_key"),
        ({"ttl_seconds": -1}, InvalidArgument, "ttl_seconds"),
        ({"ttl_seconds": 1.0}, InvalidArgument, "ttl_seconds"),
        ({"extractor": "Outline"}, InvalidArgument, "extractor"),
        ({"extractor": "none"}, InvalidArgument, "extractor"),
        ({"extractor": ""}, InvalidArgument, "extractor"),
        ({"extractor": "gpt"}, InvalidArgument, "extractor"),
        ({"extractor": 5}, InvalidArgument, "extractor"),
    ],
)
def test_a_bad_request_is_refused_by_name_and_nothing_is_queued(
    memory: MemoryService, request_: dict[str, Any], error: type[Exception], field: str
) -> None:
    with pytest.raises(error) as caught:
        memory.accept_extraction(**{"text": "a", "extractor": "outline"} | request_)
    assert isinstance(caught.value, ValueError) and caught.value.field == field  # type: ignore[attr-defined]
    assert memory.memory_status().pending.extraction == 0


@pytest.mark.parametrize("name", [None, "ollama", "openai"])
def test_an_extractor_that_is_not_configured_is_unavailable(memory: MemoryService, name: str | None) -> None:
    with pytest.raises(ExtractorUnavailable, match="VELESDB_MEMORY_EXTRACTOR") as caught:
        memory.accept_extraction("a", extractor=name)
    assert isinstance(caught.value, RuntimeError) and not isinstance(caught.value, ValueError)
    assert memory.memory_status().pending.extraction == 0


def test_another_backend_than_the_configured_one_is_unavailable(service: Opener) -> None:
    with pytest.raises(ExtractorUnavailable, match="openai is"):
        service(Reads(name="openai")).accept_extraction("a", extractor="ollama")


@pytest.mark.parametrize(
    "request_id", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, " " + "0" * 63, "0" * 64 + "\n", None, 5]
)
def test_what_is_no_request_id_is_refused(memory: MemoryService, request_id: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        memory.extraction_status(request_id)
    assert caught.value.field == "request_id"


def test_an_unknown_request_is_named(memory: MemoryService) -> None:
    with pytest.raises(UnknownRequest, match="f" * 64) as caught:
        memory.extraction_status("f" * 64)
    assert isinstance(caught.value, KeyError)


def test_64_passages_may_wait_and_the_next_is_refused(memory: MemoryService, folder: Path) -> None:
    for number in range(MAX_PENDING_JOBS):
        memory.accept_extraction(f"fact {number}", extractor="outline")
    with pytest.raises(QueueFull) as caught:
        memory.accept_extraction("one too many", extractor="outline")
    assert isinstance(caught.value, RuntimeError) and caught.value.limit == MAX_PENDING_JOBS == 64
    assert len(rows(folder)) == 64
    # a retry of one that was accepted is no new one
    assert memory.accept_extraction("fact 5", extractor="outline").reused
    assert memory.work() == 64
    assert memory.accept_extraction("one too many", extractor="outline").state == "accepted"


# -- the end of a job --------------------------------------------------------------------------------------------------


def test_D34_nothing_of_the_passage_is_kept_once_it_is_committed(service: Opener, folder: Path) -> None:
    memory = service(Reads())
    memory.accept_extraction(f"{SECRET} {'and more ' * 40}", {"topic": "secret metadata"}, idempotency_key="secret key")
    [waiting] = rows(folder)
    assert SECRET.encode() in waiting["body"] and b"secret metadata" in waiting["body"]
    memory.work()
    [ended] = rows(folder)
    assert ended["state"] == "committed" and ended["extraction"] is None and ended["worker"] is None
    assert ended["attempts"] == 1 and ended["ended_at"] == 1_700_000_000
    kept = b" ".join(str(value).encode() for value in ended.values())
    for secret in (b"vault", b"secret metadata", b"secret key", b"read:"):
        assert secret not in kept


@pytest.mark.parametrize(
    ("text", "extractor"),
    [
        (f"{SECRET}\nedge: {SECRET} | b", "outline"),
        (f"{SECRET}\nattr: bob | code | {SECRET}", "outline"),
        (f"ok\nfact: | {SECRET}", "outline"),
        (SECRET, Reads(raises(ValueError(f"cannot read {SECRET!r}")))),
        (SECRET, Reads(raises(UnicodeError(SECRET)))),
    ],
)
def test_a_failed_job_says_why_without_quoting_the_passage(
    service: Opener, folder: Path, text: str, extractor: Any
) -> None:
    memory = service(None if extractor == "outline" else extractor)
    receipt = memory.accept_extraction(text, {"note": "secret metadata"}, getattr(extractor, "name", extractor))
    memory.work()
    snapshot = memory.extraction_status(receipt.request_id)
    assert (snapshot.state, snapshot.ids, snapshot.ids_str) == ("failed", [], [])
    assert (snapshot.skipped_over_cap, snapshot.skipped) == (None, None)
    assert snapshot.error
    assert listed(memory) == []
    [row] = rows(folder)
    kept = b" ".join(str(value).encode() for value in row.values())
    assert b"4711" not in kept and b"secret metadata" not in kept


def test_a_model_that_answers_with_an_error_does_not_get_the_passage_into_the_record(
    service: Opener, folder: Path
) -> None:
    with ModelServer() as server:
        memory = service(OllamaExtractor("m", server.url))
        for step in (
            {"status": 400, "body": f'{{"error": "cannot read: {SECRET}"}}'},
            {"text": f"I would rather talk about how {SECRET}."},
        ):
            server.script(step)
            receipt = memory.accept_extraction(f"{SECRET} {step}")
            memory.work()
            snapshot = memory.extraction_status(receipt.request_id)
            assert snapshot.state == "failed" and snapshot.error
            assert "4711" not in snapshot.error


def test_a_failure_stores_nothing_of_the_passage(memory: MemoryService) -> None:
    before = everything(memory)
    receipt = memory.accept_extraction("Ada rows. | ada\nedge: a | b", extractor="outline")
    memory.work()
    snapshot = memory.extraction_status(receipt.request_id)
    assert snapshot.state == "failed" and "line 2" in (snapshot.error or "")
    assert everything(memory) == before
    assert memory.memory_status().pending.extraction == 0


@pytest.mark.parametrize(
    "answer",
    [
        None,
        Extraction([ExtractedFact("x", None)]),  # type: ignore[arg-type]
        Extraction([], [], [ExtractedAttribute("bob", "k", object())]),
        Extraction([], [], [ExtractedAttribute("bob\ud800", "k", 1)]),
    ],
)
def test_D34_an_odd_answer_ends_its_own_job_and_not_the_worker(service: Opener, answer: Any) -> None:
    class Odd:
        name = "odd"

        def extract(self, text: str) -> Any:
            return answer if text == "odd" else Extraction([ExtractedFact(text)])

    memory = service(Odd())
    odd = memory.accept_extraction("odd", idempotency_key="1")
    good = memory.accept_extraction("good", idempotency_key="2")
    for _ in range(2 * MAX_JOB_ATTEMPTS):
        memory.work()
    assert memory.extraction_status(good.request_id).state == "committed"
    assert memory.extraction_status(odd.request_id).state in ("failed", "committed")


def test_a_job_and_a_direct_call_leave_out_the_same_attributes(service: Opener) -> None:
    class Odd:
        name = "odd"

        def extract(self, text: str) -> Extraction:
            return Extraction(
                [], [], [ExtractedAttribute("bob", "k", float("nan")), ExtractedAttribute("bob", "n", 2**70)]
            )

    memory = service(Odd())
    direct = memory.remember_extracted("x")
    receipt = memory.accept_extraction("x")
    memory.work()
    assert memory.extraction_status(receipt.request_id).skipped == direct.skipped == {"attribute_not_json": 2}
    assert not memory.entity("bob").found


# -- time --------------------------------------------------------------------------------------------------------------


def test_the_date_is_that_of_acceptance_even_a_day_later(memory: MemoryService, clock: FixedClock) -> None:
    memory.accept_extraction("Ada rows. | ada", extractor="outline")
    clock.advance(86_400)
    memory.work()
    assert memory.recall("Ada")[0].metadata == {"_veles_date": 20231114}


def test_D5_the_time_to_live_counts_from_acceptance(memory: MemoryService, clock: FixedClock) -> None:
    memory.accept_extraction("Ada rows. | ada", extractor="outline", ttl_seconds=100)
    memory.accept_extraction("Bob naps. | bob", extractor="outline", ttl_seconds=0)
    clock.advance(60)
    memory.work()
    assert len(listed(memory)) == 2
    clock.advance(39)
    assert len(listed(memory)) == 2
    clock.advance(1)
    assert [entry.content for entry in listed(memory)] == ["Bob naps."]


def test_D5_a_passage_that_outlived_itself_in_the_queue_is_not_seen(memory: MemoryService, clock: FixedClock) -> None:
    receipt = memory.accept_extraction("Ada rows. | ada\nAda rows. | ada", extractor="outline", ttl_seconds=10)
    clock.advance(10)
    memory.work()
    assert memory.extraction_status(receipt.request_id).state == "committed"
    assert listed(memory) == []
    memory.remember("something else")
    assert not memory.entity("ada").found
    assert_sound(memory)
