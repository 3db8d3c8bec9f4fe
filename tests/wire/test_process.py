"""The server as a process: its output, and when and how it leaves (C10, C14, D25)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from wire.client import GATED, LEAVING, NOISY, PATIENCE, SERVER, SLACK, Server, environment

posix = pytest.mark.skipif(sys.platform == "win32", reason="descriptors and signals of POSIX")


@contextmanager
def leaves_in_time() -> Iterator[None]:
    started = monotonic()
    yield
    assert monotonic() - started < LEAVING + SLACK


@contextmanager
def gated(store: Path) -> Iterator[tuple[Server, int]]:
    """A server whose calls wait until a byte is written to the descriptor."""
    reader, writer = os.pipe()
    command = (sys.executable, "-c", GATED, str(reader), str(store))
    try:
        with Server(store, command, pass_fds=[reader]) as server:
            server.initialize()
            yield server, writer
    finally:
        os.close(reader)
        os.close(writer)


def remember(server: Server, fact: str) -> int:
    return server.request("tools/call", {"name": "remember", "arguments": {"fact": fact}})


def test_c10_only_json_rpc_reaches_standard_output(tmp_path: Path) -> None:
    command = (sys.executable, "-X", "dev", "-W", "always", "-c", NOISY, str(tmp_path / "store"))
    with Server(tmp_path / "store", command, VELESDB_MEMORY_LOG="debug", PYTHONASYNCIODEBUG="1") as server:
        server.initialize()
        assert server.call("remember", fact="hello")["id_str"] == "11831194018420276491"
        server.end_input()
        assert server.rest() == []
    for noise in (b"noise before", b"noise: ", b"from a descriptor", b"from a child", b"from a warning"):
        assert noise in server.errors


def test_d25_the_end_of_input_ends_the_server(tmp_path: Path) -> None:
    with Server(tmp_path / "store") as server:
        server.initialize()
        server.call("remember", fact="hello")
        with leaves_in_time():
            server.end_input()
            assert server.process.wait(PATIENCE) == 0


def test_d25_input_that_never_comes_ends_the_server(tmp_path: Path) -> None:
    done = subprocess.run(SERVER, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, env=environment(tmp_path))
    assert (done.returncode, done.stdout) == (0, b"")


def test_d25_calls_in_flight_at_the_end_of_input_are_answered(tmp_path: Path) -> None:
    with Server(tmp_path / "store") as server:
        server.initialize()
        ids = [remember(server, f"fact {number}") for number in range(200)]
        # the last line need not be ended
        server.send(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')
        server.end_input()
        answered = {message["id"] for message in server.rest() if "result" in message}
        assert answered == {*ids, "last"}
        assert server.process.wait(PATIENCE) == 0


@posix
def test_d25_a_call_that_waits_is_answered_after_the_end_of_input(tmp_path: Path) -> None:
    with gated(tmp_path / "store") as (server, gate):
        request = remember(server, "hello")
        server.end_input()
        os.write(gate, b"1")
        assert [message["id"] for message in server.rest()] == [request]
        assert server.process.wait(PATIENCE) == 0


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_c50_a_signal_drains_and_exits_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with gated(tmp_path / "store") as (server, gate):
        request = remember(server, "hello")
        assert server.ask("ping")["result"] == {}  # so the call before it was read
        server.process.send_signal(number)
        os.write(gate, b"1")
        with leaves_in_time():
            assert [message["id"] for message in server.rest()] == [request]
            assert server.process.wait(PATIENCE) == 0


@posix
def test_a_second_signal_ends_a_server_whose_call_hangs(tmp_path: Path) -> None:
    with gated(tmp_path / "store") as (server, _):
        remember(server, "hello")
        assert server.ask("ping")["result"] == {}
        server.end_input()
        server.process.send_signal(signal.SIGTERM)
        with leaves_in_time():
            assert server.rest() == []
            assert server.process.wait(PATIENCE) == 0


@posix
def test_d25_a_broken_output_ends_the_server(tmp_path: Path) -> None:
    # no Server here: a thread that reads the pipe would keep it open
    with subprocess.Popen(
        SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(tmp_path / "store")
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdout.close()
        with leaves_in_time():
            assert process.wait(PATIENCE) == 0


@posix
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in a call that hangs"])
def test_c14_the_parents_death_ends_the_server(tmp_path: Path, busy: bool) -> None:
    store, pipe = tmp_path / "store", os.pipe()
    program = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    inner = (sys.executable, "-c", GATED, str(pipe[0]), str(store)) if busy else SERVER
    launcher = f"import os, subprocess, sys; sys.exit(subprocess.call(sys.argv[1:], pass_fds=[{pipe[0]}]))"
    command = (sys.executable, "-c", launcher if busy else program, *inner)
    try:
        with Server(store, command, pass_fds=[pipe[0]]) as server:
            server.initialize()
            if busy:
                remember(server, "hello")
                assert server.ask("ping")["result"] == {}
            server.process.kill()
            with leaves_in_time():
                # input stays open; output ends when the last process that holds it has gone
                assert server.rest() == []
            with Server(store) as second:
                second.initialize()
                assert second.call("remember", fact="hello")["id_str"] == "11831194018420276491"
    finally:
        os.close(pipe[0])
        os.close(pipe[1])


@posix
def test_a_cancelled_call_gets_no_answer_and_holds_nobody(tmp_path: Path) -> None:
    with gated(tmp_path / "store") as (server, gate):
        request = remember(server, "hello")
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})
        assert server.ask("ping")["result"] == {}
        os.write(gate, b"1")
        server.end_input()
        assert server.rest() == []
        assert server.process.wait(PATIENCE) == 0


@posix
def test_a_client_that_does_not_read_stops_only_itself(tmp_path: Path) -> None:
    """Its answers wait for it, and a signal still ends the server."""
    with subprocess.Popen(
        SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(tmp_path / "store")
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # an answer is longer than its request, so the pipe of answers is full first
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"no/such/method"}\n' * 5000)
        process.stdin.flush()
        assert process.stdout.read(1) == b"{"
        process.send_signal(signal.SIGTERM)
        with leaves_in_time():
            rest = process.stdout.read()
            assert process.wait(PATIENCE) == 0
        assert rest.endswith(b"}\n")
