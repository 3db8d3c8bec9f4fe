"""The analyser that the full-text index and the hash embedder share: from a text to its terms.

Steps: Unicode compatibility folding, accents and points dropped, words found, identifiers taken apart, case
folded, stop words dropped, a light English stem. Scripts written without spaces give bigrams. A change here
changes what is stored, so it goes with a new ``ANALYSER_VERSION``.

Everything is pure Python over the Unicode tables of the interpreter: the same text gives the same terms on every
platform, and on every Python version for the characters that its Unicode version knows.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from .lexicon import ELISIONS, IRREGULAR_FORMS, STOP_WORDS, UNCHANGED

ANALYSER_VERSION: Final = 1
MAX_TERM_CHARACTERS: Final = 64  # the rest of a longer word is ignored

_CACHED_WORDS: Final = 32_768
_CACHED_WORD_CHARACTERS: Final = 32  # longer ones are rarely met twice, and would fill the cache

# Accents of Latin, Greek and Cyrillic; Hebrew points; Arabic vowel signs and tatweel; invisible format
# characters; skin tones.
# Vowel signs of Indic scripts and Thai are letters to their readers and stay.
_IGNORED: Final = re.compile(
    "[\u00ad\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\U0001f3fb-\U0001f3ff]+"
)
# Letters that Unicode does not decompose, though readers write them with and without
_LETTERS: Final = str.maketrans(
    {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ı": "i", "’": "'"}
    | {"æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "þ": "th", "Þ": "Th"}
)
_SPACELESS: Final = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_SYMBOLS: Final = "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_MARKS: Final = "\u0900-\u0963\u0966-\u0dff"  # Indic vowel signs, which \w leaves out
_WORDS: Final = re.compile(rf"[\w{_MARKS}{_SPACELESS}]+(?:'[\w{_MARKS}{_SPACELESS}]+)*(?:\+\+|#)?|[{_SYMBOLS}]")
_RUNS: Final = re.compile(rf"[{_SPACELESS}]+|[^{_SPACELESS}]+")
_HAS_SPACELESS: Final = re.compile(f"[{_SPACELESS}]")
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9_]+")
_CAMEL: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_VOWEL: Final = re.compile("[aeiouy]")


def is_spaceless(text: str) -> bool:
    """Whether ``text`` holds a character of a script that is written without spaces between words."""
    return _HAS_SPACELESS.search(text) is not None


def terms(text: str) -> list[str]:
    """The terms of ``text`` for a full-text index, in its order, with repeats, without stop words.

    Any text is taken; one of punctuation or stop words only gives an empty list.
    """
    return [term for word in words(text) for term, is_stop in word_terms(word) if not is_stop]


def words(text: str) -> list[str]:
    """The words of ``text`` as written, accents dropped: the input of :func:`word_terms`."""
    return _WORDS.findall(text if text.isascii() else _folded(text))


def word_terms(word: str) -> tuple[tuple[str, bool], ...]:
    """The terms of one of :func:`words`, each with whether it is a stop word."""
    if len(word) <= _CACHED_WORD_CHARACTERS:
        return _cached_word_terms(word)
    return _word_terms(word)


def _folded(text: str) -> str:
    # composed again, because Hangul and kana are bigrams of whole characters
    decomposed = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return unicodedata.normalize("NFC", _IGNORED.sub("", decomposed))


def _word_terms(word: str) -> tuple[tuple[str, bool], ...]:
    if not word.isascii() and _HAS_SPACELESS.search(word):
        found: list[tuple[str, bool]] = []
        for run in _RUNS.findall(word):
            found += _bigrams(run) if _HAS_SPACELESS.match(run) else _spaced(run)
        return tuple(found)
    return tuple(_spaced(word))


_cached_word_terms = lru_cache(maxsize=_CACHED_WORDS)(_word_terms)


def _bigrams(run: str) -> list[tuple[str, bool]]:
    if len(run) == 1:
        return [(run, False)]
    return [(run[i : i + 2], False) for i in range(len(run) - 1)]


def _spaced(word: str) -> list[tuple[str, bool]]:
    if word.endswith(("+", "#")):
        stripped = word.rstrip("+#")
        # C++ and C#; after longer words the sign is punctuation
        if len(stripped) == 1:
            return [(word.casefold(), False)]
        word = stripped
    if not word:
        return []
    if "'" in word:
        return _elided(word)
    if not ("_" in word or _CAMEL.search(word)):
        return [_term(word)]
    parts = _PARTS.findall(word)
    if len(parts) == 1:
        return [_term(parts[0])]
    # the whole as well, so that an exact mention outranks its parts
    return [_term(part) for part in [word, *parts]] if parts else []


def _elided(word: str) -> list[tuple[str, bool]]:
    folded = word.casefold()
    if folded.endswith("n't"):
        return [(folded.replace("'", ""), True)]
    found: list[tuple[str, bool]] = []
    for part in word.split("'"):
        found += [(part.casefold(), True)] if part.casefold() in ELISIONS else _spaced(part)
    return found


def _term(word: str) -> tuple[str, bool]:
    folded = word.casefold()[:MAX_TERM_CHARACTERS]
    # US, IT, WHO, AI; A and I are the words that English writes so
    if folded in STOP_WORDS and (not word.isupper() or word in ("A", "I")):
        return folded, True
    return stem(folded), False


def stem(word: str) -> str:
    """A light English stem of a folded word: irregular forms, plurals, -ed, -ing, -ly, -ion, final -e and -y.

    Words of three letters or fewer and words with other characters than a to z are their own stem. Not a
    dictionary form: it only has to be the same for the forms of one word, and different for different words.
    """
    word = IRREGULAR_FORMS.get(word, word)
    if len(word) <= 3 or not (word.isascii() and word.isalpha()) or word in UNCHANGED:
        return word
    word = _without_ending(_without_plural(word))
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    if len(word) > 3 and word[-1] == "y" and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return _american(word) if len(word) > 5 else word


def _without_plural(word: str) -> str:
    if word[-1] != "s" or word[-2] in "su" or word.endswith("is"):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word[:-1]


def _without_ending(word: str) -> str:
    size = len(word)
    if word.endswith("ed") and size > 4 and word[-3] != "e":
        return word[:-3] + "y" if word[-3] == "i" else _without_suffix(word, 2)
    if word.endswith("ing") and size > 5:
        return _without_suffix(word, 3)
    if word.endswith("ly") and size > 5 and word[-3] != "p":
        return word[:-2]
    # donate and donation, but not state and station
    if word.endswith(("tion", "sion")) and size > 7:
        return word[:-3]
    return word


def _without_suffix(word: str, length: int) -> str:
    rest = word[:-length]
    if not _VOWEL.search(rest):
        return word
    if len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz":
        return rest[:-1]
    return rest


def _american(word: str) -> str:
    if word.endswith("our"):
        return word[:-3] + "or"
    return word[:-1] + "z" if word.endswith(("is", "ys")) else word
