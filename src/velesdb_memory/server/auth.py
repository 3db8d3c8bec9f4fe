"""Who may use the daemon: bearer tokens, each a file in the store that holds its hash and never itself.

A token is 256 random bits, so that nobody can guess what a hash came from: a plain SHA-256 is as good as the slow
hashes that passwords, which people choose, need, and costs nothing at each request. One file a token makes creating and
revoking atomic without a lock, and a running daemon sees both at its next request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from ..errors import InvalidArgument, StorageError
from ..private import create, make_folder
from ..text import shown

FOLDER: Final = "tokens"
PREFIX: Final = "vmt_"  # so that scanners for leaked secrets, and people, know one when they see it
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of a token. ``created`` is in Unix seconds."""

    name: str
    sha256: str
    read_only: bool
    created: int


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class Tokens:
    """The tokens of the store in ``store``, and ``extra``, one that is set and not stored."""

    def __init__(self, store: Path, extra: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._folder = store / FOLDER
        self._clock = clock
        self._extra = [Token("(setting)", _hash(extra), False, 0)] if extra else []
        self._read: dict[str, tuple[object, Token | None]] = {}

    def create(self, name: str, *, read_only: bool = False) -> str:
        """A new token, which is returned once and kept nowhere. Raises InvalidArgument for a name that is taken, or
        that is not made of 1 to 64 ASCII letters, digits, dots, dashes and underscores."""
        path = self._path(name)
        secret = PREFIX + secrets.token_urlsafe(32)
        make_folder(self._folder)
        token = Token(name, _hash(secret), read_only, int(self._clock()))
        if not create(path, msgspec.json.encode(token)):
            raise InvalidArgument(f"there is a token called {name} already: revoke it first", field="name")
        return secret

    def revoke(self, name: str) -> None:
        """End a token at once. Raises InvalidArgument if there is none of that name."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise InvalidArgument(f"there is no token called {name}", field="name") from None
        except OSError as error:
            raise StorageError(f"{self._path(name)} cannot be removed: {error.strerror}") from error

    def stored(self) -> list[Token]:
        """The tokens that are stored, by name. A file that is not one gives nobody access."""
        found: dict[str, tuple[object, Token | None]] = {}
        try:
            paths = sorted(path for path in self._folder.iterdir() if path.suffix == ".json")
        except FileNotFoundError:
            paths = []
        except OSError as error:
            raise StorageError(f"{self._folder} cannot be read: {error.strerror}") from error
        for path in paths:
            try:
                status = path.stat()
                # a token's file is never changed, only made and removed
                version = status.st_ino, status.st_mtime_ns, status.st_size
                known = self._read.get(path.name)
                found[path.name] = known if known and known[0] == version else (version, _load(path))
            except FileNotFoundError:
                continue  # revoked this moment
        self._read = found
        return [token for _, token in found.values() if token is not None]

    def match(self, secret: str) -> Token | None:
        """The token whose secret this is. Takes as long whichever it is, and if it is none."""
        sought = _hash(secret)
        found = None
        for token in (*self._extra, *self.stored()):
            if hmac.compare_digest(token.sha256, sought):
                found = token
        return found

    def hashes(self) -> frozenset[str]:
        """The hashes of all tokens that are valid now. Raises StorageError."""
        return frozenset(token.sha256 for token in (*self._extra, *self.stored()))

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise InvalidArgument(
                f"{shown(name)} is no name for a token: use 1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first",
                field="name",
            )
        return self._folder / f"{name}.json"


def _load(path: Path) -> Token | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Token)
    except (OSError, msgspec.MsgspecError, ValueError):
        return None


def bearer(header: str | None) -> str | None:
    """The token of an Authorization header; None if it holds no bearer token."""
    scheme, _, secret = (header or "").partition(" ")
    return secret.strip(" ") or None if scheme.lower() == "bearer" else None
