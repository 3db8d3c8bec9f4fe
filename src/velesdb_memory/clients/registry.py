"""The programs that speak MCP: where each keeps its servers, and what an entry looks like there.

Formats and places are those of each program's public documentation, which docs/clients.md cites. Nothing here looks at
the machine it runs on: the system, the home and the environment are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, Literal

from .base import Format
from .jsonc import JsonFile
from .tomltext import TomlFile

System = Literal["linux", "darwin", "win32"]


@dataclass(frozen=True)
class Place:
    """Whose configuration is meant: the system's name as in ``sys.platform``, a home, and an environment."""

    system: System
    home: str
    environment: Mapping[str, str]

    def path(self, base: str, *parts: str) -> Path:
        """A path of that system."""
        pure = PureWindowsPath if self.system == "win32" else PurePosixPath
        return Path(str(pure(base, *parts)))

    def in_home(self, *parts: str) -> Path:
        return self.path(self.home, *parts)

    def from_variable(self, variable: str, *default: str) -> str:
        """The directory that ``variable`` names, else one in the home."""
        return self.environment.get(variable) or str(self.in_home(*default))

    def application_data(self, *parts: str) -> Path:
        """Where applications keep their data: %APPDATA%, Application Support, or $XDG_CONFIG_HOME."""
        if self.system == "win32":
            return self.path(self.from_variable("APPDATA", "AppData", "Roaming"), *parts)
        if self.system == "darwin":
            return self.in_home("Library", "Application Support", *parts)
        return self.configuration(*parts)

    def configuration(self, *parts: str) -> Path:
        """$XDG_CONFIG_HOME, which command line programs also use on macOS."""
        return self.path(self.from_variable("XDG_CONFIG_HOME", ".config"), *parts)


@dataclass(frozen=True)
class Local:
    """A server that the program starts. ``forward`` are secrets that it passes on from its own environment."""

    command: Sequence[str]
    environment: Mapping[str, str]
    forward: Sequence[str] = ()


@dataclass(frozen=True)
class Remote:
    """A server that runs already. ``token`` is the variable that holds its bearer token; ``authority`` the certificate
    that it is trusted by, None where the system's do; ``npx`` the command that runs a bridge."""

    url: str
    token: str | None = None
    authority: str | None = None
    npx: str = "npx"


@dataclass(frozen=True)
class Client:
    """A program. ``user`` are the files it may have for all projects, the likeliest first; ``project`` the one within
    a project. ``reference`` is how it writes the value of an environment variable ``{}``; None: it cannot.
    ``trust`` says how it comes to trust a certificate authority, where it does not use the system's."""

    name: str
    title: str
    format: Format
    user: Callable[[Place], Sequence[Path]]
    local: Callable[[Client, Local], dict[str, Any]]
    remote: Callable[[Client, Remote], dict[str, Any]]
    project: Sequence[str] = ()
    reference: str | None = None
    trust: str = ""
    after: str = "restart it"

    def secret(self, variable: str) -> str:
        """How the value of ``variable`` is written, for a client that can."""
        return (self.reference or "").replace("NAME", variable)

    def headers(self, server: Remote) -> dict[str, Any]:
        if server.token is None or self.reference is None:
            return {}
        return {"headers": {"Authorization": f"Bearer {self.secret(server.token)}"}}

    def environment(self, server: Local) -> dict[str, str]:
        secrets = {name: self.secret(name) for name in server.forward} if self.reference else {}
        return {**server.environment, **secrets}


def _local(client: Client, server: Local, **first: Any) -> dict[str, Any]:
    command, *arguments = server.command
    environment = client.environment(server)
    entry = {**first, "command": command, "args": arguments}
    return {**entry, "env": environment} if environment else entry


def _local_typed(client: Client, server: Local) -> dict[str, Any]:
    return _local(client, server, type="stdio")


def _local_opencode(client: Client, server: Local) -> dict[str, Any]:
    environment = client.environment(server)
    entry = {"type": "local", "command": list(server.command)}
    return {**entry, "environment": environment} if environment else entry


def _local_codex(client: Client, server: Local) -> dict[str, Any]:
    entry = _local(client, server)
    # it starts servers with nothing of its own environment but what is listed
    return {**entry, "env_vars": list(server.forward)} if server.forward else entry


def _remote(key: str, **first: Any) -> Callable[[Client, Remote], dict[str, Any]]:
    def build(client: Client, server: Remote) -> dict[str, Any]:
        return {**first, key: server.url, **client.headers(server)}

    return build


def _remote_codex(_: Client, server: Remote) -> dict[str, Any]:
    return {"url": server.url, **({"bearer_token_env_var": server.token} if server.token else {})}


