"""Edit one table of a TOML document and leave every other byte as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from ..errors import MalformedFile

_HEADER: Final = re.compile(r"[ \t]*\[(?!\[)([^\n]*)\][ \t]*(?:#[^\n]*)?\r?$")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+$")
_ANY_HEADER: Final = re.compile(r"[ \t]*\[[^\n]*\][ \t]*(?:#[^\n]*)?\r?$")
_TOKENS: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*''', re.DOTALL
)
_PART: Final = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*(\.|$)""")
_PLACE: Final = re.compile(r"\(at line (\d+), column (\d+)\)$")


@dataclass(frozen=True)
class TomlFile:
    """A TOML file in which entries are tables below ``path``."""

    path: Sequence[str]

    def entry(self, text: str, name: str) -> Any:
        """The value of the entry; None if there is none. Raises MalformedFile."""
        found: Any = self.document(text)
        for part in (*self.path, name):
            if not isinstance(found, dict):
                raise MalformedFile(f"{part} is not in a table")
            found = cast("dict[str, Any]", found).get(part)
            if found is None:
                return None
        return found

    def document(self, text: str) -> Any:
        """The whole value of the file. Raises MalformedFile."""
        import tomllib

        try:
            return tomllib.loads(text.removeprefix("\ufeff"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            place = _PLACE.search(str(error))
            if place is None:
                raise MalformedFile(str(error)) from None
            raise MalformedFile(str(error)[: place.start()].rstrip(), int(place[1]), int(place[2])) from None

    def put(self, text: str, name: str, value: Any) -> str:
        """``text`` with the entry set: its table takes the place of the one that was there, or comes last.

        Raises MalformedFile, also where the entry is there and not written as a table of its own.
        """
        newline = "\r\n" if "\r\n" in text else "\n"
        table = "".join(line + newline for line in _table((*self.path, name), value))
        regions = [] if self.entry(text, name) is None else self._regions(text, name)
        if not regions:
            gap = "" if not text or text.endswith("\n\n") else newline if text.endswith("\n") else newline * 2
            result = text + gap + table
        else:
            start, end = regions[0]
            result = text[:start] + table + self._without(text[end:], self._regions(text[end:], name))
        try:
            if self.entry(result, name) == value:
                return result
        except MalformedFile:
            self.document(text)
        raise MalformedFile(f"{'.'.join((*self.path, name))} is not written as a table of its own: change it by hand")

    def drop(self, text: str, name: str) -> str:
        """``text`` without the entry. Raises MalformedFile, also where it is not written as a table of its own."""
        if self.entry(text, name) is None:
            return text
        result = self._without(text, self._regions(text, name))
        if self._others(result, name) != self._others(text, name) or self.entry(result, name) is not None:
            place = ".".join((*self.path, name))
            raise MalformedFile(f"{place} is not written as a table of its own: remove it by hand")
        return result

    def _others(self, text: str, name: str) -> Any:
        """What the file says beside the entry."""
        document = self.document(text)
        inner = document
        for part in self.path:
            inner = inner.setdefault(part, {})
        inner.pop(name, None)
        return document

    @staticmethod
    def _without(text: str, regions: Sequence[tuple[int, int]]) -> str:
        for start, end in reversed(regions):
            before = text[:start]
            # the empty line that set the table apart goes with it, at the end of the file
            if not text[end:].strip() and before.endswith(("\n\n", "\n\r\n")):
                before = before.removesuffix("\n").removesuffix("\r")
            text = before + text[end:]
        return text

    def _regions(self, text: str, name: str) -> list[tuple[int, int]]:
        """Where the entry's tables are: from a header of it to what belongs to the next one."""
        wanted = (*self.path, name)
        found: list[tuple[int, int]] = []
        at, start, end = 0, -1, -1
        texts = [token.span() for token in _TOKENS.finditer(text) if "\n" in token[0]]
        for line in _LINES.findall(text):
            inside = any(first < at < last for first, last in texts)
            if not inside and _ANY_HEADER.match(line.rstrip("\n")):
                header = _HEADER.match(line.rstrip("\n"))
                ours = header is not None and _names(header[1])[: len(wanted)] == wanted
                if start >= 0 and not ours:
                    found.append((start, end))
                    start = -1
                elif ours and start < 0:
                    start = at
            at += len(line)
            if line.strip() and (inside or not line.lstrip().startswith("#")):
                end = at
        if start >= 0:
            found.append((start, end))
        return found


def _names(header: str) -> tuple[str, ...]:
    """The parts of a table's name; empty if it is not one."""
    names: list[str] = []
    at = 0
    while at < len(header):
        part = _PART.match(header, at)
        if part is None:
            return ()
        quoted, literal, bare = part[1], part[2], part[3]
        try:
            names.append(json.loads(f'"{quoted}"') if quoted is not None else bare if literal is None else literal)
        except ValueError:
            return ()
        at = part.end()
    return tuple(names)


def _table(path: Sequence[str], value: Mapping[str, Any]) -> list[str]:
    return [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {_value(item)}" for key, item in value.items())]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{_key(key)} = {_value(item)}" for key, item in cast("dict[str, Any]", value).items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, cast('list[Any]', value)))}]"
    # JSON's texts, numbers and booleans are TOML's too, but for this one character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
