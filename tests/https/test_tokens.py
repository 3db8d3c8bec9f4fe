"""Who may use the daemon (D56)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from https.conftest import Gated, Starter
from support.daemon import MODERN, Daemon, environment, hello, message_of
from velesdb_memory.errors import InvalidArgument
from velesdb_memory.server.auth import Tokens, bearer

READ_ONLY = {"entity", "extraction_status", "list_memories", "memory_status", "recall", "recall_where", "why"}


def token(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "velesdb_memory", "token", *arguments]
    return subprocess.run(command, env=environment(folder), capture_output=True, text=True, timeout=60)


def create(folder: Path, name: str, *options: str) -> str:
    made = token(folder, "create", name, *options)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def status(daemon: Daemon, secret: str | None, scheme: str = "Bearer") -> int:
    headers = {"accept": "application/json"} | ({} if secret is None else {"authorization": f"{scheme} {secret}"})
    return daemon.client().post("/mcp", json=hello(), headers=headers).status_code


def test_a_token_is_shown_once_and_only_its_hash_is_kept_readable_by_its_owner(tmp_path: Path) -> None:
    secret = create(tmp_path, "laptop")
    assert re.fullmatch(r"vmt_[A-Za-z0-9_-]{43}", secret)
    [file] = (tmp_path / "store" / "tokens").iterdir()
    assert secret not in file.read_text(encoding="utf-8")
    if os.name != "nt":
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
    again = token(tmp_path, "create", "laptop")
    assert again.returncode == 1 and again.stdout == "" and "laptop" in again.stderr
    create(tmp_path, "reader", "--read-only")
    listed = token(tmp_path, "list").stdout.splitlines()
    assert [line.split()[:2] for line in listed] == [["laptop", "read-write"], ["reader", "read-only"]]
    assert token(tmp_path, "revoke", "laptop").returncode == 0
    assert token(tmp_path, "revoke", "laptop").returncode == 1
    assert [line.split()[0] for line in token(tmp_path, "list").stdout.splitlines()] == ["reader"]


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", ".hidden", "é", "x" * 65, "-x", "a\n"])
def test_a_name_that_is_no_plain_word_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match="name"):
        Tokens(tmp_path).create(name)
    with pytest.raises(InvalidArgument):
        Tokens(tmp_path).revoke(name)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_gives_nobody_access_and_hides_no_other_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    secret = tokens.create("good")
    (tmp_path / "tokens" / "bad.json").write_text('{"name": "bad"', encoding="utf-8")
    (tmp_path / "tokens" / "worse.json").write_bytes(b"\xff\xfe")
    found = tokens.match(secret)
    assert found is not None and found.name == "good"
    assert tokens.match("") is None and tokens.match("vmt_\udcff") is None
    assert [each.name for each in tokens.stored()] == ["good"]


@pytest.mark.parametrize(
    ("header", "secret"),
    [
        (None, None), ("", None), ("Bearer", None), ("Bearer ", None), ("Basic abc", None), ("bearer abc", "abc"),
        ("BEARER  abc ", "abc"), ("Bearer a b", "a b"), ("Bearerabc", None),
    ],
)  # fmt: skip
def test_a_bearer_token_is_read_as_the_standard_has_it(header: str | None, secret: str | None) -> None:
    assert bearer(header) == secret


def test_D56_on_this_machine_a_token_is_optional_and_a_bad_one_is_refused(start: Starter, tmp_path: Path) -> None:
    daemon = start(LOG="info")
    secret = create(tmp_path, "laptop")
    assert status(daemon, None) == 200
    assert status(daemon, secret) == 200
    assert status(daemon, secret, "bearer") == 200
    assert status(daemon, "user:password", "Basic") == 200
    for wrong in (secret[:-1], secret + "x", secret.upper(), "laptop", "x" * 10_000):
        assert status(daemon, wrong) == 401
    token(tmp_path, "revoke", "laptop")
    assert status(daemon, secret) == 401
    daemon.wait_for("status=401", 6)
    assert secret not in "\n".join(daemon.lines)


def test_a_token_can_be_required_on_this_machine_too(start: Starter, tmp_path: Path) -> None:
    daemon = start(HTTP_REQUIRE_TOKEN="1")
    daemon.wait_for("velesdb-memory token create")
    answer = daemon.client().post("/mcp", json=hello())
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="velesdb-memory"'
    answer = daemon.client(authorization="Bearer nonsense").post("/mcp", json=hello())
    assert answer.status_code == 401 and 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert daemon.client().get("/health").status_code == 200
    # no restart is needed
    assert daemon.session(authorization=f"Bearer {create(tmp_path, 'late')}").tools()


def test_D56_beyond_this_machine_a_token_is_required(start: Starter, tmp_path: Path) -> None:
    secret = create(tmp_path, "laptop")
    daemon = start(HTTP_BIND="0.0.0.0:0", HTTP_ALLOW_REMOTE="1", HTTP_ALLOWED_HOSTS="memory.example")
    daemon.host = "127.0.0.1"
    daemon.url = f"https://127.0.0.1:{daemon.port}"
    assert status(daemon, None) == 401 and status(daemon, secret) == 200


def test_the_token_of_the_environment_is_required_and_is_not_said(start: Starter, tmp_path: Path) -> None:
    daemon = start(HTTP_TOKEN="from-the-environment", LOG="info")
    assert status(daemon, None) == 401 and status(daemon, "from-the-environment") == 200
    assert status(daemon, create(tmp_path, "stored")) == 200
    assert "from-the-environment" not in "\n".join(daemon.lines)


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
def test_a_read_only_token_reads_and_is_refused_each_tool_that_writes(
    daemon: Daemon, version: str
) -> None:
    secret = create(daemon.folder, f"reader-{version}", "--read-only")
    writer, reader = daemon.session(version), daemon.session(version, authorization=f"Bearer {secret}")
    stored = writer.call("remember", fact="what readers may see")["id_str"]
    assert reader.call("recall", query="readers", k=1)["memories"][0]["id_str"] == stored
    offered = reader.tools()
    assert READ_ONLY <= set(offered) < set(writer.tools())
    for name in set(writer.tools()) - set(offered):
        answer = reader.ask("tools/call", name=name, arguments={"id": stored, "fact": "x"})
        error = message_of(answer)["error"]
        assert error["code"] == -32602 and "only read" in error["message"], name
    assert writer.call("memory_status")["memory"]["facts"] == 1
    assert writer.call("forget", id=stored)["found"] is True


def test_a_session_belongs_to_the_token_that_opened_it(daemon: Daemon) -> None:
    one, other = (create(daemon.folder, name) for name in ("one", "other"))
    session = daemon.session(authorization=f"Bearer {one}")
    for stranger in ({"authorization": f"Bearer {other}"}, {"authorization": ""}):
        assert daemon.client().post("/mcp", json={}, headers={**session.headers, **stranger}).status_code in (400, 404)
        answer = daemon.client(**stranger).request("DELETE", "/mcp", headers=session.headers)
        assert answer.status_code == 404
    assert session.tools()


def test_revoking_a_token_ends_its_sessions_and_the_streams_that_are_open(gated: Gated, tmp_path: Path) -> None:
    daemon = gated(options="{'tidy_every': 0.02}").daemon
    secret = create(tmp_path, "laptop")
    session, other = daemon.session(authorization=f"Bearer {secret}"), daemon.session()
    with session.client.stream("GET", "/mcp", headers=session.headers) as listening:
        assert listening.status_code == 200
        assert token(tmp_path, "revoke", "laptop").returncode == 0
        assert [line for line in listening.iter_lines() if not line.startswith(":")] in ([], [""])
    assert session.ask("tools/list").status_code == 401
    assert other.tools()


def test_two_that_make_a_token_of_one_name_at_once_get_one_token(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "velesdb_memory", "token", "create", "same"]
    racing = [
        subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    outputs = [each.communicate(timeout=60)[0].strip() for each in racing]
    [secret] = filter(None, outputs)
    assert Tokens(tmp_path / "store").match(secret) is not None
    [file] = (tmp_path / "store" / "tokens").iterdir()
    assert json.loads(file.read_bytes())["name"] == "same"
