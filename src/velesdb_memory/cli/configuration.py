"""``config``: the settings in effect, as a file would hold them, and where each came from."""

from __future__ import annotations

from collections.abc import Mapping

from .. import __version__
from ..config import SETTINGS, Configuration, Origin, Setting, read


def run(flags: Mapping[str, str]) -> int:
    """Print them; what is printed is a file of settings again, without the secrets."""
    print(render(read(flags=flags)))
    return 0


def render(found: Configuration) -> str:
    """The settings of ``found`` as TOML, each with its origin in a comment. Secrets are named and not shown."""
    lines = [
        f"# velesdb-memory {__version__}: the settings in effect, and where each comes from",
        f"# file: {found.file or 'none'}",
    ]
    rows = sorted((row for row in SETTINGS.values() if row.key), key=lambda row: _tables().index(_split(row.key)[0]))
    table = ""
    for row in rows:
        name = _split(row.key)
        if name[0] != table:
            table = name[0]
            lines += ["", f"[{table}]"]
        lines.append(_line(row, name[1], getattr(found.settings, row.attribute), found.origins[row.attribute]))
    lines.append("")
    for row in SETTINGS.values():
        if row.secret:
            is_set = getattr(found.settings, row.attribute) is not None
            lines.append(f"# {row.variable} is {'set' if is_set else 'not set'}")
    return "\n".join(lines)


def _line(row: Setting, name: str, value: object, origin: Origin) -> str:
    if value is None and row.default is None:
        return f"# {name} is not set  # {origin.where}"
    return f"{name} = {row.kind.show(value)}  # {origin.where}"


def _split(key: str) -> tuple[str, str]:
    table, _, name = key.rpartition(".")
    return table, name


def _tables() -> list[str]:
    """The tables of a file in the order of their settings, what is in none first."""
    return ["", *dict.fromkeys(table for row in SETTINGS.values() if (table := _split(row.key)[0]))]
