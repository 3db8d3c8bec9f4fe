"""What is published beside the package says the same as the package."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from velesdb_memory import __version__, config
from velesdb_memory.config import PREFIX, SETTINGS
from velesdb_memory.settings import Name, Switch

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MANIFEST: dict[str, Any] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))


def test_the_manifest_is_of_the_shape_that_the_registry_takes() -> None:
    assert re.fullmatch(
        r"https://static\.modelcontextprotocol\.io/schemas/\d{4}-\d\d-\d\d/server\.schema\.json", MANIFEST["$schema"]
    )
    assert set(MANIFEST) <= {
        "$schema",
        "name",
        "title",
        "description",
        "version",
        "repository",
        "websiteUrl",
        "packages",
    }
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", MANIFEST["name"])
    assert 1 <= len(MANIFEST["description"]) <= 100 and len(MANIFEST["title"]) <= 100
    [package] = MANIFEST["packages"]
    assert {"registryType", "identifier", "version", "transport"} <= set(package)
    assert package["transport"] == {"type": "stdio"}
    for variable in package["environmentVariables"]:
        assert set(variable) <= {"name", "description", "format", "default", "choices", "isSecret", "isRequired"}
        assert variable.get("format", "string") in ("string", "number", "boolean", "filepath")


def test_the_manifest_agrees_with_the_package() -> None:
    [package] = MANIFEST["packages"]
    assert package["identifier"] == PROJECT["name"]
    assert MANIFEST["version"] == package["version"] == PROJECT["version"] == __version__
    # the index shows that the package belongs to whoever publishes the manifest
    assert f"<!-- mcp-name: {MANIFEST['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8")
    for variable in package["environmentVariables"]:
        row = SETTINGS[variable["name"].removeprefix(PREFIX)]
        assert variable.get("default") == row.default
        assert variable.get("isSecret", False) is row.secret
        if "choices" in variable:
            assert variable["choices"] == (["0", "1"] if isinstance(row.kind, Switch) else list(names(row.kind)))


def names(kind: object) -> tuple[str, ...]:
    assert isinstance(kind, Name)
    return kind.names


def test_the_container_sets_what_exists_and_runs_as_nobody_in_particular(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    given = dict(re.findall(r"(VELESDB_MEMORY_[A-Z_]+)=(\S+)", text.split("\nENV ")[1].split("\nVOLUME")[0]))
    settings = config.load(given, {})
    assert settings.http and settings.http_allow_remote and not settings.http_insecure
    assert (str(settings.path), str(settings.tls_dir)) == ("/data/store", "/data/tls")
    assert f"EXPOSE {settings.http_address.port}\n" in text and "VOLUME /data\n" in text
    last = text.rpartition("\nFROM ")[2]
    assert last.index("\nUSER memory\n") < last.index("\nENTRYPOINT")
    [check] = re.findall(r'CMD (\["python", "-c", .*\])', last)
    code = json.loads(check)[2]
    # nothing answers here: it must say so, and not fail in another way
    monkeypatch.setenv("VELESDB_MEMORY_TLS_DIR", str(ROOT / "no-such-directory"))
    with pytest.raises(SystemExit, match="no daemon"):
        exec(code)
