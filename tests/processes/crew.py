"""Starting workers and talking with them. Nothing here sleeps: every wait is for a line or an exit, with a deadline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty
from typing import Any

from support.pipes import follow

WORKER = Path(__file__).with_name("worker.py")
PATIENCE = 60.0  # seconds before a missing line fails the test


def number(name: str, default: int) -> int:
    """A size of a test, small by default: the environment asks for the full show."""
    return int(os.environ.get(name, default))


# The full show: SHOW_FACTS=500 SHOW_ROUNDS=20 SHOW_WRITES=2000
FACTS = number("SHOW_FACTS", 60)
ROUNDS = number("SHOW_ROUNDS", 3)
WRITES = number("SHOW_WRITES", 60)
FULL_SIZE = any(name in os.environ for name in ("SHOW_FACTS", "SHOW_ROUNDS", "SHOW_WRITES"))
SECONDS = 3_600 if FULL_SIZE else 100


def environment(**extra: str) -> dict[str, str]:
    """The environment of a process: nothing of the developer's own settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VELESDB_MEMORY_")}
    return {**inherited, **extra}


class Failed(AssertionError):
    """An operation of a worker raised."""


class Worker:
    """One process."""

    def __init__(self, store: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
        )
        self._lines, self._reader = follow(self.process.stdout)
        if store is not None:
            self.order("open", path=str(store))
            self.result()

    def order(self, do: str, **arguments: Any) -> None:
        """Begin an operation."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def message(self) -> dict[str, Any] | None:
        """The next line; None once the process has ended."""
        try:
            line = self._lines.get(timeout=SECONDS if FULL_SIZE else PATIENCE)
        except Empty:
            raise AssertionError("a worker does not answer") from None
        return json.loads(line) if line.endswith(b"\n") else None

    def acknowledged(self) -> Any:
        """The next acknowledgement."""
        message = self.message()
        assert message is not None and "ack" in message, message
        return message["ack"]

    def result(self) -> Any:
        """What the operation ended with, after its acknowledgements."""
        while (message := self.message()) is not None:
            if "failed" in message:
                raise Failed(message["failed"])
            if "done" in message:
                return message["done"]
        raise AssertionError(f"a worker has died: exit code {self.process.wait(PATIENCE)}")

    def __call__(self, do: str, /, **arguments: Any) -> Any:
        self.order(do, **arguments)
        return self.result()

    def kill(self) -> list[Any]:
        """End it as a power switch would; the acknowledgements that were still under way."""
        self.process.kill()
        left: list[Any] = []
        while (message := self.message()) is not None:
            left += [message["ack"]] if "ack" in message else []
        self._close()
        return left

    def stop(self) -> int:
        """Let it end by itself; the exit code."""
        with suppress(OSError, ValueError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def _close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def close(self) -> None:
        try:
            if self.process.poll() is None:
                self.stop()
        finally:
            self._close()


@contextmanager
def crew(size: int, store: Path | None = None) -> Iterator[list[Worker]]:
    """Several workers, each with ``store`` open."""
    workers = [Worker() for _ in range(size)]
    try:
        if store is not None:
            for worker in workers:
                worker.order("open", path=str(store))
            for worker in workers:
                worker.result()
        yield workers
    finally:
        for worker in workers:
            with suppress(OSError, ValueError):
                assert worker.process.stdin is not None
                worker.process.stdin.close()
        for worker in workers:
            worker.close()
