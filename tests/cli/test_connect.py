"""``connect`` as a person calls it: shown first, written when agreed, taken back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cli.command import COMMAND, errors, run

SERVERS = b'{\n  // mine\n  "mcpServers": {\n    "other": {"command": "o"}, // old\n  },\n}\n'


def connect(home: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
    paths = {name: str(home) for name in ("HOME", "USERPROFILE")}
    clean = dict.fromkeys(("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"), "")
    return run("connect", *arguments, cwd=home, **{**clean, "APPDATA": str(home / "AppData"), **paths, **extra})


@pytest.fixture
def cursor(tmp_path: Path) -> Path:
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_bytes(SERVERS)
    return file


def test_the_change_is_shown_and_nothing_is_written_unless_somebody_agrees(cursor: Path, tmp_path: Path) -> None:
    for arguments, code in ((("cursor",), 1), (("cursor", "--print"), 0)):
        done = connect(tmp_path, *arguments)
        assert done.returncode == code, errors(done)
        assert b'+    "velesdb-memory": {' in done.stdout
        assert f"--- {cursor}" in done.stdout.decode()
        assert cursor.read_bytes() == SERVERS
        assert [path.name for path in cursor.parent.iterdir()] == ["mcp.json"]


def test_an_entry_is_written_with_absolute_paths_and_starts_a_server(cursor: Path, tmp_path: Path) -> None:
    done = connect(tmp_path, "cursor", "--yes", "--path", "~/notes")
    assert done.returncode == 0, errors(done)
    text = cursor.read_text()
    assert text.startswith('{\n  // mine\n  "mcpServers": {\n    "other": {"command": "o"}, // old\n')
    entry = json.loads(text[text.index('"velesdb-memory": ') + 18 :].rpartition(",\n  },")[0])
    assert Path(entry["command"]).is_absolute()
    assert entry["env"] == {"VELESDB_MEMORY_PATH": str(tmp_path / "notes")}
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    started = subprocess.run(
        [entry["command"], *entry["args"]],
        env={**os.environ, **entry["env"]},
        input=json.dumps(hello).encode() + b"\n",
        capture_output=True,
        timeout=60,
    )
    assert json.loads(started.stdout)["result"]["serverInfo"]["name"] == "velesdb-memory"
    assert str(tmp_path / "notes") in started.stderr.decode()
    done = connect(tmp_path, "cursor", "--yes", "--path", "~/notes")
    assert (done.returncode, b"already" in done.stdout) == (0, True)
    done = connect(tmp_path, "cursor", "--yes", "--undo")
    assert (done.returncode, cursor.read_bytes()) == (0, SERVERS)


def test_what_flags_and_variables_set_goes_into_the_entry_and_secrets_do_not(tmp_path: Path) -> None:
    secret = "s3cr3t-token"
    extra = {
        "VELESDB_MEMORY_EXTRACTOR": "openai",
        "VELESDB_MEMORY_EXTRACTOR_URL": "http://localhost:1",
        "VELESDB_MEMORY_EXTRACTOR_API_TOKEN": secret,
        "VELESDB_MEMORY_HTTP_PORT": "7",
    }
    done = connect(tmp_path, "claude-code", "--yes", "--scope", "project", "--autograph", **extra)
    assert done.returncode == 0, errors(done)
    text = (tmp_path / ".mcp.json").read_text()
    assert secret not in text + done.stdout.decode() + errors(done)
    assert json.loads(text)["mcpServers"]["velesdb-memory"]["env"] == {
        "VELESDB_MEMORY_EXTRACTOR": "openai",
        "VELESDB_MEMORY_EXTRACTOR_URL": "http://localhost:1",
        "VELESDB_MEMORY_AUTOGRAPH": "1",
        "VELESDB_MEMORY_EXTRACTOR_API_TOKEN": "${VELESDB_MEMORY_EXTRACTOR_API_TOKEN}",
    }
    done = connect(tmp_path, "claude-desktop", "--yes", "--file", "x.json", **extra)
    assert "VELESDB_MEMORY_EXTRACTOR_API_TOKEN" in done.stdout.decode().splitlines()[-1]
    assert secret not in (tmp_path / "x.json").read_text()


def test_over_https_the_entry_names_the_url_the_token_and_what_to_trust(tmp_path: Path) -> None:
    done = connect(
        tmp_path, "cursor", "--yes", "--http", "--http-port", "7777", VELESDB_MEMORY_HTTP_TOKEN="s3cr3t-token"
    )
    assert done.returncode == 0, errors(done)
    text = (tmp_path / ".cursor" / "mcp.json").read_text()
    assert json.loads(text)["mcpServers"]["velesdb-memory"] == {
        "url": "https://127.0.0.1:7777/mcp",
        "headers": {"Authorization": "Bearer ${env:VELESDB_MEMORY_HTTP_TOKEN}"},
    }
    notes = done.stdout.decode()
    assert "NODE_EXTRA_CA_CERTS=" in notes and "ca trust" in notes and "VELESDB_MEMORY_HTTP_TOKEN" in notes
    assert "s3cr3t" not in notes + text
    done = connect(tmp_path, "gemini", "--print", "--http", "--http-bind", "0.0.0.0:5", "--http-insecure")
    assert b'"httpUrl": "http://localhost:5/mcp"' in done.stdout
    assert b"Bearer ${VELESDB_MEMORY_HTTP_TOKEN}" in done.stdout
    done = connect(tmp_path, "zed", "--yes", "--url", "https://memory.example.com/mcp")
    assert done.returncode == 0, errors(done)
    assert "Authorization" in done.stdout.decode()
    assert "ca trust" not in done.stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nobody",), "nobody"),
        (("cursor", "--url", "ftp://x"), "--url"),
        (("cursor", "--http", "--http-port", "0"), "--http-port"),
        (("windsurf", "--scope", "project"), "--file"),
        (("cursor", "--extractor", "nosuch"), "--extractor"),
        (("cursor", "--frobnicate"), "--frobnicate"),
    ],
)
def test_d58_what_cannot_be_done_is_refused_by_name(arguments: tuple[str, ...], named: str, tmp_path: Path) -> None:
    done = connect(tmp_path, *arguments, "--yes")
    assert done.returncode in (1, 2)
    assert named in errors(done)
    assert list(tmp_path.iterdir()) == []


def test_a_malformed_file_is_refused_with_its_line_and_stays(cursor: Path, tmp_path: Path) -> None:
    cursor.write_bytes(b'{\n  "mcpServers": {\n    "a" 1\n  }\n}\n')
    before = cursor.read_bytes()
    for arguments in (("--yes",), ("--yes", "--undo")):
        done = connect(tmp_path, "cursor", *arguments)
        assert done.returncode == 1
        assert errors(done) == f"velesdb-memory: {cursor}: line 3, column 9: a colon is expected\n"
        assert cursor.read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("answer", "written"), [("y\n", True), ("\n", False), ("n\n", False)])
def test_a_person_is_asked(answer: str, written: bool, tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        [*COMMAND, "connect", "gemini"], stdin=theirs, capture_output=True, env=environment, timeout=60, cwd=tmp_path
    )
    os.close(ours)
    os.close(theirs)
    assert b"[y/N]" in done.stdout
    assert done.returncode == (0 if written else 1)
    assert (tmp_path / ".gemini" / "settings.json").exists() is written
