"""An embedder that asks a model served by Ollama (``POST /api/embed``, which is there since version 0.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from ..backends import OLLAMA_URL, keep_alive_value
from .served import ServedEmbedder

DEFAULT_MODEL: Final = "all-minilm"


class OllamaEmbedder(ServedEmbedder):
    """Embeddings by a local Ollama model. Sends no credentials.

    ``keep_alive`` is how long the server keeps the model loaded: seconds, -1 for ever, or a duration such as ``10m``;
    ``options`` are those of :class:`~velesdb_memory.embed.served.ServedEmbedder`.
    """

    backend: ClassVar[str] = "ollama"
    path: ClassVar[str] = "/api/embed"
    answer_field: ClassVar[str] = "embeddings"

    def __init__(
        self, model: str = DEFAULT_MODEL, url: str = OLLAMA_URL, keep_alive: int | str = -1, **options: Any
    ) -> None:
        super().__init__(model, url, **options)
        self._keep_alive = keep_alive_value(keep_alive)

    def _payload(self, model: str, texts: Sequence[str]) -> dict[str, Any]:
        return {"model": model, "input": list(texts), "keep_alive": self._keep_alive}

    def _vectors(self, answer: dict[str, Any]) -> Any:
        return answer["embeddings"]
