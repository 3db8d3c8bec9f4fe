"""``doctor``: what runs, what is stored, whether it is sound, and what to do about it."""

from __future__ import annotations

import platform
import sqlite3
from importlib import metadata

from .. import __version__
from ..config import Settings
from ..errors import StorageError
from ..store.base import Finding
from .progress import progress
from .serve import open_service


def run(settings: Settings, *, repair: bool) -> int:
    """Print the report; 0 when everything is sound or was made so."""
    print(f"velesdb-memory {__version__}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    print(", ".join(f"{name} {_version(name)}" for name in ("mcp", "msgspec", "numpy", "simsimd")))
    print(f"system         {platform.system()} {platform.machine()}")
    print(f"store          {settings.path}")
    try:
        with open_service(settings) as memory:
            status = memory.memory_status()
            print(f"size           {status.store.bytes / 1e6:.1f} MB ({status.store.backend})")
            print(f"durability     {settings.synchronous}")
            print(f"memories       {status.memory.facts} facts, {status.memory.edges} edges")
            print(f"waiting        {status.pending.extraction} passages, {status.pending.autograph} enrichments")
            findings = [memory.check_embedder()]
            with progress() as show:
                findings += memory.check(repair=repair, progress=show)
    except StorageError as error:
        findings = [Finding("store", False, str(error), "see the message; nothing was changed")]
    print()
    for finding in findings:
        state = "repaired" if finding.repaired else "ok" if finding.sound else "BAD"
        print(f"{state:<9} {finding.subject:<10} {finding.detail}")
        if finding.advice and not finding.sound:
            print(f"{'':<9} {'':<10} what to do: {finding.advice}")
    bad = sum(not finding.sound for finding in findings)
    print(f"\n{'everything is sound' if not bad else f'{bad} findings need you'}")
    return 1 if bad else 0


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
