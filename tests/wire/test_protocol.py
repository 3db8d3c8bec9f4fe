"""JSON-RPC and MCP as such: versions, malformed lines, bounds (C11, D25)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from velesdb_memory import __version__
from velesdb_memory.server.stdio import MAX_LINE
from wire.client import MODERN, VERSIONS, Server

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
UNICODE = "naïve – 漢字 – 😅 \u2028 \u0000 \x1c"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_handshake_version_is_served(tmp_path: Path, version: str) -> None:
    with Server(tmp_path / "store") as server:
        hello = server.initialize(version)
        assert hello["protocolVersion"] == version
        assert hello["serverInfo"]["name"] == "velesdb-memory"
        assert hello["serverInfo"]["version"] == __version__
        assert "tools" in hello["capabilities"]
        assert "remember" in hello["instructions"]
        assert {"remember", "why"} <= set(server.tools())
        assert server.call("remember", fact="hello")["id_str"] == "11831194018420276491"
        assert server.ask("ping")["result"] == {}


@pytest.mark.parametrize("version", ["1999-01-01", MODERN])
def test_a_handshake_for_another_version_is_answered_with_the_newest(tmp_path: Path, version: str) -> None:
    with Server(tmp_path / "store") as server:
        assert server.initialize(version)["protocolVersion"] == VERSIONS[-1]


def test_the_version_without_handshake_is_served(tmp_path: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with Server(tmp_path / "store") as server:
        tools = server.ask("tools/list", {"_meta": meta})["result"]
        assert tools["resultType"] == "complete"
        assert "remember" in {tool["name"] for tool in tools["tools"]}
        answer = server.ask("tools/call", {"name": "remember", "arguments": {"fact": "hello"}, "_meta": meta})
        assert answer["result"]["structuredContent"]["id_str"] == "11831194018420276491"
        error = server.ask("tools/call", {"name": "recall", "arguments": {"k": "x"}, "_meta": meta})["error"]
        assert error["code"] == -32602


MALFORMED: list[tuple[bytes, int, Any]] = [
    (b"garbage", PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":', PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"} trailing', PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', PARSE_ERROR, None),
    (b'"\xff\xfe"', PARSE_ERROR, None),
    (b"[" * 100_000, PARSE_ERROR, None),
    (b"9" * 10_000, PARSE_ERROR, None),
    (b"[]", INVALID_REQUEST, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST, None),
    (b"1", INVALID_REQUEST, None),
    (b"null", INVALID_REQUEST, None),
    (b"{}", INVALID_REQUEST, None),
    (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', INVALID_REQUEST, "a"),
    (b'{"id":"b","method":"ping"}', INVALID_REQUEST, "b"),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":"c","method":5}', INVALID_REQUEST, "c"),
    (b'{"jsonrpc":"2.0","id":"d","method":"\\ud800"}', INVALID_REQUEST, "d"),
    (b'{"jsonrpc":"2.0","id":"e"}', INVALID_REQUEST, "e"),
    (b'{"jsonrpc":"2.0","id":"f","method":"ping","params":[1]}', INVALID_REQUEST, "f"),
    (b'{"jsonrpc":"2.0","id":"g","method":"no/such"}', METHOD_NOT_FOUND, "g"),
    (b'{"jsonrpc":"2.0","id":"h","method":"tools/call"}', -32602, "h"),
    (b'{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":5}}', -32602, "i"),
    (b'{"jsonrpc":"2.0","id":"j","method":"tools/call","params":{"name":"recall","arguments":[]}}', -32602, "j"),
    (b'{"jsonrpc":"2.0","id":"k","method":"tools/call","params":{"name":"\\ud800"}}', -32602, "k"),
]


@pytest.mark.parametrize(("line", "code", "request_id"), MALFORMED, ids=range(len(MALFORMED)))
def test_d25_a_malformed_line_is_answered_and_the_next_one_works(
    server: Server, line: bytes, code: int, request_id: Any
) -> None:
    server.send(line + b"\n")
    answer = server.answer(request_id)
    assert answer["error"]["code"] == code
    assert answer["id"] == request_id
    assert server.ask("ping")["result"] == {}


def test_a_line_over_the_limit_is_refused_and_one_under_it_is_read(server: Server) -> None:
    server.send(b"x" * (MAX_LINE + 1) + b"\n")
    assert server.answer(None)["error"]["code"] == INVALID_REQUEST
    # white space counts, so the length of the line is all that differs
    message = json.dumps({"jsonrpc": "2.0", "id": "long", "method": "ping"}).encode()
    server.send(message + b" " * (MAX_LINE - len(message)) + b"\n")
    assert server.answer("long")["result"] == {}


def test_blank_lines_a_byte_order_mark_and_crlf_are_no_fault(server: Server) -> None:
    ping = b'{"jsonrpc":"2.0","id":"bom","method":"ping"}'
    server.send(b"\n\r\n  \n\xef\xbb\xbf" + ping + b"\r\n")
    assert server.receive() == {"jsonrpc": "2.0", "id": "bom", "result": {}}


def test_notifications_and_stray_responses_are_not_answered(server: Server) -> None:
    server.send(
        {"jsonrpc": "2.0", "method": "notifications/unknown"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 424242}},
        {"jsonrpc": "2.0", "id": 424242, "result": {}},
        {"jsonrpc": "2.0", "id": "after", "method": "ping"},
    )
    assert server.receive()["id"] == "after"


def test_requests_that_share_an_id_are_each_answered(server: Server) -> None:
    server.send(*[{"jsonrpc": "2.0", "id": "twin", "method": "ping"}] * 3)
    assert [server.receive()["id"] for _ in range(3)] == ["twin"] * 3


def test_ids_of_requests_come_back_as_they_were(server: Server) -> None:
    for request_id in (0, -1, 2**53 + 1, 2**64 - 1, "", "7", "漢字"):
        server.send({"jsonrpc": "2.0", "id": request_id, "method": "ping"})
        assert server.receive()["id"] == request_id


def test_requests_may_be_sent_without_waiting(server: Server) -> None:
    ids = [server.request("tools/call", {"name": "remember", "arguments": {"fact": f"fact {n}"}}) for n in range(50)]
    assert all("result" in server.answer(request_id) for request_id in ids)


@pytest.mark.parametrize(
    "settings",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii", "LC_ALL": "POSIX"},
    ],
    ids=["cp1252", "C", "ascii"],
)
def test_c11_text_is_utf8_whatever_the_locale(tmp_path: Path, settings: dict[str, str]) -> None:
    with Server(tmp_path / "store", **settings) as server:
        server.initialize()
        server.call("remember", fact=UNICODE, metadata={"ключ": UNICODE})
        # as the client may write it: escaped, or in UTF-8
        for ascii_only in (True, False):
            arguments = {"query": UNICODE, "filter": {"ключ": UNICODE}}
            params = {"name": "recall", "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": "u", "method": "tools/call", "params": params}
            server.send(json.dumps(message, ensure_ascii=ascii_only).encode() + b"\n")
            [hit] = server.answer("u")["result"]["structuredContent"]["memories"]
            assert hit["content"] == UNICODE
            assert hit["metadata"]["ключ"] == UNICODE
