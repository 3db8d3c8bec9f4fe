"""An embedder that asks any server of the OpenAI protocol (``POST /v1/embeddings``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from ..backends import base_url
from .served import ServedEmbedder


class _Entry(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class OpenAiEmbedder(ServedEmbedder):
    """Embeddings by a model behind ``POST {url}/v1/embeddings``.

    ``url`` may end in ``/v1`` or not; ``token``, if there is one, is sent as a bearer token and shown nowhere;
    ``options`` are those of :class:`~velesdb_memory.embed.served.ServedEmbedder`.
    """

    backend: ClassVar[str] = "openai"
    path: ClassVar[str] = "/v1/embeddings"
    answer_field: ClassVar[str] = "data[].embedding"

    def __init__(self, model: str, url: str, token: str | None = None, **options: Any) -> None:
        super().__init__(model, base_url(url), token, **options)

    def _payload(self, model: str, texts: Sequence[str]) -> dict[str, Any]:
        return {"model": model, "input": list(texts)}

    def _vectors(self, answer: dict[str, Any]) -> Any:
        entries = msgspec.convert(answer["data"], list[_Entry])
        places = [entry.index for entry in entries]
        # some servers number nothing, or every entry 0, and answer in the order of the texts
        if sorted(place for place in places if place is not None) == list(range(len(entries))):
            entries.sort(key=lambda entry: entry.index or 0)
        return [entry.embedding for entry in entries]
