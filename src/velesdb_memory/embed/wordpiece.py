"""Text to the numbers that BERT models read: Devlin et al., "BERT" (2019), uncased; WordPiece of Wu et al. (2016)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

_LONGEST_WORD: Final = 100  # characters; a longer word is unknown
# Ideographs are words of their own. Hangul and kana are not: they are written with their neighbours
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPiece:
    """A tokenizer over ``vocabulary``, which maps pieces to numbers; pieces within a word begin with ``##``."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._numbers = vocabulary
        self._unknown, self._begin, self._end = (vocabulary[name] for name in ("[UNK]", "[CLS]", "[SEP]"))

    def encode(self, text: str, limit: int) -> list[int]:
        """``text`` as at most ``limit`` numbers, the marks of begin and end among them; what is over is cut."""
        numbers = [self._begin]
        for word in _words(text):
            numbers += self._pieces(word)
            if len(numbers) >= limit:
                break
        return [*numbers[: limit - 1], self._end]

    def _pieces(self, word: str) -> list[int]:
        """The longest piece that fits, then the longest that fits the rest; unknown as a whole if one is missing."""
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(mark + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return found


def _words(text: str) -> Iterator[str]:
    """Words in lower case without accents; each sign of punctuation and each ideograph is one."""
    for part in "".join(_cleaned(text)).split(" "):
        word = ""
        for character in unicodedata.normalize("NFD", part).lower():
            category = unicodedata.category(character)
            if category == "Mn":
                continue
            if category[0] == "P" or (character.isascii() and not character.isalnum()):
                if word:
                    yield word
                yield character
                word = ""
            else:
                word += character
        if word:
            yield word


def _cleaned(text: str) -> Iterator[str]:
    for character in text:
        category = unicodedata.category(character)
        if character in "\t\n\r" or category[0] == "Z":
            yield " "
        elif any(low <= ord(character) <= high for low, high in _IDEOGRAPHS):
            yield f" {character} "
        elif category not in ("Cc", "Cf", "Cs", "Co") and character != "\ufffd":
            yield character
