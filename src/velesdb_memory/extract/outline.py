"""The extractor that needs no model: a passage already written in outline form.

One statement a line, blank lines skipped::

    fact: Camille ships the parser. | Camille, parser      a fact and, after the first bar, its topics
    edge: Camille | sister of | Theo                       subject, predicate, object
    attr: Theo | age | 15                                  entity, key, any JSON value
    any other line, with or without | topics               a fact

Directives are lower case and touch their colon; nothing can be quoted or escaped, and there are no comments.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn, cast

from ..errors import ExtractError
from ..limits import MAX_INTEGER, MAX_METADATA_DEPTH, MIN_INTEGER
from ..text import canonical, lines, trim
from .base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction

NO_ALPHANUMERIC_NAME: Final = "no_alphanumeric_name"
_MAX_DIGITS: Final = 20  # of the integers metadata can hold


class OutlineExtractor:
    """Reads outline form, exactly. Deterministic, offline, needs no configuration."""

    @property
    def name(self) -> str:
        return "outline"

    def extract(self, text: str) -> Extraction:
        """What ``text`` states, in its order; nothing for a blank text.

        Names are canonical; topics keep their order and repetitions. Topics without a letter or digit are
        left out; edges and attributes of such names are left out and counted in ``dropped``. Raises
        ExtractError, which names the line (from 1) and the directive, for the first line that is malformed.
        """
        facts: list[ExtractedFact] = []
        relations: list[ExtractedRelation] = []
        attributes: list[ExtractedAttribute] = []
        dropped = 0
        for number, raw in enumerate(lines(text), start=1):
            line = trim(raw)
            if not line:
                continue
            if line.startswith("edge:"):
                relation = _relation(line.removeprefix("edge:"), number)
                if has_alphanumeric(relation.subject) and has_alphanumeric(relation.object):
                    relations.append(relation)
                else:
                    dropped += 1
            elif line.startswith("attr:"):
                attribute = _attribute(line.removeprefix("attr:"), number)
                if has_alphanumeric(attribute.entity):
                    attributes.append(attribute)
                else:
                    dropped += 1
            else:
                facts.append(_fact(line.removeprefix("fact:"), number))
        return Extraction(facts, relations, attributes, {NO_ALPHANUMERIC_NAME: dropped} if dropped else {})


def has_alphanumeric(name: str) -> bool:
    """Whether ``name`` has a letter or digit of any script: without one it names nothing."""
    return any(character.isalnum() for character in name)


def _fact(body: str, number: int) -> ExtractedFact:
    left, _, right = body.partition("|")
    text = trim(left)
    if not text:
        raise _malformed(number, "fact", "the text is blank")
    topics = [canonical(topic) for topic in right.split(",")]
    return ExtractedFact(text, [topic for topic in topics if has_alphanumeric(topic)])


def _relation(body: str, number: int) -> ExtractedRelation:
    subject, predicate, target = _three(body, number, "edge", ("subject", "predicate", "object"))
    return ExtractedRelation(canonical(subject), predicate, canonical(target))


def _attribute(body: str, number: int) -> ExtractedAttribute:
    entity, key, value = _three(body, number, "attr", ("entity", "key", "value"))
    return ExtractedAttribute(canonical(entity), key, _json(value, number))


def _three(body: str, number: int, directive: str, names: tuple[str, str, str]) -> list[str]:
    parts = [trim(part) for part in body.split("|")]
    if len(parts) != 3:
        raise _malformed(
            number, directive, f"expected 3 fields separated by | ({', '.join(names)}), {len(parts)} given"
        )
    for name, part in zip(names, parts, strict=True):
        if not part:
            raise _malformed(number, directive, f"the {name} is blank")
    return parts


def _json(source: str, number: int) -> Any:
    try:
        value = json.loads(source, parse_constant=_refused, parse_int=_integer, parse_float=_real)
        if _depth(value) <= MAX_METADATA_DEPTH:
            # Refuses a lone surrogate that an escape smuggled in
            json.dumps(value, ensure_ascii=False).encode()
            return value
        reason = f"the value is nested more than {MAX_METADATA_DEPTH} deep"
    except RecursionError:
        reason = f"the value is nested more than {MAX_METADATA_DEPTH} deep"
    except UnicodeEncodeError:
        reason = "the value holds a lone surrogate, which is not Unicode text"
    except OverflowError:
        reason = (
            f"the value holds a number outside of {MIN_INTEGER} to {MAX_INTEGER}, or too large for a double"
        )
    except ValueError:
        reason = 'the value is not JSON (text needs double quotes: "Paris")'
    raise _malformed(number, "attr", reason)


def _refused(_: str) -> NoReturn:
    raise ValueError


def _integer(digits: str) -> int:
    # Python refuses to convert very long ones, with an error of its own
    if len(digits.lstrip("-")) <= _MAX_DIGITS and MIN_INTEGER <= (value := int(digits)) <= MAX_INTEGER:
        return value
    raise OverflowError


def _real(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise OverflowError
    return value


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, cast("dict[str, Any]", value).values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, cast("list[Any]", value)), default=0)
    return 0


def _malformed(number: int, directive: str, reason: str) -> ExtractError:
    return ExtractError(f"outline line {number}, {directive}: {reason}")
