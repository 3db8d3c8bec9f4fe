from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from support.daemon import COMMAND, GATED, Daemon

Starter = Callable[..., Daemon]
Gated = Callable[..., "Gate"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon a module, as it comes; every request is logged."""
    with Daemon(tmp_path_factory.mktemp("daemon"), LOG="info") as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Starts a daemon of the test's own, with the flags and settings that it needs."""
    running: list[Daemon] = []

    def begin(*flags: str, command: Sequence[str] = COMMAND, **settings: str) -> Daemon:
        running.append(Daemon(tmp_path, *flags, command=command, **settings))
        return running[-1]

    yield begin
    for each in running:
        each.close()


class Gate:
    """What holds the calls of a gated daemon, one at a time."""

    def __init__(self, daemon: Daemon, handle: int) -> None:
        self.daemon = daemon
        self._handle = handle
        self._arrived = 0

    def wait(self) -> None:
        """Until the next call is at the gate."""
        self._arrived += 1
        self.daemon.wait_for("at the gate", self._arrived)

    def open(self) -> None:
        """Let one call through."""
        os.write(self._handle, b".")


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    """Starts a daemon that stops where a fact says "gate". ``patch`` is run before, ``options`` go to serve_http."""
    if sys.platform == "win32":
        pytest.skip("descriptors are not inherited this way there")
    running: list[Daemon] = []
    handles: list[int] = []

    def begin(patch: str = "", options: str = "{}", **settings: str) -> Gate:
        reading, writing = os.pipe()
        handles.extend((reading, writing))
        script = f"{patch}\nOPTIONS = {options}\n{GATED}"
        command = (sys.executable, "-c", script, str(reading))
        running.append(Daemon(tmp_path, command=command, pass_fds=(reading,), **settings))
        return Gate(running[-1], writing)

    yield begin
    for handle in handles[1::2]:
        os.write(handle, b"." * 100)
    for each in running:
        each.close()
    for handle in handles:
        os.close(handle)
