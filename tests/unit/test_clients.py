"""Where each program keeps its servers on each system, and what an entry looks like there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from velesdb_memory.clients.edit import backup_of, connected, undone, write
from velesdb_memory.clients.registry import CLIENTS, Client, Local, Place, Remote, System
from velesdb_memory.errors import InvalidInput, MalformedFile

LINUX = Place("linux", "/home/u", {})
MAC = Place("darwin", "/Users/u", {})
WINDOWS = Place("win32", r"C:\Users\u", {"APPDATA": r"C:\Users\u\AppData\Roaming"})
CODE = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"

PLACES = {
    "claude-code": ("/home/u/.claude.json", "/Users/u/.claude.json", r"C:\Users\u\.claude.json"),
    "claude-desktop": (
        "/home/u/.config/Claude/claude_desktop_config.json",
        "/Users/u/Library/Application Support/Claude/claude_desktop_config.json",
        r"C:\Users\u\AppData\Roaming\Claude\claude_desktop_config.json",
    ),
    "codex": ("/home/u/.codex/config.toml", "/Users/u/.codex/config.toml", r"C:\Users\u\.codex\config.toml"),
    "cursor": ("/home/u/.cursor/mcp.json", "/Users/u/.cursor/mcp.json", r"C:\Users\u\.cursor\mcp.json"),
    "cline": (
        f"/home/u/.config/Code/User/{CODE}",
        f"/Users/u/Library/Application Support/Code/User/{CODE}",
        r"C:\Users\u\AppData\Roaming\Code\User" + "\\" + CODE.replace("/", "\\"),
    ),
    "zed": (
        "/home/u/.config/zed/settings.json",
        "/Users/u/.config/zed/settings.json",
        r"C:\Users\u\AppData\Roaming\Zed\settings.json",
    ),
    "opencode": (
        "/home/u/.config/opencode/opencode.json",
        "/Users/u/.config/opencode/opencode.json",
        r"C:\Users\u\.config\opencode\opencode.json",
    ),
    "windsurf": (
        "/home/u/.codeium/windsurf/mcp_config.json",
        "/Users/u/.codeium/windsurf/mcp_config.json",
        r"C:\Users\u\.codeium\windsurf\mcp_config.json",
    ),
    "devin": (
        "/home/u/.config/devin/config.json",
        "/Users/u/.config/devin/config.json",
        r"C:\Users\u\AppData\Roaming\devin\config.json",
    ),
    "vscode": (
        "/home/u/.config/Code/User/mcp.json",
        "/Users/u/Library/Application Support/Code/User/mcp.json",
        r"C:\Users\u\AppData\Roaming\Code\User\mcp.json",
    ),
    "gemini": ("/home/u/.gemini/settings.json", "/Users/u/.gemini/settings.json", r"C:\Users\u\.gemini\settings.json"),
}

STDIO: dict[str, Any] = {"command": "/bin/vm", "args": ["--x"], "env": {"P": "/s"}}
LOCALS: dict[str, Any] = {
    "claude-code": {"type": "stdio", **STDIO},
    "vscode": {"type": "stdio", **STDIO},
    "opencode": {"type": "local", "command": ["/bin/vm", "--x"], "environment": {"P": "/s"}},
}

URL, TOKEN = "https://localhost:18090/mcp", "VELESDB_MEMORY_HTTP_TOKEN"


def headers(reference: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {reference}"}}


REMOTES: dict[str, Any] = {
    "claude-code": {"type": "http", "url": URL, **headers("${VELESDB_MEMORY_HTTP_TOKEN}")},
    "claude-desktop": {
        "command": "/bin/npx",
        "args": [
            "-y", "mcp-remote@0.1.38", URL, "--transport", "http-only",
            "--header", "Authorization:Bearer ${VELESDB_MEMORY_HTTP_TOKEN}",
        ],
        "env": {"NODE_EXTRA_CA_CERTS": "/tls/ca-cert.pem"},
    },
    "codex": {"url": URL, "bearer_token_env_var": TOKEN},
    "cursor": {"url": URL, **headers("${env:VELESDB_MEMORY_HTTP_TOKEN}")},
    "cline": {"type": "streamableHttp", "url": URL, **headers("${env:VELESDB_MEMORY_HTTP_TOKEN}")},
    "zed": {"url": URL},
    "opencode": {"type": "remote", "url": URL, **headers("{env:VELESDB_MEMORY_HTTP_TOKEN}")},
    "windsurf": {"serverUrl": URL, **headers("${env:VELESDB_MEMORY_HTTP_TOKEN}")},
    "devin": {"transport": "http", "url": URL},
    "vscode": {"type": "http", "url": URL, **headers("${env:VELESDB_MEMORY_HTTP_TOKEN}")},
    "gemini": {"httpUrl": URL, **headers("${VELESDB_MEMORY_HTTP_TOKEN}")},
}  # fmt: skip

KEYS = {
    "codex": ["mcp_servers"], "zed": ["context_servers"], "opencode": ["mcp"], "vscode": ["servers"],
}  # fmt: skip


def test_the_eleven_programs_are_known() -> None:
    assert set(CLIENTS) == set(PLACES) == set(REMOTES)
    for name, client in CLIENTS.items():
        assert list(client.format.path) == KEYS.get(name, ["mcpServers"])


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("index", range(3), ids=["linux", "darwin", "win32"])
def test_each_program_keeps_its_configuration_where_its_documentation_says(name: str, index: int) -> None:
    place = (LINUX, MAC, WINDOWS)[index]
    assert str(CLIENTS[name].user(place)[0]) == PLACES[name][index]


@pytest.mark.parametrize(
    ("name", "variable", "expected"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "/d/.claude.json"),
        ("codex", "CODEX_HOME", "/d/config.toml"),
        ("cline", "CLINE_MCP_SETTINGS_PATH", "/d"),
        ("zed", "XDG_CONFIG_HOME", "/d/zed/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "/d/opencode/opencode.json"),
        ("vscode", "XDG_CONFIG_HOME", "/d/Code/User/mcp.json"),
    ],
)
def test_variables_that_move_a_configuration_are_followed(name: str, variable: str, expected: str) -> None:
    assert str(CLIENTS[name].user(Place("linux", "/home/u", {variable: "/d"}))[0]) == expected


@pytest.mark.parametrize("name", CLIENTS)
def test_a_server_on_stdio_is_written_as_the_program_reads_it(name: str) -> None:
    client = CLIENTS[name]
    assert client.local(client, Local(["/bin/vm", "--x"], {"P": "/s"})) == LOCALS.get(name, STDIO)
    assert not {"env", "environment"} & set(client.local(client, Local(["/bin/vm"], {})))


@pytest.mark.parametrize("name", CLIENTS)
def test_a_server_over_https_is_written_as_the_program_reads_it(name: str) -> None:
    client = CLIENTS[name]
    assert client.remote(client, Remote(URL, TOKEN, "/tls/ca-cert.pem", "/bin/npx")) == REMOTES[name]
    without = json.dumps(client.remote(client, Remote("http://localhost:1/mcp")))
    assert not any(word in without for word in ("Authorization", "bearer", "NODE_EXTRA"))


def test_a_secret_is_only_ever_referred_to() -> None:
    server = Local(["/bin/vm"], {}, ["S"])
    entries = {name: json.dumps(client.local(client, server)) for name, client in CLIENTS.items()}
    assert '"S": "${S}"' in entries["claude-code"] and '"S": "{env:S}"' in entries["opencode"]
    assert '"env_vars": ["S"]' in entries["codex"]
    assert "S" not in entries["claude-desktop"].replace("STDIO", "")


# -- files ----------------------------------------------------------------------------------------------------------

NAME = "velesdb-memory"


def other_servers(client: Client, tmp_path: Path) -> tuple[Path, bytes]:
    """A configuration with other things in it, laid out by hand."""
    if client.name == "codex":
        data = b'# mine\nmodel = "o"\n\n[mcp_servers.other]\ncommand = "o"\n\n[profiles.x]\nmodel = "p"\n'
    else:
        [key] = client.format.path
        data = f'{{\n    "a": [1,   2],\n    "{key}": {{\n        "other": {{ "command": "o" }}\n    }}\n}}\n'.encode()
    file = tmp_path / "configuration"
    file.write_bytes(data)
    return file, data


def entry_of(client: Client) -> dict[str, Any]:
    return client.local(client, Local(["/bin/vm"], {"P": "/s"}))


@pytest.mark.parametrize("name", CLIENTS)
def test_an_entry_is_merged_twice_the_same_and_undone_byte_for_byte(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    file, data = other_servers(client, tmp_path)
    file.chmod(0o640)
    write(connected(file, client, NAME, entry_of(client)))
    text = file.read_text(encoding="utf-8")
    assert client.format.entry(text, NAME) == entry_of(client)
    assert client.format.entry(text, "other") == {"command": "o"}
    assert backup_of(file).read_bytes() == data
    again = connected(file, client, NAME, entry_of(client))
    assert not again.changes
    write(undone(file, client, NAME))
    assert file.read_bytes() == data
    assert not backup_of(file).exists()
    assert not undone(file, client, NAME).changes
    assert file.stat().st_mode & 0o777 in (0o640, 0o666)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_file_that_was_not_there_is_made_and_gone_again(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    file = tmp_path / "deep" / "configuration"
    write(connected(file, client, NAME, entry_of(client)))
    # a second change, after which there is still nothing to go back to
    write(connected(file, client, NAME, {**entry_of(client), "x": "y"}))
    assert client.format.entry(file.read_text(encoding="utf-8"), NAME)["x"] == "y"
    write(undone(file, client, NAME))
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize("name", CLIENTS)
def test_a_second_change_still_goes_back_to_what_was_there_before_the_first(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    file, data = other_servers(client, tmp_path)
    for value in ("one", "two", "three"):
        write(connected(file, client, NAME, {**entry_of(client), "x": value}))
    write(undone(file, client, NAME))
    assert file.read_bytes() == data


@pytest.mark.parametrize("name", CLIENTS)
def test_what_somebody_changed_since_is_kept_when_the_entry_is_removed(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    file, _ = other_servers(client, tmp_path)
    write(connected(file, client, NAME, entry_of(client)))
    edited = client.format.put(file.read_text(encoding="utf-8"), "later", {"command": "l"})
    file.write_text(edited, encoding="utf-8", newline="")
    write(undone(file, client, NAME))
    text = file.read_text(encoding="utf-8")
    assert client.format.entry(text, NAME) is None
    assert client.format.entry(text, "later") == {"command": "l"}
    assert client.format.entry(text, "other") == {"command": "o"}


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("data", [b"{ oops", b"\xff\xfe{}", b'{"a": 1}}', b"[1]"])
def test_a_malformed_file_is_refused_by_name_and_not_touched(name: str, data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "configuration"
    file.write_bytes(data)
    client = CLIENTS[name]
    if name == "codex" and data == b"[1]":
        pytest.skip("a table called 1")
    with pytest.raises(MalformedFile) as caught:
        connected(file, client, NAME, entry_of(client))
    assert str(caught.value).startswith(f"{file}: ")
    assert data.startswith(b"\xff") or "line 1, column " in str(caught.value)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [data]


def test_a_file_that_changed_since_it_was_read_is_not_overwritten(tmp_path: Path) -> None:
    client = CLIENTS["cursor"]
    file, data = other_servers(client, tmp_path)
    change = connected(file, client, NAME, entry_of(client))
    file.write_bytes(data + b"\n")
    with pytest.raises(InvalidInput, match="meanwhile"):
        write(change)
    assert file.read_bytes() == data + b"\n"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    client = CLIENTS["cursor"]
    file, data = other_servers(client, tmp_path)
    link = tmp_path / "link"
    try:
        link.symlink_to(file)
    except OSError:
        pytest.skip("links need rights here")
    write(connected(link, client, NAME, entry_of(client)))
    assert link.is_symlink() and b"velesdb-memory" in file.read_bytes()
    write(undone(link, client, NAME))
    assert link.is_symlink() and file.read_bytes() == data


def test_opencode_gets_the_layout_that_its_file_has(tmp_path: Path) -> None:
    """Its second version keeps servers one level deeper, and reads the first one's layout too."""
    client = CLIENTS["opencode"]
    file = tmp_path / "opencode.jsonc"
    file.write_text(
        '{\n  "mcp": {\n    "servers": {\n      "o": {"type": "local", "command": ["o"]},\n    },\n  },\n}\n'
    )
    data = file.read_bytes()
    write(connected(file, client, NAME, entry_of(client)))
    assert client.format.document(file.read_text())["mcp"]["servers"][NAME] == entry_of(client)
    write(undone(file, client, NAME))
    assert file.read_bytes() == data


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_every_path_is_absolute_and_within_the_home(system: System) -> None:
    home = r"C:\u" if system == "win32" else "/u"
    for client in CLIENTS.values():
        for path in client.user(Place(system, home, {})):
            assert str(path).startswith(home)
