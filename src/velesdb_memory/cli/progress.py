"""Progress on standard error, and only where a person watches it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def progress(total: int | None = None) -> Generator[Callable[[str, int, int | None], None] | None]:
    """A function to call with (what, how many are done, of how many); None when no terminal is there."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)

        def show(what: str, done: int, of: int | None) -> None:
            bar.update(task, description=what, completed=done, total=of if of is not None else total)

        yield show
