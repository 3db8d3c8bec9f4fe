"""Where the settings of a migration's target come from (D55)."""

from __future__ import annotations

import pytest

from velesdb_memory.config import load, make_target
from velesdb_memory.embed.base import Embedder
from velesdb_memory.errors import InvalidArgument


def made(backend: str, **environment: str) -> Embedder:
    return make_target(load({f"VELESDB_MEMORY_{name}": value for name, value in environment.items()}), backend)


def where(embedder: Embedder) -> tuple[str, str]:
    """The model, and the address that it shows."""
    return embedder.model, repr(embedder).split("Endpoint(")[1].split(",")[0].split()[1]


def test_D55_the_settings_of_the_embedder_are_those_of_the_target() -> None:
    settings = {"EMBEDDER_URL": "http://here:1", "EMBEDDER_MODEL": "small"}
    assert where(made("ollama", **settings)) == ("small", "http://here:1")
    assert where(made("ollama", EMBEDDER="ollama", **settings)) == ("small", "http://here:1")


def test_D55_those_of_migrations_come_first_one_by_one() -> None:
    settings = {"EMBEDDER": "openai", "EMBEDDER_URL": "http://here:1", "EMBEDDER_MODEL": "small"}
    assert where(made("openai", MIGRATION_MODEL="large", **settings)) == ("large", "http://here:1")
    assert where(made("openai", MIGRATION_URL="http://there:2", **settings)) == ("small", "http://there:2")


def test_settings_of_another_backend_are_not_the_targets() -> None:
    settings = {"EMBEDDER": "openai", "EMBEDDER_URL": "http://here:1", "EMBEDDER_MODEL": "small"}
    assert where(made("ollama", **settings)) == ("all-minilm", "http://localhost:11434")
    assert made("local", **settings).model == "all-minilm-l6-v2"
    assert made("hash", **settings).model == "hash"


def test_a_setting_that_is_missing_is_named_as_that_of_migrations() -> None:
    with pytest.raises(InvalidArgument, match="VELESDB_MEMORY_MIGRATION_URL"):
        made("openai", MIGRATION_MODEL="large")
    with pytest.raises(InvalidArgument, match="VELESDB_MEMORY_MIGRATION_API_TOKEN"):
        made("openai", MIGRATION_URL="http://there:2", MIGRATION_MODEL="large", MIGRATION_API_TOKEN=" ")


@pytest.mark.parametrize("backend", ["", "HASH", "nobody", "x" * 1_000])
def test_an_unsupported_backend_is_refused_with_the_ones_there_are(backend: str) -> None:
    with pytest.raises(InvalidArgument, match="hash, local, ollama, openai") as caught:
        made(backend)
    assert caught.value.field == "target_backend" and len(str(caught.value)) < 200
