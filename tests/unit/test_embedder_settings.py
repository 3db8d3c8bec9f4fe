"""From settings to an embedder (D58, D60)."""

from __future__ import annotations

import msgspec
import pytest

from velesdb_memory import HashEmbedder, LocalEmbedder, OllamaEmbedder, OpenAiEmbedder, config
from velesdb_memory.embed.select import EmbedderSettings, ignored_settings, select_embedder
from velesdb_memory.errors import InvalidArgument

TOKEN = "sk-very-secret-0123456789"


def settings(**variables: str) -> config.Settings:
    return config.load({f"VELESDB_MEMORY_{name}": value for name, value in variables.items()})


def test_the_accepted_names_select_their_embedder_without_contacting_anybody() -> None:
    assert isinstance(config.make_embedder(settings()), HashEmbedder)
    local = config.make_embedder(settings(EMBEDDER="local"))
    assert isinstance(local, LocalEmbedder)
    assert (local.model, local.dimension, local.semantic) == ("all-minilm-l6-v2", 384, True)
    other = config.make_embedder(settings(EMBEDDER="local", EMBEDDER_MODEL=" use-multilingual-v3 "))
    assert (other.model, other.dimension) == ("use-multilingual-v3", 512)
    served = config.make_embedder(settings(EMBEDDER="ollama"))
    assert isinstance(served, OllamaEmbedder)
    assert (served.model, served.fingerprint, served.dimension) == ("all-minilm", "all-minilm", None)
    assert "http://localhost:11434" in repr(served)
    remote = config.make_embedder(
        settings(EMBEDDER="openai", EMBEDDER_URL="https://h/v1", EMBEDDER_MODEL="m", EMBEDDER_API_TOKEN=TOKEN)
    )
    assert isinstance(remote, OpenAiEmbedder)
    assert "https://h," in repr(remote) and TOKEN not in repr(remote)


@pytest.mark.parametrize("name", ["Hash", " hash", "OLLAMA", "", "fastembed"])
def test_d58_any_other_name_is_refused_listing_the_accepted_ones(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        settings(EMBEDDER=name)
    for part in ("VELESDB_MEMORY_EMBEDDER", repr(name), "hash", "local", "ollama", "openai"):
        assert part in str(caught.value)
    with pytest.raises(InvalidArgument, match="VELESDB_MEMORY_MIGRATION must be exactly one of"):
        select_embedder(EmbedderSettings(name), "MIGRATION")


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"EMBEDDER": "local", "EMBEDDER_MODEL": "bert"}, "all-minilm-l6-v2"),
        ({"EMBEDDER": "local", "EMBEDDER_MODEL": "bert"}, "EMBEDDER_MODEL"),
        ({"EMBEDDER": "ollama", "EMBEDDER_URL": "h:11434"}, "EMBEDDER_URL"),
        ({"EMBEDDER": "ollama", "EMBEDDER_URL": "ftp://h"}, "EMBEDDER_URL"),
        ({"EMBEDDER": "ollama", "OLLAMA_KEEP_ALIVE": " "}, "OLLAMA_KEEP_ALIVE"),
        ({"EMBEDDER": "ollama", "EMBEDDER_API_TOKEN": " "}, "EMBEDDER_API_TOKEN"),
        ({"EMBEDDER_API_TOKEN": ""}, "EMBEDDER_API_TOKEN"),
        ({"EMBEDDER": "openai", "EMBEDDER_MODEL": "m"}, "EMBEDDER_URL"),
        ({"EMBEDDER": "openai", "EMBEDDER_MODEL": "m", "OLLAMA_URL": "http://h"}, "EMBEDDER_URL"),
        ({"EMBEDDER": "openai", "EMBEDDER_URL": "http://h"}, "EMBEDDER_MODEL"),
        ({"EMBEDDER": "ollama", "EMBEDDER_API_TOKEN": "pä"}, "TOKEN"),
        ({"EMBEDDER_TIMEOUT": "soon"}, "EMBEDDER_TIMEOUT"),
    ],
)
def test_d58_a_missing_or_malformed_setting_is_named(variables: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named) as caught:
        config.make_embedder(settings(**variables))
    assert "pä" not in str(caught.value)


def test_the_older_names_serve_ollama_and_the_newer_win() -> None:
    old = {"EMBEDDER": "ollama", "OLLAMA_URL": "http://old:1", "OLLAMA_MODEL": "old"}
    embedder = config.make_embedder(settings(**old))
    assert embedder.model == "old" and "http://old:1" in repr(embedder)
    both = settings(**old, EMBEDDER_URL="http://new:1", EMBEDDER_MODEL="old")
    embedder = config.make_embedder(both)
    assert embedder.model == "old" and "http://new:1" in repr(embedder)
    [notice] = ignored_settings(config.embedder_settings(both))
    assert "VELESDB_MEMORY_OLLAMA_URL" in notice and "VELESDB_MEMORY_EMBEDDER_URL" in notice
    assert ignored_settings(config.embedder_settings(settings(**old))) == []
    local = config.make_embedder(settings(**{**old, "EMBEDDER": "local"}))
    assert local.model == "all-minilm-l6-v2"


def test_the_token_and_the_credentials_of_an_address_are_shown_nowhere() -> None:
    made = EmbedderSettings("openai", "http://me:pass-word@h", "m", TOKEN, ollama_url="http://[me:pass-word@")
    for text in (repr(made), str(made), str(made.__rich_repr__()), repr(settings(EMBEDDER_API_TOKEN=TOKEN))):
        assert TOKEN not in text and "pass-word" not in text
    assert msgspec.convert(msgspec.to_builtins(made), EmbedderSettings) == made


def test_none_of_the_settings_loads_a_model() -> None:
    assert LocalEmbedder("use-multilingual-v3").fingerprint == "use-multilingual-v3-1"
    assert LocalEmbedder().fingerprint == "all-minilm-l6-v2-int8-1"
