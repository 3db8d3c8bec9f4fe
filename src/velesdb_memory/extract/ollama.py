"""An extractor that asks a model served by Ollama (``POST /api/generate``)."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from ..errors import InvalidArgument
from ..text import trim
from .generative import GenerativeExtractor
from .prompt import CONTEXT_TOKENS, REPLY_SCHEMA, REPLY_TOKENS, Reply, build_prompt

DEFAULT_URL: Final = "http://localhost:11434"
KEEP_ALIVE_VARIABLE: Final = "VELESDB_MEMORY_OLLAMA_KEEP_ALIVE"


class OllamaExtractor(GenerativeExtractor):
    """Extraction by a local Ollama model. Sends no credentials.

    ``keep_alive`` is how long the server keeps the model loaded: seconds, -1 for ever, or a duration such as ``10m``;
    ``options`` are those of :class:`~velesdb_memory.extract.generative.GenerativeExtractor`.
    """

    backend: ClassVar[str] = "ollama"
    path: ClassVar[str] = "/api/generate"
    reply_field: ClassVar[str] = "response"

    def __init__(self, model: str, url: str = DEFAULT_URL, keep_alive: int | str = -1, **options: Any) -> None:
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


def keep_alive_value(value: int | str) -> int | str:
    """``value`` as Ollama must be sent it: a number if it is one, because the text ``-1`` is ignored.

    Raises InvalidArgument, naming the environment variable, for a blank text.
    """
    if isinstance(value, int):
        return value
    text = trim(value)
    if not text:
        raise InvalidArgument(
            f"{KEEP_ALIVE_VARIABLE} is set but blank: unset it, or set it to seconds, -1, or a duration "
            "such as 10m",
            field="keep_alive",
        )
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else text
