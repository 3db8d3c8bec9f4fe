"""Running the command as a person's shell does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from velesdb_memory import MemoryService

COMMAND = (sys.executable, "-m", "velesdb_memory")
PATIENCE = 60.0


def environment(store: Path | None = None, **extra: str) -> dict[str, str]:
    """Nothing of the developer's own settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("VELESDB_MEMORY_", "LC_"))}
    return {**clean, **({} if store is None else {"VELESDB_MEMORY_PATH": str(store)}), **extra}


def run(
    *arguments: str,
    store: Path | None = None,
    input: bytes = b"",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    **extra: str,
) -> subprocess.CompletedProcess[bytes]:
    """One command from start to end."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=input,
        capture_output=True,
        timeout=PATIENCE,
        cwd=cwd,
        env=environment(store, **extra) if env is None else env,
    )
    # trouble is told, not thrown
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def errors(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode()


def jsonl(*objects: Any) -> bytes:
    return b"".join(json.dumps(item, ensure_ascii=False).encode() + b"\n" for item in objects)


def parsed(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().splitlines()]


def exported(store: Path, *, internal: bool = False) -> list[dict[str, Any]]:
    """What an export holds, without the manifest, whose time differs. By the library: a process takes long to start."""
    with MemoryService(store) as memory:
        _, *lines = memory.export(internal)
        return lines
