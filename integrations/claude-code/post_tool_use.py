"""A PostToolUse hook for Claude Code: a long output of Bash reaches the model shortened, and the original is kept.

Reads the event's JSON on standard input and always exits 0. It answers ``{}``, which leaves the output as it is, unless
every check passed. The shortening is ``velesdb-memory compile-stdin``: no store is opened, nothing leaves the machine.
It also marks a session that has recalled something, for hooks that want to know. Needs Python 3.9 or newer and nothing
else; installation and settings are in README.md beside this file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

COMPILE_SECONDS = 20
PROBE_BUDGET = 4_096
PROBE_TEXT = "User: is the build green?\n\nTool: build 17 is green, all 412 tests passed.\n"
BASH_RESULT = {"stdout": str, "stderr": str, "interrupted": bool, "isImage": bool}
RECALLS = {"recall", "recall_fused", "recall_where", "entity", "why"}

Answer = dict[str, Any]


class Doubt(Exception):
    """Something is not as it must be: the output stays as it is."""


def main() -> None:
    answer: Answer = {}
    # whatever happens here, the model gets its output
    with suppress(Exception):
        answer = decide(json.loads(sys.stdin.buffer.read()))
    print(json.dumps(answer))


def decide(event: Answer) -> Answer:
    """The answer to an event. Raises Doubt, or whatever an unexpected event leads to."""
    with suppress(Doubt, OSError):
        note_recall(event)
    tool = event["tool_name"]
    if tool != "Bash" or tool not in re.split(r"[,\s]+", os.environ.get("VELESDB_HOOK_COMPRESS_TOOLS", "Bash")):
        return {}
    response = event["tool_response"]
    text = text_of(response)
    if len(text.encode()) < setting("VELESDB_HOOK_MIN_BYTES", 12_000, 10**9):
        return {}
    budget = setting("VELESDB_HOOK_TOKEN_BUDGET", 2_000, 10**6)
    ceiling = setting("VELESDB_HOOK_TOKEN_BUDGET_MAX", 2 * budget, 10**6)
    least = setting("VELESDB_HOOK_MIN_SAVED_TOKENS", 128, 10**6)
    binary = shutil.which(os.environ.get("VELESDB_MEMORY_BIN") or "velesdb-memory")
    if binary is None or not works(binary, event["session_id"]):
        return {}
    compiled = run(binary, text, budget, f"{tool} output", COMPILE_SECONDS)
    if compiled["risk"] == "high" and ceiling > budget:
        compiled = run(binary, text, ceiling, f"{tool} output", COMPILE_SECONDS)
    if compiled["risk"] == "high":
        print("velesdb-memory: the output stays whole, a shorter one would lack something vital", file=sys.stderr)
    if compiled["risk"] not in ("low", "medium"):
        return {}
    require_account(compiled)
    return replaced(response, compiled, least)


def text_of(response: Any) -> str:
    """What a Bash result says. Raises Doubt for any other shape, and for an image."""
    if type(response) is not dict or any(type(response.get(key)) is not kind for key, kind in BASH_RESULT.items()):
        raise Doubt
    if response["isImage"]:
        raise Doubt
    return "\n".join(part for part in (response["stdout"], response["stderr"]) if part)


def setting(name: str, default: int, largest: int) -> int:
    """A plain decimal from the environment. Raises Doubt for anything else, and beyond ``largest``."""
    value = os.environ.get(name)
    if not value:
        return default
    if not re.fullmatch("[0-9]{1,10}", value) or int(value) > largest:
        raise Doubt
    return int(value)


# -- the command


def works(binary: str, session: str) -> bool:
    """Whether the command can do this, tried once for a session and a binary."""
    patience = setting("VELESDB_HOOK_PROBE_TIMEOUT", 10, 60)
    found = Path(binary).stat()
    marker = state("probe") / key(session, binary, str(found.st_mtime_ns), str(found.st_size))
    if not marker.exists():
        try:
            compiled = run(binary, PROBE_TEXT, PROBE_BUDGET, "build", patience)
            good = is_text(compiled["content"]) and compiled["risk"] in ("low", "medium", "high")
        except (Doubt, KeyError, OSError):
            good = False
        write(marker, "works" if good else "fails")
    return marker.read_text(encoding="utf-8") == "works"


def run(binary: str, text: str, budget: int, query: str, seconds: int) -> Answer:
    """What compile-stdin answers. Raises Doubt when it fails, answers with no object, or takes too long."""
    posix = os.name == "posix"
    process = subprocess.Popen(
        [binary, "compile-stdin", "--budget", str(budget), "--query", query],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=posix,
    )
    try:
        output, _ = process.communicate(text.encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        if posix:
            # what the command started itself must not go on either
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
        raise Doubt from None
    if process.returncode != 0:
        raise Doubt
    try:
        answer = json.loads(output)
    except ValueError:
        raise Doubt from None
    if type(answer) is not dict:
        raise Doubt
    return answer


def require_account(compiled: Answer) -> None:
    """Raises Doubt unless there is content, and its account adds up to a saving."""
    counts = [compiled[name] for name in ("tokens_in", "tokens_out", "tokens_saved")]
    if not is_text(compiled["content"]) or any(type(count) is not int or count < 0 for count in counts):
        raise Doubt
    before, after, saved = counts
    if after >= before or saved != before - after:
        raise Doubt


def is_text(value: Any) -> bool:
    return type(value) is str and value != ""


# -- what is kept


def replaced(response: Answer, compiled: Answer, least: int) -> Answer:
    """The answer with the shorter output, if it saves ``least`` tokens beside the note on where the whole one is."""
    archive = keep(response)
    try:
        note = (
            f"\n\n[velesdb-memory: shortened from {compiled['tokens_in']} to {compiled['tokens_out']} tokens, risk "
            f"{compiled['risk']}; the whole output, as JSON: {archive}]"
        )
        # a byte is at most a token
        if compiled["tokens_saved"] < least + len(note.encode()):
            raise Doubt
    except Exception:
        archive.unlink()
        raise
    output = {**response, "stdout": compiled["content"] + note, "stderr": ""}
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": output}}


def keep(response: Answer) -> Path:
    """A new private file with the whole result."""
    descriptor, name = tempfile.mkstemp(".json", "bash-", state("tool-output"))
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(response, file)
    return Path(name)


def state(name: str) -> Path:
    """A directory of this user's own. Raises Doubt when somebody else could have put something there."""
    owner = os.getuid() if hasattr(os, "getuid") else None
    top = Path(tempfile.gettempdir()) / f"velesdb-agent-hooks-{'user' if owner is None else owner}"
    for folder in (top, top / name):
        with suppress(FileExistsError):
            folder.mkdir(0o700)
        found = folder.lstat()
        # the temporary directory of Windows is the user's own
        private = owner is None or (found.st_uid == owner and not found.st_mode & 0o077)
        if not stat.S_ISDIR(found.st_mode) or not private:
            raise Doubt
    return top / name


def write(path: Path, text: str) -> None:
    """A file that appears whole, readable by its owner only."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).replace(path)


def key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


# -- recalls


def note_recall(event: Answer) -> None:
    """Mark the session when memory was asked and had something to say."""
    server, _, tool = event["tool_name"].rpartition("__")
    asked = tool in RECALLS or (tool == "compile_context" and event["tool_input"].get("memory_scope"))
    if server.startswith("mcp__") and asked and says_something(event["tool_response"]):
        write(state("recall") / key(event["session_id"]), event["cwd"])


def says_something(response: Any) -> bool:
    """Whether a tool's result is a text and no error."""
    if isinstance(response, dict):
        return not response.get("isError") and says_something(response.get("content"))
    if isinstance(response, list):
        return any(isinstance(block, dict) and says_something(block.get("text")) for block in response)
    return isinstance(response, str) and response.strip() != ""


if __name__ == "__main__":
    main()
