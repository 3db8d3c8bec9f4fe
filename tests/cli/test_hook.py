"""The PostToolUse hook of integrations/claude-code, as the process that the client starts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOOK = Path(__file__).parents[2] / "integrations" / "claude-code" / "post_tool_use.py"
LOG = "".join(f"2026-11-02T10:{i // 60:02}:{i % 60:02}Z worker: retrying the connection\n" for i in range(600))
WINDOWS = sys.platform == "win32"

# Stands for the command: writes down how it was called, and answers from a list, the last answer for ever
FAKE = """
import json, os, pathlib, sys, time
home = pathlib.Path(__file__).parent
with open(home / "calls.jsonl", "a", encoding="utf-8") as calls:
    text = sys.stdin.buffer.read().decode()
    calls.write(json.dumps({"arguments": sys.argv[1:], "input": text}) + "\\n")
answers = json.loads((home / "answers.json").read_text(encoding="utf-8"))
answer = answers.pop(0)
if answers:
    (home / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
if answer == "hang":
    time.sleep(600)
if isinstance(answer, int):
    print("it failed", file=sys.stderr)
    sys.exit(answer)
print(answer if isinstance(answer, str) else json.dumps(answer))
"""


def compiled(**changes: Any) -> dict[str, Any]:
    good = {"content": "short", "tokens_in": 9_000, "tokens_out": 2, "tokens_saved": 8_998, "risk": "low"}
    return {**good, **changes}


class Client:
    """Claude Code, as far as the hook can see."""

    def __init__(self, home: Path) -> None:
        self.bin = home / "bin"
        self.temp = home / "temp"
        for folder in (self.bin, self.temp):
            folder.mkdir()
        named = {"PATH": str(self.bin), "TMPDIR": str(self.temp), "TEMP": str(self.temp), "TMP": str(self.temp)}
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("VELESDB_")},
            **named,
        }

    def install(self, *answers: Any, name: str = "velesdb-memory") -> None:
        """A command that gives ``answers``; none: the real one."""
        program = "-m velesdb_memory"
        if answers:
            (self.bin / "fake.py").write_text(FAKE, encoding="utf-8")
            (self.bin / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
            program = f'"{self.bin / "fake.py"}"'
        if WINDOWS:
            (self.bin / f"{name}.cmd").write_text(f'@"{sys.executable}" {program} %*\n', encoding="utf-8")
        else:
            launcher = self.bin / name
            launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" {program} "$@"\n', encoding="utf-8")
            launcher.chmod(0o755)

    @property
    def calls(self) -> list[dict[str, Any]]:
        log = self.bin / "calls.jsonl"
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []

    def send(self, data: bytes, **settings: str) -> tuple[Any, str]:
        done = subprocess.run(
            [sys.executable, str(HOOK)],
            input=data,
            capture_output=True,
            timeout=60,
            env={**self.environment, **settings},
        )
        assert done.returncode == 0
        return json.loads(done.stdout), done.stderr.decode()

    def bash(self, stdout: str = LOG, stderr: str = "", **settings: str) -> dict[str, Any] | None:
        """What becomes of a result of Bash; None: it is left as it is."""
        return self.result({"stdout": stdout, "stderr": stderr, "interrupted": False, "isImage": False}, **settings)

    def result(self, response: Any, tool: str = "Bash", session: str = "s1", **settings: str) -> dict[str, Any] | None:
        event = {"tool_name": tool, "session_id": session, "cwd": "/here", "tool_response": response}
        answer, _ = self.send(json.dumps(event).encode(), **settings)
        if answer == {}:
            return None
        output = answer["hookSpecificOutput"]
        assert list(answer) == ["hookSpecificOutput"]
        assert output["hookEventName"] == "PostToolUse"
        return output["updatedToolOutput"]

    def state(self, name: str) -> list[Path]:
        return list(self.temp.glob(f"velesdb-agent-hooks-*/{name}/*"))


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


# -- the real command -----------------------------------------------------------------------------------------------


def test_a_long_log_is_shortened_and_its_original_is_kept(client: Client) -> None:
    client.install()
    error = "ERROR the database refused the connection\n"
    original = {"stdout": LOG + error, "stderr": "warning: slow", "interrupted": False, "isImage": False, "extra": [1]}
    output = client.result(original)
    assert output is not None
    assert {**output, "stdout": "", "stderr": ""} == {**original, "stdout": "", "stderr": ""}
    assert output["stderr"] == ""
    assert len(output["stdout"]) < len(LOG) / 4
    assert "retrying the connection" in output["stdout"]
    [archive] = client.state("tool-output")
    assert str(archive) in output["stdout"]
    assert json.loads(archive.read_text(encoding="utf-8")) == original


# -- what is shipped ------------------------------------------------------------------------------------------------


def test_the_command_is_called_with_both_outputs_the_budget_and_a_query(client: Client) -> None:
    client.install(compiled())
    output = client.bash("o" * 12_000, "é" * 100)
    assert output is not None and output["stdout"].startswith("short\n")
    probe, call = client.calls
    assert probe["arguments"][:3] == ["compile-stdin", "--budget", "4096"]
    assert call == {
        "arguments": ["compile-stdin", "--budget", "2000", "--query", "Bash output"],
        "input": "o" * 12_000 + "\n" + "é" * 100,
    }


def test_an_output_on_one_stream_alone_is_not_joined(client: Client) -> None:
    client.install(compiled())
    client.bash("", "e" * 12_000)
    client.bash("o" * 12_000, "")
    assert [call["input"] for call in client.calls[1:]] == ["e" * 12_000, "o" * 12_000]


def test_the_footer_says_how_much_at_what_risk_and_where_the_whole_is(client: Client) -> None:
    client.install(compiled(risk="medium"))
    output = client.bash()
    assert output is not None
    [archive] = client.state("tool-output")
    for part in ("9000", "2 tokens", "medium", str(archive)):
        assert part in output["stdout"]


def test_a_high_risk_is_tried_once_more_with_the_larger_budget(client: Client) -> None:
    client.install(compiled(), compiled(risk="high"), compiled(content="longer"))
    output = client.bash()
    assert output is not None and output["stdout"].startswith("longer")
    assert [call["arguments"][2] for call in client.calls] == ["4096", "2000", "4000"]


def test_a_risk_that_stays_high_leaves_the_output_and_says_so(client: Client) -> None:
    client.install(compiled(), compiled(risk="high"))
    event = {"tool_name": "Bash", "session_id": "s", "cwd": "/", "tool_response": None}
    event["tool_response"] = {"stdout": LOG, "stderr": "", "interrupted": False, "isImage": False}
    answer, notes = client.send(json.dumps(event).encode())
    assert answer == {}
    assert "velesdb-memory" in notes
    assert [call["arguments"][2] for call in client.calls] == ["4096", "2000", "4000"]
    assert client.state("tool-output") == []


def test_a_ceiling_at_the_budget_means_no_second_try(client: Client) -> None:
    client.install(compiled(), compiled(risk="high"))
    budgets = {"VELESDB_HOOK_TOKEN_BUDGET": "700", "VELESDB_HOOK_TOKEN_BUDGET_MAX": "700"}
    assert client.bash(**budgets) is None
    assert [call["arguments"][2] for call in client.calls] == ["4096", "700"]


# -- what is left as it is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"{", b"null", b"[]", b'"x"', b"{}", b'{"tool_name": 5}', b"\xff", b"[" * 9_000])
def test_an_event_that_is_none_is_left_alone(data: bytes, client: Client) -> None:
    client.install(compiled())
    assert client.send(data)[0] == {}
    assert client.calls == []


RESULT = {"stdout": LOG, "stderr": "", "interrupted": False, "isImage": False}


@pytest.mark.parametrize(
    "response",
    [
        None,
        LOG,
        [RESULT],
        {**RESULT, "isImage": True},
        {**RESULT, "isImage": None},
        {**RESULT, "isImage": 0},
        {**RESULT, "interrupted": "no"},
        {**RESULT, "stderr": None},
        {**RESULT, "stdout": ["x"]},
        {"stdout": LOG, "stderr": ""},
        {**RESULT, "stdout": LOG + "\ud800"},
    ],
)
def test_a_result_of_another_shape_is_left_alone(response: Any, client: Client) -> None:
    client.install(compiled())
    assert client.result(response) is None
    assert client.calls == []


@pytest.mark.parametrize("tool", ["Read", "bash", "BashOutput", "mcp__memory__Bash", ""])
def test_another_tool_is_left_alone(tool: str, client: Client) -> None:
    client.install(compiled())
    assert client.result(RESULT, tool, VELESDB_HOOK_COMPRESS_TOOLS=f"{tool},Read") is None
    assert client.calls == []


@pytest.mark.parametrize(("tools", "on"), [("Read", False), ("none", False), ("Read, Bash", True), ("Bash", True)])
def test_the_list_of_tools_can_switch_it_off(tools: str, on: bool, client: Client) -> None:
    client.install(compiled())
    assert (client.bash(VELESDB_HOOK_COMPRESS_TOOLS=tools) is not None) is on


def test_the_smallest_size_is_counted_in_bytes(client: Client) -> None:
    client.install(compiled())
    assert client.bash("é" * 5_999 + "x") is None
    assert client.calls == []
    assert client.bash("é" * 6_000) is not None
    assert client.bash("x" * 99, VELESDB_HOOK_MIN_BYTES="100") is None
    assert client.bash("x" * 100, VELESDB_HOOK_MIN_BYTES="100") is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MIN_BYTES", "1e3"),
        ("MIN_BYTES", "-1"),
        ("MIN_BYTES", "1000000001"),
        ("MIN_BYTES", " 12000"),
        ("MIN_BYTES", "٣"),
        ("TOKEN_BUDGET", "1000001"),
        ("TOKEN_BUDGET", "2k"),
        ("TOKEN_BUDGET_MAX", "0x10"),
        ("TOKEN_BUDGET_MAX", "1000001"),
        ("MIN_SAVED_TOKENS", "1.5"),
        ("MIN_SAVED_TOKENS", "9" * 5_000),
        ("PROBE_TIMEOUT", "61"),
        ("PROBE_TIMEOUT", "ten"),
    ],
)
def test_a_number_that_is_no_plain_decimal_in_range_leaves_everything_alone(
    name: str, value: str, client: Client
) -> None:
    client.install(compiled())
    assert client.bash(**{f"VELESDB_HOOK_{name}": value}) is None
    assert client.calls == []


def test_a_command_that_is_not_there_leaves_the_output_alone(client: Client) -> None:
    assert client.bash() is None
    client.install(compiled(), name="my-memory")
    assert client.bash() is None
    assert client.bash(VELESDB_MEMORY_BIN="my-memory") is not None
    assert client.bash(VELESDB_MEMORY_BIN=str(client.bin / ("my-memory.cmd" if WINDOWS else "my-memory"))) is not None


BAD = [
    1,
    3,
    "",
    "no json",
    "[]",
    '{"content": "short"}',
    compiled(content=""),
    compiled(content=None),
    compiled(risk="none"),
    compiled(risk="LOW"),
    compiled(risk=None),
]


@pytest.mark.parametrize("answer", BAD)
def test_a_probe_that_does_not_convince_switches_it_off_for_the_session(answer: Any, client: Client) -> None:
    client.install(answer, compiled())
    assert client.bash() is None
    assert client.bash() is None
    assert len(client.calls) == 1
    # another session asks again
    assert client.result(RESULT, session="s2") is not None


def test_the_probe_is_made_once_for_a_session_and_a_command(client: Client) -> None:
    client.install(compiled())
    for _ in range(2):
        assert client.bash() is not None
    assert [call["arguments"][2] for call in client.calls] == ["4096", "2000", "2000"]
    launcher = next(path for path in client.bin.iterdir() if path.stem == "velesdb-memory")
    launcher.write_text(launcher.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert client.bash() is not None
    assert [call["arguments"][2] for call in client.calls[3:]] == ["4096", "2000"]


def test_a_probe_that_hangs_is_ended(client: Client) -> None:
    client.install("hang", compiled())
    assert client.bash(VELESDB_HOOK_PROBE_TIMEOUT="1") is None
    assert client.bash() is None
    assert len(client.calls) == 1


@pytest.mark.parametrize(
    "answer",
    [
        *BAD,
        compiled(tokens_out=9_000, tokens_saved=0),
        compiled(tokens_out=9_001, tokens_saved=0),
        compiled(tokens_saved=8_997),
        compiled(tokens_in=-1),
        compiled(tokens_out=-2, tokens_saved=9_002),
        compiled(tokens_in=9_000.0),
        compiled(tokens_out="2"),
        compiled(tokens_in=True, tokens_out=False, tokens_saved=True),
    ],
)
def test_an_answer_that_does_not_add_up_leaves_the_output_alone(answer: Any, client: Client) -> None:
    client.install(compiled(), answer)
    assert client.bash(VELESDB_HOOK_MIN_SAVED_TOKENS="0") is None
    assert client.state("tool-output") == []


def test_a_saving_must_pay_for_the_footer_in_bytes(client: Client) -> None:
    client.install(compiled())
    output = client.bash(VELESDB_HOOK_MIN_SAVED_TOKENS="0")
    assert output is not None
    footer = len(output["stdout"].removeprefix("short").encode())
    least = 8_998 - footer
    shutil.rmtree(client.state("tool-output")[0].parent)
    # the archive's random name always has the same length
    assert client.bash(VELESDB_HOOK_MIN_SAVED_TOKENS=str(least + 1)) is None
    assert client.state("tool-output") == []
    assert client.bash(VELESDB_HOOK_MIN_SAVED_TOKENS=str(least)) is not None


# -- what is kept, and where ----------------------------------------------------------------------------------------

posix = pytest.mark.skipif(WINDOWS, reason="owners and modes of POSIX")


@posix
def test_everything_that_is_kept_is_the_users_alone(client: Client) -> None:
    client.install(compiled())
    assert client.bash() is not None
    [top] = client.temp.iterdir()
    assert top.name == f"velesdb-agent-hooks-{os.getuid()}"
    for path in [top, *top.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def spoil_by_link(client: Client, folder: Path) -> None:
    elsewhere = client.temp / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


def spoil_by_mode(client: Client, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    folder.chmod(0o755)


def spoil_by_file(client: Client, folder: Path) -> None:
    folder.touch(mode=0o600)


@posix
@pytest.mark.parametrize("spoil", [spoil_by_link, spoil_by_mode, spoil_by_file])
@pytest.mark.parametrize("name", ["", "tool-output", "probe"])
def test_a_place_that_is_not_the_users_alone_is_not_used(
    name: str, spoil: Callable[[Client, Path], None], client: Client
) -> None:
    client.install(compiled())
    top = client.temp / f"velesdb-agent-hooks-{os.getuid()}"
    if name:
        top.mkdir(mode=0o700)
    spoil(client, top / name if name else top)
    assert client.bash() is None
    assert not list(client.temp.glob("elsewhere/*"))


@posix
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a directory away")
def test_a_place_of_another_user_is_not_used(client: Client) -> None:
    client.install(compiled())
    top = client.temp / f"velesdb-agent-hooks-{os.getuid()}"
    top.mkdir(mode=0o700)
    os.chown(top, 12_345, -1)
    assert client.bash() is None


# -- recalls --------------------------------------------------------------------------------------------------------

SAID = [{"type": "text", "text": '{"memories": []}'}]


def recalled(client: Client, tool: str, response: Any, **more: Any) -> bool:
    event = {"tool_name": tool, "session_id": "s1", "cwd": "/here", "tool_input": {}, "tool_response": response, **more}
    assert client.send(json.dumps(event).encode())[0] == {}
    marks = client.state("recall")
    assert all(mark.read_text(encoding="utf-8") == "/here" for mark in marks)
    return len(marks) == 1


@pytest.mark.parametrize("tool", ["recall", "recall_fused", "recall_where", "entity", "why"])
@pytest.mark.parametrize("response", [SAID, {"content": SAID}, '{"found": true}'])
def test_a_recall_with_an_answer_marks_its_session(tool: str, response: Any, client: Client) -> None:
    assert recalled(client, f"mcp__memory__{tool}", response)


def test_a_compilation_counts_as_a_recall_when_it_pulls_memories(client: Client) -> None:
    assert not recalled(client, "mcp__memory__compile_context", SAID)
    assert not recalled(client, "mcp__memory__compile_context", SAID, tool_input={"memory_scope": None})
    assert recalled(client, "mcp__memory__compile_context", SAID, tool_input={"memory_scope": {"k": 3}})


@pytest.mark.parametrize(
    ("tool", "response"),
    [
        ("mcp__memory__remember", SAID),
        ("recall", SAID),
        ("memory__recall", SAID),
        ("mcp__memory__recall", []),
        ("mcp__memory__recall", None),
        ("mcp__memory__recall", "  "),
        ("mcp__memory__recall", [{"type": "text", "text": ""}]),
        ("mcp__memory__recall", [{"type": "image", "data": "AAAA"}]),
        ("mcp__memory__recall", {"isError": True, "content": SAID}),
    ],
)
def test_anything_else_is_no_recall(tool: str, response: Any, client: Client) -> None:
    assert not recalled(client, tool, response)
