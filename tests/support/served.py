"""Embedders that ask a model server, as tests build them: quick to give up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from velesdb_memory import OllamaEmbedder, OpenAiEmbedder
from velesdb_memory.embed.served import ServedEmbedder

FACT = "Nora Vinterberg moved to Oslo with her hypertension"


def ollama(url: str, model: str = "tiny", **options: Any) -> OllamaEmbedder:
    return OllamaEmbedder(model, url, **{"deadline": 5.0, "waits": (0.0, 0.0), **options})


def openai(url: str, token: str | None = None, model: str = "tiny", **options: Any) -> OpenAiEmbedder:
    return OpenAiEmbedder(model, url, token, **{"deadline": 5.0, "waits": (0.0, 0.0), **options})


BOTH = pytest.mark.parametrize("build", [ollama, openai])
Build = Callable[..., ServedEmbedder]
