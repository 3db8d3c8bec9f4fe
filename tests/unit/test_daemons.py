"""The definitions of the service: read back by each system's own rules."""

from __future__ import annotations

import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.cli.authority import commands, removal
from velesdb_memory.daemons import launchd_agent, scheduled_task, systemd_unit
from velesdb_memory.errors import InvalidArgument

WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
ENVIRONMENT = {"VELESDB_MEMORY_PATH": '/a b/%h "c" $HOME\\x', "VELESDB_MEMORY_LOG": "info"}


def systemd_words(line: str) -> list[str]:
    """A command line of a unit as systemd reads it, where every word is quoted."""
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    return [re.sub(r"\\(.)", r"\1", word).replace("%%", "%").replace("$$", "$") for word in words]


def test_the_unit_has_the_command_the_settings_and_a_place_for_secrets() -> None:
    unit = systemd_unit(["/bin/vm", "--http"], ENVIRONMENT, "/c/secrets.env")
    lines = unit.splitlines()
    assert 'ExecStart="/bin/vm" "--http"' in lines
    assert 'Environment="VELESDB_MEMORY_PATH=/a b/%%h \\"c\\" $HOME\\\\x"' in lines
    assert 'Environment="VELESDB_MEMORY_LOG=info"' in lines
    assert "EnvironmentFile=-/c/secrets.env" in lines
    assert "Restart=on-failure" in lines and "WantedBy=default.target" in lines


@given(st.lists(WORD, min_size=1, max_size=4))
def test_systemd_reads_any_word_back(words: list[str]) -> None:
    unit = systemd_unit(["/bin/vm", *words], {}, "/s")
    line = next(line for line in unit.split("\n") if line.startswith("ExecStart="))
    assert systemd_words(line) == ["/bin/vm", *words]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_itself_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "velesdb-memory.service"
    file.write_text(systemd_unit([sys.executable, "-m", "velesdb_memory", "--http"], ENVIRONMENT, "/c/s.env"))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", "--generators=no", str(file)],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
    )
    said = [line for line in done.stderr.splitlines() if "velesdb-memory.service" in line]
    assert said == [], done.stderr


@given(st.lists(WORD, min_size=1, max_size=4))
def test_launchd_reads_any_word_back(words: list[str]) -> None:
    agent = plistlib.loads(launchd_agent(["/bin/vm", *words], ENVIRONMENT, "/log"))
    assert agent["ProgramArguments"] == ["/bin/vm", *words]
    assert agent["EnvironmentVariables"] == ENVIRONMENT
    assert (agent["RunAtLoad"], agent["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert (agent["StandardErrorPath"], agent["Umask"]) == ("/log", 0o077)


def windows_words(line: str) -> list[str]:
    """A command line as the C runtime of Windows takes it apart."""
    words: list[str] = []
    word, quoted, begun, at = "", False, False, 0
    while at < len(line):
        slashes = len(line[at:]) - len(line[at:].lstrip("\\"))
        at += slashes
        if at < len(line) and line[at] == '"':
            word += "\\" * (slashes // 2)
            if slashes % 2:
                word += '"'
            else:
                quoted, begun = not quoted, True
            at += 1
            continue
        word += "\\" * slashes
        begun = begun or slashes > 0
        if at == len(line):
            break
        if line[at] in " \t" and not quoted:
            if begun:
                words.append(word)
            word, begun = "", False
        else:
            word, begun = word + line[at], True
        at += 1
    return [*words, word] if begun else words


def task_command(text: str) -> tuple[str, str]:
    """The program and the arguments of a task, read back from its definition."""
    root = ElementTree.fromstring(text.partition("?>")[2])
    program, arguments = root.find(".//{http://schemas.microsoft.com/windows/2004/02/mit/task}Exec")
    return program.text, arguments.text


@given(st.lists(WORD, min_size=1, max_size=4))
def test_windows_reads_any_word_back(words: list[str]) -> None:
    text = scheduled_task([r"C:\p y\pythonw.exe", *words], r"PC\me & you")
    program, arguments = task_command(text)
    assert program == r"C:\p y\pythonw.exe"
    assert windows_words(arguments) == words


def test_the_task_starts_at_logon_without_rights_and_again_after_a_failure() -> None:
    text = scheduled_task([r"C:\pythonw.exe", "-m", "velesdb_memory", "--http"], "PC\\me")
    assert text.startswith('<?xml version="1.0" encoding="UTF-16"?>')
    # as schtasks reads it
    root = ElementTree.fromstring(text.encode("utf-16"))
    found = {element.tag.rpartition("}")[2]: element.text for element in root.iter()}
    assert {"LogonTrigger", "RestartOnFailure"} <= set(found)
    assert (found["UserId"], found["RunLevel"], found["LogonType"]) == ("PC\\me", "LeastPrivilege", "InteractiveToken")
    assert (found["ExecutionTimeLimit"], found["MultipleInstancesPolicy"]) == ("PT0S", "IgnoreNew")


def test_a_control_character_cannot_break_out_of_a_definition() -> None:
    for make in (
        lambda word: systemd_unit(["/bin/vm", word], {}, "/s"),
        lambda word: systemd_unit(["/bin/vm"], {"A": word}, "/s"),
        lambda word: launchd_agent(["/bin/vm", word], {}, "/l"),
        lambda word: scheduled_task(["vm", word], "me"),
    ):
        with pytest.raises(InvalidArgument, match="control character"):
            make("x\nExecStartPre=/bin/evil")


@pytest.mark.parametrize("system", ["debian", "fedora", "darwin", "win32"])
def test_each_system_has_a_way_to_trust_a_certificate_and_a_way_back(system: str) -> None:
    file = "/tls dir/ca-cert.pem"
    there, back = commands(system, file), removal(system, file)  # type: ignore[arg-type]
    assert any(file in words for words in there)
    assert there and back and there != back
    assert shlex.split(shlex.join(there[0])) == there[0]
