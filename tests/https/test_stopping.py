"""A signal ends the daemon when the calls in flight are answered, over TLS too (D57; C50)."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from https.conftest import Gated, Starter
from support.daemon import HANDSHAKES, MODERN, message_of
from velesdb_memory import MemoryService

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a signal is not a request there")


def stored(folder: Path) -> int:
    with MemoryService(folder / "store") as memory:
        return memory.memory_status().memory.facts


@pytest.mark.parametrize("version", [HANDSHAKES[-1], MODERN])
@pytest.mark.parametrize("insecure", ["0", "1"])
def test_c50_a_call_in_flight_is_answered_and_the_daemon_exits_with_0(
    gated: Gated, tmp_path: Path, version: str, insecure: str
) -> None:
    gate = gated(HTTP_INSECURE=insecure)
    session, late = gate.daemon.session(version), gate.daemon.session(version)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(session.call, "remember", fact="a gate in flight")
        gate.wait()
        gate.daemon.terminate()
        # a connection that is open gets an answer, until it is refused: the signal may arrive after a request
        while (answer := late.client.get("/health")).status_code == 200:
            pass
        assert (answer.status_code, answer.text, answer.headers["connection"]) == (503, "leaving", "close")
        gate.open()
        assert held.result(60)["id_str"]
    assert gate.daemon.wait() == 0
    assert stored(tmp_path) == 1
    gate.daemon.wait_for("stopped by a signal")


def test_new_calls_are_refused_while_the_daemon_leaves(gated: Gated) -> None:
    gate = gated()
    session, late = gate.daemon.session(), gate.daemon.session()
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(session.call, "remember", fact="a gate in flight")
        gate.wait()
        gate.daemon.terminate()
        while (answer := late.ask("tools/call", name="memory_status")).status_code == 200:
            pass
        assert answer.status_code == 503 and answer.headers["retry-after"]
        gate.open()
        assert held.result(60)["id_str"]


def test_idle_connections_and_open_streams_do_not_hold_the_daemon(start: Starter) -> None:
    daemon = start()
    session, idle = daemon.session(), daemon.session()
    assert idle.tools()
    with session.client.stream("GET", "/mcp", headers=session.headers) as listening:
        assert listening.status_code == 200
        daemon.terminate()
        assert daemon.wait() == 0


def test_a_second_signal_leaves_calls_unanswered(gated: Gated, tmp_path: Path) -> None:
    gate = gated()
    session, other = gate.daemon.session(), gate.daemon.session()
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(session.call, "remember", fact="a gate held for ever")
        gate.wait()
        gate.daemon.terminate()
        while other.client.get("/health").status_code == 200:
            pass
        gate.daemon.process.send_signal(signal.SIGINT)
        assert gate.daemon.wait() == 0
        with pytest.raises(httpx2.TransportError):
            held.result(60)
    gate.daemon.wait_for("left unanswered")
    assert stored(tmp_path) == 0


def test_a_signal_amid_many_writes_loses_none_and_leaves_none_unanswered(start: Starter, tmp_path: Path) -> None:
    daemon = start()
    acknowledged: list[str] = []
    unexpected: list[object] = []

    def write(client: int) -> None:
        session = daemon.session()
        for number in range(100_000):
            params = {"name": "remember", "arguments": {"fact": f"fact {number} of {client}"}}
            message, headers = session.message("tools/call", params)
            try:
                answer = session.post(message, **headers)
            except httpx2.TransportError:
                return  # gone: what is stored tells whether a request was taken all the same
            if answer.status_code == 503:
                return
            result = message_of(answer).get("result")
            if result is None:
                unexpected.append(answer.text)
                return
            acknowledged.append(result["structuredContent"]["id_str"])

    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(write, client) for client in range(8)]
        session = daemon.session()
        while len(acknowledged) < 100:
            session.call("memory_status")
        daemon.terminate()
        for each in running:
            each.result(60)
    assert daemon.wait() == 0 and unexpected == []
    with MemoryService(tmp_path / "store") as memory:
        kept = memory.list_memories(limit=1000).memories
    assert sorted(str(each.id) for each in kept) == sorted(acknowledged)
