"""``compile-stdin``, as the process that hooks start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.command import COMMAND, PATIENCE, environment, errors, run
from velesdb_memory.context.compiler import ContextCompiler
from velesdb_memory.context.model import TranscriptRequest
from velesdb_memory.limits import MAX_TRANSCRIPT_BYTES

LOG = "".join(f"2026-11-02T10:{i // 60:02}:{i % 60:02}Z worker: retrying the connection\n" for i in range(400))
TURNS = "".join(f"User: this is question number {i}\n" for i in range(1_000))
ERROR = "2026-11-02T11:00:00Z ERROR the database refused the connection\n"


def compiled(text: str | bytes, *arguments: str) -> dict[str, Any]:
    """The answer: one line of JSON and nothing else anywhere."""
    done = run("compile-stdin", *arguments, input=text if isinstance(text, bytes) else text.encode())
    assert (done.returncode, errors(done)) == (0, "")
    assert done.stdout.endswith(b"\n") and done.stdout.count(b"\n") == 1
    return json.loads(done.stdout)


def refused(text: bytes, *arguments: str, code: int = 1) -> str:
    done = run("compile-stdin", *arguments, input=text)
    assert (done.returncode, done.stdout) == (code, b"")
    assert errors(done)
    return errors(done)


def test_a_log_is_compiled_and_accounted_for() -> None:
    answer = compiled(LOG + ERROR)
    assert list(answer) == ["content", "tokens_in", "tokens_out", "tokens_saved", "risk"]
    assert "retrying the connection (x400)" in answer["content"]
    assert ERROR.strip() in answer["content"]
    assert answer["tokens_saved"] == answer["tokens_in"] - answer["tokens_out"] > 0
    assert answer["risk"] in ("low", "medium")


def test_it_answers_what_the_library_answers() -> None:
    text = f"System: be brief\n\nUser: why?\n\nTool: {LOG}\n\nAssistant: naïve – 漢字 – 😅\r\n\x1c"
    context = ContextCompiler().compile_transcript(TranscriptRequest("why 漢字", text, 300)).context
    answer = compiled(text, "--budget", "300", "--query", "why 漢字")
    assert answer == {
        "content": context.content,
        "tokens_in": context.insights.tokens_in,
        "tokens_out": context.insights.tokens_out,
        "tokens_saved": context.insights.tokens_saved,
        "risk": context.risk,
    }


def test_the_budget_is_2000_tokens_unless_said_otherwise() -> None:
    answer = compiled(TURNS)
    assert 1_500 < answer["tokens_out"] <= 2_000
    assert answer == compiled(TURNS, "--budget", "2000") == compiled(TURNS, "--query", "")
    assert 400 < compiled(TURNS, "--budget", "500")["tokens_out"] <= 500


def test_the_query_decides_what_is_kept() -> None:
    assert "number 777" not in compiled(TURNS, "--budget", "100")["content"]
    assert "number 777" in compiled(TURNS, "--budget", "100", "--query", "777")["content"]


def test_values_stand_behind_a_space_or_an_equals_sign_and_the_last_one_counts() -> None:
    again = compiled(TURNS, "--budget", "5000", "--query", "777", "--budget", "60", "--query=")
    assert compiled(TURNS, "--budget=60") == again


def test_the_same_input_gives_the_same_bytes() -> None:
    first, second = (run("compile-stdin", "--query", "database", input=(LOG + ERROR).encode()) for _ in range(2))
    assert first.stdout == second.stdout


@pytest.mark.parametrize("text", ["", " ", "\n\n\r\n", "\u00a0\u2028\u3000\t"])
def test_a_blank_input_is_refused(text: str) -> None:
    assert "standard input" in refused(text.encode())


@pytest.mark.parametrize("data", [b"caf\xe9", b"a\xed\xa0\x80", b"\xff\xfeh\0i\0", b"tail \xe2\x82"])
def test_an_input_that_is_not_utf8_is_refused(data: bytes) -> None:
    assert "UTF-8" in refused(data)


def test_when_nothing_fits_the_caller_is_told_to_keep_the_original() -> None:
    # one word cannot be cut
    told = refused(b"0123456789" * 200, "--budget", "5")
    assert "5" in re.findall("[0-9]+", told) and "2000" in re.findall("[0-9]+", told)


def test_the_largest_input_is_taken_and_one_byte_more_is_not() -> None:
    line = b"the same line again and again\n"
    largest = (line * (MAX_TRANSCRIPT_BYTES // len(line) + 1))[:MAX_TRANSCRIPT_BYTES]
    assert compiled(largest)["tokens_saved"] > 0
    assert str(MAX_TRANSCRIPT_BYTES) in refused(largest + b"x")


def test_an_input_without_an_end_is_refused_and_not_read_for_ever() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import sys\nwhile True: sys.stdout.write('endless\\n' * 10_000)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as writer:
        done = subprocess.run(
            [*COMMAND, "compile-stdin"], stdin=writer.stdout, capture_output=True, timeout=PATIENCE, env=environment()
        )
        writer.kill()
    assert (done.returncode, done.stdout) == (1, b"")
    assert str(MAX_TRANSCRIPT_BYTES).encode() in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--budget", "0"),
        ("--budget", "-5"),
        ("--budget", "2e3"),
        ("--budget", "1.5"),
        ("--budget", " 5"),
        ("--budget", "+5"),
        ("--budget", "٣"),
        ("--budget", ""),
        ("--budget", "9" * 5_000),
        ("--budget",),
        ("--query",),
        ("--frobnicate",),
        ("--bud", "5"),
        ("file",),
    ],
)
def test_d58_misuse_exits_2_and_names_what_is_wrong(arguments: tuple[str, ...]) -> None:
    told = refused(LOG.encode(), *arguments, code=2)
    assert arguments[0].removeprefix("--") in told
    assert len(told) < 1_500


def test_d58_help_says_what_it_takes() -> None:
    done = run("compile-stdin", "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert {b"--budget", b"--query", b"2000)"} <= set(done.stdout.split())
    assert b"compile-stdin" in run("--help").stdout


def test_no_store_is_opened_and_no_setting_is_read(tmp_path: Path) -> None:
    done = run(
        "compile-stdin",
        input=LOG.encode(),
        store=tmp_path / "store",
        cwd=tmp_path,
        VELESDB_MEMORY_DEFAULT_TTL="soon",
        VELESDB_MEMORY_NO_SUCH_SETTING="1",
        VELESDB_MEMORY_EMBEDDER="nosuch",
    )
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_nothing_heavy_is_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "velesdb_memory", "compile-stdin"],
        input=LOG.encode(),
        capture_output=True,
        timeout=PATIENCE,
        env=environment(),
    )
    assert done.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "velesdb_memory.context.compiler" in loaded
    assert not {"numpy", "sqlite3", "mcp", "anyio", "httpx2", "rich", "simsimd", "asyncio", "pydantic"} & loaded
    ours = re.compile(r"velesdb_memory\.(server|store|service|memory|embed|extract)\b")
    assert not {name for name in loaded if ours.match(name)}


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "cp1252", "LC_ALL": "C"}])
def test_the_output_is_utf8_in_any_locale(locale: dict[str, str]) -> None:
    done = run("compile-stdin", input="naïve – 漢字 – 😅\n".encode(), PYTHONCOERCECLOCALE="0", **locale)
    assert "naïve – 漢字 – 😅".encode() in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="closing a descriptor before a program starts is POSIX's")
def test_a_closed_standard_input_is_an_error() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'"{sys.executable}" -m velesdb_memory compile-stdin <&-'],
        capture_output=True,
        timeout=PATIENCE,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"standard input" in done.stderr and b"Traceback" not in done.stderr


@settings(max_examples=10, deadline=None)
@given(st.text(max_size=300), st.integers(1, 60))
def test_any_text_is_compiled_within_its_budget_or_refused(text: str, budget: int) -> None:
    done = run("compile-stdin", "--budget", str(budget), input=text.encode())
    if done.returncode:
        assert (done.returncode, done.stdout) == (1, b"")
    else:
        answer = json.loads(done.stdout)
        assert answer["content"] and answer["tokens_out"] <= budget
