"""``ca trust``: have the operating system trust the daemon's own certificate authority."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from ..config import read
from ..errors import InvalidInput, ServiceFailed
from .itself import AUTHORITY

NAME: Final = "velesdb-memory local CA"  # in the certificate
System = Literal["debian", "fedora", "linux", "darwin", "win32"]
Commands = list[list[str]]


def run_trust(flags: Mapping[str, str], *, apply: bool) -> int:
    """Print the commands, or run them; the exit code. Raises InvalidInput without a certificate, or without rights, and
    ServiceFailed with what a command said."""
    file = read(flags=flags).settings.tls_dir / AUTHORITY
    if not file.is_file():
        hint = "start the daemon once (velesdb-memory --http)"
        raise InvalidInput(f"{file} does not exist yet: {hint}", field="--tls-dir")
    system = _system()
    wanted = commands(system, str(file))
    if not wanted:
        print("# this system has no command for it that is known here: trust the certificate by its own means")
        print(file)
        return 1 if apply else 0
    if not apply:
        print("# to trust it, for every program that asks the system (--apply does it):")
        for words in wanted:
            print(shown(words, system))
        print("# to end that:")
        for words in removal(system, str(file)):
            print(shown(words, system))
        print("# for programs that run on Node.js, which do not ask the system:")
        name, setting = "NODE_EXTRA_CA_CERTS", str(file)
        print(f'setx {name} "{setting}"' if system == "win32" else f"export {name}={shlex.quote(setting)}")
        return 0
    if needs_root(system) and os.name == "posix" and os.geteuid() != 0:
        raise InvalidInput(
            "this needs root's rights: run the printed commands, or sudo velesdb-memory ca trust --apply "
            f"--tls-dir {shlex.quote(str(file.parent))}",
            field="--apply",
        )
    for words in wanted:
        print(shown(words, system), file=sys.stderr)
        done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=60)
        if done.returncode:
            raise ServiceFailed(f"{words[0]} failed: {(done.stderr or done.stdout).strip()}")
    print(f"velesdb-memory: the system trusts {file}")
    return 0


def commands(system: System, file: str) -> Commands:
    """What makes ``system`` trust ``file``."""
    return _table(system, file)[0]


def removal(system: System, file: str) -> Commands:
    """What undoes ``commands``."""
    return _table(system, file)[1]


def needs_root(system: System) -> bool:
    """Whether only an administrator may do it."""
    return system in ("debian", "fedora")


def shown(words: list[str], system: System) -> str:
    """A command as one types it."""
    return subprocess.list2cmdline(words) if system == "win32" else shlex.join(words)


def _table(system: System, file: str) -> tuple[Commands, Commands]:
    if system == "debian":
        # only files of that name in that directory are looked at
        installed = "/usr/local/share/ca-certificates/velesdb-memory.crt"
        update = "update-ca-certificates"
        return [["install", "-m", "0644", file, installed], [update]], [["rm", installed], [update, "--fresh"]]
    if system == "fedora":
        return [["trust", "anchor", "--store", file]], [["trust", "anchor", "--remove", file]]
    if system == "darwin":
        # the login keychain, whose owner is asked by the system itself
        return (
            [["security", "add-trusted-cert", "-r", "trustRoot", file]],
            [["security", "remove-trusted-cert", file]],
        )
    if system == "win32":
        # the user's own store needs no rights
        return [["certutil", "-user", "-addstore", "Root", file]], [["certutil", "-user", "-delstore", "Root", NAME]]
    return [], []


def _system() -> System:
    if sys.platform == "win32":
        return "win32"
    if sys.platform == "darwin":
        return "darwin"
    if shutil.which("update-ca-certificates") and Path("/usr/local/share/ca-certificates").is_dir():
        return "debian"
    return "fedora" if shutil.which("trust") else "linux"
