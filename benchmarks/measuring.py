"""What the benchmarks measure with: a client for a server of its own, the memory of a process, the machine."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np

from velesdb_memory import __version__

SETTINGS: Final = "VELESDB_MEMORY_"


class Client:
    """The least that speaks MCP to a server of its own."""

    def __init__(self, folder: Path) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "velesdb_memory"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**inherited, f"{SETTINGS}PATH": str(folder), f"{SETTINGS}QUIET": "1"},
        )
        self._number = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        if answer.get("id") != self._number or "result" not in answer:
            raise SystemExit(f"the server answered {answer}")
        return answer["result"]

    def begin(self) -> None:
        self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "speed", "version": "1"},
        )
        self.send({"method": "notifications/initialized"})
        self.ask("tools/list")

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def resident_memory(pid: int) -> tuple[float | None, float | None]:
    """Megabytes that a process holds, and those of them that are its own rather than mapped files."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        try:
            told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], stdout=subprocess.PIPE, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return None, None
        return int(told) / 1e3, None
    sizes = {words[0].rstrip(":"): int(words[1]) for words in map(str.split, rollup.splitlines()[1:])}
    return sizes["Rss"] / 1e3, sizes["Anonymous"] / 1e3


def machine() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "numpy": np.__version__,
        "simsimd": _version("simsimd"),
        "velesdb_memory": __version__,
        "durability": "full (WAL, synchronous=FULL) unless a row says otherwise",
    }


def _cpu() -> str:
    try:
        for row in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if row.startswith("model name"):
                return row.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
