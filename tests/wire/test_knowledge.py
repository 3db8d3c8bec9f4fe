"""recall_fused, entity, remember_extracted and extraction_status over stdio: the seed's examples and refusals."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from velesdb_memory import MemoryService
from velesdb_memory.ids import hub_id
from wire.client import PATIENCE, Call, Server, ToolError, refusal

FAMILY = "\n".join(
    [
        "fact: Theo Durand is fifteen and has a sister, Camille. | Theo Durand, Camille",
        "edge: Theo Durand | frere de | Camille",
        "edge: Camille | soeur de | Theo Durand",
        "attr: Theo Durand | age | 15",
    ]
)


def taken_in(call: Call, **arguments: Any) -> dict[str, Any]:
    """Give a passage and wait for what becomes of it; each question is answered at once, so asking is waiting."""
    receipt = call("remember_extracted", **arguments)
    while True:
        snapshot = call("extraction_status", request_id=receipt["request_id"])
        if snapshot["state"] in ("committed", "failed"):
            return snapshot
        assert (snapshot["ids"], snapshot["ids_str"]) == ([], [])
        assert snapshot["skipped_over_cap"] is snapshot["error"] is None


def test_recall_fused_example_with_automatic_and_retroactive_dates(call: Call) -> None:
    call("remember", fact="we chose parking_lot to avoid lock poisoning", metadata={"_veles_date": 20260725})
    call("remember", fact="payment provider timeout set to 8s", metadata={"_veles_date": 20260610})
    answer = call("recall_fused", query="why parking_lot", date_field="_veles_date")
    assert answer["dated_context"].splitlines() == [
        "- [2026-06-10] payment provider timeout set to 8s",
        "- [2026-07-25] we chose parking_lot to avoid lock poisoning",
    ]
    assert answer["now"] == "2026-07-25"
    assert answer["memories"][0]["content"] == "we chose parking_lot to avoid lock poisoning"


def test_d16_without_a_date_field_or_a_date_there_is_no_timeline(call: Call) -> None:
    assert set(call("recall_fused", query="why parking_lot")) == {"memories"}
    assert set(call("recall_fused", query="why parking_lot", date_field="no_such_field")) == {"memories"}


def test_entity_example(call: Call) -> None:
    assert taken_in(call, text=FAMILY, extractor="outline")["state"] == "committed"
    theo = call("entity", name="  Theo DURAND ")
    assert (theo["found"], theo["name"], theo["attributes"]) == (True, "theo durand", {"age": 15})
    assert (theo["id"], theo["id_str"]) == (8837841004643242023, "8837841004643242023")
    camille = {"target_id": hub_id("camille"), "target_id_str": str(hub_id("camille")), "target": "camille"}
    assert theo["relations"] == [{"predicate": "frere de", **camille}]
    assert theo["relations_in"] == [{"predicate": "soeur de", **camille, "source": "camille"}]
    assert (theo["relations_truncated"], theo["relations_in_truncated"]) == (False, False)


def test_an_entity_that_nothing_mentions_echoes_its_canonical_name(call: Call) -> None:
    missing = call("entity", name=" Nobody At All ")
    assert missing == {
        "found": False,
        "id": 0,
        "id_str": "0",
        "name": "nobody at all",
        "attributes": {},
        "relations": [],
        "relations_in": [],
        "relations_truncated": False,
        "relations_in_truncated": False,
    }


def test_remember_extracted_answers_at_once_and_the_same_request_is_the_same_job(call: Call) -> None:
    arguments = {"text": "fact: Tea is hot. | tea\nfact: Tea is green. | tea", "extractor": "outline"}
    first = call("remember_extracted", **arguments)
    assert (first["state"], first["reused"], len(first["request_id"])) == ("accepted", False, 64)
    done = taken_in(call, **arguments)
    assert done["request_id"] == first["request_id"]
    assert done["ids_str"] == [str(number) for number in done["ids"]] and len(done["ids"]) == 2
    assert (done["skipped_over_cap"], done["error"], done["skipped"]) == (0, None, {})
    again = call("remember_extracted", **arguments)
    assert again == {"request_id": first["request_id"], "state": "committed", "reused": True}
    reached = call("why", decision="Tea is hot.", max_hops=2)
    assert done["ids"][1] in [node["id"] for node in reached["nodes"]]


def test_a_passage_over_the_fact_cap_is_counted_and_the_rest_is_stored(call: Call) -> None:
    done = taken_in(call, text=f"fact: {'x' * 2049} | long\nfact: short", extractor="outline")
    assert (len(done["ids"]), done["skipped_over_cap"]) == (1, 1)
    assert call("entity", name="long")["found"] is False


def test_d35_a_malformed_outline_fails_with_its_line(call: Call) -> None:
    done = taken_in(call, text="fact: fine\nedge: a | b", extractor="outline")
    assert done["state"] == "failed" and done["ids"] == []
    assert "line 2" in done["error"] and "edge" in done["error"]


def test_a_key_with_another_payload_is_refused(call: Call) -> None:
    call("remember_extracted", text="fact: one", extractor="outline", idempotency_key="k")
    message = refusal(call, "remember_extracted", text="fact: two", extractor="outline", idempotency_key="k")
    assert "idempotency_key" in message


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("remember_extracted", {"text": "x" * 1_048_577, "extractor": "outline"}, "1048576"),
        ("remember_extracted", {"text": "x", "extractor": "Outline"}, "extractor"),
        ("remember_extracted", {"text": "x", "extractor": "outline", "idempotency_key": "k" * 257}, "256"),
        ("remember_extracted", {"text": "x", "extractor": "outline", "metadata": {"content": 1}}, "reserved"),
        ("extraction_status", {"request_id": "ABC"}, "request_id"),
        ("extraction_status", {"request_id": "0" * 64}, "does not exist"),
        ("recall_fused", {"query": "x", "k": 1, "limit": 1}, "limit"),
        ("entity", {"nmae": "x"}, "name"),
    ],
)
def test_bad_input_is_refused_by_name(call: Call, tool: str, arguments: dict[str, Any], named: str) -> None:
    assert named in refusal(call, tool, **arguments)


def test_without_a_configured_extractor_the_error_says_how_to_get_one(call: Call) -> None:
    with pytest.raises(ToolError) as caught:
        call("remember_extracted", text="x")
    assert caught.value.code == -32603
    assert "VELESDB_MEMORY_EXTRACTOR" in caught.value.message and "outline" in caught.value.message


def test_memory_status_reports_extraction_and_the_queues(call: Call) -> None:
    status = call("memory_status")
    assert status["extraction"] == {
        "configured": False,
        "autograph_active": False,
        "autograph_dropped": 0,
        "autograph_failed": 0,
    }
    assert set(status["pending"]) == {"extraction", "autograph"}


def test_d34_a_server_that_was_only_asked_for_its_tools_reads_what_waits(tmp_path: Path) -> None:
    with MemoryService(tmp_path) as memory:
        receipt = memory.accept_extraction("fact: left behind", extractor="outline")
        with Server(tmp_path) as server:
            server.initialize()
            server.tools()
            until = monotonic() + PATIENCE
            while memory.extraction_status(receipt.request_id).state != "committed":
                assert monotonic() < until
        assert [hit.content for hit in memory.recall("left behind")] == ["left behind"]
