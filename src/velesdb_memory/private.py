"""Files that only their owner may read, and that exist whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from .errors import StoreUnwritable


def make_folder(path: Path) -> None:
    """Make the directory, for its owner only, unless it is there. Raises StoreUnwritable."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be created: {error.strerror}") from error


def create(path: Path, data: bytes) -> bool:
    """Make the file ``path`` with ``data`` in it, readable by its owner only; False if there is one already.

    Nobody ever sees a part of it, and of several processes that try at once one succeeds. Raises StoreUnwritable.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            _link(Path(name), path)
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()
    except FileExistsError:
        return False
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be created: {error.strerror}") from error
    return True


def _link(source: Path, target: Path) -> None:
    """Give ``source`` the name ``target`` as well. Raises FileExistsError if that is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        # a file system without links: on Windows a rename refuses a name that is taken, elsewhere it does not
        if os.name != "nt" and target.exists():
            raise FileExistsError(target) from None
        source.rename(target)


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Make or replace the file at once. Raises StoreUnwritable."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            if os.name != "nt":
                Path(name).chmod(mode)
            Path(name).replace(path)
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be written: {error.strerror}") from error
