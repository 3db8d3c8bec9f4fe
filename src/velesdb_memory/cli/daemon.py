"""``service``: have the operating system keep the daemon running for this user."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..config import PREFIX, SETTINGS, Configuration, read, refuse
from ..daemons import LABEL, TASK, UNIT, launchd_agent, scheduled_task, systemd_unit
from ..errors import ServiceFailed, StoreUnwritable
from ..private import make_folder, replace
from .itself import command, health

PATIENCE: Final = 10.0  # seconds for the daemon to answer after it was started


class Service(ABC):
    """What one kind of operating system does."""

    @abstractmethod
    def where(self) -> str:
        """Where the definition is kept."""

    @abstractmethod
    def definition(self, found: Configuration) -> str:
        """The text that the system is given."""

    @abstractmethod
    def install(self, found: Configuration) -> None:
        """Write the definition and start the daemon. Raises VelesMemoryError."""

    @abstractmethod
    def uninstall(self) -> bool:
        """Stop the daemon and remove the definition; False if there was none."""

    @abstractmethod
    def state(self) -> str:
        """What the system says of it, in a few words."""


class FileService(Service):
    """A system that reads definitions from files."""

    file: Path

    def where(self) -> str:
        return f"{self.file}{'' if self.file.exists() else ' (not installed)'}"


class Systemd(FileService):
    def __init__(self) -> None:
        configuration = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        self.file = configuration / "systemd" / "user" / UNIT
        self.secrets = configuration / "velesdb-memory" / "secrets.env"

    def definition(self, found: Configuration) -> str:
        return systemd_unit([*command(), "--http"], _environment(found), str(self.secrets))

    def install(self, found: Configuration) -> None:
        _write(self.file, self.definition(found))
        print(f"secrets, if there are any, belong in {self.secrets}: NAME=value, readable by you only")
        _do(["systemctl", "--user", "daemon-reload"])
        _do(["systemctl", "--user", "enable", UNIT])
        # not "start": a new definition must take the place of what runs
        _do(["systemctl", "--user", "restart", UNIT])
        print("to keep it running while you are logged out: loginctl enable-linger")

    def uninstall(self) -> bool:
        if not self.file.exists():
            return False
        _try(["systemctl", "--user", "disable", "--now", UNIT])
        self.file.unlink()
        _try(["systemctl", "--user", "daemon-reload"])
        return True

    def state(self) -> str:
        return _try(["systemctl", "--user", "is-active", UNIT])


class Launchd(FileService):
    def __init__(self) -> None:
        self.file = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self.log = Path.home() / "Library" / "Logs" / "velesdb-memory" / "daemon.log"
        self._domain = f"gui/{os.getuid() if sys.platform != 'win32' else 0}"

    def definition(self, found: Configuration) -> str:
        return launchd_agent([*command(), "--http"], _environment(found), str(self.log)).decode()

    def install(self, found: Configuration) -> None:
        make_folder(self.log.parent)
        _write(self.file, self.definition(found))
        _try(["launchctl", "bootout", f"{self._domain}/{LABEL}"])
        _do(["launchctl", "bootstrap", self._domain, str(self.file)])
        print(f"what it says is in {self.log}")

    def uninstall(self) -> bool:
        if not self.file.exists():
            return False
        _try(["launchctl", "bootout", f"{self._domain}/{LABEL}"])
        self.file.unlink()
        return True

    def state(self) -> str:
        said = _try(["launchctl", "print", f"{self._domain}/{LABEL}"])
        found = [line.strip() for line in said.splitlines() if line.strip().startswith("state =")]
        return found[0].removeprefix("state = ") if found else "not loaded"


class Tasks(Service):
    def where(self) -> str:
        return TASK

    def definition(self, found: Configuration) -> str:
        # pythonw has no console window, and a task no environment: settings are flags
        python = Path(sys.executable).with_name("pythonw.exe")
        program = str(python if python.is_file() else sys.executable)
        given = {name: value for name, value in found.given().items() if name != "HTTP"}
        flags = [word for name, value in given.items() for word in _flag(name, value)]
        return scheduled_task([program, "-m", "velesdb_memory", "--http", *flags], getpass.getuser())

    def install(self, found: Configuration) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "task.xml"
            file.write_text(self.definition(found), encoding="utf-16")
            _do(["schtasks", "/Create", "/TN", TASK, "/XML", str(file), "/F"])
        _do(["schtasks", "/Run", "/TN", TASK])

    def uninstall(self) -> bool:
        _try(["schtasks", "/End", "/TN", TASK])
        return "SUCCESS" in _try(["schtasks", "/Delete", "/TN", TASK, "/F"]).upper()

    def state(self) -> str:
        said = _try(["schtasks", "/Query", "/TN", TASK, "/FO", "CSV", "/NH"])
        return said.rpartition(",")[2].strip().strip('"') or "not installed"


def run_install(flags: Mapping[str, str], *, only_print: bool) -> int:
    """Install and start the daemon, and wait until it answers; the exit code."""
    found = read(flags=flags)
    if not found.settings.http_address.port:
        raise refuse("--http-port", "0 is any free port: clients must know where a service listens")
    unsaid = [row.variable for row in SETTINGS.values() if row.secret and getattr(found.settings, row.attribute)]
    service = _service()
    if only_print:
        print(service.definition(found))
        return 0
    service.install(found)
    for variable in unsaid:
        print(f"{variable} is set here and was not written down: give it to the service yourself")
    deadline = time.monotonic() + PATIENCE
    problem = health(found.settings)
    while problem and time.monotonic() < deadline:
        time.sleep(0.2)
        problem = health(found.settings)
    print(f"velesdb-memory: {problem or f'the daemon answers at {found.settings.http_address}'}")
    return 1 if problem else 0


def run_status(flags: Mapping[str, str]) -> int:
    """Say whether it is installed, runs and answers; 0 if it answers."""
    found = read(flags=flags)
    service = _service()
    print(f"definition  {service.where()}")
    print(f"state       {service.state()}")
    problem = health(found.settings)
    print(f"daemon      {problem or f'answers at {found.settings.http_address}'}")
    return 1 if problem else 0


def run_uninstall() -> int:
    """Stop and remove it; the store, the certificates and the tokens stay."""
    removed = _service().uninstall()
    print(f"velesdb-memory: {'the service was removed; the store stays' if removed else 'no service is installed'}")
    return 0


def _service() -> Service:
    if sys.platform == "win32":
        return Tasks()
    return Launchd() if sys.platform == "darwin" else Systemd()


def _environment(found: Configuration) -> dict[str, str]:
    return {PREFIX + name: value for name, value in found.given().items() if name != "HTTP"}


def _flag(name: str, value: str) -> list[str]:
    row = SETTINGS[name]
    if row.kind.metavar:
        return [row.flag, value]
    return [row.flag if value == "1" else "--no-" + row.flag.removeprefix("--")]


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnwritable(f"{file.parent} cannot be created: {error.strerror}") from error
    replace(file, text.encode())
    print(f"written: {file}")


def _do(words: Sequence[str]) -> None:
    """Run a command of the system. Raises ServiceFailed with what it said."""
    shown = " ".join(words)
    if shutil.which(words[0]) is None:
        raise ServiceFailed(f"{words[0]} is not here: when it is, run: {shown}")
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=60)
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise ServiceFailed(f"{shown} failed: {said}")


def _try(words: Sequence[str]) -> str:
    """What a command of the system says; its failure is an answer too."""
    if shutil.which(words[0]) is None:
        return f"{words[0]} is not here"
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=60)
    return (done.stdout or done.stderr).strip()
