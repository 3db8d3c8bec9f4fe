"""``service`` and ``ca`` as a person calls them; the system's own commands are stood in for, and written down."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import errors, run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="systemd's part")

NOTING = '#!/bin/sh\necho "$(basename "$0") $*" >> "$NOTES"\n'


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A home, and commands that only note that they were called."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "home").mkdir()
    for name in ("systemctl", "update-ca-certificates", "install", "trust"):
        (programs / name).write_text(NOTING)
        (programs / name).chmod(0o755)
    return {
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "home" / ".config"),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "NOTES": str(tmp_path / "notes"),
    }


def notes(machine: dict[str, str]) -> list[str]:
    file = Path(machine["NOTES"])
    return file.read_text().splitlines() if file.exists() else []


def service(machine: dict[str, str], *arguments: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
    return run("service", *arguments, **machine, **extra)


def unit_of(machine: dict[str, str]) -> Path:
    return Path(machine["XDG_CONFIG_HOME"]) / "systemd" / "user" / "velesdb-memory.service"


def test_the_definition_can_be_looked_at_first(machine: dict[str, str]) -> None:
    done = service(machine, "install", "--print", "--path", "~/notes", VELESDB_MEMORY_HTTP_TOKEN="s3cr3t-token")
    assert done.returncode == 0, errors(done)
    shown = done.stdout.decode()
    assert f'Environment="VELESDB_MEMORY_PATH={machine["HOME"]}/notes"' in shown
    assert '"--http"' in shown and "s3cr3t" not in shown
    assert not unit_of(machine).exists() and notes(machine) == []


def test_a_service_is_installed_answers_and_is_removed(machine: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    # this system's way to start it is to start it
    start = f'"{sys.executable}" -m velesdb_memory --http >/dev/null 2>&1 & echo $! > "$NOTES.pid"'
    (tmp_path / "bin" / "systemctl").write_text(f'{NOTING}if [ "$2" = restart ]; then {start}; fi\n')
    settings = {"VELESDB_MEMORY_HTTP_PORT": port, "VELESDB_MEMORY_HTTP_TOKEN": "s3cr3t-token"}
    try:
        done = service(machine, "install", **settings)
        assert done.returncode == 0, done.stdout.decode() + errors(done)
        assert f"answers at 127.0.0.1:{port}" in done.stdout.decode()
        assert "VELESDB_MEMORY_HTTP_TOKEN is set here and was not written down" in done.stdout.decode()
        assert f'Environment="VELESDB_MEMORY_HTTP_PORT={port}"' in unit_of(machine).read_text()
        assert unit_of(machine).stat().st_mode & 0o077 == 0
        assert notes(machine) == [
            "systemctl --user daemon-reload",
            "systemctl --user enable velesdb-memory.service",
            "systemctl --user restart velesdb-memory.service",
        ]
        done = service(machine, "status", "--http-port", port)
        assert done.returncode == 0, done.stdout.decode()
        assert str(unit_of(machine)) in done.stdout.decode()
    finally:
        os.kill(int(Path(machine["NOTES"] + ".pid").read_text()), signal.SIGTERM)
    done = service(machine, "uninstall")
    assert (done.returncode, b"removed" in done.stdout, unit_of(machine).exists()) == (0, True, False)
    assert "systemctl --user disable --now velesdb-memory.service" in notes(machine)
    assert (Path(machine["HOME"]) / ".velesdb-memory").is_dir()
    done = service(machine, "uninstall")
    assert (done.returncode, b"no service" in done.stdout) == (0, True)


def test_a_daemon_that_does_not_answer_is_told(machine: dict[str, str]) -> None:
    done = service(machine, "status")
    assert (done.returncode, b"not installed" in done.stdout, b"no daemon" in done.stdout) == (1, True, True)


def test_what_the_system_says_against_it_is_passed_on(machine: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\necho 'no bus here' >&2\nexit 3\n")
    done = service(machine, "install")
    assert done.returncode == 1
    assert "systemctl --user daemon-reload failed: no bus here" in errors(done)


def test_a_service_must_listen_where_clients_can_find_it(machine: dict[str, str]) -> None:
    done = service(machine, "install", "--http-port", "0")
    assert (done.returncode, "--http-port" in errors(done)) == (1, True)
    assert not unit_of(machine).exists()


def test_how_to_trust_the_authority_is_printed_and_done_only_when_asked(
    machine: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "tls dir"
    done = run("ca", "trust", "--tls-dir", str(folder), **machine)
    assert (done.returncode, "start the daemon once" in errors(done)) == (1, True)
    folder.mkdir()
    (folder / "ca-cert.pem").write_text("certificate")
    done = run("ca", "trust", "--tls-dir", str(folder), **machine)
    assert done.returncode == 0, errors(done)
    assert f"'{folder}/ca-cert.pem'" in done.stdout.decode()
    assert f"export NODE_EXTRA_CA_CERTS='{folder}/ca-cert.pem'" in done.stdout.decode()
    assert notes(machine) == []
    done = run("ca", "trust", "--apply", "--tls-dir", str(folder), **machine)
    if os.geteuid() == 0:
        assert done.returncode == 0, errors(done)
        assert notes(machine) and all("ca-cert.pem" in note or "update" in note for note in notes(machine))
    else:
        assert (done.returncode, "root" in errors(done), notes(machine)) == (1, True, [])
