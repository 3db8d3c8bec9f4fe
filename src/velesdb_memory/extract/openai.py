"""An extractor that asks any server of the OpenAI protocol, and the probe of such a server at start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from ..errors import ExtractError, InvalidArgument
from ..text import trim
from .base import Extraction
from .http import CONNECT_SECONDS, RETRY_WAITS, Answer, Endpoint, Trouble, Variables
from .prompt import PASSAGE_BYTES, Reply, build_prompt, extract_in_pieces

GENERATION_SECONDS: Final = 300.0
PROBE_SECONDS: Final = 3.0
_PATH: Final = "/v1/chat/completions"
_MODELS: Final = "/v1/models"


class OpenAiExtractor:
    """Extraction by a model behind ``POST {url}/v1/chat/completions``. Safe to share between threads.

    ``url`` may end in ``/v1`` or not; ``token``, if there is one, is sent as a bearer token and shown
    nowhere.
    ``deadline`` bounds the time for one piece of a passage, in seconds, and ``passage_bytes`` its size.
    Raises InvalidArgument when the URL, the model or the token is missing or unusable.
    """

    def __init__(
        self,
        model: str,
        url: str,
        token: str | None = None,
        *,
        deadline: float = GENERATION_SECONDS,
        connect: float = CONNECT_SECONDS,
        waits: Sequence[float] = RETRY_WAITS,
        passage_bytes: int = PASSAGE_BYTES,
    ) -> None:
        self._endpoint = Endpoint(
            role="extractor",
            kind="openai",
            url=base_url(url),
            model=model,
            variables=Variables.of("EXTRACTOR"),
            failure=ExtractError,
            deadline=deadline,
            token=token,
            connect=connect,
            waits=waits,
        )
        self._passage_bytes = passage_bytes

    @property
    def name(self) -> str:
        return "openai"

    def __repr__(self) -> str:
        return f"OpenAiExtractor({self._endpoint!r})"

    def extract(self, text: str) -> Extraction:
        """What the model finds in ``text``, piece by piece; nothing, without a request, for a blank one.

        Raises ExtractError when the server fails or a reply cannot be read; nothing found so far is kept
        then.
        """
        return extract_in_pieces(text, self._generate, self._unusable, self._passage_bytes)

    def _generate(self, piece: str) -> Reply:
        payload: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [{"role": "user", "content": build_prompt(piece)}],
            "temperature": 0,
        }
        answer = self._endpoint.post(_PATH, payload, private=piece)
        try:
            choice: Any = answer["choices"][0]
            content: Any = choice["message"]["content"]
        except (KeyError, IndexError, TypeError):
            choice = content = None
        if not isinstance(content, str):
            raise self._unusable("answered without the text field 'choices[0].message.content'")
        return Reply(content, cut=choice.get("finish_reason") == "length")

    def _unusable(self, cause: str) -> Exception:
        return self._endpoint.failed(cause, path=_PATH)


def base_url(url: str | None) -> str:
    """``url`` trimmed, without slashes at its end, and without one ``/v1`` there if a host stays in front of
    it.
    """
    base = trim(url or "").rstrip("/")
    shorter = base.removesuffix("/v1")
    return base if not shorter or shorter.endswith("/") else shorter


def probe(
    url: str | None, model: str | None, token: str | None = None, timeout: float = PROBE_SECONDS
) -> str | None:
    """One warning about the extractor at ``url``, or None when it answers and offers ``model``.

    Asks for the list of models (``GET /v1/models``, which Ollama serves too) once, for at most ``timeout``
    seconds; generates nothing. Never raises; the warning never holds the token or credentials of the URL.
    """
    names = Variables.of("EXTRACTOR")
    try:
        endpoint = Endpoint(
            role="extractor",
            kind="openai",
            url=base_url(url),
            model=model,
            token=token,
            variables=names,
            failure=ExtractError,
            deadline=timeout,
        )
        outcome = endpoint.attempt("GET", _MODELS)
        where = f"the extractor at {endpoint.shown_url} (model '{endpoint.model}')"
        return _verdict(outcome, where, endpoint.model, names)
    except InvalidArgument as error:
        return f"the extractor cannot be used, memories will be stored without enrichment: {error}"
    except Exception as error:
        kind = type(error).__name__
        return f"the extractor could not be checked ({kind}): memories may be stored without enrichment"


def _verdict(outcome: Answer | Trouble, where: str, model: str, names: Variables) -> str | None:
    if isinstance(outcome, Trouble):
        return (
            f"{where} {outcome.cause}: memories will be stored without enrichment until it answers. "
            f"Start the server, or change {names.url}"
        )
    if outcome.status in (401, 403):
        return (
            f"{where} refused the credential (HTTP {outcome.status}): memories will be stored without "
            f"enrichment. Set {names.token}"
        )
    offered = _model_ids(outcome.body) if 200 <= outcome.status < 300 else []
    if not offered:
        return (
            f"{where} gives no list of models (HTTP {outcome.status}), so the model could not be confirmed; "
            f"if enrichment fails, check {names.url} and {names.model}"
        )
    if model.removesuffix(":latest") not in {name.removesuffix(":latest") for name in offered}:
        return (
            f"{where} does not list the model among the {len(offered)} it offers, so it could not be "
            f"confirmed; if enrichment fails, check {names.model} or install the model"
        )
    return None


def _model_ids(body: bytes) -> list[str]:
    try:
        entries: Any = json.loads(body)["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    if not isinstance(entries, list):
        return []
    ids = [
        cast("dict[str, Any]", entry).get("id")
        for entry in cast("list[Any]", entries)
        if isinstance(entry, dict)
    ]
    return [name for name in ids if isinstance(name, str)]
