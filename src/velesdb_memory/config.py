"""Settings from the command line, the environment and a file, in this order of weight.

A malformed one is an error that names it by where it was written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from .errors import InvalidArgument
from .settings import (
    EMBEDDERS,
    PREFIX,
    SETTINGS,
    TOKENIZERS,
    Address,
    Setting,
    Settings,
    home_expanded,
    refuse,
    store_path,
)
from .text import shown, trim

if TYPE_CHECKING:
    from .context.tokens import TokenEstimator
    from .embed.base import Embedder
    from .embed.select import EmbedderSettings
    from .extract.base import Extractor

__all__ = [
    "EMBEDDERS", "FILE_NAME", "PREFIX", "SETTINGS", "TOKENIZERS", "Address", "Configuration", "Origin", "Setting",
    "Settings", "Source", "embedder_settings", "hint", "home_expanded", "load", "make_embedder", "make_estimator",
    "make_extractor", "make_target", "read", "refuse", "store_path",
]  # fmt: skip

FILE_NAME: Final = "velesdb-memory.toml"
MAX_FILE_BYTES: Final = 1_048_576
# variables with our prefix that other programs read
_OTHERS: Final = ("BIN",)


class Source(IntEnum):
    """What outweighs what."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    FLAG = 3


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: ``where`` names the variable, the flag, or the file and its key."""

    source: Source
    where: str


@dataclass(frozen=True)
class Configuration:
    """The settings in effect, the origin of each by its attribute, and the file that was read, if there was one."""

    settings: Settings
    origins: Mapping[str, Origin]
    file: Path | None

    def given(self) -> dict[str, str]:
        """What flags and variables set, by name and as they are written, and the file that takes part: what another
        process must be told to be set the same, but for secrets."""
        strong = (
            row
            for row in SETTINGS.values()
            if self.origins[row.attribute].source in (Source.ENVIRONMENT, Source.FLAG) and not row.secret
        )
        values = ((row, getattr(self.settings, row.attribute)) for row in strong)
        given = {row.name: row.kind.text(value) for row, value in values if value is not None or row.default}
        if self.file is not None and self.file != self.settings.path / FILE_NAME:
            given["CONFIG"] = str(self.file)
        return given

    @property
    def from_file(self) -> int:
        """How many settings the file decided."""
        return sum(origin.source is Source.FILE for origin in self.origins.values())


def load(environment: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None) -> Settings:
    """The settings of ``read``, without their origins."""
    return read(environment, flags).settings


def read(environment: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None) -> Configuration:
    """Settings from ``flags`` (by name, as ``HTTP_BIND``), ``environment`` (the process's own by default), a file,
    and the defaults.

    The file is ``--config``'s, else VELESDB_MEMORY_CONFIG's, else velesdb-memory.toml in the store's directory, else
    in the working directory; only a file that was asked for must exist.

    Raises InvalidArgument that names the variable, flag or key: for a value that cannot be used, for one that does
    not exist, and for a file that cannot be read.
    """
    source = os.environ if environment is None else environment
    variables = {name.removeprefix(PREFIX): value for name, value in source.items() if name.startswith(PREFIX)}
    for name in variables:
        if name not in SETTINGS and name not in _OTHERS:
            raise refuse(PREFIX + name, f"is no setting of velesdb-memory{hint(name, SETTINGS, PREFIX)}")
    flags = flags or {}
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for row in SETTINGS.values():
        values[row.attribute] = None if row.default is None else row.kind.parse(row.default, "default")
        origins[row.attribute] = Origin(Source.DEFAULT, "default")

    def take(row: Setting, value: Any, origin: Origin) -> None:
        values[row.attribute], origins[row.attribute] = value, origin

    # the strong ones first decide which file is read, and are checked before it
    written: list[tuple[Setting, Any, Origin]] = []
    for row in SETTINGS.values():
        if row.name in flags:
            written.append((row, row.kind.parse(flags[row.name], row.flag), Origin(Source.FLAG, row.flag)))
        elif row.name in variables and not (row.name == "CONFIG" and not trim(variables["CONFIG"])):
            value = row.kind.parse(variables[row.name], row.variable)
            written.append((row, value, Origin(Source.ENVIRONMENT, row.variable)))
    for row, value, origin in written:
        take(row, value, origin)
    file, found_here = _find(values["config"], values["path"])
    if file is not None:
        for row, value, where in _file_values(file, found_here):
            if origins[row.attribute].source is Source.DEFAULT:
                take(row, value, Origin(Source.FILE, where))
        values["config"] = file
    if values["http_port"] is not None and origins["http_port"].source < origins["http_bind"].source:
        # a port replaces that of an address that weighs no more than it
        take(SETTINGS["HTTP_PORT"], None, origins["http_bind"])
    return Configuration(Settings(**values), origins, file)


def hint(name: str, names: Mapping[str, Any] | list[str], prefix: str = "") -> str:
    """The words that ask whether the closest of ``names`` was meant; empty if none is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, names, 1)
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def _find(named: Path | None, store: Path) -> tuple[Path | None, bool]:
    """The file to read, if any, and whether it just lies in the working directory."""
    if named is not None:
        return named, False
    beside = store / FILE_NAME
    if os.path.lexists(beside):
        return beside, False
    here = Path(FILE_NAME).absolute()
    return (here, True) if os.path.lexists(here) else (None, False)


