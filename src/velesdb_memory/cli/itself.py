"""How other programs start this one, and reach it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from ..settings import Settings

AUTHORITY: Final = "ca-cert.pem"  # in the directory of the certificates


def command() -> list[str]:
    """The absolute command line that starts this installation, from any directory and without a shell."""
    beside = Path(sys.executable).parent / ("velesdb-memory.exe" if sys.platform == "win32" else "velesdb-memory")
    if beside.is_file():
        return [str(beside)]
    found = shutil.which("velesdb-memory")
    return [str(Path(found).absolute())] if found else [sys.executable, "-m", "velesdb_memory"]


def health(settings: Settings) -> str:
    """What keeps a daemon with these settings from answering; empty if it answers."""
    import http.client
    import ssl

    address = settings.http_address
    certificate = settings.tls_dir / AUTHORITY
    if not settings.http_insecure and not certificate.is_file():
        return f"no daemon has run yet: {certificate} does not exist"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    try:
        if settings.http_insecure:
            connection = http.client.HTTPConnection(host, address.port, timeout=3)
        else:
            context = ssl.create_default_context(cafile=str(certificate))
            connection = http.client.HTTPSConnection(host, address.port, timeout=3, context=context)
        try:
            connection.request("GET", "/health")
            answer = connection.getresponse()
            body = answer.read(16)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return f"no daemon answers at {address}: {error}"
    right = (answer.status, body) == (200, b"OK")
    return "" if right else f"something else answers at {address} (status {answer.status})"
