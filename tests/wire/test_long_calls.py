"""A call that takes long tells of its progress, and stops when it is withdrawn."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from wire.client import GATED, Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors are not inherited this way there")


def test_a_withdrawn_call_is_neither_carried_out_nor_answered(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    command = (sys.executable, "-c", GATED, str(reading), str(tmp_path / "store"))
    with Server(tmp_path / "store", command, pass_fds=(reading,)) as server:
        server.initialize()
        call = {"name": "remember", "arguments": {"fact": "withdrawn"}, "_meta": {"progressToken": 7}}
        held = server.request("tools/call", call)
        told = server.receive()
        assert told["method"] == "notifications/progress"
        assert told["params"]["progressToken"] == 7 and told["params"]["progress"] > 0
        assert "remember" in told["params"]["message"]
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": held}})
        assert server.ask("ping")["result"] == {}
        os.write(writing, b".")
        assert server.call("memory_status")["memory"]["facts"] == 0
        server.end_input()
        assert all(message.get("id") != held for message in server.rest())
    os.close(reading)
    os.close(writing)
