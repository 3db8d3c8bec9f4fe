"""Fixtures that every test may use: a still clock, an embedder without a model, a store that is closed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support.model_server import ModelServer
from velesdb_memory import MemoryService
from velesdb_memory.embed.base import Embedder
from velesdb_memory.testing import FixedClock, FixedEmbedder

# what takes long on a busy machine is no fault
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

Opener = Callable[..., MemoryService]


@pytest.fixture(scope="module")
def shared_model() -> Iterator[ModelServer]:
    """A model server for a whole file."""
    with ModelServer() as running:
        yield running


@pytest.fixture
def model(shared_model: ModelServer) -> ModelServer:
    """The same, well-behaved and with nothing seen."""
    shared_model.script({})
    return shared_model


@pytest.fixture
def clock() -> FixedClock:
    """14 November 2023, 22:13:20 UTC, until a test lets time pass."""
    return FixedClock(1_700_000_000)


@pytest.fixture
def embedder() -> FixedEmbedder:
    return FixedEmbedder()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the store of a test is."""
    return tmp_path / "store"


@pytest.fixture
def open_memory(folder: Path, clock: FixedClock, embedder: FixedEmbedder) -> Iterator[Opener]:
    """Opens the test's store, again or elsewhere; everything opened is closed when the test ends."""
    opened: list[MemoryService] = []

    def open_one(path: Path = folder, embedder: Embedder = embedder, clock: FixedClock = clock) -> MemoryService:
        opened.append(MemoryService(path, embedder, clock=clock))
        return opened[-1]

    yield open_one
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(open_memory: Opener) -> MemoryService:
    """A service over the test's store."""
    return open_memory()
