"""From settings to an extractor (D58)."""

from __future__ import annotations

import msgspec
import pytest

from velesdb_memory.backends import base_url
from velesdb_memory.errors import InvalidArgument
from velesdb_memory.extract.ollama import OllamaExtractor
from velesdb_memory.extract.openai import OpenAiExtractor
from velesdb_memory.extract.outline import OutlineExtractor
from velesdb_memory.extract.select import ExtractorSettings, select_extractor

TOKEN = "sk-very-secret-0123456789"


def test_the_accepted_names_select_their_extractor_without_contacting_anybody() -> None:
    assert select_extractor(ExtractorSettings()) is None
    assert select_extractor(ExtractorSettings("none")) is None
    assert isinstance(select_extractor(ExtractorSettings("outline")), OutlineExtractor)
    local = select_extractor(ExtractorSettings("ollama", url=" ", model="m", token=TOKEN))
    assert isinstance(local, OllamaExtractor)
    assert local.name == "ollama"
    assert "http://localhost:11434" in repr(local)
    remote = select_extractor(ExtractorSettings("openai", "https://h/v1", "m", TOKEN))
    assert isinstance(remote, OpenAiExtractor)
    assert remote.name == "openai"


@pytest.mark.parametrize("name", ["Outline", " outline", "OLLAMA", "gpt", "\n"])
def test_any_other_name_is_refused_quoting_it_and_listing_the_accepted_ones_d58(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        select_extractor(ExtractorSettings(name))
    for part in (repr(name), "outline", "ollama", "openai", "none", "VELESDB_MEMORY_EXTRACTOR"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        (ExtractorSettings("ollama"), "VELESDB_MEMORY_EXTRACTOR_MODEL"),
        (ExtractorSettings("ollama", "http://h", "  "), "VELESDB_MEMORY_EXTRACTOR_MODEL"),
        (ExtractorSettings("ollama", "h:11434", "m"), "VELESDB_MEMORY_EXTRACTOR_URL"),
        (ExtractorSettings("ollama", model="m", keep_alive=" "), "VELESDB_MEMORY_OLLAMA_KEEP_ALIVE"),
        (ExtractorSettings("ollama", model="m", token=" "), "VELESDB_MEMORY_EXTRACTOR_API_TOKEN"),
        (ExtractorSettings("openai", model="m"), "VELESDB_MEMORY_EXTRACTOR_URL"),
        (ExtractorSettings("openai", " / ", "m"), "VELESDB_MEMORY_EXTRACTOR_URL"),
        (ExtractorSettings("openai", "http://h"), "VELESDB_MEMORY_EXTRACTOR_MODEL"),
        (ExtractorSettings("openai", "http://h", "m", "\u3000"), "VELESDB_MEMORY_EXTRACTOR_API_TOKEN"),
        (ExtractorSettings("openai", "http://h", "m", "a\nb"), "VELESDB_MEMORY_EXTRACTOR_API_TOKEN"),
        (ExtractorSettings("openai", "http://h", "m", "pässword"), "VELESDB_MEMORY_EXTRACTOR_API_TOKEN"),
        (ExtractorSettings("openai", "ftp://h", "m"), "VELESDB_MEMORY_EXTRACTOR_URL"),
        (ExtractorSettings("openai", "http://h:0", "m"), "VELESDB_MEMORY_EXTRACTOR_URL"),
        (ExtractorSettings("openai", "http://h:99999", "m"), "VELESDB_MEMORY_EXTRACTOR_URL"),
        (ExtractorSettings("openai", "http://h?key=1", "m"), "VELESDB_MEMORY_EXTRACTOR_URL"),
        (ExtractorSettings("openai", "http://h/\nx", "m"), "VELESDB_MEMORY_EXTRACTOR_URL"),
    ],
)
def test_a_missing_or_malformed_setting_is_named_d58(settings: ExtractorSettings, variable: str) -> None:
    with pytest.raises(InvalidArgument, match=variable) as caught:
        select_extractor(settings)
    assert "pässword" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "base"),
    [
        (" http://h/v1/ ", "http://h"),
        ("http://h/v1/v1", "http://h/v1"),
        ("http://h/api", "http://h/api"),
        ("http://v1", "http://v1"),
        ("/v1", "/v1"),
        ("http://h/xv1", "http://h/xv1"),
    ],
)
def test_one_trailing_v1_of_a_base_url_is_dropped(given: str, base: str) -> None:
    assert base_url(given) == base


def test_settings_survive_a_round_trip() -> None:
    settings = ExtractorSettings("openai", "http://h", "m", TOKEN, 5)
    assert msgspec.convert(msgspec.to_builtins(settings), ExtractorSettings) == settings
    assert "(malformed)" in repr(ExtractorSettings("openai", "http://[user:pw@", "m"))
