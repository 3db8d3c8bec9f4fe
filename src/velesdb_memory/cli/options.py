"""The flags of the command line that set settings, made from their table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import config
from ..config import hint
from ..settings import Switch


class Parser(argparse.ArgumentParser):
    """A parser that is completed when it is used: a start must not pay for the flags of every command."""

    later: Callable[[], None] | None = None

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        complete, self.later = self.later, None
        if complete is not None:
            complete()
        words = sys.argv[1:] if args is None else list(args)
        self._refuse_unknown(words)
        return super().parse_known_args(words, namespace)

    def _refuse_unknown(self, words: list[str]) -> None:
        """Name an unknown flag, where argparse may take the word behind it for a command and complain of that."""
        known = self._option_string_actions
        skip = False
        for word in words:
            if skip:
                skip = False
            elif word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return
            elif word.startswith("--"):
                name, equals, _ = word.partition("=")
                if name not in known:
                    self.error(f"unknown flag {name}{hint(name, known)}")
                skip = known[name].nargs != 0 and not equals


def settings_later(parser: Parser, *names: str) -> None:
    """``add_settings`` when the parser is used."""
    parser.later = partial(add_settings, parser, *names)


def add_settings(parser: Parser, *names: str) -> None:
    """A flag for every setting that may have one; ``--help`` shows those of ``names``, or all where none is named.

    Their values stay text until the settings are read, so that all that is malformed is refused in one way.
    """
    group = parser.add_argument_group(
        "settings",
        f"by flag, variable ({config.PREFIX}...) or {config.FILE_NAME}, in this order of weight"
        if not names
        else "every other flag of velesdb-memory --help works here too",
    )
    for name, row in config.SETTINGS.items():
        if not row.flag:
            continue
        text = _help(row) if not names or name in names else argparse.SUPPRESS
        # Upper case tells settings from options; SUPPRESS: a command must not undo what stood before it
        if isinstance(row.kind, Switch):
            for flag, value, shown in ((row.flag, "1", text), ("--no-" + row.flag[2:], "0", argparse.SUPPRESS)):
                group.add_argument(
                    flag, dest=name, action="store_const", const=value, default=argparse.SUPPRESS, help=shown
                )
        else:
            group.add_argument(row.flag, dest=name, metavar=row.kind.metavar, default=argparse.SUPPRESS, help=text)


def flags_of(chosen: argparse.Namespace) -> dict[str, str]:
    """The settings that the command line gives, by name."""
    return {name: value for name, value in vars(chosen).items() if name.isupper()}


def settings_of(chosen: argparse.Namespace) -> config.Settings:
    """The settings in effect for this call; says so where a file takes part."""
    found = config.read(flags=flags_of(chosen))
    if found.from_file and not found.settings.quiet:
        count = "1 setting" if found.from_file == 1 else f"{found.from_file} settings"
        print(f"velesdb-memory: {count} from {found.file}", file=sys.stderr)
    return found.settings


def only_in_environment() -> str:
    """The rest of the table, for the end of ``--help``."""
    rows = [row for row in config.SETTINGS.values() if not row.flag]
    return "secrets, only in the environment:\n" + "\n".join(f"  {row.variable}\n      {row.text}" for row in rows)


def _help(row: config.Setting) -> str:
    default = "" if not row.default or isinstance(row.kind, Switch) else f"default: {row.default}"
    return f"{row.text} ({'; '.join(filter(None, (row.variable, default or row.unset)))})".replace("%", "%%")
