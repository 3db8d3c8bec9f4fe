"""Write docs/tools.md from the running server and docs/configuration.md from the table of settings.

With --check, exit 1 when a page is stale.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from velesdb_memory.config import FILE_NAME, PREFIX, SETTINGS, Setting
from velesdb_memory.server.reference import render

FOLDER = Path(__file__).parent

CONFIGURATION = f"""# Configuration

Generated from the table of settings by `python docs/generate.py`; do not edit.

A setting is given by a flag, by a variable of the environment, or in a file, and the first of these that gives it
decides. What is misspelt or malformed is an error that names it, and nothing is opened. `velesdb-memory config` prints
the settings in effect and where each comes from; what it prints is a file of settings again.

The file is the one of `--config`, else of `{PREFIX}CONFIG`, else `{FILE_NAME}` in the store's directory,
else `{FILE_NAME}` in the working directory. Paths in it are relative to it. Secrets cannot be in a file or on a
command line: a file gets copied, and every user of a machine can read its command lines. Settings marked `!` decide
whom content is sent to or who can reach it; a file that was only found in the working directory may have come with
somebody's project, and setting one of them there is an error.

In the environment, `1` is on and `0` is off, lists are separated as the flag shows, and `~` and variables in paths are
expanded. Every flag has a `--no-` form where it takes no value.

"""

EXAMPLE = """
## An example

```toml
default_ttl = 2592000
log = "warn"

[extractor]
backend = "ollama"
model = "llama3.2"

[graph]
autograph = true

[http]
bind = "127.0.0.1:18090"
max_sessions = 16
```
"""


def configuration() -> str:
    """The page of all settings, by the tables of the file."""
    tables: dict[str, list[Setting]] = {}
    for row in SETTINGS.values():
        tables.setdefault(row.key.rpartition(".")[0] if row.key else row.attribute.partition("_")[0], []).append(row)
    general = [row for name in ("path", "", "config") for row in tables.pop(name, [])]
    lines = [CONFIGURATION + "## General", *_rows(general)]
    for name, rows in tables.items():
        lines += ["", f"## `[{name}]`", *_rows(rows)]
    return "\n".join(lines) + "\n" + EXAMPLE


def _rows(rows: list[Setting]) -> list[str]:
    lines = ["", "| variable | flag | key | default | |", "|---|---|---|---|---|"]
    for row in rows:
        flag = f"`{row.flag} {row.kind.metavar}`".replace(" `", "`") if row.flag else "(secret)"
        default = f"`{row.default}`" if row.default else row.unset or "none"
        cells = (
            f"`{row.variable}`{' !' if row.guarded else ''}", flag, f"`{row.key}`" if row.key else "", default, row.text
        )  # fmt: skip
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return lines


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
    stale = False
    for name, page in (("tools.md", render(listed_tools())), ("configuration.md", configuration())):
        file = FOLDER / name
        if "--check" not in sys.argv[1:]:
            file.write_text(page, encoding="utf-8", newline="\n")
        elif not file.exists() or file.read_text(encoding="utf-8") != page:
            print(f"{name} is stale: run python docs/generate.py", file=sys.stderr)
            stale = True
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
