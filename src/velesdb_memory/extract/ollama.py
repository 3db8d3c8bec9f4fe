"""An extractor that asks a model served by Ollama (``POST /api/generate``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from ..errors import ExtractError, InvalidArgument
from ..text import trim
from .base import Extraction
from .http import CONNECT_SECONDS, RETRY_WAITS, Endpoint, Variables
from .prompt import (
    CONTEXT_TOKENS,
    PASSAGE_BYTES,
    REPLY_SCHEMA,
    REPLY_TOKENS,
    Reply,
    build_prompt,
    extract_in_pieces,
)

DEFAULT_URL: Final = "http://localhost:11434"
KEEP_ALIVE_VARIABLE: Final = "VELESDB_MEMORY_OLLAMA_KEEP_ALIVE"
GENERATION_SECONDS: Final = 300.0
_PATH: Final = "/api/generate"


class OllamaExtractor:
    """Extraction by a local Ollama model. Safe to share between threads; sends no credentials.

    ``keep_alive`` is how long the server keeps the model loaded: seconds, -1 for ever, or a duration such as
    ``10m``. ``deadline`` bounds the time for one piece of a passage, in seconds, and ``passage_bytes`` its
    size. Raises InvalidArgument when the URL or the model is missing or unusable.
    """

    def __init__(
        self,
        model: str,
        url: str = DEFAULT_URL,
        keep_alive: int | str = -1,
        *,
        deadline: float = GENERATION_SECONDS,
        connect: float = CONNECT_SECONDS,
        waits: Sequence[float] = RETRY_WAITS,
        passage_bytes: int = PASSAGE_BYTES,
    ) -> None:
        self._endpoint = Endpoint(
            role="extractor",
            kind="ollama",
            url=url,
            model=model,
            variables=Variables.of("EXTRACTOR"),
            failure=ExtractError,
            deadline=deadline,
            connect=connect,
            waits=waits,
        )
        self._keep_alive = keep_alive_value(keep_alive)
        self._passage_bytes = passage_bytes

    @property
    def name(self) -> str:
        return "ollama"

    def __repr__(self) -> str:
        return f"OllamaExtractor({self._endpoint!r})"

    def extract(self, text: str) -> Extraction:
        """What the model finds in ``text``, piece by piece; nothing, without a request, for a blank one.

        Raises ExtractError when the server fails or a reply cannot be read; nothing found so far is kept
        then.
        """
        return extract_in_pieces(text, self._generate, self._unusable, self._passage_bytes)

    def _generate(self, piece: str) -> Reply:
        payload: dict[str, Any] = {
            "model": self._endpoint.model,
            "prompt": build_prompt(piece),
            "stream": False,
            "think": False,
            "keep_alive": self._keep_alive,
            "format": REPLY_SCHEMA,
            # Older servers default to a context of 2,048 tokens and cut the prompt to it in silence
            "options": {"temperature": 0, "num_predict": REPLY_TOKENS, "num_ctx": CONTEXT_TOKENS},
        }
        answer = self._endpoint.post(_PATH, payload, private=piece)
        response = answer.get("response")
        if not isinstance(response, str):
            raise self._unusable("answered without the text field 'response'")
        return Reply(response, cut=answer.get("done_reason") == "length")

    def _unusable(self, cause: str) -> Exception:
        return self._endpoint.failed(cause, path=_PATH)


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
