from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from wire.client import Server


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
