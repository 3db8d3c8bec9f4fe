"""A client as bare as they come: lines to a server's standard input, lines from its standard output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from support.pipes import follow

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
PATIENCE = 30.0  # seconds before a missing answer fails the test
LEAVING = 2.0  # seconds a server may take to leave (D25)
SLACK = 2.0  # added on a machine that runs other tests

SERVER = (sys.executable, "-m", "velesdb_memory")

# A server whose store opens only when a byte arrives on the descriptor named by the first argument
GATED = """
import os, sys
from velesdb_memory.server.stdio import serve_stdio

def open_service():
    os.read(int(sys.argv[1]), 1)
    from velesdb_memory import MemoryService
    return MemoryService(sys.argv[2])

sys.exit(serve_stdio(open_service))
"""

# A server whose dependencies print wherever they can
NOISY = """
import os, subprocess, sys, warnings
from velesdb_memory.server.stdio import serve_stdio

print("noise before")

def open_service():
    print("noise: naïve 漢字", flush=True)
    os.write(1, b"noise from a descriptor\\n")
    subprocess.run([sys.executable, "-c", "print('noise from a child')"], check=True)
    warnings.warn("noise from a warning")
    from velesdb_memory import MemoryService
    return MemoryService(sys.argv[1])

sys.exit(serve_stdio(open_service))
"""


def environment(store: Path, **extra: str) -> dict[str, str]:
    """The environment of a server on ``store``: nothing of the developer's settings."""
    ours = ("VELESDB_MEMORY_", "PYTHONUNBUFFERED")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, "VELESDB_MEMORY_PATH": str(store), "VELESDB_MEMORY_QUIET": "1", **extra}


Call = Callable[..., dict[str, Any]]


class ToolError(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.message: str = error["message"]


class Server:
    """A running server."""

    def __init__(
        self, store: Path, command: Sequence[str] = SERVER, *, pass_fds: Sequence[int] = (), **extra: str
    ) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(store, **extra),
            pass_fds=pass_fds,
        )
        self.errors = b""
        self.hello: dict[str, Any] = {}
        self._lines, reader = follow(self.process.stdout)
        self._kept: list[dict[str, Any]] = []
        self._id = 0
        drain = threading.Thread(target=self._drain, daemon=True)
        drain.start()
        self._threads = [reader, drain]

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()

    def send(self, *lines: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        data = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self) -> bytes:
        """The next line as it came; empty at the end."""
        try:
            return self._lines.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError("the server does not answer") from None

    def receive(self) -> dict[str, Any]:
        """The next message; every line must be one."""
        line = self.line()
        assert line, "the server has left"
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def answer(self, request_id: int | str | None) -> dict[str, Any]:
        """The answer to one request, whatever comes in between."""
        for index, message in enumerate(self._kept):
            if message.get("id") == request_id:
                return self._kept.pop(index)
        while (message := self.receive()).get("id") != request_id:
            self._kept.append(message)
        return message

    def request(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request; returns its id."""
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return self._id

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.answer(self.request(method, params))

    def initialize(self, version: str = VERSIONS[-1]) -> dict[str, Any]:
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.hello = self.ask("initialize", hello)["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self.hello

    def tools(self) -> dict[str, dict[str, Any]]:
        return {tool["name"]: tool for tool in self.ask("tools/list")["result"]["tools"]}

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured result of a tool; raises ToolError for a JSON-RPC error."""
        return self.call_with(tool, arguments)

    def call_with(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        answer = self.ask("tools/call", {"name": tool, "arguments": dict(arguments)})
        if "error" in answer:
            raise ToolError(answer["error"])
        result = answer["result"]
        assert result.get("isError", False) is False
        [block] = result["content"]
        assert block["type"] == "text"
        assert json.loads(block["text"]) == result["structuredContent"]
        return result["structuredContent"]

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def rest(self) -> list[dict[str, Any]]:
        """Every message until the server closes its output, those set aside first."""
        messages, self._kept = self._kept, []
        while line := self.line():
            messages.append(json.loads(line))
        return messages

    def close(self) -> None:
        with suppress(OSError):
            self.end_input()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            for thread in self._threads:
                thread.join(PATIENCE)
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refusal(call: Call, tool: str, /, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        call(tool, **arguments)
    assert caught.value.code == INVALID_PARAMS
    assert "\n" not in caught.value.message
    return caught.value.message
