"""The table of settings, and how each kind of value is written.

One field of ``Settings`` is one setting. From it come its variable in the environment, its key in the configuration
file, its flag on the command line, its checks, its line in ``--help`` and its row in docs/configuration.md.
"""

# ruff: noqa: RUF009 -- every default of Settings is a call that declares a row, and shares nothing

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from .errors import InvalidArgument
from .limits import MAX_TOTAL_MEDIA_BYTES, MAX_TRANSCRIPT_BYTES
from .text import shown, trim

PREFIX: Final = "VELESDB_MEMORY_"
DEFAULT_PATH: Final = "~/.velesdb-memory"
EMBEDDERS: Final = ("hash", "local", "ollama", "openai")
TOKENIZERS: Final = ("estimate", "o200k", "cl100k")
_UNEXPANDED: Final = re.compile(r"\$\{|\$[A-Za-z_]|%[A-Za-z_]+%")
_WHOLE: Final = re.compile(r"[0-9]{1,20}")
MAX_NUMBER: Final = 2**63 - 1
MAX_PORT: Final = 65_535
_DURATION: Final = re.compile(r"[+-]?[0-9]{1,18}|-?([0-9]{1,18}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h))+")
_ADDRESS: Final = re.compile(r"(\[[^\[\]]+\]|[^\s:/@\[\]]+):([0-9]{1,5})")


def refuse(where: str, problem: str) -> InvalidArgument:
    """The error of the setting at ``where``: a variable, a flag, or a key of a file."""
    return InvalidArgument(f"{where} {problem}", field=where)


# -- paths ----------------------------------------------------------------------------------------------------------


def store_path(value: str | None, field: str = "path", base: Path | None = None) -> Path:
    """The absolute directory that ``value`` means: ``~`` and variables are expanded, the default is in the home, and
    what is relative is relative to ``base``, else to the working directory.

    Raises InvalidArgument where a variable stays unexpanded: a folder by that name is never what was meant.
    """
    if value is None:
        value = DEFAULT_PATH
        try:
            Path.home()
        except RuntimeError:
            # a container's user may have none
            value = "velesdb-memory-store"
    if not trim(value):
        raise refuse(field, "is blank: name a directory, or leave it unset")
    expanded = home_expanded(os.path.expandvars(value), field)
    if _UNEXPANDED.search(str(expanded)):
        raise refuse(field, f"is {value!r}, in which a variable is not set")
    return ((base or Path()) / expanded).absolute()


def home_expanded(value: str | os.PathLike[str], field: str = "path") -> Path:
    """``value`` with ``~`` or ``~name`` replaced by that home. Raises InvalidArgument for a home that is not known, and
    for a NUL, which no path can hold."""
    if "\0" in os.fspath(value):
        raise refuse(field, "holds a NUL character, which no path can")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise refuse(field, f"is {os.fspath(value)!r}: {error}") from error


# -- kinds of values ------------------------------------------------------------------------------------------------


class Kind:
    """Any text; blank means not set. Every other kind of value is a kind of this."""

    metavar: str = "TEXT"
    written: type = str  # in a file
    called: str = "a string"  # that type

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        """The value that ``text`` means. Raises InvalidArgument that names ``where`` it was written."""
        return trim(text) or None

    def read(self, value: Any, where: str, base: Path) -> Any:
        """The same for a value of a file in the directory ``base``."""
        if type(value) is not self.written:
            raise refuse(where, f"must be {self.called}, not {shown(value)}")
        return self.parse(self.text(value, where), where, base)

    def text(self, value: Any, where: str = "") -> str:
        """``value`` as the environment and the command line write it."""
        return str(value)

    def show(self, value: Any) -> str:
        """``value`` as a file writes it."""
        return json.dumps(self.text(value), ensure_ascii=False)


class Name(Kind):
    """One of a few words; ``also`` are other spellings of them."""

    def __init__(self, *names: str, also: Mapping[str, str] | None = None) -> None:
        self.names = names
        self.metavar = "|".join(names)
        self.also = also or {}

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        if text in self.also:
            return self.also[text]
        if text not in self.names:
            raise refuse(where, f"is {shown(text)}, not one of: {', '.join(self.names)}")
        return text


