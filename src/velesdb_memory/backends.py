"""What a user sets about a model server, checked: its address, its model, its token; for every role that asks one."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from .errors import InvalidArgument
from .text import trim

OLLAMA_URL: Final = "http://localhost:11434"
KEEP_ALIVE_VARIABLE: Final = "VELESDB_MEMORY_OLLAMA_KEEP_ALIVE"


class Variables(msgspec.Struct, frozen=True):
    """The environment variables that configure one role, to be named in its errors."""

    url: str
    model: str
    token: str

    @classmethod
    def of(cls, role: str) -> Variables:
        """``role`` as it is spelled inside the names: ``EXTRACTOR``, ``EMBEDDER``, ``MIGRATION``."""
        prefix = f"VELESDB_MEMORY_{role}"
        return cls(url=f"{prefix}_URL", model=f"{prefix}_MODEL", token=f"{prefix}_API_TOKEN")


def require_url(value: str | None, variable: str) -> str:
    """``value`` trimmed and without slashes at its end, if it is the address of an HTTP server.

    Raises InvalidArgument, naming ``variable``, when it is missing, has another scheme, no host, an
    impossible port, white space, a query or a fragment.
    """
    url = trim(value or "").rstrip("/")
    if not url:
        raise InvalidArgument(
            f"a URL is required: set {variable}, for example to http://localhost:8080", field="url"
        )
    wrong = ""
    try:
        parts = urlsplit(url)
        port = parts.port
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            wrong = "it must begin with http:// or https:// and name a host"
        elif parts.query or parts.fragment or "?" in url or "#" in url:
            wrong = "it must be a base address, without ? and #"
    except ValueError:
        wrong = "its host or port is malformed"
    # urlsplit drops some of these in silence, and the request would go elsewhere
    if any(character <= " " or character == "\x7f" for character in url):
        wrong = "it must not contain white space or control characters"
    if wrong:
        raise InvalidArgument(f"{variable} is not a usable URL: {wrong}", field="url")
    return url


def require_model(value: str | None, variable: str) -> str:
    """``value`` trimmed; raises InvalidArgument, naming ``variable``, when there is nothing in it."""
    model = trim(value or "")
    if not model:
        raise InvalidArgument(
            f"a model is required: set {variable} to the name the server knows it by", field="model"
        )
    return model


def require_token(value: str | None, variable: str) -> str | None:
    """``value`` trimmed, None if there is none. Raises InvalidArgument, naming ``variable`` and never the
    value,
    when it is set but blank or could not travel in a header.
    """
    if value is None:
        return None
    token = trim(value)
    if not token:
        raise InvalidArgument(f"{variable} is set but blank: unset it, or set it to the token", field="token")
    if not all("!" <= character <= "~" for character in token):
        raise InvalidArgument(
            f"{variable} may hold printable ASCII characters only, and no spaces", field="token"
        )
    return token


def redacted(url: str) -> str:
    """``url`` with its user name and password replaced."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=f"***@{parts.netloc.rpartition('@')[2]}"))


def shown_url(url: str) -> str:
    """``redacted``, for an address that nobody checked yet."""
    try:
        return redacted(url)
    except ValueError:
        return "(malformed)"


def base_url(url: str | None) -> str:
    """``url`` trimmed, without slashes at its end, and without one ``/v1`` there if a host stays in front of
    it.
    """
    base = trim(url or "").rstrip("/")
    shorter = base.removesuffix("/v1")
    return base if not shorter or shorter.endswith("/") else shorter


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
