"""Write docs/tools.md from the running server; with --check, exit 1 when the page is stale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from velesdb_memory.server.reference import render

PAGE = Path(__file__).with_name("tools.md")


def listed_tools() -> list[dict[str, Any]]:
    """What a server that was just started answers to tools/list."""
    client = {"name": "docs", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "velesdb_memory"],
            env={**os.environ, "VELESDB_MEMORY_PATH": folder},
            input="".join(json.dumps(message) + "\n" for message in messages),
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=True,
        )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    return answers[2]["result"]["tools"]


def main() -> int:
    page = render(listed_tools())
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page, encoding="utf-8", newline="\n")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print(f"{PAGE.name} is stale: run python docs/generate.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
