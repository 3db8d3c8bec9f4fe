"""From settings to an extractor."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..backends import OLLAMA_URL, Variables, require_token, shown_url
from ..errors import InvalidArgument
from ..text import trim
from .base import Extractor
from .ollama import OllamaExtractor
from .openai import OpenAiExtractor
from .outline import OutlineExtractor

EXTRACTOR_VARIABLE: Final = "VELESDB_MEMORY_EXTRACTOR"
EXTRACTOR_NAMES: Final = ("outline", "ollama", "openai", "none")


class ExtractorSettings(msgspec.Struct, frozen=True):
    """Which extractor to use, and how to reach its model.

    ``backend`` is one of ``outline``, ``ollama``, ``openai``, ``none``; empty means ``none``. None stands for
    what is not set; a blank ``url`` or ``model`` too. ``ollama`` has a default URL and sends no token;
    everything else that
    ``ollama`` and ``openai`` need is required. ``keep_alive`` is Ollama's: seconds, -1, or a duration such as
    ``10m``.
    """

    backend: str = ""
    url: str | None = None
    model: str | None = None
    token: str | None = None
    keep_alive: str | int | None = None

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"ExtractorSettings({fields})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # msgspec gives every struct both forms, and the second would show the token
        return [
            ("backend", self.backend),
            ("url", None if self.url is None else shown_url(self.url)),
            ("model", self.model),
            ("token", None if self.token is None else "***"),
            ("keep_alive", self.keep_alive),
        ]


def select_extractor(settings: ExtractorSettings) -> Extractor | None:
    """The extractor of ``settings``; None when there is to be none. Contacts nobody.

    Raises InvalidArgument for a name that is not exactly one of the accepted ones, and for a missing or
    unusable setting of the chosen one; the message names the environment variable and never the token.
    """
    if settings.backend in ("", "none"):
        return None
    if settings.backend == "outline":
        return OutlineExtractor()
    if settings.backend == "ollama":
        # Not sent, but a token that is set and blank is a mistake whatever the backend
        require_token(settings.token, Variables.of("EXTRACTOR").token)
        url = settings.url if settings.url and trim(settings.url) else OLLAMA_URL
        keep_alive = -1 if settings.keep_alive is None else settings.keep_alive
        return OllamaExtractor(settings.model or "", url, keep_alive)
    if settings.backend == "openai":
        return OpenAiExtractor(settings.model or "", settings.url or "", settings.token)
    raise InvalidArgument(
        f"unknown extractor {settings.backend[:64]!r}: {EXTRACTOR_VARIABLE} must be exactly one of "
        f"{', '.join(EXTRACTOR_NAMES)}",
        field="extractor",
    )
