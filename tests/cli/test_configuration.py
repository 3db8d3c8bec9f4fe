"""``config``, and where the settings of a command come from."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cli.command import errors, run
from velesdb_memory.config import SETTINGS


def test_the_settings_in_effect_are_printed_with_their_origins(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    file = store / "velesdb-memory.toml"
    file.write_text('default_ttl = 60\nlog = "warn"\n[http]\nbind = "127.0.0.1:5"\nmax_sessions = 3\n')
    done = run(
        "config", "--http-max-sessions", "4", store=store,
        VELESDB_MEMORY_LOG="error", VELESDB_MEMORY_EXTRACTOR_API_TOKEN="s3cr3t-token",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    for line in (
        f"# file: {file}",
        f"default_ttl = 60  # {file}: default_ttl",
        'log = "error"  # VELESDB_MEMORY_LOG',
        f'bind = "127.0.0.1:5"  # {file}: http.bind',
        "max_sessions = 4  # --http-max-sessions",
        'synchronous = "full"  # default',
        "# VELESDB_MEMORY_EXTRACTOR_API_TOKEN is set",
        "# VELESDB_MEMORY_HTTP_TOKEN is not set",
    ):
        assert line in lines
    assert "s3cr3t" not in done.stdout.decode()
    keys = {
        f"{table}.{key}"
        for table, inner in tomllib.loads(done.stdout.decode()).items()
        if isinstance(inner, dict)
        for key in inner
    }
    assert keys <= {row.key for row in SETTINGS.values()}


def test_a_file_that_takes_part_is_told_once_unless_quiet(tmp_path: Path) -> None:
    (tmp_path / "velesdb-memory.toml").write_text('synchronous = "normal"\ndefault_ttl = 5\n')
    store = tmp_path / "store"
    done = run("doctor", store=store, cwd=tmp_path)
    assert done.returncode == 0
    assert f"velesdb-memory: 2 settings from {tmp_path / 'velesdb-memory.toml'}\n" in errors(done)
    assert "durability     normal" in done.stdout.decode()
    assert "settings from" not in errors(run("doctor", "--quiet", store=store, cwd=tmp_path))
    # a file that decides nothing is not mentioned
    done = run("doctor", "--synchronous", "full", "--default-ttl", "1", store=store, cwd=tmp_path)
    assert "settings from" not in errors(done)
    assert "durability     full" in done.stdout.decode()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a = \nb = 1", "line 1"),
        ("defualt_ttl = 5", "did you mean default_ttl?"),
        ("[http]\nmax_sessions = 0", "http.max_sessions"),
        ("[extractor]\napi_token = 's3cr3t'", "VELESDB_MEMORY_EXTRACTOR_API_TOKEN"),
        ("[extractor]\nbackend = 'openai'\nurl = 'https://evil.example'", "extractor.url"),
    ],
)
def test_d58_a_wrong_file_stops_every_command_before_anything_is_opened(text: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "velesdb-memory.toml").write_text(text)
    for command in ((), ("doctor",), ("config",)):
        done = run(*command, store=tmp_path / "store", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, b"")
        assert named in errors(done) and len(errors(done).splitlines()) == 1
        assert "s3cr3t" not in errors(done)
    assert not (tmp_path / "store").exists()


def test_a_flag_may_stand_before_and_after_the_command(tmp_path: Path) -> None:
    for arguments in (
        ("--log", "warn", "config"),
        ("config", "--log", "warn"),
        ("--log", "info", "config", "--log", "warn"),
    ):
        assert b'log = "warn"  # --log' in run(*arguments, store=tmp_path).stdout


def test_what_a_variable_turned_on_a_flag_turns_off(tmp_path: Path) -> None:
    done = run("config", "--no-http", store=tmp_path, VELESDB_MEMORY_HTTP="1")
    assert b"enabled = false  # --no-http" in done.stdout or b"enabled = false  # --http" in done.stdout
