"""A daemon of its own process, reached over TLS that trusts nothing but the authority it made."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

PATIENCE = 60.0  # seconds before something missing fails the test
ACCEPT = "application/json, text/event-stream"
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
COMMAND = (sys.executable, "-m", "velesdb_memory", "--http", "--http-port", "0")
_SERVING = re.compile(r"velesdb-memory: serving .* at (https?)://(.*):(\d+)/mcp")

# A daemon, started by a script, whose embedder waits at facts with the word "gate" until a byte arrives on the
# descriptor in the first argument. What else the script changes comes before it.
GATED = """
import os, sys
from velesdb_memory import MemoryService, config
from velesdb_memory.embed.hashing import HashEmbedder
from velesdb_memory.server.http import serve_http

class Gated(HashEmbedder):
    def embed(self, texts):
        if any("gate" in text.split() for text in texts):
            print("at the gate", file=sys.stderr, flush=True)
            os.read(int(sys.argv[1]), 1)
        return super().embed(texts)

settings = config.load(flags={"HTTP_PORT": "0"})
sys.exit(serve_http(lambda: MemoryService(settings.path, Gated()), settings, **OPTIONS))
"""


def environment(folder: Path, **extra: str) -> dict[str, str]:
    """The environment of a process on the store in ``folder``: nothing of the developer's settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VELESDB_MEMORY_")}
    ours = {"VELESDB_MEMORY_PATH": str(folder / "store"), "VELESDB_MEMORY_TLS_DIR": str(folder / "tls")}
    return {**inherited, **ours, **{f"VELESDB_MEMORY_{name}": value for name, value in extra.items()}}


class Daemon:
    """A running daemon, with its files in ``folder``; ``settings`` are VELESDB_MEMORY_ variables."""

    def __init__(
        self, folder: Path, *flags: str, command: Sequence[str] = COMMAND, pass_fds: Sequence[int] = (), **settings: str
    ) -> None:
        self.folder = folder
        self.ca = folder / "tls" / "ca-cert.pem"
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._clients: list[httpx2.Client] = []
        self.process = subprocess.Popen(
            [*command, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(folder, **settings),
            pass_fds=pass_fds,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        match = _SERVING.match(self.wait_for("serving "))
        assert match
        self.scheme, self.host, self.port = match[1], match[2].strip("[]"), int(match[3])
        self.url = f"{self.scheme}://{match[2]}:{self.port}"

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.lines.append(line.rstrip("\n"))
                self._more.notify_all()
        with self._more:
            self.lines.append("")
            self._more.notify_all()

    def wait_for(self, text: str, count: int = 1) -> str:
        """The ``count``-th line on standard error with ``text`` in it."""

        def found() -> list[str]:
            return [line for line in self.lines if text in line]

        with self._more:
            self._more.wait_for(lambda: len(found()) >= count or "" in self.lines, PATIENCE)
            assert len(found()) >= count, f"{text!r} was not said: {self.lines}"
            return found()[count - 1]

    def wait_for_more(self, before: int, count: int) -> list[str]:
        """The lines after the first ``before``, once there are ``count``; there may be no more than that."""
        with self._more:
            self._more.wait_for(lambda: len(self.lines) >= before + count, PATIENCE)
            new = self.lines[before:]
        assert len(new) == count, new
        return new

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    def client(self, **headers: str) -> httpx2.Client:
        """An HTTP client that trusts the daemon's authority; closed with the daemon."""
        verify = self.context if self.scheme == "https" else True
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._clients.append(
            httpx2.Client(base_url=self.url, verify=verify, headers=named, timeout=PATIENCE, trust_env=False)
        )
        return self._clients[-1]

    def connect(self, *, tls: bool = True) -> socket.socket:
        """A bare connection."""
        connection = socket.create_connection((self.host, self.port), PATIENCE)
        return self.context.wrap_socket(connection, server_hostname="localhost") if tls else connection

    def session(self, version: str = HANDSHAKES[-1], *, accept: str = ACCEPT, **headers: str) -> Session:
        return Session(self.client(**headers), version, accept)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """The exit code, once it has left by itself."""
        return self.process.wait(PATIENCE)

    def stop(self) -> int:
        self.terminate()
        return self.wait()

    def close(self) -> None:
        try:
            for client in self._clients:
                client.close()
            if self.process.poll() is None:
                self.stop()
        finally:
            self.process.kill()
            self.process.wait(PATIENCE)
            self._reader.join(PATIENCE)
            if self.process.stderr is not None:
                self.process.stderr.close()

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def events(response: httpx2.Response) -> Iterator[dict[str, Any]]:
    """The messages of a streamed answer, as they come."""
    data = ""
    for line in response.iter_lines():
        if line.startswith("data:"):
            data += line.removeprefix("data:")
        elif not line and data.strip(" "):
            yield json.loads(data)
            data = ""


def message_of(response: httpx2.Response) -> dict[str, Any]:
    """The one message of an answer, in either form."""
    if response.headers["content-type"].startswith("text/event-stream"):
        [message] = events(response)
        return message
    return response.json()


def hello(version: str = HANDSHAKES[-1]) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def request(headers: Mapping[str, str], message: dict[str, Any]) -> bytes:
    """A POST of ``message`` as it goes over a bare connection."""
    body = json.dumps(message).encode()
    lines = ["POST /mcp HTTP/1.1", "host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


class Session:
    """A client by hand: one session of a handshake version, or none for the version without."""

    def __init__(self, client: httpx2.Client, version: str, accept: str = ACCEPT) -> None:
        self.client = client
        self.version = version
        self._id = 0
        self.headers = {"accept": accept, "content-type": "application/json"}
        if version == MODERN:
            self.headers["mcp-protocol-version"] = version
            return
        answer = self.post(hello(version))
        assert answer.status_code == 200, answer.text
        self.hello = message_of(answer)["result"]
        self.id = answer.headers["mcp-session-id"]
        self.headers |= {"mcp-session-id": self.id, "mcp-protocol-version": version}
        assert self.notify("notifications/initialized").status_code == 202

    def post(self, message: dict[str, Any], **headers: str) -> httpx2.Response:
        return self.client.post("/mcp", headers={**self.headers, **headers}, json=message)

    def notify(self, method: str, **params: Any) -> httpx2.Response:
        return self.post({"jsonrpc": "2.0", "method": method, "params": params})

    def message(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """A request and its headers, as this version has them."""
        self._id += 1
        headers: dict[str, str] = {}
        if self.version == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
            headers = {"mcp-method": method} | ({"mcp-name": params["name"]} if "name" in params else {})
        return {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}, headers

    def ask(self, method: str, **params: Any) -> httpx2.Response:
        message, headers = self.message(method, params)
        return self.post(message, **headers)

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured result of a tool, or ``{"error": ...}``."""
        answer = message_of(self.ask("tools/call", name=tool, arguments=arguments))
        return answer["result"]["structuredContent"] if "result" in answer else {"error": answer["error"]}

    def tools(self) -> list[str]:
        return [tool["name"] for tool in message_of(self.ask("tools/list"))["result"]["tools"]]

    def delete(self) -> httpx2.Response:
        return self.client.delete("/mcp", headers=self.headers)
