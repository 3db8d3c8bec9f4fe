"""The tools over stdio: the seed's examples, the shapes of answers, and what is refused and how."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import pytest

from velesdb_memory.ids import edge_id, fact_id
from wire.client import INTERNAL_ERROR, INVALID_PARAMS, PATIENCE, Call, Server, ToolError, refusal

ABSENT = str(2**64 - 1)


def remember(call: Call, fact: str, **arguments: Any) -> str:
    return call("remember", fact=fact, **arguments)["id_str"]


# The seed's examples


def test_remember_example(call: Call) -> None:
    target = remember(call, "decision meeting of 25 July")
    stored = call(
        "remember",
        fact="we chose parking_lot to avoid lock poisoning",
        metadata={"project": "checkout"},
        links=[{"target": target, "relation": "decided_in"}],
        ttl_seconds=604800,
    )
    assert stored == {"id": 7771249936881126162, "id_str": "7771249936881126162"}
    assert call("remember", fact="  we chose parking_lot to avoid lock poisoning\n") == stored


def test_recall_example(call: Call) -> None:
    memory = remember(call, "billing retries: every 30 s", metadata={"project": "billing"})
    found = call("recall", query="billing retries", k=5, filter={"project": "billing"})
    [hit] = found["memories"]
    assert set(hit) == {"id", "id_str", "score", "content", "metadata"}
    assert (hit["id"], hit["id_str"], hit["content"]) == (
        int(memory),
        memory,
        "billing retries: every 30 s",
    )
    assert hit["metadata"]["project"] == "billing"
    assert -1 <= hit["score"] <= 1


def test_recall_where_example(call: Call) -> None:
    for day, fact in ((20260110, "incident: disk full"), (20260210, "incident: dns outage")):
        remember(call, fact, metadata={"_veles_date": day, "kind": "incident"})
    found = call(
        "recall_where",
        query="incidents",
        filters=[
            {"field": "_veles_date", "op": "ge", "value": 20260101},
            {"field": "_veles_date", "op": "le", "value": 20260131},
        ],
    )
    assert [hit["content"] for hit in found["memories"]] == ["incident: disk full"]
    assert found["memories"][0]["metadata"] == {"_veles_date": 20260110, "kind": "incident"}
    assert "warnings" not in found


def test_d14_recall_where_warns_of_a_condition_on_another_type(call: Call) -> None:
    remember(call, "a timestamp kept as text", metadata={"ts": "20230601"})
    found = call("recall_where", query="timestamp", filters=[{"field": "ts", "op": "eq", "value": 20230601}])
    assert found["memories"] == []
    assert len(found["warnings"]) == 1
    assert "ts" in found["warnings"][0]


def test_relate_and_unrelate_examples(call: Call) -> None:
    one, other = remember(call, "the checkout service"), remember(call, "the payment provider")
    triple = {"from": one, "to": other, "relation": "depends_on"}
    expected = edge_id(int(one), int(other), "depends_on")
    for _ in range(2):
        assert call("relate", **triple) == {"edge_id": expected, "edge_id_str": str(expected)}
    assert call("unrelate", **triple) == {"found": True, "removed": 1}
    assert call("unrelate", **triple) == {"found": False, "removed": 0}


def test_why_example(call: Call) -> None:
    cause = remember(call, "benchmark 17 shows half the latency")
    seed = remember(
        call,
        "we moved the queue to redis streams",
        metadata={"project": "queue"},
        links=[{"target": cause, "relation": "caused_by"}],
    )
    found = call("why", decision="why did we move the queue", max_hops=2, filter={"project": "queue"})
    first, second = found["nodes"]
    assert set(first) == {"id", "id_str", "content", "hop", "score"}
    assert set(second) == {"id", "id_str", "content", "hop"}
    assert (first["id_str"], first["hop"], second["id_str"], second["hop"]) == (seed, 0, cause, 1)
    assert found["edges"] == [
        {"from": int(seed), "from_str": seed, "to": int(cause), "to_str": cause, "relation": "caused_by"}
    ]
    assert found["truncated"] is False
    # D15: the other way round
    assert call("why", decision="benchmark 17 latency", direction="in")["edges"] == found["edges"]
    assert call("why", decision="benchmark 17 latency")["edges"] == []


def test_why_of_nothing(call: Call) -> None:
    assert call("why", decision="x", filter={"project": "nobody"}) == {"nodes": [], "edges": [], "truncated": False}


def test_feedback(call: Call) -> None:
    memory = remember(call, "useful fact")
    up = call("feedback", id=memory, success=True)
    assert up == {"id": int(memory), "id_str": memory, "confidence": pytest.approx(0.6)}
    assert call("feedback", id=memory, success="false")["confidence"] < up["confidence"]


def test_forget(call: Call) -> None:
    memory = remember(call, "a slip of the tongue")
    assert call("forget", id=memory) == {"id": int(memory), "id_str": memory, "found": True}
    assert call("forget", id=memory) == {"id": int(memory), "id_str": memory, "found": False}


def test_list_memories_walks_everything_in_order(call: Call) -> None:
    names = {remember(call, f"page fact {number}", metadata={"walk": True}) for number in range(7)}
    seen: list[int] = []
    arguments: dict[str, Any] = {}
    while True:
        page = call("list_memories", limit=3, filter={"walk": True}, **arguments)
        seen += [row["id"] for row in page["memories"]]
        assert all(row["id_str"] == str(row["id"]) and row["metadata"]["walk"] for row in page["memories"])
        if page["next_cursor"] is None:
            break
        arguments = {"cursor": page["next_cursor"]}
    assert seen == sorted(map(int, names))
    assert len(call("list_memories", include_internal=True)["memories"]) >= len(seen)


def test_memory_status(call: Call) -> None:
    status = call("memory_status")
    assert {"embedder", "provenance", "extraction", "memory"} <= set(status)
    assert status["embedder"]["semantic"] is False
    before = status["memory"]["facts"]
    remember(call, "one more fact for the count")
    assert call("memory_status")["memory"]["facts"] == before + 1


# Ids


def test_c01_d4_a_rounded_id_is_refused_and_exact_ones_work(call: Call) -> None:
    memory = int(remember(call, "we chose parking_lot to avoid lock poisoning"))
    other = remember(call, "another end")
    assert float(memory) != memory
    for tool, field, rest in (
        ("forget", "id", {}),
        ("feedback", "id", {"success": True}),
        ("relate", "from", {"to": other, "relation": "x"}),
        ("unrelate", "to", {"from": other, "relation": "x"}),
    ):
        message = refusal(call, tool, **{field: float(memory), **rest})
        assert field in message
        assert "id_str" in message
    for form in (memory, str(memory), f"  {memory}  ", f"+{memory}"):  # C02 too
        assert call("feedback", id=form, success=True)["id"] == memory
    message = refusal(call, "remember", fact="x", links=[{"target": float(memory), "relation": "x"}])
    assert "links[0].target" in message


def test_ids_keep_all_64_bits(call: Call) -> None:
    result = call("forget", id=2**64 - 1)
    assert result == {"id": 2**64 - 1, "id_str": ABSENT, "found": False}


# Leniency


def test_c03_d24_arguments_as_json_in_strings(call: Call) -> None:
    target = remember(call, "the cause of it")
    stored = call(
        "remember",
        fact="everything arrives as text",
        metadata='{"k": 1, "year": 2021}',
        links=json.dumps([{"target": target, "relation": "causes"}]),
        ttl_seconds="0",
    )
    native = call("recall", query="everything arrives as text", k=6, filter={"k": 1})
    assert call("recall", query="everything arrives as text", k="6", filter='{"k": 1}') == native
    assert [hit["id"] for hit in native["memories"]] == [stored["id"]]
    filters = [{"field": "year", "op": "ge", "value": 2020}]
    native = call("recall_where", query="text", filters=filters)
    assert call("recall_where", query="text", filters=json.dumps(filters)) == native
    assert call("recall_where", query="text", filters=[json.dumps(filters[0])]) == native
    assert [hit["id"] for hit in native["memories"]] == [stored["id"]]
    message = refusal(call, "remember", fact="x", metadata="not json")
    assert message == 'metadata must be an object, got the string "not json"'


def test_null_means_absent(call: Call) -> None:
    assert call("recall", query="anything", k=None, filter="null") == call("recall", query="anything")
    refusal(call, "recall", query=None)
    refusal(call, "recall_where", query="x", filters=None)


def test_digits_in_text_stay_text(call: Call) -> None:
    memory = remember(call, "12345", metadata={"code": "007"})
    assert int(memory) == fact_id("12345")
    found = call("recall_where", query="12345", filters=[{"field": "code", "op": "eq", "value": "007"}])
    assert [hit["content"] for hit in found["memories"]] == ["12345"]


def test_limit_is_a_former_name_of_k(call: Call) -> None:
    for tool, rest in (("recall", {}), ("recall_where", {"filters": []})):
        assert len(call(tool, query="fact", limit="2", **rest)["memories"]) == 2
        assert "limit" in refusal(call, tool, query="fact", limit=2, k=2, **rest)
    assert "unknown argument 'k'" in refusal(call, "list_memories", k=2)
    assert "unknown argument 'limit'" in refusal(call, "why", decision="x", limit=2)


# Refusals


@pytest.mark.parametrize("argument", ["pool", "foo", "querry"])
def test_c09_d22_unknown_arguments_are_refused_by_name(call: Call, argument: str) -> None:
    message = refusal(call, "recall", **{"query": "x", argument: 1})
    assert f"unknown argument '{argument}'" in message
    if argument == "querry":
        assert "did you mean 'query'?" in message


def test_c09_every_argument_of_recall_has_an_effect(call: Call) -> None:
    for number in range(3):
        remember(call, f"effect {number}", metadata={"effect": number})
    everything = call("recall", query="effect")
    assert len(call("recall", query="effect", k=1)["memories"]) == 1
    assert call("recall", query="effect", k=0)["memories"] == []
    assert len(call("recall", query="effect", filter={"effect": 1})["memories"]) == 1
    assert len(everything["memories"]) > 1


def test_c27_an_unknown_operator_is_refused_by_name(call: Call) -> None:
    for op in ("contains", "==", "GE", ""):
        message = refusal(call, "recall_where", query="x", filters=[{"field": "y", "op": op, "value": 1}])
        assert "filters[0].op" in message
        assert json.dumps(op) in message
        assert "eq, ge, gt, le, lt, ne" in message
    for field in ("a-b", "", "a.b", "é"):
        message = refusal(call, "recall_where", query="x", filters=[{"field": field, "op": "eq", "value": 1}])
        assert "invalid filter field:" in message


def test_c41_refusals_are_precise(call: Call) -> None:
    message = refusal(call, "remember", fact="é" * 1500)
    assert "3000" in message
    assert "2048" in message
    memory = remember(call, "self")
    message = refusal(call, "relate", **{"from": memory, "to": memory, "relation": "x"})
    assert memory in message
    assert refusal(call, "feedback", id=ABSENT, success=True) == f"memory {ABSENT} does not exist"
    message = refusal(call, "relate", **{"from": memory, "to": ABSENT, "relation": "x"})
    assert ABSENT in message
    assert "invalid relation label:" in refusal(call, "relate", **{"from": memory, "to": ABSENT, "relation": " "})
    assert "empty" in refusal(call, "remember", fact=" \u2003\n")
    assert "_veles_secret" in refusal(call, "remember", fact="x", metadata={"_veles_secret": 1})
    assert "ttl_seconds" in refusal(call, "remember", fact="x", ttl_seconds=-1)
    assert "65536" in refusal(call, "recall", query="x" * 65_537)  # D20


def test_numbers_that_json_or_64_bits_cannot_carry_are_refused(call: Call) -> None:
    assert "metadata.n" in refusal(call, "remember", fact="x", metadata={"n": 2**64})
    assert "metadata.n" in refusal(call, "remember", fact="x", metadata='{"n": 1e999}')
    assert "metadata" in refusal(call, "remember", fact="x", metadata='{"n": NaN}')
    memory = remember(call, "large numbers", metadata={"big": 2**64 - 1, "small": -(2**63), "half": 0.5})
    [hit] = call("recall", query="large numbers", filter={"big": 2**64 - 1})["memories"]
    assert hit["id_str"] == memory
    assert {key: hit["metadata"][key] for key in ("big", "small", "half")} == {
        "big": 2**64 - 1,
        "small": -(2**63),
        "half": 0.5,
    }


def test_text_that_is_not_unicode_is_refused(call: Call) -> None:
    assert "surrogate" in refusal(call, "remember", fact="a\ud800")
    assert "surrogate" in refusal(call, "remember", fact="x", metadata={"k": "\udfff"})
    assert "unknown argument" in refusal(call, "recall", **{"query": "x", "\ud800": 1})


def test_unknown_tools_are_invalid_parameters(call: Call, server: Server) -> None:
    for name in ("recal", "", "RECALL", "__class__"):
        answer = server.ask("tools/call", {"name": name, "arguments": {}})
        assert answer["error"]["code"] == INVALID_PARAMS
        assert "unknown tool" in answer["error"]["message"]


def test_a_store_that_cannot_be_opened_is_an_internal_error_until_it_can(tmp_path: Any) -> None:
    blocked = tmp_path / "store"
    blocked.write_text("in the way")
    with Server(blocked) as server:
        server.initialize()
        for _ in range(2):
            with pytest.raises(ToolError) as caught:
                server.call("memory_status")
            assert caught.value.code == INTERNAL_ERROR
        # what is wrong with the arguments needs no store
        with pytest.raises(ToolError) as caught:
            server.call("recall")
        assert caught.value.code == INVALID_PARAMS
        blocked.unlink()
        assert server.call("memory_status")["memory"]["facts"] == 0


def test_d5_the_default_lifetime_applies_only_where_none_is_given(tmp_path: Any) -> None:
    with Server(tmp_path / "store", VELESDB_MEMORY_DEFAULT_TTL="1") as server:
        server.initialize()
        server.call("remember", fact="permanent", ttl_seconds=0)
        server.call("remember", fact="for a week", ttl_seconds=604_800)
        server.call("remember", fact="for a second")
        kept = {"permanent", "for a week"}
        deadline = monotonic() + PATIENCE
        while monotonic() < deadline:
            listed = {row["content"] for row in server.call("list_memories")["memories"]}
            if listed == kept:
                break
        assert listed == kept


def test_d59_the_log_has_no_content(tmp_path: Any) -> None:
    with Server(tmp_path / "store", VELESDB_MEMORY_LOG="1") as server:
        server.initialize()
        server.call("remember", fact="sesame opens the door", metadata={"password": "xyzzy"})
        with pytest.raises(ToolError):
            server.call("recall", query="sesame", frobnicate="xyzzy")
        with pytest.raises(ToolError):
            server.call("sesame")
    log = server.errors.decode()
    assert "tool=remember verdict=ok ms=" in log
    assert "tool=recall verdict=InvalidArgument ms=" in log
    assert "tool=unknown verdict=InvalidArgument ms=" in log
    assert "in=" in log
    assert "out=" in log
    for secret in ("sesame", "xyzzy", "password", "frobnicate"):
        assert secret not in log


def test_without_a_log_setting_calls_are_silent(tmp_path: Any) -> None:
    with Server(tmp_path / "store") as server:
        server.initialize()
        server.call("remember", fact="quiet")
    assert server.errors == b""
