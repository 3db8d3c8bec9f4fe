"""From settings to an embedder."""

from __future__ import annotations

from typing import Any

import msgspec

from ..backends import OLLAMA_URL, Variables, require_token, shown_url
from ..errors import InvalidArgument
from ..settings import EMBEDDERS
from ..text import trim
from .base import Embedder


class EmbedderSettings(msgspec.Struct, frozen=True):
    """Which embedder to use, and how to reach its model.

    ``backend`` is one of ``hash``, ``local``, ``ollama``, ``openai``. None stands for what is not set; a blank ``url``
    or ``model`` too. ``local`` and ``ollama`` have a default model, ``ollama`` a default URL and no token; ``openai``
    needs both. ``timeout`` bounds one request, in seconds; ``keep_alive`` is Ollama's: seconds, -1, or a duration such
    as ``10m``. ``ollama_url`` and ``ollama_model`` are the older names of the two, for ``ollama`` only.
    """

    backend: str = "hash"
    url: str | None = None
    model: str | None = None
    token: str | None = None
    keep_alive: str | int | None = None
    timeout: float | None = None
    ollama_url: str | None = None
    ollama_model: str | None = None

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"EmbedderSettings({fields})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec gives every struct both forms, and the second would show the token
        shown: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        for name in ("url", "ollama_url"):
            shown[name] = None if shown[name] is None else shown_url(shown[name])
        shown["token"] = None if self.token is None else "***"
        return list(shown.items())


def select_embedder(settings: EmbedderSettings, role: str = "EMBEDDER") -> Embedder:
    """The embedder of ``settings``. Loads no model and contacts nobody.

    ``role`` is the one whose environment variables errors name. Raises InvalidArgument for a name that is not exactly
    one of the accepted ones, and for a missing or unusable setting of the chosen one; the message names the variable
    and never the token.
    """
    # Not sent by all, but a token that is set and blank is a mistake whatever the backend
    require_token(settings.token, Variables.of(role).token)
    options: dict[str, Any] = {"role": role}
    if settings.timeout is not None:
        options["deadline"] = settings.timeout
    if settings.backend == "hash":
        from .hashing import HashEmbedder

        return HashEmbedder()
    if settings.backend == "local":
        from .local import DEFAULT_LOCAL_MODEL, LocalEmbedder

        return LocalEmbedder(_given(settings.model) or DEFAULT_LOCAL_MODEL)
    if settings.backend == "ollama":
        from .ollama import DEFAULT_MODEL, OllamaEmbedder

        return OllamaEmbedder(
            _given(settings.model) or _given(settings.ollama_model) or DEFAULT_MODEL,
            _given(settings.url) or _given(settings.ollama_url) or OLLAMA_URL,
            -1 if settings.keep_alive is None else settings.keep_alive,
            **options,
        )
    if settings.backend == "openai":
        from .openai import OpenAiEmbedder

        return OpenAiEmbedder(settings.model or "", settings.url or "", settings.token, **options)
    raise InvalidArgument(
        f"unknown embedder {settings.backend[:64]!r}: VELESDB_MEMORY_{role} must be exactly one of "
        f"{', '.join(EMBEDDERS)}",
        field="embedder",
    )


def ignored_settings(settings: EmbedderSettings) -> list[str]:
    """Settings under their older names that are not used because the newer one says something else, one notice each."""
    if settings.backend != "ollama":
        return []
    pairs = (("URL", settings.url, settings.ollama_url), ("MODEL", settings.model, settings.ollama_model))
    return [
        f"VELESDB_MEMORY_EMBEDDER_{name} and its older name VELESDB_MEMORY_OLLAMA_{name} differ: the first is used"
        for name, newer, older in pairs
        if _given(newer) and _given(older) and _given(newer) != _given(older)
    ]


def _given(value: str | None) -> str | None:
    return trim(value or "") or None
