"""A model server that speaks HTTP as Ollama and OpenAI-compatible servers do, and misbehaves on request.

Run as a process of its own (``python model_server.py``): it binds a free port of 127.0.0.1, writes the number
on standard output, and lives until its standard input is closed. Tests use :class:`ModelServer`.

``PUT /script`` takes a JSON list of steps; each request of a model takes the next, and the last one repeats.
``GET /seen`` gives the requests served since: method, path, headers, body. A step is an object:

``text``     what the model writes, wrapped as the path's protocol wants it
``dimension``, ``salt``  of the vectors that are made of the texts to embed (8, ""): texts that share words resemble
             each other, and with another salt it is another model
``body``     the raw body instead; ``status`` (200) and ``headers`` go with it
``finish``   ``stop`` (default) or ``length``
``fault``    ``hang``: never answers · ``dribble``: sends its header a byte at a time · ``dribble_body``: its
             body likewise · ``close``: hangs up without an answer · ``truncate``: announces more than it
             sends · ``flood``: never stops sending
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_PAUSE = 0.02  # seconds between the bytes of a dribbling answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_PUT(self) -> None:
        self.server.begin(json.loads(self._read()))
        self._send(200, b"{}")

    def do_GET(self) -> None:
        if self.path == "/seen":
            self._send(200, json.dumps(self.server.seen).encode())
        else:
            self._play()

    def do_POST(self) -> None:
        self._play()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: standard error is for failures."""

    def _read(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _play(self) -> None:
        body = self._read()
        step = self.server.next(
            {
                "method": self.command,
                "path": self.path,
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "body": json.loads(body) if body else None,
                "connection": self.client_address[1],
            }
        )
        payload = step.get("body")
        if payload is None:
            payload = json.dumps(self._wrapped(step, json.loads(body) if body else {}))
        try:
            self._send(step.get("status", 200), payload.encode(), step.get("headers"), step.get("fault", ""))
        except OSError:
            # A client that gave up is what several tests are about
            self.close_connection = True

    def _wrapped(self, step: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
        text, finish = step.get("text", "{}"), step.get("finish", "stop")
        if self.path in ("/api/embed", "/v1/embeddings"):
            texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
            vectors = [embedding(text, step.get("dimension", 8), step.get("salt", "")) for text in texts]
            if self.path == "/api/embed":
                return {"model": request["model"], "embeddings": vectors, "total_duration": 1}
            data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
            return {"object": "list", "data": data, "model": request["model"], "usage": {"prompt_tokens": 1}}
        if self.path == "/api/generate":
            return {"model": "m", "response": text, "done": True, "done_reason": finish}
        return {
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
            ]
        }

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None, fault: str = "") -> None:
        if fault in ("hang", "close"):
            if fault == "hang":
                self.server.closing.wait()
            self.close_connection = True
            return
        length = len(body) + (50 if fault == "truncate" else 0)
        fields = {"Content-Type": "application/json", "Content-Length": str(length), **(headers or {})}
        if fault == "flood":
            fields["Content-Length"] = str(1 << 40)
        head = f"HTTP/1.1 {status} {self.responses.get(status, ('',))[0]}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
        if fault == "dribble":
            self._dribble(head.encode())
        self.wfile.write(head.encode())
        if fault == "dribble_body":
            self._dribble(b" " * length)
        self.wfile.write(body)
        while fault == "flood":
            self.wfile.write(b" " * 65_536)
        if fault:
            self.close_connection = True

    def _dribble(self, data: bytes) -> None:
        for byte in data:
            if self.server.closing.wait(_PAUSE):
                return
            self.wfile.write(bytes([byte]))


def embedding(text: str, dimension: int = 8, salt: str = "") -> list[float]:
    """The vector that the server's model makes of ``text``."""
    total = [0.001] * dimension
    for word in text.lower().split():
        digest = hashlib.shake_256(f"{salt}/{word}".encode()).digest(dimension)
        total = [sum(pair) for pair in zip(total, (byte / 127.5 - 1 for byte in digest), strict=True)]
    return total


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[dict[str, Any]] = []
        self.closing = threading.Event()
        self._steps: list[dict[str, Any]] = [{}]
        self._lock = threading.Lock()

    def begin(self, steps: list[dict[str, Any]]) -> None:
        with self._lock:
            self._steps = steps
            self.seen = []

    def next(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.seen.append(request)
            return self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]


class ModelServer:
    """The server in a process of its own, from a test's side; a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        # The environment's proxy is for the code under test to ignore, not for this client to use
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=10)

    def script(self, *steps: dict[str, Any]) -> None:
        """Answer the next requests with ``steps``, the last one for ever, and forget what was seen."""
        request = urllib.request.Request(f"{self.url}/script", json.dumps(steps).encode(), method="PUT")
        self._opener.open(request, timeout=10).close()

    def seen(self) -> list[dict[str, Any]]:
        """The requests since the last ``script``."""
        with self._opener.open(f"{self.url}/seen", timeout=10) as response:
            return json.load(response)


def main() -> None:
    server = _Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    server.closing.set()
    server.shutdown()


if __name__ == "__main__":
    main()
