"""``export`` and ``import``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from ..config import Settings
from ..errors import StorageError, TransferFormat
from .progress import progress
from .serve import open_service


@contextmanager
def _atomic(path: Path) -> Generator[TextIO]:
    """A file that appears whole, readable by its owner only, or not at all."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


@contextmanager
def _output(target: str | None) -> Generator[TextIO]:
    if target is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    with _atomic(Path(target).expanduser().absolute()) as file:
        yield file


def run_export(settings: Settings, target: str | None, include_internal: bool) -> int:
    """Write the export; the exit code."""
    lines = 0
    try:
        with open_service(settings) as memory, progress() as show, _output(target) as file:
            total: int | None = None
            for line in memory.export(include_internal):
                total = line["facts"] + line["edges"] + 1 if not lines else total
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
                lines += 1
                if show:
                    show("export", lines, total)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError(f"the export cannot be written: {error.strerror}") from error
    print(f"velesdb-memory: {lines} lines exported from {settings.path}", file=sys.stderr)
    return 0


def _input(source: str) -> TextIO:
    if source == "-":
        return open(0, encoding="utf-8", closefd=False)
    return Path(source).expanduser().open(encoding="utf-8")


def run_import(settings: Settings, source: str) -> int:
    """Read an export; 1 when some line could not be taken."""
    try:
        with (
            _input(source) as file,
            open_service(settings) as memory,
            progress() as show,
        ):
            report = memory.import_(file, progress=(lambda done: show("import", done, None)) if show else None)
    except UnicodeDecodeError as error:
        problem = f"{source} is not UTF-8 text ({error.reason} at byte {error.start})"
        raise TransferFormat(problem, field="file") from error
    except OSError as error:
        raise TransferFormat(f"{source} cannot be read: {error.strerror}", field="file") from error
    for problem in report.problems[:20]:
        print(f"line {problem.line}: {problem.reason}", file=sys.stderr)
    if len(report.problems) > 20:
        print(f"and {len(report.problems) - 20} more lines with a problem", file=sys.stderr)
    print(
        f"velesdb-memory: {report.facts} facts and {report.edges} edges written to {settings.path}, "
        f"{report.unchanged} already there, {len(report.problems)} lines refused",
        file=sys.stderr,
    )
    return 1 if report.problems else 0
