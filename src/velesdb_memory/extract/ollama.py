"""An extractor that asks a model served by Ollama (``POST /api/generate``)."""

from __future__ import annotations

from typing import Any, ClassVar

from ..backends import OLLAMA_URL, keep_alive_value
from .generative import GenerativeExtractor
from .prompt import CONTEXT_TOKENS, REPLY_SCHEMA, REPLY_TOKENS, Reply, build_prompt


class OllamaExtractor(GenerativeExtractor):
    """Extraction by a local Ollama model. Sends no credentials.

    ``keep_alive`` is how long the server keeps the model loaded: seconds, -1 for ever, or a duration such as ``10m``;
    ``options`` are those of :class:`~velesdb_memory.extract.generative.GenerativeExtractor`.
    """

    backend: ClassVar[str] = "ollama"
    path: ClassVar[str] = "/api/generate"
    reply_field: ClassVar[str] = "response"

    def __init__(self, model: str, url: str = OLLAMA_URL, keep_alive: int | str = -1, **options: Any) -> None:
        super().__init__(model, url, **options)
        self._keep_alive = keep_alive_value(keep_alive)

    def _payload(self, model: str, piece: str) -> dict[str, Any]:
        return {
            "model": model,
            "prompt": build_prompt(piece),
            "stream": False,
            "think": False,
            "keep_alive": self._keep_alive,
            "format": REPLY_SCHEMA,
            # Older servers default to a context of 2,048 tokens and cut the prompt to it in silence
            "options": {"temperature": 0, "num_predict": REPLY_TOKENS, "num_ctx": CONTEXT_TOKENS},
        }

    def _reply(self, answer: dict[str, Any]) -> Reply | None:
        response = answer.get("response")
        return Reply(response, cut=answer.get("done_reason") == "length") if isinstance(response, str) else None
