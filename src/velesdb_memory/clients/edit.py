"""Change one entry of somebody's configuration file, so that it can be taken back.

Nothing is remembered beside the backup: whether the file is still what was written here is seen by doing the same to
the backup again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from ..errors import InvalidInput, MalformedFile, StoreUnwritable
from ..private import replace
from .registry import Client, suited

SUFFIX: Final = ".before-velesdb-memory"
MAX_BYTES: Final = 64 * 1_048_576


@dataclass(frozen=True)
class Change:
    """What a file holds, and what it is to hold; None: no such file. ``backup`` is what its backup is to hold, None to
    leave that as it is; ``restores`` says that the backup is what is put back, and goes."""

    file: Path
    before: bytes | None
    after: bytes | None
    backup: bytes | None = None
    restores: bool = False

    @property
    def changes(self) -> bool:
        return self.before != self.after


def backup_of(file: Path) -> Path:
    return file.with_name(file.name + SUFFIX)


def connected(file: Path, client: Client, name: str, entry: Mapping[str, Any]) -> Change:
    """The change that gives ``file`` the entry. Raises MalformedFile, naming the line, for a file that ``client`` could
    not read either, and for one in which nothing can be changed safely."""
    file, before = _read(file)
    text = _text(file, before)
    try:
        form = suited(client, text)
        if form.entry(text, name) == entry:
            return Change(file, before, before)
        after = form.put(text, name, dict(entry))
        if form.document(after) != _merged(form.document(text), (*form.path, name), entry, client, before):
            raise MalformedFile("this file is laid out in a way that cannot be changed safely: change it by hand")
        # a second change of ours leaves the state before the first one as what to go back to
        current = form.entry(text, name)
        same = current is not None and _put(client, _backup(file) or b"", name, current) == before
    except MalformedFile as error:
        raise _at(error, file) from None
    return Change(file, before, after.encode(), None if same or before is None else before)


def undone(file: Path, client: Client, name: str) -> Change:
    """The change that takes the entry away: back to the backup byte for byte where nobody has changed the file since,
    else by removing the entry alone. Raises MalformedFile."""
    file, before = _read(file)
    text = _text(file, before)
    try:
        form = suited(client, text)
        current = form.entry(text, name)
        if current is None:
            return Change(file, before, before)
        kept = _backup(file)
        if kept is not None and form.entry(_text(file, kept), name) is None:
            if _put(client, kept, name, current) == before:
                return Change(file, before, kept, restores=True)
        elif kept is None and _put(client, b"", name, current) == before:
            return Change(file, before, None)
        return Change(file, before, form.drop(text, name).encode())
    except MalformedFile as error:
        raise _at(error, file) from None


def write(change: Change) -> None:
    """Carry out ``change``: the backup first, then the file, each at once; permissions and links stay.

    Raises InvalidInput if the file is not what it was when the change was made up, and StoreUnwritable.
    """
    file = change.file
    if _read(file)[1] != change.before:
        raise InvalidInput(f"{file} was changed meanwhile: run the command again", field="file")
    try:
        mode = file.stat().st_mode & 0o777 if change.before is not None else 0o600
        file.parent.mkdir(parents=True, exist_ok=True)
        if change.backup is not None:
            replace(backup_of(file), change.backup, mode)
        if change.after is None:
            file.unlink()
        else:
            replace(file, change.after, mode)
        if change.restores:
            backup_of(file).unlink()
    except OSError as error:
        raise StoreUnwritable(f"{file} cannot be written: {error.strerror}") from error


def _put(client: Client, data: bytes, name: str, entry: Any) -> bytes | None:
    """What ``connected`` would make of ``data``."""
    try:
        text = data.decode()
        return suited(client, text).put(text, name, entry).encode()
    except (MalformedFile, UnicodeDecodeError):
        return None


def _read(file: Path) -> tuple[Path, bytes | None]:
    """The file itself, where ``file`` may be a link, and what it holds."""
    real = Path(os.path.realpath(file))
    try:
        with real.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return real, None
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", field="file") from error
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"{file} is larger than {MAX_BYTES} bytes", field="file")
    return real, data


def _backup(file: Path) -> bytes | None:
    return _read(backup_of(file))[1]


def _text(file: Path, data: bytes | None) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise MalformedFile(f"not UTF-8 text (byte {error.start})", file=str(file)) from None


def _at(error: MalformedFile, file: Path) -> MalformedFile:
    return MalformedFile(error.reason, error.line, error.column, file=str(file))


def _merged(
    document: dict[str, Any], path: tuple[str, ...], entry: Mapping[str, Any], client: Client, before: bytes | None
) -> dict[str, Any]:
    """``document`` with the entry at ``path``, by value."""
    if not (before or b"").strip():
        document = {**getattr(client.format, "empty", {}), **document}
    merged = dict(document)
    inner: dict[str, Any] = merged
    for part in path[:-1]:
        inner[part] = dict(cast("dict[str, Any]", inner.get(part, {})))
        inner = inner[part]
    inner[path[-1]] = dict(entry)
    return merged
