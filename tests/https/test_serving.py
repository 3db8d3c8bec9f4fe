"""What the daemon answers, in every version of the protocol and in either form."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from https.conftest import Gated
from support.daemon import ACCEPT, HANDSHAKES, MODERN, Daemon, events, message_of, request


def test_health_needs_no_session_and_is_not_logged(daemon: Daemon) -> None:
    daemon.wait_for("clients must trust")
    before = len(daemon.lines)
    answer = daemon.client().get("/health", headers={"host": "whatever.example"})
    assert (answer.status_code, answer.text) == (200, "OK")
    assert daemon.client().head("/health").status_code == 200
    assert daemon.client().post("/health").status_code == 405
    assert len(daemon.lines) == before


def test_the_daemon_says_where_it_is_and_whom_to_trust(daemon: Daemon) -> None:
    assert daemon.scheme == "https" and daemon.host == "127.0.0.1"
    daemon.wait_for(f"serving {daemon.folder / 'store'} at {daemon.url}/mcp")
    daemon.wait_for(f"clients must trust {daemon.ca}")


@pytest.mark.parametrize("accept", [ACCEPT, "application/json"])
@pytest.mark.parametrize("version", HANDSHAKES)
def test_every_handshake_version_is_spoken_as_a_stream_or_as_plain_json(
    daemon: Daemon, version: str, accept: str
) -> None:
    session = daemon.session(version, accept=accept)
    assert session.hello["protocolVersion"] == version and session.hello["serverInfo"]["name"] == "velesdb-memory"
    answer = session.ask("tools/list")
    form = "text/event-stream" if accept == ACCEPT else "application/json"
    assert answer.headers["content-type"].startswith(form)
    assert len(message_of(answer)["result"]["tools"]) >= 14
    stored = session.call("remember", fact=f"spoken in {version}")
    assert session.call("recall", query=f"spoken in {version}", k=1)["memories"][0]["id_str"] == stored["id_str"]
    assert session.delete().status_code == 200
    assert session.ask("tools/list").status_code == 404


@pytest.mark.parametrize("accept", [ACCEPT, "application/json"])
def test_the_version_without_sessions_is_spoken_too(daemon: Daemon, accept: str) -> None:
    client = daemon.session(MODERN, accept=accept)
    assert "remember" in client.tools()
    answer = client.ask("tools/call", name="remember", arguments={"fact": "no session was needed"})
    assert answer.status_code == 200 and "mcp-session-id" not in answer.headers
    assert client.call("recall", query="session needed", k=1)["memories"]
    found = message_of(client.ask("server/discover"))["result"]
    assert MODERN in found["supportedVersions"]


def test_white_space_around_a_header_is_no_part_of_it(daemon: Daemon) -> None:
    client = daemon.session(MODERN)
    message, headers = client.message("tools/call", {"name": "memory_status", "arguments": {}})
    with daemon.connect() as connection:
        spaced = {**client.headers, **headers, "mcp-name": " \t memory_status  "}
        connection.sendall(request(spaced, message))
        assert b" 200 OK" in connection.recv(100)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_works_over_https(daemon: Daemon, mode: Any) -> None:
    async def main() -> None:
        async with httpx2.AsyncClient(verify=daemon.context, timeout=60) as http:
            transport = streamable_http_client(f"{daemon.url}/mcp", http_client=http)
            with anyio.fail_after(60):
                async with Client(transport, mode=mode) as client:
                    stored = await client.call_tool("remember", {"fact": f"the official client said so ({mode})"})
                    assert stored.structured_content
                    found = await client.call_tool("recall", {"query": f"official client {mode}", "k": 1})
                    assert found.structured_content
                    assert found.structured_content["memories"][0]["id_str"] == stored.structured_content["id_str"]

    anyio.run(main)


def test_a_session_may_listen_on_a_stream_while_it_calls(daemon: Daemon) -> None:
    session = daemon.session()
    with session.client.stream("GET", "/mcp", headers=session.headers) as listening:
        assert listening.status_code == 200
        assert listening.headers["content-type"].startswith("text/event-stream")
        assert session.call("memory_status")["memory"]["facts"] >= 0
        # one stream of this kind a session
        assert session.client.get("/mcp", headers=session.headers).status_code == 409
        assert session.delete().status_code == 200
        assert list(events(listening)) == []


def test_many_clients_are_served_at_once_and_see_what_the_others_wrote(daemon: Daemon) -> None:
    """C30: nothing leaks through filters, and the counts are exact."""
    sessions = [daemon.session() for _ in range(8)]

    def write(client: int) -> list[str]:
        call = sessions[client].call
        facts = [f"note {number} of client {client}" for number in range(5)]
        return [call("remember", fact=fact, metadata={"client": client})["id_str"] for fact in facts]

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(write, range(8)))
    for number, ids in enumerate(written):
        found = sessions[-1].call("recall", query="note", k=50, filter={"client": number})["memories"]
        assert {memory["id_str"] for memory in found} == set(ids)
    for session in sessions:
        session.delete()


def test_a_long_call_tells_of_its_progress_when_it_was_asked_to(gated: Gated) -> None:
    gate = gated(patch="import velesdb_memory.server.app as app; app.HEARTBEAT = 0.05")
    for version in (HANDSHAKES[-1], MODERN):
        session = gate.daemon.session(version)
        params = {
            "name": "remember",
            "arguments": {"fact": f"behind the gate {version}"},
            "_meta": {"progressToken": "p1"},
        }
        message, headers = session.message("tools/call", params)
        with session.client.stream("POST", "/mcp", headers={**session.headers, **headers}, json=message) as answer:
            said = events(answer)
            first, second = next(said)["params"], next(said)["params"]
            assert first["progressToken"] == "p1" and first["progress"] < second["progress"]
            assert "remember" in first["message"] and "gate" not in first["message"]
            gate.wait()
            gate.open()
            *_, last = said
            assert last["result"]["structuredContent"]["id_str"]


def test_a_call_that_its_client_cancels_is_not_carried_out(gated: Gated) -> None:
    gate = gated()
    session = gate.daemon.session()
    message, headers = session.message("tools/call", {"name": "remember", "arguments": {"fact": "a gate withdrawn"}})
    other = gate.daemon.client()
    with session.client.stream("POST", "/mcp", headers={**session.headers, **headers}, json=message) as answer:
        gate.wait()
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}}
        assert other.post("/mcp", headers=session.headers, json=cancelled).status_code == 202
        # what a session is sent is read in its order
        ping = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
        assert other.post("/mcp", headers=session.headers, json=ping).status_code == 200
        gate.open()
        [end] = events(answer)
        assert end["error"]["code"] == -32800
    assert session.call("memory_status")["memory"]["facts"] == 0


def test_a_client_of_the_version_without_sessions_cancels_by_hanging_up(gated: Gated) -> None:
    gate = gated(LOG="info")
    client = gate.daemon.session(MODERN)
    message, headers = client.message("tools/call", {"name": "remember", "arguments": {"fact": "a gate left"}})
    with gate.daemon.connect() as connection:
        connection.sendall(request({**client.headers, **headers}, message))
        gate.wait()
    assert gate.daemon.session(MODERN).tools()
    gate.open()
    gate.daemon.wait_for("verdict=Cancelled")
    assert client.call("memory_status")["memory"]["facts"] == 0


def test_a_cancelled_call_that_waits_for_its_turn_never_starts(gated: Gated) -> None:
    gate = gated(patch="import velesdb_memory.server.app as app; app.WORKERS = 1")
    first, second = gate.daemon.session(), gate.daemon.session()
    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(first.call, "remember", fact="a gate held")
        gate.wait()
        message, headers = second.message("tools/call", {"name": "remember", "arguments": {"fact": "another gate"}})
        queued = pool.submit(second.post, message, **headers)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}}
        client = gate.daemon.client()
        # it can be cancelled once it has arrived, which only its end tells
        while not queued.done():
            assert client.post("/mcp", headers=second.headers, json=cancelled).status_code == 202
        assert message_of(queued.result())["error"]["code"] == -32800
        gate.open()
        assert holding.result(60)["id_str"]
    assert first.call("memory_status")["memory"]["facts"] == 1
