"""Reading the files that fragments name: only below directories that the operator has opened.

The only module of the compiler that touches a disk. A path is resolved through every symbolic link first, and what it
leads to must lie below a root. Where the system can (Linux, macOS), the file is then opened step by step from the root
without following any link, so that a link put there after the check leads nowhere; elsewhere the opened file must be
the one that was checked. No error tells whether anything exists outside the roots.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath, PureWindowsPath
from typing import Final

import msgspec

from ..errors import ContextOverLimit, IngestDisabled, IngestOutsideRoots, IngestPath, InvalidArgument
from ..limits import MAX_INGEST_FILE_BYTES, MAX_INGEST_FILES, MAX_TOTAL_INGEST_BYTES, MAX_TRANSCRIPT_BYTES
from .model import ContextFragment

SETTING: Final = "VELESDB_MEMORY_INGEST_ROOTS"

_STEPWISE: Final = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY") and hasattr(os, "O_NOFOLLOW")
# O_PATH: a directory that may be passed through need not be readable
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# O_NONBLOCK: a FIFO put in the file's place must not hold the server. O_BINARY is Windows's
_FILE: Final = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
# Longer than any system's paths; resolving takes time that grows with the square
_MAX_PATH_CHARACTERS: Final = 32_767
_IMAGES: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")


class Roots(msgspec.Struct, frozen=True):
    """The directories that the operator has opened, absolute and free of links; none: reading files is disabled."""

    directories: tuple[Path, ...] = ()

    @classmethod
    def from_setting(cls, value: str | None) -> Roots:
        """The roots of a list as in PATH (``os.pathsep``); empty entries are passed over, ``~`` is expanded.

        Raises InvalidArgument for an entry that is no directory.
        """
        return cls(tuple(_root(entry) for entry in (value or "").split(os.pathsep) if entry))

    def resolve_fragments(self, fragments: Sequence[ContextFragment]) -> list[ContextFragment]:
        """The fragments with the text of their files in place of their paths; the others as they are.

        Raises IngestDisabled without roots, ContextOverLimit for more than 64 files, a file over 1 MiB or files over
        64 MiB together, IngestOutsideRoots, and IngestPath for what cannot be read as UTF-8 text; the first of them
        ends it.
        """
        count = sum(fragment.path is not None for fragment in fragments)
        if not count:
            return list(fragments)
        self._require_open("fragments")
        if count > MAX_INGEST_FILES:
            raise ContextOverLimit(
                f"{count} fragments have a path, over the cap of {MAX_INGEST_FILES} files in one request",
                field="fragments",
                limit=MAX_INGEST_FILES,
            )
        resolved: list[ContextFragment] = []
        room = MAX_TOTAL_INGEST_BYTES
        for index, fragment in enumerate(fragments):
            if fragment.path is None:
                resolved.append(fragment)
                continue
            file = _File(fragment.path, f"fragments[{index}].path")
            data = file.read(self.directories, MAX_INGEST_FILE_BYTES, room)
            room -= len(data)
            resolved.append(msgspec.structs.replace(fragment, path=None, content=file.text(data)))
        return resolved

    def read_transcript(self, path: str) -> str:
        """The text of a transcript file, at most 8 MiB. Raises as ``resolve_fragments`` does."""
        self._require_open("path")
        file = _File(path, "path")
        return file.text(file.read(self.directories, MAX_TRANSCRIPT_BYTES, MAX_TOTAL_INGEST_BYTES))

    def _require_open(self, field: str) -> None:
        if not self.directories:
            raise IngestDisabled(
                f"reading files is disabled: pass the text itself, or have the operator set {SETTING} to the "
                "directories that may be read",
                field=field,
            )


class _File:
    """A file as it was asked for, which is all that an error may say of it."""

    def __init__(self, path: str, field: str) -> None:
        self.path = path
        self.field = field
        self.name = f"{field} {_quoted(path)}"

    def read(self, roots: Sequence[Path], limit: int, room: int) -> bytes:
        """Its bytes: at most ``limit``, and at most ``room``, which is what other files have left of the total."""
        if not _usable(self.path):
            raise IngestPath(f"{self.name} is not an absolute path", field=self.field)
        target = None if os.name == "nt" and elsewhere(self.path, roots) else _resolved(self.path)
        root = next((root for root in roots if target and target.is_relative_to(root)), None)
        if target is None or root is None:
            raise IngestOutsideRoots(f"{self.name} is outside the directories that may be read", field=self.field)
        try:
            with os.fdopen(_open(root, target), "rb") as file:
                found = os.fstat(file.fileno())
                _require_regular(found)
                self._require_room(found.st_size, limit, room)
                # a byte more than may be, for the file may have grown since
                data = file.read(min(limit, room) + 1)
        except OSError as error:
            raise IngestPath(f"{self.name} cannot be read: {error.strerror}", field=self.field) from None
        self._require_room(len(data), limit, room)
        return data

    def text(self, data: bytes) -> str:
        """Its bytes as strict UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            image = data.startswith(_IMAGES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
            hint = "; it looks like an image, which a fragment carries as media" if image else ""
            raise IngestPath(
                f"{self.name} is not UTF-8 text ({error.reason} at byte {error.start}){hint}", field=self.field
            ) from None

    def _require_room(self, size: int, limit: int, room: int) -> None:
        if size > limit:
            raise ContextOverLimit(
                f"{self.name} is larger than {limit} bytes, the cap for such a file", field=self.field, limit=limit
            )
        if size > room:
            raise ContextOverLimit(
                f"{self.name} takes the files of this request over {MAX_TOTAL_INGEST_BYTES} bytes, the cap for all",
                field=self.field,
                limit=MAX_TOTAL_INGEST_BYTES,
            )


def elsewhere(path: str, roots: Iterable[PurePath]) -> bool:
    """Whether a path of Windows names a share that no root is on: a look at it would log on to a stranger's server."""
    drive = PureWindowsPath(path).drive.lower()
    return drive.startswith("\\\\") and all(drive != root.drive.lower() for root in roots)


def _root(entry: str) -> Path:
    try:
        root = Path(os.path.realpath(Path(entry).expanduser(), strict=True))
    except OSError as error:
        raise InvalidArgument(f"{SETTING} names {_quoted(entry)}: {error.strerror}", field=SETTING) from error
    except (ValueError, RuntimeError) as error:
        raise InvalidArgument(f"{SETTING} names {_quoted(entry)}: {error}", field=SETTING) from error
    if not root.is_dir():
        raise InvalidArgument(f"{SETTING} names {_quoted(entry)}, which is no directory", field=SETTING)
    return root


def _usable(path: str) -> bool:
    if "\0" in path or len(path) > _MAX_PATH_CHARACTERS or not Path(path).is_absolute():
        return False
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _resolved(path: str) -> Path:
    # not strict: whether something outside the roots exists must make no difference
    return Path(os.path.realpath(path))


def _open(root: Path, target: Path) -> int:
    """A descriptor of the regular file ``target``. Raises OSError, also for what is no regular file."""
    if not _STEPWISE:
        checked = target.lstat()
        _require_regular(checked)
        descriptor = os.open(target, _FILE)
        if os.path.samestat(checked, os.fstat(descriptor)) and _resolved(str(target)) == target:
            return descriptor
        os.close(descriptor)
        raise OSError(errno.ESTALE, "it was replaced meanwhile")
    *folders, name = target.relative_to(root).parts or (".",)
    folder = os.open(root, _FOLDER)
    try:
        for step in folders:
            below = os.open(step, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        # opening a device may do something; whatever takes the file's place after this is caught when it is open
        _require_regular(os.stat(name, dir_fd=folder, follow_symlinks=False))
        return os.open(name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)


def _require_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def _quoted(path: str) -> str:
    text = path if len(path) <= 1_000 else path[:1_000] + "…"
    return f"'{text}'" if text.isprintable() else ascii(text)
