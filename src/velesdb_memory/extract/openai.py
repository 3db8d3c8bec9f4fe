"""An extractor that asks any server of the OpenAI protocol, and the probe of such a server at start."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final, cast

from ..backends import Variables, base_url
from ..errors import ExtractError, InvalidArgument
from ..http import Answer, Endpoint, Trouble
from .generative import GenerativeExtractor
from .prompt import Reply, build_prompt

PROBE_SECONDS: Final = 3.0
_MODELS: Final = "/v1/models"


class OpenAiExtractor(GenerativeExtractor):
    """Extraction by a model behind ``POST {url}/v1/chat/completions``.

    ``url`` may end in ``/v1`` or not; ``token``, if there is one, is sent as a bearer token and shown nowhere;
    ``options`` are those of :class:`~velesdb_memory.extract.generative.GenerativeExtractor`.
    """

    backend: ClassVar[str] = "openai"
    path: ClassVar[str] = "/v1/chat/completions"
    reply_field: ClassVar[str] = "choices[0].message.content"

    def __init__(self, model: str, url: str, token: str | None = None, **options: Any) -> None:
        super().__init__(model, base_url(url), token, **options)

    def _payload(self, model: str, piece: str) -> dict[str, Any]:
        return {"model": model, "messages": [{"role": "user", "content": build_prompt(piece)}], "temperature": 0}

    def _reply(self, answer: dict[str, Any]) -> Reply | None:
        try:
            choice: Any = answer["choices"][0]
            content: Any = choice["message"]["content"]
        except (KeyError, IndexError, TypeError):
            return None
        return Reply(content, cut=choice.get("finish_reason") == "length") if isinstance(content, str) else None


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
