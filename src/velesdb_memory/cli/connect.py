"""``connect``: put this server into the configuration of a program that speaks MCP, and take it out again."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from ..clients.edit import Change, backup_of, connected, undone, write
from ..clients.registry import CLIENTS, Client, Local, Place, Remote, System
from ..config import PREFIX, SETTINGS, Configuration, Source, read, refuse
from ..errors import InvalidArgument
from ..settings import is_loopback
from ..text import lines
from .itself import AUTHORITY, command

NAME: Final = "velesdb-memory"
MAX_SHOWN: Final = 200  # characters of a line of the difference


@dataclass(frozen=True)
class Request:
    """What the command line asks for; ``file`` overrides where the program keeps its configuration."""

    client: str
    scope: Literal["user", "project"] = "user"
    file: str | None = None
    name: str = NAME
    url: str | None = None
    undo: bool = False
    only_print: bool = False
    yes: bool = False


def run(request: Request, flags: Mapping[str, str]) -> int:
    """Show the change, ask, and write it; the exit code."""
    client = CLIENTS[request.client]
    file = _file(request, client)
    notes: list[str] = []
    if request.undo:
        change = undone(file, client, request.name)
    else:
        found = read(flags=flags)
        if request.url or found.settings.http:
            server = _remote(found, request.url)
            entry = client.remote(client, server)
            notes = _remote_notes(client, server)
        else:
            local = _local(found)
            entry = client.local(client, local)
            notes = _local_notes(client, local)
        change = connected(file, client, request.name, entry)
    if not change.changes:
        print(f"{client.title}: {change.file} {'has no such entry' if request.undo else 'has this entry already'}")
        return 0
    print(_difference(change))
    if request.only_print:
        return 0
    if not request.yes and not _agreed(f"write {change.file}?"):
        print("velesdb-memory: nothing was written; --yes writes without asking", file=sys.stderr)
        return 1
    write(change)
    print(f"{client.title}: {change.file} {'removed' if change.after is None else 'written'}; {client.after}")
    if change.backup is not None:
        print(f"what was there before is in {backup_of(change.file)}; --undo puts it back")
    for note in notes:
        print(note)
    return 0


def _file(request: Request, client: Client) -> Path:
    if request.file is not None:
        return Path(request.file).expanduser().absolute()
    if request.scope == "project":
        if not client.project:
            raise InvalidArgument(f"{client.title} has no configuration of a project: use --file", field="--scope")
        return Path.cwd().joinpath(*client.project)
    try:
        home = str(Path.home())
    except RuntimeError:
        raise InvalidArgument("your home directory is not known: use --file", field="--file") from None
    system: System = "win32" if sys.platform == "win32" else "darwin" if sys.platform == "darwin" else "linux"
    places = client.user(Place(system, home, os.environ))
    existing = [place for place in places if place.exists()]
    for other in existing[1:]:
        print(f"{client.title} has {other} too: --file changes that", file=sys.stderr)
    return (existing or list(places))[0]


def _local(found: Configuration) -> Local:
    given = {
        PREFIX + name: value for name, value in found.given().items() if not name.startswith(("HTTP", "TLS"))
    }
    secrets = [row.variable for row in SETTINGS.values() if row.secret and _is_set(found, row.name)]
    return Local(command(), given, [name for name in secrets if not name.startswith(PREFIX + "HTTP")])


def _remote(found: Configuration, url: str | None) -> Remote:
    settings = found.settings
    address = settings.http_address
    secure = not settings.http_insecure
    asked = settings.http_token is not None or settings.http_require_token
    if url is None:
        # a daemon that others can reach asks everybody
        asked = asked or not is_loopback(address.host)
        if not address.port:
            raise refuse("--http-port", "0 is any free port: name the one that the server listens on")
        host = "localhost" if address.host in ("0.0.0.0", "::") else str(address).rpartition(":")[0]
        url = f"{'https' if secure else 'http'}://{host}:{address.port}/mcp"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise refuse("--url", f"is {url[:80]!r}, not http(s)://HOST[:PORT]/mcp")
    local = is_loopback(parts.hostname)
    tokens = settings.path / "tokens"
    stored = tokens.is_dir() and any(tokens.iterdir())
    own = parts.scheme == "https" and (local or parts.hostname == address.host)
    return Remote(
        url,
        SETTINGS["HTTP_TOKEN"].variable if asked or stored or not local else None,
        str(settings.tls_dir / AUTHORITY) if own else None,
        shutil.which("npx") or "npx",
    )


def _is_set(found: Configuration, name: str) -> bool:
    return found.origins[SETTINGS[name].attribute].source is not Source.DEFAULT


def _local_notes(client: Client, server: Local) -> list[str]:
    if not server.forward or client.reference or client.name == "codex":
        return []
    return [f"{client.title} must be started with {', '.join(server.forward)} set: secrets are not written to files"]


def _remote_notes(client: Client, server: Remote) -> list[str]:
    notes: list[str] = []
    if client.name == "claude-desktop":
        if server.authority and os.environ.get("NODE_TLS_REJECT_UNAUTHORIZED") == "0":
            raise InvalidArgument(
                "NODE_TLS_REJECT_UNAUTHORIZED is 0, which turns every check of certificates off: unset it",
                field="NODE_TLS_REJECT_UNAUTHORIZED",
            )
        notes.append("the entry runs mcp-remote, which needs Node.js 20.18.1 or newer")
    elif server.authority:
        also = f", or {client.trust.format(authority=server.authority)}" if client.trust else ""
        notes.append(f"{client.title} must trust {server.authority}: see velesdb-memory ca trust{also}")
    if server.token:
        if client.reference or client.name in ("codex", "claude-desktop"):
            notes.append(f"set {server.token} where {client.title} is started: velesdb-memory token makes one")
        else:
            notes.append(
                f"{client.title} reads no token from the environment: add the header Authorization to the entry by "
                "hand, or connect without --http"
            )
    return notes


def _difference(change: Change) -> str:
    before, after = (lines((data or b"").decode()) for data in (change.before, change.after))
    for side in (before, after):
        # a final line end is no line of its own
        if side[-1] == "":
            side.pop()
    shown = difflib.unified_diff(before, after, str(change.file), str(change.file), lineterm="")
    return "\n".join(line if len(line) <= MAX_SHOWN else line[:MAX_SHOWN] + "…" for line in shown)


def _agreed(question: str) -> bool:
    if not sys.stdin or not sys.stdin.isatty():
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
