from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from wire.client import Call, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server a module, over the newest handshake."""
    with Server(tmp_path_factory.mktemp("store")) as running:
        running.initialize()
        yield running


@pytest.fixture(scope="module")
def tools(server: Server) -> dict[str, dict[str, Any]]:
    """What it offers, by name."""
    return server.tools()


@pytest.fixture(scope="module")
def call(server: Server, tools: dict[str, Any]) -> Call:
    """Call a tool; every answer is checked against the schema that was published."""

    def checked(tool: str, /, **arguments: Any) -> dict[str, Any]:
        result = server.call_with(tool, arguments)
        jsonschema.validate(result, tools[tool]["outputSchema"])
        return result

    return checked
