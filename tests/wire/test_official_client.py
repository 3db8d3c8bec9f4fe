"""The official Python client, which validates every answer against the published schema (C07)."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from support.fragments import png
from support.model_server import ModelServer
from wire.client import environment

MISSING = str(2**64 - 1)


async def context_tools(call: Callable[..., Awaitable[dict[str, Any]]]) -> None:
    """The context compiler's tools, each on success and, where one is no error, on a miss."""
    image = png(80, 60)
    pixels = {"mime": image.mime, "bytes_b64": image.bytes_b64}
    request = {
        "query": "cause",
        "fragments": [{"content": "a"}, {"content": "A"}, {"content": "b " * 900}, {"content": "c", "media": pixels}],
        "token_budget": 60,
        "target_model": "m",
        "memory_scope": {},
    }
    pricing = {"version": "1", "currency": "USD", "models": {"m": {"input_micros_per_million_tokens": 9}}}
    for policy in ({}, {"ids_as_strings": True}, {"slim_response": True}, {"pricing": pricing}):
        compiled = await call("compile_context", **request, policy=policy)
        assert compiled["content"] and compiled["sources"] and compiled["warnings"] is not None
        transcript = await call("compile_transcript", query="x", transcript="System: x", token_budget=9, policy=policy)
        assert transcript["segmentation"]["segments"][0]["role"] == "System"
        asked = {**request, "policy": policy}
        decision = await call("explain_compilation", request=asked, fragment_id="0", fragment_index=3)
        assert decision["rule_id"] in ("media.atomic", "budget.externalize")
    plain = await call("compile_transcript", query="x", transcript="no turn", token_budget=9)
    assert "role" not in plain["segmentation"]["segments"][0]
    for source, present in ((compiled["sources"][0], False), (compiled["sources"][2], True)):
        assert ("media" in await call("retrieve_context_source", handle=source["handle"])) is present
    assert (await call("context_savings"))["events"] == 9
    assert (await call("suggest_budget", target_model="gpt-5"))["window"] == 400_000
    assert (await call("suggest_budget", target_model="?"))["window"] is None
    where = {"project": "p", "session": "s"}
    assert (await call("load_working_context", **where))["working"] is None
    evidence = [{"fragment_id": MISSING, "handle": "ctx://source/1"}, {"fragment_id": 1, "handle": "x", "memory_id": 2}]
    notes = [{"text": "a"}, {"text": "b", "source": "c"}]
    saved = {"verified_facts": notes, "decisions": [{"fragment_id": 1, "rule_id": "r"}], "exact_evidence": evidence}
    await call("save_working_context", **where, working=saved)
    assert (await call("load_working_context", **where))["found"]
    assert len((await call("list_working_contexts", project="p"))["sessions"]) == 1
    assert (await call("list_working_contexts", project="q"))["sessions"] == []