class Switch(Kind):
    """On or off: 1 or 0; ``true`` or ``false`` in a file."""

    metavar = ""
    written = bool
    called = "true or false"

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        if text not in ("1", "0", ""):
            raise refuse(where, f"is {shown(text)}, not 1 (on) or 0 (off)")
        return text == "1"

    def text(self, value: Any, where: str = "") -> str:
        return "1" if value else "0"

    def show(self, value: Any) -> str:
        return "true" if value else "false"


class Presence(Switch):
    """On when its variable exists, whatever it holds."""

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        # a file and a flag can say no; the environment says it by silence
        return not (text == "0" and not where.startswith(PREFIX))


class Whole(Kind):
    """A whole number from ``low`` to ``high``; ``nothing`` is the number that stands for none."""

    written = int
    called = "a whole number"

    def __init__(self, metavar: str, low: int = 0, high: int = MAX_NUMBER, nothing: int | None = None) -> None:
        self.metavar = metavar
        self.low, self.high, self.nothing = low, high, nothing

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        if not _WHOLE.fullmatch(trim(text)):
            raise refuse(where, f"is {shown(text)}, not a whole number ({self.metavar.lower()})")
        number = int(trim(text))
        if not self.low <= number <= self.high:
            raise refuse(where, f"is {number}, not from {self.low} to {self.high}")
        return None if number == self.nothing else number

    def text(self, value: Any, where: str = "") -> str:
        return str(self.nothing if value is None else value)

    def show(self, value: Any) -> str:
        return self.text(value)


class Folder(Kind):
    """A directory, made absolute."""

    metavar = "DIR"

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        return store_path(text, where, base)


class File(Folder):
    metavar = "FILE"


class Texts(Kind):
    """Several texts, with ``separator`` between them; an array in a file."""

    written = list
    called = "an array of strings"

    def __init__(self, metavar: str, separator: str = ",") -> None:
        self.separator = separator
        self.metavar = f"{metavar}[{separator}...]"

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        return tuple(part for part in map(trim, text.split(self.separator)) if part)

    def text(self, value: Any, where: str = "") -> str:
        for item in value:
            if type(item) is not str or self.separator in item:
                raise refuse(where, f"must hold strings without {self.separator!r}, not {shown(item)}")
        return self.separator.join(value)

    def show(self, value: Any) -> str:
        return json.dumps(list(value), ensure_ascii=False)


class Address(NamedTuple):
    """Where to listen. ``host`` is a name or an IP address, an IPv6 one without brackets; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``. Of names only localhost counts: another may mean anything."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Bind(Kind):
    metavar = "HOST:PORT"

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        match = _ADDRESS.fullmatch(trim(text))
        if match is None or int(match[2]) > MAX_PORT:
            raise refuse(where, f"is {shown(text)}, not HOST:PORT, such as 127.0.0.1:18090 or [::1]:18090")
        return Address(match[1].strip("[]"), int(match[2]))


class Url(Kind):
    """The address of a server; it may hold a password, which is not shown."""

    metavar = "URL"

    def show(self, value: Any) -> str:
        return json.dumps(re.sub(r"(?<=://)[^/?#]*@", "***@", value), ensure_ascii=False)


class Duration(Kind):
    """A length of time as Ollama writes it: seconds, a negative number for ever, or with units as in ``1h30m``."""

    metavar = "TIME"

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        if not _DURATION.fullmatch(trim(text)):
            raise refuse(where, f"is {shown(text)}, not seconds, -1, or a duration such as 10m")
        return trim(text)

    def read(self, value: Any, where: str, base: Path) -> Any:
        return super().read(str(value) if type(value) is int else value, where, base)


class Secret(Kind):
    """A token: only from the environment, where other users cannot read it, and never shown."""

    def parse(self, text: str, where: str, base: Path | None = None) -> Any:
        token = trim(text)
        if not token:
            raise refuse(where, "is set but blank: unset it, or set it to the token")
        if not all("!" <= character <= "~" for character in token):
            raise refuse(where, "may hold printable ASCII characters only, and no spaces")
        return token

    def show(self, value: Any) -> str:
        return '"***"'


_LEVELS: Final = {"": "off", "0": "off", "1": "info", "debug": "info", "trace": "info"}

# -- the table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A row of the table: ``name`` follows the prefix in the environment; ``default`` is written as there, None: unset.

    ``text`` explains it in one line, ``unset`` what happens without it where no default says so. ``key`` is its place
    in a file, as ``table.key``; empty: not in a file. ``guarded`` settings decide whom content is sent to and who can
    reach it: a file that merely lies in the working directory may have come with somebody's project, and cannot set
    them.
    """

    name: str
    text: str
    kind: Kind
    key: str
    default: str | None
    unset: str
    guarded: bool

    @property
    def attribute(self) -> str:
        return self.name.lower()

    @property
    def variable(self) -> str:
        return PREFIX + self.name

    @property
    def secret(self) -> bool:
        return isinstance(self.kind, Secret)

    @property
    def flag(self) -> str:
        """Empty for secrets: every user of a machine can read its command lines."""
        return "" if self.secret else "--" + self.name.lower().replace("_", "-")


