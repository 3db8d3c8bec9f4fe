"""Finding sentences that forbid something: whole words, in one line, in six languages.

The terms of a text tell at once whether a phrase can be in it; only then is the text searched for the phrase.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final, NamedTuple

_APOSTROPHE: Final = "['’ʼ]"
# between the words of a phrase: spaces and punctuation, but no apostrophe and no end of line
_GAP: Final = r"(?:[^\w\s'’ʼ]|_|[^\S\n])+"
_SPACE: Final = r"[^\S\n]+"
_BEFORE: Final = r"(?<![^\W_])"
_AFTER: Final = r"(?![^\W_])"
_REACH: Final = 64


def _terms(text: str) -> frozenset[str]:
    return frozenset(text.split(" "))


# words that forbid by themselves
_WORDS: Final = _terms(
    # English, French, Spanish and Portuguese, Italian, German
    "never avoid cannot "
    "jamais éviter évitez évite "
    "nunca jamás evita evitar evite eviten evitad evitem prohibido prohibida prohibidos prohibidas "
    "proibido proibida proibidos proibidas "
    "evitate evitare vietato vietata vietati vietate "
    "nie niemals vermeide vermeiden vermeidet verboten"
)


class _Phrase(NamedTuple):
    """``pattern`` can only be in a text that has a term of each of ``terms``. Where it has a ``last`` word, it begins
    at most 64 characters before that."""

    terms: tuple[frozenset[str], ...]
    pattern: re.Pattern[str]
    last: str


def _phrase(pattern: str, *terms: str, last: str = "") -> _Phrase:
    return _Phrase(tuple(map(_terms, terms)), re.compile(f"{_BEFORE}(?:{pattern}){_AFTER}"), last)


_SPANISH: Final = (
    "usar uses usen tocar tocad toque toques toquen borrar borre borres borren hacer haced haga hagas hagan cambiar "
    "cambie cambies cambien modificar modifique modifiques modifiquen eliminar elimine elimines eliminen ejecutar "
    "ejecute ejecutes ejecuten enviar envíe envíes envíen compartir comparta compartas compartan publicar publique "
    "publiques publiquen desplegar despliegue despliegues reiniciar reinicie reinicies reinicien debe debes deben "
    "debemos puede puedes pueden"
)
_PHRASES: Final = (
    _phrase(rf"(?:do|must|should|can|will){_GAP}not", "do must should can will", "not", last="not"),
    _phrase(rf"(?:do|must|should|ca|wo)n{_APOSTROPHE}t", "don mustn shouldn can won", "t"),
    _phrase(rf"(?:ne{_AFTER}|n{_APOSTROPHE})[^.!?\n]{{0,64}}?{_BEFORE}pas", "ne n", "pas"),
    _phrase(rf"no{_SPACE}(?:(?:se|lo|la|los|las|le|les){_SPACE})?(?:{_SPANISH.replace(' ', '|')})", "no", _SPANISH),
    _phrase(
        rf"não{_SPACE}(?:(?:se|o|a|os|as){_SPACE})?(?:dev(?:e|es|em|emos|a|am)|pod(?:e|es|em|emos)|\w+[aei]r"
        "|use|usem|faça|façam|toque|toquem|altere|alterem|apague|apaguem|execute|executem)",
        "não",
    ),
    _phrase(rf"non{_SPACE}(?:si{_SPACE})?(?:dev(?:e|i|ono)|dobbiamo|p(?:uò|uoi|ossono)|\w+(?:are|ere|ire))", "non"),
    # alone it is a month in French
    _phrase(rf"non{_AFTER}[^.!?\n]{{0,64}}?{_BEFORE}mai|mai{_SPACE}(?:più|\w+(?:are|ere|ire))", "mai"),
    _phrase(
        "(?:darf|darfst|dürfen|dürft|soll|sollst|sollen|sollte|sollten|kann|können)"
        rf"{_AFTER}[^.!?\n]{{0,48}}?{_BEFORE}nicht",
        "darf darfst dürfen dürft soll sollst sollen sollte sollten kann können",
        "nicht",
    ),
    _phrase(rf"auf{_SPACE}keinen{_SPACE}fall", "keinen", "fall"),
)


# a term without which a phrase cannot be there -> the phrases
_TELLING: Final[dict[str, list[_Phrase]]] = {}
for _each in _PHRASES:
    for _term in _each.terms[-1]:
        _TELLING.setdefault(_term, []).append(_each)
_TELLING_TERMS: Final = frozenset(_TELLING)


def forbids(lowered: str, terms: Set[str]) -> bool:
    """Whether a text tells not to do something; it is given in lower case, with its set of terms."""
    if not terms.isdisjoint(_WORDS):
        return True
    return any(_occurs(phrase, lowered, terms) for term in _TELLING_TERMS & terms for phrase in _TELLING[term])


def _occurs(phrase: _Phrase, lowered: str, terms: Set[str]) -> bool:
    if any(group.isdisjoint(terms) for group in phrase.terms):
        return False
    if not phrase.last:
        return phrase.pattern.search(lowered) is not None
    # looking around the last word is many times faster than trying the first ones everywhere
    at = lowered.find(phrase.last)
    while at >= 0:
        end = at + len(phrase.last)
        # one character more, for the pattern to see that the word ends there
        if phrase.pattern.search(lowered, max(0, at - _REACH), end + 1) is not None:
            return True
        at = lowered.find(phrase.last, end)
    return False
