"""How the command is called: options, settings, where the store is (D58; C20)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from cli.command import errors, exported, jsonl, run
from velesdb_memory import __version__, config
from velesdb_memory.ids import fact_id

COMMANDS = ("demo", "doctor", "export", "import", "work", "config", "connect", "service", "ca")


def test_version_is_printed_and_nothing_is_opened(tmp_path: Path) -> None:
    for option in ("--version", "-V"):
        done = run(option, store=tmp_path / "store")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"velesdb-memory {__version__}\n".encode(), b"")
    assert not (tmp_path / "store").exists()


def test_d58_help_names_every_command_and_every_setting() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, b"")
    words = re.findall(r"[\w-]+", done.stdout.decode())
    assert set(COMMANDS) <= set(words)
    assert {f"VELESDB_MEMORY_{name}" for name in config.SETTINGS} <= set(words)


@pytest.mark.parametrize("command", COMMANDS)
def test_d58_help_works_on_every_command_whatever_the_settings(command: str, tmp_path: Path) -> None:
    done = run(command, "--help", store=tmp_path / "store", VELESDB_MEMORY_DEFAULT_TTL="soon")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(f"usage: velesdb-memory {command}".encode())
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--frobnicate",),
        ("demo", "--frobnicate"),
        ("doctor", "--frobnicate"),
        ("export", "--frobnicate"),
        ("import", "file", "--frobnicate"),
        ("frobnicate",),
        # no abbreviations: what works today must not mean something else tomorrow
        ("export", "--include"),
        ("--pat", "somewhere"),
        ("doctor", "--htttp-bind", "127.0.0.1:1"),
    ],
)
def test_d58_an_unknown_option_or_command_is_named_and_exits_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*arguments, store=tmp_path / "store")
    assert (done.returncode, done.stdout) == (2, b"")
    named = next(
        word for word in arguments if word in ("--frobnicate", "frobnicate", "--include", "--pat", "--htttp-bind")
    )
    assert f"{named}" in errors(done).rpartition("error: ")[2]
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("arguments", [("import",), ("export", "--output"), ("--path",)])
def test_d58_a_missing_value_exits_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*arguments, store=tmp_path / "store")
    assert (done.returncode, done.stdout) == (2, b"")


MALFORMED = [
    ("PATH", "  "),
    ("PATH", "${NOT_SET_ANYWHERE}/memory"),
    ("DEFAULT_TTL", "soon"),
    ("DEFAULT_TTL", "-1"),
    ("DEFAULT_TTL", "1.5"),
    ("DEFAULT_TTL", ""),
    ("DEFAULT_TTL", "1e3"),
    ("DEFAULT_TTL", "9" * 30),
    ("EMBEDDER", "nosuch"),
    ("EMBEDDER", ""),
    ("SYNCHRONOUS", "off"),
    ("SYNCHRONOUS", "FULL"),
    ("AUTOGRAPH", "yes"),
    ("EXTRACTOR", "nosuch"),
]


@pytest.mark.parametrize(("name", "value"), MALFORMED)
def test_d58_a_malformed_setting_is_named_before_anything_is_opened(name: str, value: str, tmp_path: Path) -> None:
    settings = {"VELESDB_MEMORY_PATH": str(tmp_path / "store"), f"VELESDB_MEMORY_{name}": value}
    # the server, which has no other command line
    done = run(cwd=tmp_path, **settings)
    assert done.returncode in (1, 2), errors(done)
    assert done.stdout == b""
    assert f"VELESDB_MEMORY_{name} " in errors(done)
    assert len(errors(done).splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_d58_a_setting_that_does_not_exist_is_named_with_what_was_meant(tmp_path: Path) -> None:
    done = run("doctor", store=tmp_path / "store", VELESDB_MEMORY_DEFAULT_TLT="60")
    assert done.returncode in (1, 2)
    assert "VELESDB_MEMORY_DEFAULT_TLT" in errors(done)
    assert "VELESDB_MEMORY_DEFAULT_TTL?" in errors(done)


def test_d58_a_long_malformed_value_is_not_repeated_in_full(tmp_path: Path) -> None:
    done = run("doctor", store=tmp_path / "store", VELESDB_MEMORY_EMBEDDER="x" * 5_000)
    assert done.returncode in (1, 2)
    assert len(done.stderr) < 500


# -- where the store is ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="HOME is POSIX's")
@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        (("doctor",), "~/deep/notes"),
        (("doctor",), "${PLACE}/deep/notes"),
        (("doctor", "--path", "$PLACE/deep/notes"), "~/other"),
        (("--path", "~/deep/notes", "doctor"), "~/other"),
    ],
)
def test_c20_home_and_variables_are_expanded_and_missing_folders_made(
    arguments: tuple[str, ...], setting: str, tmp_path: Path
) -> None:
    wanted = tmp_path / "deep" / "notes"
    done = run(*arguments, HOME=str(tmp_path), PLACE=str(tmp_path), VELESDB_MEMORY_PATH=setting)
    assert done.returncode == 0, errors(done)
    # the absolute path is printed, so that nobody wonders where the memory went
    assert str(wanted) in done.stdout.decode()
    assert (wanted / "memory.db").exists()
    assert not (tmp_path / "other").exists()


def test_c20_a_relative_path_is_taken_from_the_working_directory_and_shown_absolute(tmp_path: Path) -> None:
    done = run("doctor", "--path", "here", cwd=tmp_path)
    assert done.returncode == 0
    assert str(tmp_path / "here") in done.stdout.decode()
    assert (tmp_path / "here" / "memory.db").exists()


@pytest.mark.parametrize("value", ["${NOT_SET_ANYWHERE}/notes", "$NOT_SET_ANYWHERE/notes", "%NOT_SET_ANYWHERE%\\notes"])
def test_c20_a_variable_that_is_not_set_is_refused_and_nothing_is_made(value: str, tmp_path: Path) -> None:
    done = run("doctor", "--path", value, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert "--path" in errors(done) and "NOT_SET_ANYWHERE" in errors(done)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_the_store_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    store = tmp_path / "store"
    text = "a private fact"
    run("import", "-", store=store, input=jsonl({"id_str": str(fact_id(text)), "content": text, "metadata": {}}))
    assert store.stat().st_mode & 0o077 == 0


def test_a_store_path_that_is_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for command in ("doctor", "export"):
        done = run(command, "--path", str(tmp_path / "file"))
        assert done.returncode == 1
        assert str(tmp_path / "file") in errors(done) + done.stdout.decode()
    assert (tmp_path / "file").read_text() == "not a folder"


# -- locales --------------------------------------------------------------------------------------------------------

NAIVE = "naïve – 漢字 – 😅"
LOCALES = [
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "cp1252", "LC_ALL": "C"},
]


@pytest.mark.parametrize("locale", LOCALES, ids=lambda locale: "+".join(locale))
def test_c11_text_makes_a_byte_identical_round_trip_in_any_locale(locale: dict[str, str], tmp_path: Path) -> None:
    store = tmp_path / "a store – 漢字"
    line = {"id_str": str(fact_id(NAIVE)), "content": NAIVE, "metadata": {"ключ": "größe 😅"}}
    done = run("import", "-", store=store, input=jsonl(line), **locale)
    assert done.returncode == 0, errors(done)
    done = run("export", store=store, **locale)
    assert done.returncode == 0, errors(done)
    assert f'"content":"{NAIVE}"'.encode() in done.stdout
    assert b"\r" not in done.stdout
    target = tmp_path / "out – 漢字.jsonl"
    assert run("export", "-o", str(target), store=store, **locale).returncode == 0
    assert target.read_bytes().splitlines()[1:] == done.stdout.splitlines()[1:]
    [kept] = exported(store)
    assert (kept["content"], kept["metadata"]["ключ"]) == (NAIVE, "größe 😅")
    assert run("doctor", store=store, **locale).returncode == 0