def setting(
    text: str, kind: Kind, key: str = "", default: str | None = None, *, unset: str = "", guarded: bool = False
) -> Any:
    """One field of ``Settings``; see ``Setting``."""
    return field(metadata={"row": (text, kind, key, default, unset, guarded)})


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings:
    """What is set, checked. The field ``http_bind`` is ``VELESDB_MEMORY_HTTP_BIND`` and ``--http-bind``."""

    path: Path = setting("the store's directory", Folder(), "path", DEFAULT_PATH)
    config: Path | None = setting(
        "a file of settings", File(), unset="velesdb-memory.toml in the store's directory, or else in the working one"
    )
    default_ttl: int | None = setting(
        "how long a fact is kept when the call does not say; 0: for ever",
        Whole("SECONDS", nothing=0), "default_ttl", "0",
    )  # fmt: skip
    synchronous: Literal["full", "normal"] = setting(
        "full: a write survives a power loss; normal: only a crash of the process",
        Name("full", "normal"), "synchronous", "full",
    )  # fmt: skip
    quiet: bool = setting("no notices on standard error", Presence(), "quiet", "0")
    log: Literal["off", "error", "warn", "info"] = setting(
        "one line a call and a request on standard error, without content: off, error (what failed here), warn (what "
        "was refused too) or info (everything)",
        Name("off", "error", "warn", "info", also=_LEVELS), "log", "off",
    )  # fmt: skip

    embedder: Literal["hash", "local", "ollama", "openai"] = setting(
        "what makes vectors: hash, which needs no model; local, a model of an extra; ollama or openai, a server's",
        Name(*EMBEDDERS), "embedder.backend", "hash",
    )  # fmt: skip
    embedder_url: str | None = setting(
        "where ollama or openai serves the model", Url(), "embedder.url", unset="ollama: this machine", guarded=True
    )
    embedder_model: str | None = setting(
        "which model it is; for local: all-minilm-l6-v2 or use-multilingual-v3", Kind(), "embedder.model",
        unset="local: all-minilm-l6-v2",
    )  # fmt: skip
    embedder_api_token: str | None = setting("the bearer token of that server", Secret())
    embedder_timeout: int | None = setting(
        "how long one request for vectors may take", Whole("SECONDS", 1), "embedder.timeout", unset="60"
    )
    ollama_url: str | None = setting(
        "older name of embedder-url, for ollama", Url(), "embedder.ollama_url", guarded=True
    )
    ollama_model: str | None = setting("older name of embedder-model, for ollama", Kind(), "embedder.ollama_model")
    migration_url: str | None = setting(
        "where the model to migrate to is served, if not there", Url(), "migration.url", guarded=True
    )
    migration_model: str | None = setting("which model to migrate to, if not that one", Kind(), "migration.model")
    migration_api_token: str | None = setting("the bearer token of that server, if another", Secret())

    extractor: Literal["none", "outline", "ollama", "openai"] = setting(
        "who reads passages: none, outline, ollama or openai",
        Name("none", "outline", "ollama", "openai", also={"": "none"}), "extractor.backend", "none",
    )  # fmt: skip
    extractor_url: str | None = setting(
        "where that model is served", Url(), "extractor.url", unset="ollama: this machine", guarded=True
    )
    extractor_model: str | None = setting("which model it is", Kind(), "extractor.model")
    extractor_api_token: str | None = setting("the bearer token of that server", Secret())
    ollama_keep_alive: str | None = setting(
        "how long ollama keeps a model loaded: seconds, -1 for ever, or as 10m", Duration(), "embedder.keep_alive", "-1"
    )
    autograph: bool = setting("enrich every remembered fact in the background", Switch(), "graph.autograph", "0")

    tokenizer: Literal["estimate", "o200k", "cl100k"] = setting(
        "what counts tokens: estimate, which needs no vocabulary, or o200k or cl100k, with the extra tokens",
        Name(*TOKENIZERS), "context.tokenizer", "estimate",
    )  # fmt: skip
    ingest_roots: tuple[str, ...] = setting(
        "the directories that compilations may read files from", Texts("DIR", os.pathsep), "context.ingest_roots", "",
        unset="no files are read", guarded=True,
    )  # fmt: skip

    http: bool = setting("serve over HTTPS instead of standard input and output", Switch(), "http.enabled", "0")
    http_bind: Address = setting("where to listen", Bind(), "http.bind", "127.0.0.1:18090", guarded=True)
    http_port: int | None = setting(
        "the port, in place of that one; 0: any free one", Whole("PORT", 0, MAX_PORT), "http.port"
    )
    http_insecure: bool = setting("without encryption", Switch(), "http.insecure", "0", guarded=True)
    http_allow_remote: bool = setting(
        "listen beyond this machine; needs a token", Switch(), "http.allow_remote", "0", guarded=True
    )
    http_token: str | None = setting("the bearer token that requests must carry", Secret(), unset="none is asked for")
    http_require_token: bool = setting(
        "refuse requests without a token on this machine too", Switch(), "http.require_token", "0", guarded=True
    )
    http_allowed_hosts: tuple[str, ...] = setting(
        "more Host names to answer to, a proxy's for example", Texts("HOST"), "http.allowed_hosts", "", guarded=True
    )
    http_allowed_origins: tuple[str, ...] = setting(
        "more Origins to accept requests from", Texts("ORIGIN"), "http.allowed_origins", "", guarded=True
    )
    http_max_body_bytes: int = setting(
        "the largest request", Whole("BYTES", 1), "http.max_body_bytes",
        str(MAX_TOTAL_MEDIA_BYTES + 2 * MAX_TRANSCRIPT_BYTES),
    )  # fmt: skip
    http_max_sessions: int = setting("sessions at once", Whole("COUNT", 1), "http.max_sessions", "64")
    http_keep_alive_secs: int = setting(
        "how long until an idle session ends", Whole("SECONDS", 1), "http.keep_alive_secs", "3600"
    )
    http_evict_min_idle_secs: int = setting(
        "how long a session must be idle before a new one may take its place",
        Whole("SECONDS", 1), "http.evict_min_idle_secs", "300",
    )  # fmt: skip
    tls_dir: Path = setting("the directory of the certificates", Folder(), "http.tls_dir", "~/.velesdb-memory-tls")

    @property
    def http_address(self) -> Address:
        """Where to listen: ``http_bind``, with ``http_port`` if that is set."""
        return self.http_bind if self.http_port is None else Address(self.http_bind.host, self.http_port)

    def __repr__(self) -> str:
        # the tokens must not reach a log by way of a traceback
        values = ((row, getattr(self, row.attribute)) for row in SETTINGS.values())
        shown = (f"{row.attribute}={'***' if row.secret and value else repr(value)}" for row, value in values)
        return f"Settings({', '.join(shown)})"


# by the name that follows the prefix
SETTINGS: Final = {each.name.upper(): Setting(each.name.upper(), *each.metadata["row"]) for each in fields(Settings)}
