"""Bad input: each kind has its status, and the log repeats nothing of it (D56, D59; C15)."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from https.conftest import Gated, Starter
from support.daemon import COMMAND, MODERN, Daemon, environment, hello, message_of

CANARY = "canary-7f3a"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
VERDICT = re.compile(
    r"velesdb-memory: (method=\S+ path=/mcp status=\d+ ms=[\d.]+ in=\d+ out=\d+"
    r"|method=\S+ path=other status=404 ms=[\d.]+ in=0 out=\d+"
    r"|tool=\w+ verdict=\w+ ms=[\d.]+ in=\d+ out=\d+)"
)


Said = Callable[[int], list[str]]


@pytest.fixture
def said(daemon: Daemon) -> Said:
    """The lines that the daemon has said since, so many; nothing but verdicts."""
    # a line comes after its answer: this one is the last of what was before
    marks = sum("method=PATCH" in line for line in daemon.lines)
    daemon.client().patch("/mcp")
    daemon.wait_for("method=PATCH", marks + 1)
    before = len(daemon.lines)

    def lines(count: int) -> list[str]:
        new = daemon.wait_for_more(before, count)
        assert all(VERDICT.fullmatch(line) for line in new), new
        assert CANARY not in "".join(new)
        return new

    return lines


def error(answer: httpx2.Response) -> str:
    """The message of a refusal, which is a JSON-RPC error without an id."""
    body = answer.json()
    assert body["jsonrpc"] == "2.0" and body["id"] is None
    return body["error"]["message"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::2]"])
def test_D56_a_host_that_is_not_served_is_misdirected_with_a_hint(
    daemon: Daemon, said: Said, host: str
) -> None:
    answer = daemon.client().post("/mcp", headers={"host": host}, json=hello())
    assert answer.status_code == 421
    assert "VELESDB_MEMORY_HTTP_ALLOWED_HOSTS" in error(answer)
    said(1)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8", "localhost."])
def test_D56_names_of_this_machine_are_served_whatever_the_port(daemon: Daemon, host: str) -> None:
    assert daemon.client(host=host).post("/mcp", headers=daemon.session().headers, json=PING).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "", "https://localhost.evil.example", "file://localhost", "http://[bad"]
)
def test_D56_another_origin_is_forbidden(daemon: Daemon, said: Said, origin: str) -> None:
    answer = daemon.client(origin=origin).post("/mcp", json=hello())
    assert answer.status_code == 403
    assert "VELESDB_MEMORY_HTTP_ALLOWED_ORIGINS" in error(answer)
    assert "access-control-allow-origin" not in answer.headers
    said(1)


@pytest.mark.parametrize("origin", ["https://localhost:6274", "http://127.0.0.1", "HTTPS://[::1]:1"])
def test_D56_pages_of_this_machine_are_allowed(daemon: Daemon, origin: str) -> None:
    session = daemon.session(origin=origin)
    assert session.tools()


def test_c15_a_proxy_s_name_is_served_where_it_is_configured_and_needs_a_token(start: Starter) -> None:
    daemon = start(
        HTTP_ALLOWED_HOSTS="memory.example.com, other.example:8443",
        HTTP_ALLOWED_ORIGINS="https://app.example.com",
        HTTP_TOKEN=CANARY,
    )
    for host in ("memory.example.com", "MEMORY.example.com:443", "other.example"):
        client = daemon.client(host=host, authorization=f"Bearer {CANARY}", origin="https://app.example.com")
        assert client.post("/mcp", json=hello(), headers=headers()).status_code == 200
        assert client.post("/mcp", json=hello(), headers=headers(authorization="")).status_code == 401
    assert daemon.client(host="memory.example.org").post("/mcp", json=hello()).status_code == 421


def headers(**more: str) -> dict[str, str]:
    return {"accept": "application/json, text/event-stream", "content-type": "application/json", **more}


def test_c15_names_beyond_this_machine_need_a_token_even_where_nothing_says_so(start: Starter) -> None:
    daemon = start(HTTP_ALLOWED_HOSTS="memory.example.com")
    daemon.wait_for("clients need a token")
    answer = daemon.client().post("/mcp", json=hello(), headers=headers())
    assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700), (b"", -32700), (b'{"a": NaN}', -32700), (b'"\xff"', -32700), (b"[" * 100_000, -32700),
        (b"[]", -32600), (json.dumps([PING, PING]).encode(), -32600), (b"1", -32600), (b"{}", -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32600),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
def test_what_is_no_message_is_a_bad_request(
    daemon: Daemon, said: Said, version: str, body: bytes, code: int
) -> None:
    answer = daemon.client().post("/mcp", content=body, headers=headers(**{"mcp-protocol-version": version}))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code
    assert "status=400" in said(1)[0]


def test_the_wrong_content_type_and_the_wrong_accept_are_refused(daemon: Daemon) -> None:
    client = daemon.client()
    assert client.post("/mcp", content=b"{}", headers=headers(**{"content-type": "text/plain"})).status_code == 400
    assert client.post("/mcp", json=hello(), headers=headers(accept="text/html")).status_code == 406


def test_other_paths_and_methods_do_not_exist(daemon: Daemon, said: Said) -> None:
    client = daemon.client()
    assert client.get(f"/{CANARY}").status_code == 404
    assert client.get("/").status_code == 404
    assert client.put("/mcp").status_code == 405
    assert client.options("/mcp", headers={"origin": "https://localhost"}).headers["allow"] == "GET, POST, DELETE"
    said(4)


def test_an_unknown_session_is_not_found_and_a_missing_one_is_a_bad_request(
    daemon: Daemon, said: Said
) -> None:
    client = daemon.client()
    for method in ("POST", "GET", "DELETE"):
        body = {"json": PING} if method == "POST" else {}
        answer = client.request(method, "/mcp", headers=headers(**{"mcp-session-id": CANARY}), **body)
        assert answer.status_code == 404 and "initialize" in error(answer)
        answer = client.request(method, "/mcp", headers=headers(), **body)
        assert answer.status_code == 400 and "Mcp-Session-Id" in error(answer)
    said(6)


def test_a_body_over_the_limit_is_too_large_before_it_is_read(daemon: Daemon, said: Said) -> None:
    size = 81 * 2**20
    with daemon.connect() as connection:
        connection.sendall(head(f"Content-Length: {size}", "Expect: 100-continue"))
        assert status(connection) == 413
    answer = daemon.client().post("/mcp", content=b" " * size, headers=headers())
    assert answer.status_code == 413 and str(80 * 2**20) in error(answer)
    first, second = said(2)
    assert "in=0" in first and "in=0" in second


def test_a_body_without_a_length_is_bounded_all_the_same(start: Starter) -> None:
    daemon = start(HTTP_MAX_BODY_BYTES="100000")
    client = daemon.client()

    def pieces():
        for _ in range(101):
            yield b" " * 1000

    assert client.post("/mcp", content=pieces(), headers=headers()).status_code == 413
    assert client.post("/mcp", json=hello(), headers=headers()).status_code == 200


def test_large_requests_within_the_limit_are_read(daemon: Daemon) -> None:
    session = daemon.session()
    message = session.ask("tools/call", name="remember", arguments={"fact": "x" * (20 * 2**20)})
    assert "2048" in message_of(message)["error"]["message"]


def head(*lines: str) -> bytes:
    first = ("POST /mcp HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Accept: */*")
    return "\r\n".join((*first, *lines, "", "")).encode()


def status(connection: socket.socket) -> int:
    return int(connection.recv(4096).split(b" ")[1])


def test_plain_http_to_the_encrypted_port_ends_that_connection_only(
    daemon: Daemon, said: Said
) -> None:
    with daemon.connect(tls=False) as connection:
        connection.sendall(head("Content-Length: 2") + b"{}")
        answer = b""
        try:
            while data := connection.recv(4096):
                answer += data
        except ConnectionResetError:
            pass
        assert b"HTTP" not in answer
    assert daemon.client().get("/health").text == "OK"
    assert said(0) == []


def test_a_client_that_does_not_trust_the_authority_gets_no_further(daemon: Daemon) -> None:
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(("127.0.0.1", daemon.port)) as plain:
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
    assert daemon.client().get("/health").text == "OK"


def test_what_is_not_http_is_a_bad_request(daemon: Daemon, said: Said) -> None:
    with daemon.connect() as connection:
        connection.sendall(CANARY.encode() + b"\r\n\r\n")
        assert status(connection) == 400
    assert said(0) == []


def test_connections_that_say_nothing_or_half_a_request_are_closed_and_hold_up_nobody(gated: Gated) -> None:
    daemon = gated(patch="import velesdb_memory.server.http as http; http.MAX_HEAD_SECONDS = 0.3").daemon
    silent, half = daemon.connect(), daemon.connect()
    half.sendall(b"POST /mcp HTTP/1.1\r\nHost: local")
    assert daemon.client().get("/health").text == "OK"
    for connection in (silent, half):
        with connection:
            connection.settimeout(60)
            assert connection.recv(100) == b""


def test_a_body_that_stalls_is_given_up(gated: Gated) -> None:
    daemon = gated(patch="import velesdb_memory.server.gate as gate; gate.MAX_STALL_SECONDS = 0.3").daemon
    with daemon.connect() as connection:
        connection.sendall(head("Content-Length: 100") + b"{")
        assert status(connection) == 408
        connection.settimeout(60)
        while connection.recv(4096):
            pass


def test_a_client_that_hangs_up_in_its_request_is_noted(daemon: Daemon) -> None:
    with daemon.connect() as connection:
        connection.sendall(head("Content-Length: 100") + b"{")
    daemon.wait_for("status=499")


def test_a_wrong_version_is_refused_by_name(daemon: Daemon) -> None:
    answer = daemon.client().post("/mcp", json=PING, headers=headers(**{"mcp-protocol-version": "1999-01-01"}))
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"HTTP_BIND": "0.0.0.0:0"}, "HTTP_ALLOW_REMOTE"),
        ({"HTTP_BIND": "memory.example:0"}, "HTTP_ALLOW_REMOTE"),
        ({"HTTP_BIND": "[::]:0"}, "HTTP_ALLOW_REMOTE"),
        ({"HTTP_BIND": "localhost"}, "HTTP_BIND"),
        ({"HTTP_BIND": "192.0.2.1:0", "HTTP_ALLOW_REMOTE": "1"}, "nothing can listen on 192.0.2.1:0"),
        ({"HTTP_BIND": "no.such.host.invalid:0", "HTTP_ALLOW_REMOTE": "1"}, "no.such.host.invalid:0"),
        ({"HTTP_MAX_SESSIONS": "0"}, "HTTP_MAX_SESSIONS"),
    ],
)
def test_D56_a_daemon_that_cannot_serve_as_it_is_told_says_why_and_exits(
    tmp_path: Path, settings: dict[str, str], problem: str
) -> None:
    ended = subprocess.run(
        COMMAND[:4] if "HTTP_BIND" in settings else COMMAND, env=environment(tmp_path, **settings), capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    [line] = [line for line in ended.stderr.splitlines() if "hash embedder" not in line]
    assert line.startswith("velesdb-memory: ") and problem in line


def test_a_second_daemon_on_the_same_port_says_so_and_exits(daemon: Daemon, tmp_path: Path) -> None:
    ended = subprocess.run(
        (*COMMAND[:4], "--http-port", str(daemon.port)), env=environment(tmp_path), capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1 and f"nothing can listen on 127.0.0.1:{daemon.port}" in ended.stderr


def test_a_fault_of_the_daemon_is_answered_and_tells_nothing(gated: Gated) -> None:
    patch = f"import velesdb_memory.server.gate as gate\ndef read(*_): raise RuntimeError('{CANARY}')\ngate.read = read"
    daemon = gated(patch=patch, LOG="info").daemon
    answer = daemon.client().post("/mcp", json=hello(), headers=headers())
    assert answer.status_code == 500 and answer.json()["error"]["code"] == -32603
    daemon.wait_for("status=500")
    assert CANARY not in answer.text + "".join(daemon.lines)
    assert daemon.client().get("/health").status_code == 200
