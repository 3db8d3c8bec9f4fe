"""Reading what a model wrote. It is untrusted (D32): one bad item never costs the others.

An item that cannot be used is left out and counted by reason, in ``Extraction.dropped``:

==========================  ================================================================================
``fact_not_text``           a fact that is neither text nor has text under ``fact`` or ``text``
``fact_blank``              a fact of white space only
``topics_not_a_list``       the topics of a fact (the fact itself stays)
``topic_not_text``          one topic (likewise)
``relation_incomplete``     subject, predicate or object is missing, not text, or blank
``relation_label_invalid``  a predicate over 512 bytes or with a control character
``self_relation``           subject and object are the same entity
``attribute_incomplete``    entity or key is missing, not text, or blank, or there is no value
``attribute_null``          the value is null
``value_too_deep``          a value nested deeper than metadata may be
``number_out_of_range``     NaN, an infinity, or a number that metadata cannot hold
``no_alphanumeric_name``    a relation or attribute of a name without a letter or digit
``unknown_reference``       a name that is only a number, such as ``12``, and not in the passage: an id that
                            the model was never given (C26)
``lone_surrogate``          text that UTF-8 cannot carry
``not_a_list``              something else than a list under ``facts``, ``relations`` or ``attributes``
``no_known_list``           an object with keys, but none of those three
==========================  ================================================================================
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from ..errors import ExtractError
from ..limits import MAX_INTEGER, MAX_METADATA_DEPTH, MAX_RELATION_BYTES, MIN_INTEGER
from ..text import canonical, trim
from .base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction
from .outline import NO_ALPHANUMERIC_NAME, has_alphanumeric

LISTS: Final = ("facts", "relations", "attributes")
MAX_REPLY_CHARS: Final = 4 * 1024 * 1024
MAX_REPLY_DEPTH: Final = 200  # brackets inside brackets
MAX_CANDIDATES: Final = 1_000  # JSON values looked at, one after the other, until one is the reply


def parse_reply(text: str, passage: str | None = None) -> Extraction:
    """What a model's reply says, with its unusable items left out and counted by reason (see the module).

    Taken is the first complete and well-formed JSON object that has one of the three lists, or array that has
    objects or arrays in it; failing that, the first object or array of any kind. Prose, code fences and a
    ``<think>`` block around it do not matter. An array stands for the list of facts, or for a list of such
    objects. A fact may be bare text; a relation or an attribute may be an array of three, a fact one of two.
    Missing lists are empty, unknown keys are ignored, control characters inside of strings accepted. Names
    become canonical; topics are sorted and unique, blank ones disappear.

    ``passage``, when given, is what the model had read: names that are numbers it does not contain are
    dropped.

    Raises ExtractError when there is no JSON at all, when it is cut off, or over 4 Mi characters. The message
    gives the size of the reply and what is missing, never its words (D59).
    """
    result = read_reply(text, passage)
    if isinstance(result, str):
        raise ExtractError(f"the model's reply cannot be read: {result}")
    return result


def read_reply(text: str, passage: str | None) -> Extraction | str:
    """The extraction, or what is wrong with the reply as a whole."""
    if len(text) > MAX_REPLY_CHARS:
        return f"{len(text)} characters, over the cap of {MAX_REPLY_CHARS}"
    start = 0
    if trim(text).startswith("<think>"):
        start = text.find("</think>")
        if start < 0:
            return f"{len(text)} characters of thinking, cut off before the answer"
    first: Any = None
    for value in _candidates(text, start):
        if value is _CUT:
            return f"{len(text)} characters, the JSON in them is cut off"
        if _recognised(value):
            return _Reader(passage).read(value)
        first = value if first is None else first
    if first is None:
        return f"{len(text)} characters, no JSON object or array in them"
    return _Reader(passage).read(first)


_CUT: Final = object()
# The single quotes are Python's: such a reply is no JSON, but it is one value, and not the lists inside of it
_OPENING: Final = re.compile(r"""\{(?=\s*(?:["'}]|\Z))|\[(?=\s*(?:["'\[{\]]|\Z))""")
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z|\\\Z)|[{}\[\]]', re.DOTALL)


def _candidates(text: str, position: int) -> Iterator[Any]:
    """The JSON objects and arrays of ``text``, outermost ones only; _CUT and no more after one without an
    end.

    What is inside of a value that does not decode is not looked at: its items would be taken for the whole.
    """
    for _ in range(MAX_CANDIDATES):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        position, depth = _end(text, opening.start())
        if depth < 0:
            yield _CUT
            return
        if depth > MAX_REPLY_DEPTH:
            continue
        try:
            yield _DECODER.decode(text[opening.start() : position])
        except (ValueError, RecursionError):
            continue


def _end(text: str, start: int) -> tuple[int, int]:
    """Where the bracket at ``start`` closes, and how deep it nests; a depth of -1 if it never closes."""
    depth = deepest = 0
    for token in _STRUCTURE.finditer(text, start):
        mark = token.group()
        if mark in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "}]":
            depth -= 1
            if not depth:
                return token.end(), deepest
    return len(text), -1


def _recognised(value: Any) -> bool:
    """Whether ``value`` is surely the reply: prose before it may hold an empty list, or quoted words."""
    if isinstance(value, dict):
        return any(name in value for name in LISTS)
    return any(isinstance(item, dict | list) for item in value)


def _integer(digits: str) -> int | float:
    # Out of range becomes infinite, which is refused where it stands; Python's own refusal would cost the
    # whole reply
    value = int(digits) if len(digits) <= 21 else MAX_INTEGER + 1
    return value if MIN_INTEGER <= value <= MAX_INTEGER else math.inf


_DECODER: Final = json.JSONDecoder(strict=False, parse_int=_integer, parse_constant=lambda _: math.nan)


class _Reader:
    """Sorts the items of one reply into an extraction."""

    def __init__(self, passage: str | None) -> None:
        self._numbers = None if passage is None else set(_NUMBERS.findall(passage))
        self._facts: list[ExtractedFact] = []
        self._relations: list[ExtractedRelation] = []
        self._attributes: list[ExtractedAttribute] = []
        self._dropped: Counter[str] = Counter()

    def read(self, value: Any) -> Extraction:
        if isinstance(value, list):
            for item in cast("list[Any]", value):
                if isinstance(item, dict) and _recognised(item):
                    self._object(cast("dict[str, Any]", item))
                else:
                    self._each([item], self._fact)
        else:
            self._object(value)
        return Extraction(self._facts, self._relations, self._attributes, dict(self._dropped))

    def _object(self, value: dict[str, Any]) -> None:
        if value and not _recognised(value):
            self._dropped["no_known_list"] += 1
        readers = (self._fact, self._relation, self._attribute)
        for name, reader in zip(LISTS, readers, strict=True):
            items = value.get(name)
            if isinstance(items, list):
                self._each(cast("list[Any]", items), reader)
            elif items is not None:
                self._dropped["not_a_list"] += 1

    def _each(self, items: list[Any], reader: Callable[[Any], str | None]) -> None:
        for item in items:
            if reason := reader(item):
                self._dropped[reason] += 1

    def _fact(self, item: Any) -> str | None:
        text, topics = (
            (item, None) if isinstance(item, str) else _fields(item, ("fact", "text"), ("entities", "topics"))
        )
        if not isinstance(text, str):
            return "fact_not_text"
        if problem := _problem(text):
            return problem
        text = trim(text)
        if not text:
            return "fact_blank"
        self._facts.append(ExtractedFact(text, self._topics(topics)))
        return None

    def _topics(self, topics: Any) -> list[str]:
        names: set[str] = set()
        if not isinstance(topics, list):
            if topics is not None:
                self._dropped["topics_not_a_list"] += 1
            return []
        for topic in cast("list[Any]", topics):
            if not isinstance(topic, str):
                self._dropped["topic_not_text"] += 1
                continue
            name = canonical(topic)
            problem = self._bad_name(name)
            if problem is None:
                names.add(name)
            elif problem != NO_ALPHANUMERIC_NAME:
                self._dropped[problem] += 1
        return sorted(names)

    def _relation(self, item: Any) -> str | None:
        parts: list[str] = []
        for part in _fields(item, ("subject",), ("predicate",), ("object",)):
            if not isinstance(part, str) or not trim(part):
                return "relation_incomplete"
            parts.append(part)
        subject, predicate, target = canonical(parts[0]), trim(parts[1]), canonical(parts[2])
        problem = self._bad_name(subject) or self._bad_name(target) or _problem(predicate)
        if problem:
            return problem
        if subject == target:
            return "self_relation"
        if len(predicate.encode()) > MAX_RELATION_BYTES or _CONTROL.search(predicate):
            return "relation_label_invalid"
        self._relations.append(ExtractedRelation(subject, predicate, target))
        return None

    def _attribute(self, item: Any) -> str | None:
        entity, key, value = _fields(item, ("entity",), ("key",), ("value",))
        if not isinstance(entity, str) or not isinstance(key, str) or not trim(entity) or not trim(key):
            return "attribute_incomplete"
        if value is None:
            given = isinstance(item, list) or "value" in item
            return "attribute_null" if given else "attribute_incomplete"
        name = canonical(entity)
        if problem := self._bad_name(name) or _problem(key) or _problem(value):
            return problem
        self._attributes.append(ExtractedAttribute(name, trim(key), value))
        return None

    def _bad_name(self, name: str) -> str | None:
        if problem := _problem(name):
            return problem
        if not has_alphanumeric(name):
            return NO_ALPHANUMERIC_NAME
        # C26
        if self._numbers is not None and not any(character.isalpha() for character in name):
            return None if self._numbers.issuperset(_NUMBERS.findall(name)) else "unknown_reference"
        return None


_NUMBERS: Final = re.compile(r"\d+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def _fields(item: Any, *names: tuple[str, ...]) -> list[Any]:
    """The values of ``item`` under the first spelling of each name that is there, or by position; None where
    absent.
    """
    if isinstance(item, dict):
        known = cast("dict[str, Any]", item)
        return [
            next((known[key] for key in spellings if known.get(key) is not None), None) for spellings in names
        ]
    if isinstance(item, list) and len(cast("list[Any]", item)) == len(names):
        return cast("list[Any]", item)
    return [None] * len(names)


def _problem(value: Any, depth: int = 0) -> str | None:
    """Why ``value`` cannot be stored, or None."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return "lone_surrogate"
    elif isinstance(value, float):
        return None if math.isfinite(value) else "number_out_of_range"
    elif isinstance(value, dict | list):
        if depth >= MAX_METADATA_DEPTH:
            return "value_too_deep"
        inside: Iterable[Any] = cast("list[Any]", value)
        if isinstance(value, dict):
            inside = [part for pair in cast("dict[str, Any]", value).items() for part in pair]
        return next((problem for part in inside if (problem := _problem(part, depth + 1))), None)
    return None
