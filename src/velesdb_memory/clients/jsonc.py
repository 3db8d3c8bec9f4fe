"""Edit one entry of a JSON document and leave every other byte as it is.

Programs let people write comments and trailing commas into their settings, and people keep them in an order and a
layout of their own. Reading such a file and writing it anew would lose all of that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import MalformedFile

MAX_DEPTH: Final = 200
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r"//[^\n\r]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: Final = {"true": True, "false": False, "null": None}


@dataclass
class _Member:
    key: str
    start: int  # of the key
    value: _Node
    comma: int | None  # where the comma after it is


@dataclass
class _Node:
    """A value and the part of the text it takes."""

    start: int
    end: int
    value: Any
    members: list[_Member] | None = None


class _Reader:
    def __init__(self, text: str, lenient: bool) -> None:
        self.text, self.lenient = text, lenient
        self.at = 1 if text.startswith("\ufeff") else 0

    def fail(self, reason: str, at: int | None = None) -> MalformedFile:
        where = self.at if at is None else at
        line = self.text.count("\n", 0, where) + 1
        return MalformedFile(reason, line, where - (self.text.rfind("\n", 0, where) + 1) + 1)

    def blank(self) -> None:
        """Skip white space, and comments."""
        while True:
            space = _SPACE.match(self.text, self.at)
            self.at = space.end() if space else self.at
            if not self.text.startswith("/", self.at):
                return
            comment = _COMMENT.match(self.text, self.at)
            if comment is None:
                raise self.fail("a comment that does not end" if self.text.startswith("/*", self.at) else "a stray /")
            if not self.lenient:
                raise self.fail("a comment, which this file may not have")
            self.at = comment.end()

    def document(self) -> _Node | None:
        """The value of the text; None where there is none."""
        self.blank()
        if self.at == len(self.text):
            return None
        node = self.node(0)
        self.blank()
        if self.at != len(self.text):
            raise self.fail("something follows the end of the document")
        return node

    def node(self, depth: int) -> _Node:
        text, start = self.text, self.at
        if depth > MAX_DEPTH:
            raise self.fail("nested too deeply")
        if text.startswith("{", start):
            return self.object(depth)
        if text.startswith("[", start):
            return self.array(depth)
        if text.startswith('"', start):
            return self.string()
        number = _NUMBER.match(text, start)
        if number:
            self.at = number.end()
            return _Node(start, self.at, json.loads(number[0]))
        for word, value in _WORDS.items():
            if text.startswith(word, start):
                self.at += len(word)
                return _Node(start, self.at, value)
        raise self.fail("a value is expected" if start < len(text) else "the file ends too early")

    def string(self) -> _Node:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise self.fail("a string that is not closed, or holds what JSON does not allow")
        start, self.at = self.at, match.end()
        return _Node(start, self.at, json.loads(match[0]))

    def object(self, depth: int) -> _Node:
        start = self.at
        members: list[_Member] = []
        comma: int | None = None
        self.at += 1
        while True:
            self.blank()
            if self.text.startswith("}", self.at):
                break
            if members and comma is None:
                raise self.fail("a comma or } is expected")
            if not self.text.startswith('"', self.at):
                ends = self.at == len(self.text)
                raise self.fail("{ is not closed" if ends else "a name in double quotes is expected")
            key = self.string()
            self.blank()
            if not self.text.startswith(":", self.at):
                raise self.fail("a colon is expected")
            self.at += 1
            self.blank()
            value = self.node(depth + 1)
            comma = self.comma()
            members.append(_Member(key.value, key.start, value, comma))
        self.closing(comma)
        return _Node(start, self.at, {member.key: member.value.value for member in members}, members)

    def array(self, depth: int) -> _Node:
        start = self.at
        items: list[Any] = []
        comma: int | None = None
        self.at += 1
        while True:
            self.blank()
            if self.text.startswith("]", self.at):
                break
            if items and comma is None:
                raise self.fail("a comma or ] is expected" if self.at < len(self.text) else "[ is not closed")
            items.append(self.node(depth + 1).value)
            comma = self.comma()
        self.closing(comma)
        return _Node(start, self.at, items)

    def comma(self) -> int | None:
        self.blank()
        if not self.text.startswith(",", self.at):
            return None
        self.at += 1
        return self.at - 1

    def closing(self, comma: int | None) -> None:
        if comma is not None and not self.lenient:
            raise self.fail("a comma before the end, which this file may not have", comma)
        self.at += 1


@dataclass(frozen=True)
class JsonFile:
    """A JSON file in which entries are the members of the object at ``path``; ``lenient``: comments and trailing
    commas are allowed, as the program that owns the file allows them."""

    path: Sequence[str]
    lenient: bool = True
    empty: dict[str, Any] = field(default_factory=dict[str, Any])  # what a new file holds beside

    def entry(self, text: str, name: str) -> Any:
        """The value of the entry; None if there is none. Raises MalformedFile."""
        parent, rest = self._parent(text)
        member = None if rest else self._member(parent, name)
        return None if member is None else member.value.value

    def document(self, text: str) -> Any:
        """The whole value of the file. Raises MalformedFile."""
        node = self._read(text)
        return {} if node is None else node.value

    def put(self, text: str, name: str, value: Any) -> str:
        """``text`` with the entry set. Raises MalformedFile."""
        if self._read(text) is None:
            made = {**self.empty, **_nested(self.path, {name: value})}
            return text + ("\n" if text and not text.endswith(("\n", "\ufeff")) else "") + _dumps(made, "", "  ") + "\n"
        parent, rest = self._parent(text)
        member = None if rest else self._member(parent, name)
        newline = "\r\n" if "\r\n" in text else "\n"
        unit = self._unit(text)
        if member is not None:
            node = member.value
            if "\n" in text[parent.start : parent.end]:
                shown = _dumps(value, _indent(text, member.start), unit).replace("\n", newline)
            else:
                shown = json.dumps(value, ensure_ascii=False)
            return text[: node.start] + shown + text[node.end :]
        if rest:
            name, value = rest[0], _nested(rest[1:], {name: value})
        return _insert(text, parent, name, value, unit, newline)

    def drop(self, text: str, name: str) -> str:
        """``text`` without the entry. Raises MalformedFile."""
        parent, rest = self._parent(text)
        members = parent.members or []
        found = None if rest else self._member(parent, name)
        if found is None:
            return text
        index = members.index(found)
        if index + 1 < len(members):
            # from its name to the next one, so that what was before it stays before the next
            return text[: found.start] + text[members[index + 1].start :]
        end = found.value.end if found.comma is None else found.comma + 1
        tail = text[end : parent.end - 1]
        head = text[: found.start]
        if index and found.comma is None:
            # it is the last one no more: the comma of the one before goes
            comma = members[index - 1].comma or 0
            head = text[:comma] + text[comma + 1 : found.start]
        kept = head.rstrip(" \t\r\n")
        if "\n" in tail or "\n" not in head[len(kept) :]:
            # else the line end may be what ends a comment
            head = kept
        if not index and head.endswith("{") and not tail.strip(" \t\r\n"):
            tail = ""
        return head + tail + text[parent.end - 1 :]

    def _read(self, text: str) -> _Node | None:
        reader = _Reader(text, self.lenient)
        node = reader.document()
        if node is not None and node.members is None:
            raise reader.fail("the file must hold an object", node.start)
        return node

    def _parent(self, text: str) -> tuple[_Node, Sequence[str]]:
        """The innermost object on the way to the entries, and the names that are missing below it."""
        node = self._read(text) or _Node(0, 0, {}, [])
        for index, name in enumerate(self.path):
            member = self._member(node, name, text)
            if member is None:
                return node, self.path[index:]
            if member.value.members is None:
                raise _Reader(text, True).fail(f"{name} must be an object", member.value.start)
            node = member.value
        return node, ()

    @staticmethod
    def _member(node: _Node, name: str, text: str = "") -> _Member | None:
        found = [member for member in node.members or [] if member.key == name]
        if len(found) > 1:
            raise _Reader(text, True).fail(f"{name} is there twice", found[1].start)
        return found[0] if found else None

    def _unit(self, text: str) -> str:
        """What the file indents by."""
        root = self._read(text)
        for member in (root.members or []) if root else []:
            indent = _indent(text, member.start)
            if indent and not text[text.rfind("\n", 0, member.start) + 1 : member.start].strip(" \t"):
                return indent
        return "  "


def _insert(text: str, parent: _Node, name: str, value: Any, unit: str, newline: str) -> str:
    members = parent.members or []
    close = parent.end - 1
    key = json.dumps(name, ensure_ascii=False)
    body = text[parent.start : parent.end]
    if "\n" not in text or (members and "\n" not in body):
        # a layout of one line stays one
        made = f"{key}: {json.dumps(value, ensure_ascii=False)}"
        if not members:
            return text[: parent.start + 1] + made + text[close:]
        comma = members[-1].comma
        if comma is not None:
            return text[: comma + 1] + f" {made}," + text[comma + 1 :]
        at = members[-1].value.end
        return text[:at] + f", {made}" + text[at:]
    outer = _indent(text, parent.start)
    inner = _indent(text, members[-1].start) if members else outer + unit
    made = newline + inner + f"{key}: {_dumps(value, inner, unit)}".replace("\n", newline)
    if not members:
        kept = text[parent.start + 1 : close].rstrip(" \t\r\n")
        return text[: parent.start + 1] + kept + made + newline + outer + text[close:]
    last, trailing = members[-1].value.end, members[-1].comma is not None
    head = text[:last] + ("" if trailing else ",")
    # comments after the last member stay with it
    kept = text[last:close].rstrip(" \t\r\n")
    gap = text[last + len(kept) : close]
    return head + kept + made + ("," if trailing else "") + (gap or newline + outer) + text[close:]


def _nested(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _indent(text: str, at: int) -> str:
    """The white space that the line of ``at`` begins with."""
    start = text.rfind("\n", 0, at) + 1
    line = text[start:at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dumps(value: Any, indent: str, unit: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", "\n" + indent)