def run(store: Path, mode: Any, use: Callable[[Client], Awaitable[None]], **extra: str) -> None:
    async def main() -> None:
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "velesdb_memory"], env=environment(store, **extra)
        )
        with anyio.fail_after(60):
            async with Client(stdio_client(parameters), mode=mode) as client:
                await use(client)

    anyio.run(main)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_c07_every_tool_answers_as_advertised(tmp_path: Path, mode: str) -> None:
    async def use(client: Client) -> None:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        called: set[str] = set()

        async def call(name: str, /, **arguments: Any) -> dict[str, Any]:
            called.add(name)
            result = await client.call_tool(name, arguments)
            assert not result.is_error
            assert isinstance(result.structured_content, dict)
            return result.structured_content

        async def refused(name: str, /, **arguments: Any) -> None:
            with pytest.raises(MCPError) as caught:
                await client.call_tool(name, arguments)
            assert caught.value.error.code == -32602

        one = (await call("remember", fact="the decision", metadata={"project": "p"}))["id_str"]
        two = (await call("remember", fact="the cause"))["id_str"]
        link = {"from": one, "to": two, "relation": "caused_by"}
        await call("relate", **link)
        assert (await call("recall", query="decision", filter={"project": "p"}))["memories"]
        assert (await call("recall", query="decision", filter={"project": "q"}))["memories"] == []
        where = {"field": "project", "op": "eq", "value": "p"}
        assert (await call("recall_where", query="decision", filters=[where]))["memories"]
        assert (await call("recall_where", query="x", filters=[{**where, "value": 1}]))["warnings"]
        assert (await call("why", decision="decision"))["edges"]
        assert (await call("why", decision="decision", filter={"project": "q"}))["nodes"] == []
        assert (await call("feedback", id=one, success=True))["id_str"] == one
        assert (await call("list_memories", limit=1))["next_cursor"]
        assert (await call("list_memories"))["next_cursor"] is None
        assert (await call("memory_status"))["memory"] == {"facts": 2, "edges": 1}
        assert (await call("unrelate", **link))["found"] is True
        assert (await call("unrelate", **link))["found"] is False
        assert (await call("forget", id=one))["found"] is True
        assert (await call("forget", id=one))["found"] is False
        fused = await call("recall_fused", query="cause", date_field="_veles_date", explain=True)
        assert fused["memories"][0]["signals"]["lexical"] == 1
        assert fused["dated_context"].endswith("the cause") and len(fused["now"]) == 10
        assert set(await call("recall_fused", query="cause")) == {"memories"}
        outline = "fact: Camille ships the parser. | Camille\nedge: Camille | sister of | Theo\nattr: Theo | age | 15"
        receipt = await call("remember_extracted", text=outline, extractor="outline", metadata={"project": "p"})
        assert receipt["state"] == "accepted" and not receipt["reused"]
        snapshot = await call("extraction_status", request_id=receipt["request_id"])
        while snapshot["state"] in ("accepted", "running"):
            assert snapshot["ids"] == [] and snapshot["error"] is None
            snapshot = await call("extraction_status", request_id=receipt["request_id"])
        assert snapshot["state"] == "committed" and snapshot["ids_str"] == [str(snapshot["ids"][0])]
        theo = await call("entity", name=" THEO ")
        assert theo["attributes"] == {"age": 15} and theo["relations_in"][0]["source"] == "camille"
        assert (await call("entity", name="nobody"))["found"] is False
        await context_tools(call)
        assert (await call("migration_status"))["job"] is None
        # a budget that nothing fits, so that there is something to recover and to cancel
        begun = await call("migration_start", target_backend="openai", pause_budget_ms=1, observation_window=1)
        assert begun["job"]["running"]
        for name in ("migration_recover", "migration_cancel"):
            while (await call("migration_status"))["job"]["running"]:
                pass
            assert (await call(name))["job"]["progress"]["base_facts"] >= 1
        assert (await call("migration_status"))["job"]["phase"] == "cancelled"
        assert called == listed

        await refused("remember", fact="")
        await refused("recall")
        await refused("recall_where", query="x", filters=[{"field": "a b", "op": "eq", "value": 1}])
        await refused("relate", **{"from": one, "to": two, "relation": "x"})
        await refused("unrelate", **{"from": one, "to": one, "relation": "x"})
        await refused("feedback", id=MISSING, success=True)
        await refused("forget", id="x")
        await refused("why", decision="x", direction="up")
        await refused("list_memories", limit="many")
        await refused("memory_status", verbose=True)
        await refused("recall_fused", query="x", hops="many")
        await refused("entity")
        await refused("remember_extracted", text=" ", extractor="outline")
        await refused("extraction_status", request_id="0" * 64)
        await refused("compile_context", query="x", fragments=[], token_budget=0)
        await refused("compile_transcript", query="x", token_budget=10)
        await refused("explain_compilation", request={"query": "", "fragments": [], "token_budget": 9}, fragment_id="1")
        await refused("retrieve_context_source", handle="ctx://source/1")
        await refused("context_savings", project="x" * 257)
        await refused("suggest_budget")
        await refused("save_working_context", project="p", session="s", working={})
        await refused("load_working_context", project="p")
        await refused("list_working_contexts")
        await refused("migration_start", target_backend="nobody", pause_budget_ms=1)
        await refused("migration_recover")
        await refused("no_such_tool")

    with ModelServer() as model:
        settings = {"VELESDB_MEMORY_MIGRATION_URL": model.url, "VELESDB_MEMORY_MIGRATION_MODEL": "tiny"}
        run(tmp_path / "store", mode, use, **settings)
