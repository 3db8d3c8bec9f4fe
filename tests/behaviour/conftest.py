"""Fixtures of the behaviour tests."""


from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.jobs import Opener
from support.migrations import Targets
from support.model_server import ModelServer
from velesdb_memory import Link, MemoryService
from velesdb_memory.testing import FixedClock, FixedEmbedder


@pytest.fixture
def service(folder: Path, clock: FixedClock) -> Iterator[Opener]:
    """Opens the test's store with an extractor of one's own."""
    opened: list[MemoryService] = []

    def open_one(extractor: Any = None, **arguments: Any) -> MemoryService:
        arguments = {"embedder": FixedEmbedder(), "clock": clock} | arguments
        opened.append(MemoryService(folder, extractor=extractor, **arguments))
        return opened[-1]

    yield open_one
    for memory in opened:
        memory.close()


@pytest.fixture
def moving(folder: Path, clock: FixedClock) -> Iterator[Opener]:
    """Opens the test's store with targets to migrate to."""
    opened: list[MemoryService] = []

    def open_one(**arguments: Any) -> MemoryService:
        arguments = {"embedder": FixedEmbedder(), "clock": clock, "targets": Targets()} | arguments
        opened.append(MemoryService(folder, **arguments))
        return opened[-1]

    yield open_one
    for memory in opened:
        memory.close()


@pytest.fixture
def friday(memory: MemoryService) -> MemoryService:
    """The example of memory.md §6: one fact leads to another that shares no word with the question."""
    zebra = memory.remember("zebra unrelated words")
    memory.remember("deploy pipeline broke on friday", links=[Link(zebra, "caused_by")])
    memory.remember("deploy checklist")
    memory.remember("pipeline color scheme")
    return memory


@pytest.fixture
def server(model: ModelServer) -> ModelServer:
    """The model server, by the name that tests of embedders and extractors know it by."""
    return model


@pytest.fixture
def nowhere() -> str:
    """The address of a server that is not there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"