def _file_values(file: Path, found_here: bool) -> list[tuple[Setting, Any, str]]:
    """What ``file`` sets, with where it says so."""
    rows = {row.key: row for row in SETTINGS.values() if row.key}
    tables = {key.rpartition(".")[0] for key in rows}
    found: list[tuple[Setting, Any, str]] = []
    for key, value in _flat(_parsed(file), tables):
        where = f"{file}: {key}"
        row = rows.get(key)
        if row is None:
            raise _unknown(file, key, list(rows))
        if found_here and row.guarded:
            raise refuse(
                where,
                "decides whom content is sent to or who can reach it, and this file was only found in the working "
                f"directory, where it may have come with a project: name it with --config, or set {row.variable}",
            )
        found.append((row, row.kind.read(value, where, file.parent), where))
    return found


def _parsed(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise refuse(str(file), f"is larger than {MAX_FILE_BYTES} bytes: is it a file of settings?")
        return tomllib.loads(data.decode())
    except OSError as error:
        raise refuse(str(file), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise refuse(str(file), f"is not UTF-8 text (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        # its message quotes no value, so a token that was put there by mistake is not repeated
        raise refuse(str(file), f"is not TOML: {error}") from None
    except RecursionError:
        raise refuse(str(file), "is nested too deeply") from None


def _flat(parsed: Mapping[str, Any], tables: set[str], prefix: str = "") -> list[tuple[str, Any]]:
    """Every key with its value, as ``table.key``. A table where none is expected is itself a value."""
    pairs: list[tuple[str, Any]] = []
    for name, value in parsed.items():
        key = prefix + name
        if isinstance(value, dict) and key in tables:
            pairs += _flat(cast("dict[str, Any]", value), tables, f"{key}.")
        else:
            pairs.append((key, cast(Any, value)))
    return pairs


def _unknown(file: Path, key: str, keys: list[str]) -> InvalidArgument:
    table, _, name = key.rpartition(".")
    secret = SETTINGS.get(f"{table}_{name}".upper())
    if secret is not None and secret.secret:
        return refuse(f"{file}: {key}", f"is a secret and does not belong in a file: set {secret.variable}")
    return refuse(f"{file}: {shown(key)[1:-1]}", f"is no setting{hint(key, keys)}")


def make_embedder(settings: Settings) -> Embedder:
    """The embedder that is set. Loads no model and contacts nobody."""
    from .embed.select import select_embedder

    return select_embedder(embedder_settings(settings))


def make_target(settings: Settings, backend: str) -> Embedder:
    """The embedder to migrate to (D55). Loads no model and contacts nobody.

    Its URL, model and token are those set for migrations, else those of the embedder, unless these belong to another
    backend. Raises InvalidArgument for a backend that does not exist, or lacks a setting.
    """
    from .embed.select import EmbedderSettings, select_embedder

    if backend not in EMBEDDERS:
        raise InvalidArgument(
            f"target_backend is {backend[:64]!r}, not one of: {', '.join(EMBEDDERS)}", field="target_backend"
        )
    known = embedder_settings(settings) if settings.embedder in ("hash", backend) else EmbedderSettings()
    target = EmbedderSettings(
        backend,
        settings.migration_url or known.url,
        settings.migration_model or known.model,
        known.token if settings.migration_api_token is None else settings.migration_api_token,
        settings.ollama_keep_alive,
        settings.embedder_timeout,
        known.ollama_url,
        known.ollama_model,
    )
    return select_embedder(target, "MIGRATION")


def embedder_settings(settings: Settings) -> EmbedderSettings:
    """What the settings say about the embedder."""
    from .embed.select import EmbedderSettings

    return EmbedderSettings(
        settings.embedder,
        settings.embedder_url,
        settings.embedder_model,
        settings.embedder_api_token,
        settings.ollama_keep_alive,
        settings.embedder_timeout,
        settings.ollama_url,
        settings.ollama_model,
    )


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
            settings.extractor_api_token,
            settings.ollama_keep_alive,
        )
    )