def _bridge(_: Client, server: Remote) -> dict[str, Any]:
    """For a program that only starts servers: one that passes everything on."""
    arguments = ["-y", "mcp-remote@0.1.38", server.url, "--transport", "http-only"]
    if server.token:
        # no space after the colon: some systems lose it on the way
        arguments += ["--header", f"Authorization:Bearer ${{{server.token}}}"]
    environment = {"NODE_EXTRA_CA_CERTS": server.authority} if server.authority else {}
    return {"command": server.npx, "args": arguments, **({"env": environment} if environment else {})}


def _opencode(place: Place) -> Sequence[Path]:
    return [place.configuration("opencode", name) for name in ("opencode.json", "opencode.jsonc")]


def _cline(place: Place) -> Sequence[Path]:
    named = place.environment.get("CLINE_MCP_SETTINGS_PATH")
    if named:
        return [Path(named)]
    file = ("settings", "cline_mcp_settings.json")
    extension = place.application_data("Code", "User", "globalStorage", "saoudrizwan.claude-dev", *file)
    return [extension, place.in_home(".cline", "data", *file)]


def _zed(place: Place) -> Sequence[Path]:
    windows = place.system == "win32"
    return [place.application_data("Zed", "settings.json") if windows else place.configuration("zed", "settings.json")]


def _devin(place: Place) -> Sequence[Path]:
    windows = place.system == "win32"
    return [(place.application_data if windows else place.configuration)("devin", "config.json")]


_NODE: Final = "start it with NODE_EXTRA_CA_CERTS={authority}"

CLIENTS: Final[Mapping[str, Client]] = {
    client.name: client
    for client in (
        Client(
            "claude-code", "Claude Code", JsonFile(("mcpServers",), lenient=False),
            lambda place: [place.path(place.from_variable("CLAUDE_CONFIG_DIR"), ".claude.json")],
            _local_typed, _remote("url", type="http"), (".mcp.json",), "${NAME}", _NODE,
        ),
        Client(
            "claude-desktop", "Claude Desktop", JsonFile(("mcpServers",), lenient=False),
            lambda place: [place.application_data("Claude", "claude_desktop_config.json")],
            _local, _bridge,
        ),
        Client(
            "codex", "Codex CLI", TomlFile(("mcp_servers",)),
            lambda place: [place.path(place.from_variable("CODEX_HOME", ".codex"), "config.toml")],
            _local_codex, _remote_codex, (".codex", "config.toml"), None,
            "start it with CODEX_CA_CERTIFICATE={authority}",
        ),
        Client(
            "cursor", "Cursor", JsonFile(("mcpServers",)),
            lambda place: [place.in_home(".cursor", "mcp.json")],
            _local, _remote("url"), (".cursor", "mcp.json"), "${env:NAME}", _NODE,
        ),
        Client(
            "cline", "Cline", JsonFile(("mcpServers",), lenient=False), _cline,
            _local, _remote("url", type="streamableHttp"), (), "${env:NAME}", _NODE,
        ),
        Client(
            "zed", "Zed", JsonFile(("context_servers",)), _zed,
            _local, _remote("url"), (".zed", "settings.json"), None, after="it reads the change at once",
        ),
        Client(
            "opencode", "opencode", JsonFile(("mcp",), empty={"$schema": "https://opencode.ai/config.json"}), _opencode,
            _local_opencode, _remote("url", type="remote"), ("opencode.json",), "{env:NAME}", _NODE,
        ),
        Client(
            "windsurf", "Windsurf", JsonFile(("mcpServers",)),
            lambda place: [place.in_home(".codeium", "windsurf", "mcp_config.json")],
            _local, _remote("serverUrl"), (), "${env:NAME}", _NODE, "refresh its list of MCP servers",
        ),
        Client(
            "devin", "Devin CLI", JsonFile(("mcpServers",), empty={"version": 1}), _devin,
            _local, _remote("url", transport="http"), (".devin", "config.json"),
        ),
        Client(
            "vscode", "VS Code", JsonFile(("servers",)),
            lambda place: [place.application_data("Code", "User", "mcp.json")],
            _local_typed, _remote("url", type="http"), (".vscode", "mcp.json"), "${env:NAME}", _NODE,
            "start the server from its list of MCP servers",
        ),
        Client(
            "gemini", "Gemini CLI", JsonFile(("mcpServers",)),
            lambda place: [place.in_home(".gemini", "settings.json")],
            _local, _remote("httpUrl"), (".gemini", "settings.json"), "${NAME}", _NODE,
        ),
    )
}  # fmt: skip


def suited(client: Client, text: str) -> Format:
    """The format of a file that holds ``text``: opencode keeps servers one level deeper where somebody moved to the
    layout of its second version, which reads both. Raises MalformedFile."""
    if client.name == "opencode" and isinstance(JsonFile(()).entry(text, "mcp"), dict):
        inner = JsonFile(("mcp",)).entry(text, "servers")
        if isinstance(inner, dict) and "type" not in inner:
            return JsonFile(("mcp", "servers"))
    return client.format
