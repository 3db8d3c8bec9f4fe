"""Settings from the environment: one table, read in one place. A malformed value is an error that names it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec

from .errors import InvalidArgument
from .text import trim

if TYPE_CHECKING:
    from .context.tokens import TokenEstimator
    from .embed.base import Embedder
    from .extract.base import Extractor

PREFIX: Final = "VELESDB_MEMORY_"
EMBEDDERS: Final = ("hash",)
TOKENIZERS: Final = ("estimate", "o200k", "cl100k")
_UNEXPANDED: Final = re.compile(r"\$\{|\$[A-Za-z_]|%[A-Za-z_]+%")
_WHOLE: Final = re.compile(r"[0-9]+")

# name -> what it sets, for --help and the documentation
SETTINGS: Final = {
    "PATH": "the store's directory (default: .velesdb-memory in your home)",
    "DEFAULT_TTL": "seconds that a fact is kept when the call does not say; 0 or unset: for ever",
    "EMBEDDER": f"the embedder: {', '.join(EMBEDDERS)} (default: hash, which needs no model)",
    "SYNCHRONOUS": "full (default): a write survives a power loss; normal: only a crash of the process",
    "QUIET": "set to anything: no notices on standard error",
    "LOG": "set to anything: one line per call on standard error, without content",
    "EXTRACTOR": "who reads passages: outline, ollama, openai or none (default)",
    "EXTRACTOR_URL": "where that model is served",
    "EXTRACTOR_MODEL": "which model it is",
    "EXTRACTOR_API_TOKEN": "its bearer token",
    "OLLAMA_KEEP_ALIVE": "how long ollama keeps the model loaded (default: -1, for ever)",
    "TOKENIZER": f"how tokens are counted: {', '.join(TOKENIZERS)} (default: estimate; the others need [tokens])",
    "INGEST_ROOTS": f"directories that fragments may be read from, with {os.pathsep} between them (default: none)",
    "AUTOGRAPH": "1: enrich every remembered fact in the background",
}


class Settings(msgspec.Struct, frozen=True):
    """What the environment sets."""

    path: Path
    default_ttl: int | None = None
    embedder: str = "hash"
    synchronous: Literal["full", "normal"] = "full"
    quiet: bool = False
    log: bool = False
    autograph: bool = False
    extractor: str = ""
    extractor_url: str | None = None
    extractor_model: str | None = None
    extractor_token: str | None = None
    keep_alive: str | None = None
    ingest_roots: str | None = None
    tokenizer: str = "estimate"

    def __repr__(self) -> str:
        # the token must not reach a log by way of a traceback
        return f"Settings(path={self.path!r}, embedder={self.embedder!r}, extractor={self.extractor!r})"


def load(environment: Mapping[str, str] | None = None, *, path: str | None = None) -> Settings:
    """Settings from ``environment`` (the process's own by default); ``path`` overrides the store's directory.

    Raises InvalidArgument that names the variable, for a value that cannot be used and for a variable with the
    prefix that does not exist.
    """
    source = os.environ if environment is None else environment
    values = {name.removeprefix(PREFIX): value for name, value in source.items() if name.startswith(PREFIX)}
    for name in values:
        if name not in SETTINGS:
            from difflib import get_close_matches

            close = get_close_matches(name, SETTINGS, 1)
            hint = f"; did you mean {PREFIX}{close[0]}?" if close else ""
            raise InvalidArgument(f"{PREFIX}{name} is no setting of velesdb-memory{hint}", field=PREFIX + name)
    return Settings(
        path=store_path(path if path is not None else values.get("PATH"), "--path" if path else PREFIX + "PATH"),
        default_ttl=_seconds(values, "DEFAULT_TTL"),
        embedder=_choice(values, "EMBEDDER", EMBEDDERS, "hash"),
        synchronous=cast(
            'Literal["full", "normal"]', _choice(values, "SYNCHRONOUS", ("full", "normal"), "full")
        ),
        quiet="QUIET" in values,
        log=bool(values.get("LOG")),
        autograph=_choice(values, "AUTOGRAPH", ("1", "0", ""), "") == "1",
        extractor=values.get("EXTRACTOR", ""),
        extractor_url=values.get("EXTRACTOR_URL"),
        extractor_model=values.get("EXTRACTOR_MODEL"),
        extractor_token=values.get("EXTRACTOR_API_TOKEN"),
        keep_alive=values.get("OLLAMA_KEEP_ALIVE"),
        ingest_roots=values.get("INGEST_ROOTS"),
        tokenizer=_choice(values, "TOKENIZER", TOKENIZERS, "estimate"),
    )


def store_path(value: str | None, field: str = "path") -> Path:
    """The absolute directory that ``value`` means: ``~`` and variables are expanded, the default is in the home.

    Raises InvalidArgument where a variable stays unexpanded: a folder by that name is never what was meant.
    """
    if value is None:
        home = Path("~").expanduser()
        return (home / ".velesdb-memory" if home != Path("~") else Path("velesdb-memory-store")).absolute()
    if not trim(value):
        raise InvalidArgument(f"{field} is blank: name a directory, or leave it unset", field=field)
    expanded = home_expanded(os.path.expandvars(value), field)
    if _UNEXPANDED.search(str(expanded)):
        raise InvalidArgument(f"{field} is {value!r}, in which a variable is not set", field=field)
    return expanded.absolute()


def home_expanded(value: str | os.PathLike[str], field: str = "path") -> Path:
    """``value`` with ``~`` or ``~name`` replaced by that home. Raises InvalidArgument for a home that is not known, and
    for a NUL, which no path can hold."""
    if "\0" in os.fspath(value):
        raise InvalidArgument(f"{field} holds a NUL character, which no path can", field=field)
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise InvalidArgument(f"{field} is {os.fspath(value)!r}: {error}", field=field) from error


def make_embedder(settings: Settings) -> Embedder:
    """The embedder that is set; loads what it needs."""
    from .embed.hashing import HashEmbedder

    return HashEmbedder()


def make_estimator(settings: Settings) -> TokenEstimator:
    """The token estimator that is set. Raises InvalidArgument when it needs an extra that is not installed."""
    from .context.tokens import make_estimator

    return make_estimator(settings.tokenizer)


def make_extractor(settings: Settings) -> Extractor | None:
    """The extractor that is set, None when there is none. Contacts nobody."""
    from .extract.select import ExtractorSettings, select_extractor

    return select_extractor(
        ExtractorSettings(
            settings.extractor,
            settings.extractor_url,
            settings.extractor_model,
            settings.extractor_token,
            settings.keep_alive,
        )
    )


def _seconds(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not _WHOLE.fullmatch(trim(text)) or len(text) > 20:
        raise InvalidArgument(
            f"{PREFIX}{name} is {text[:40]!r}, not a whole number of seconds", field=PREFIX + name
        )
    return int(trim(text)) or None


def _choice(values: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = values.get(name, default)
    if value not in choices:
        raise InvalidArgument(
            f"{PREFIX}{name} is {value[:64]!r}, not one of: {', '.join(choice or '(empty)' for choice in choices)}",
            field=PREFIX + name,
        )
    return value
