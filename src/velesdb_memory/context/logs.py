"""Logs: what looks like one (D45), which of its lines say the same, and the lines that matter most (D41).

Lines end at LF, or CR LF; a lone CR ends none, and nothing else does. The stamp of a line is where its time is
written: with a date (ISO, slashes, dots, the day before the month's name, syslog, ``Sat Jul 18 10:23:45 2026``),
the time alone, seconds since 1970 or since the start of the kernel. It stands at the start of the line, or behind
white space, a syslog priority, a container's name and bar, a severity, ``time=``, the first keys of a JSON object, or
the three words that begin an access log. Every pattern reads a line once, whatever is in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, pairwise, zip_longest
from typing import Final, NamedTuple

from ..limits import MIN_LOG_RUN_LINES
from ..text import trim

_SEVERITY: Final = "TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|SEVERE|ALERT|EMERG|FATAL|PANIC"
_LEVEL: Final = rf"(?:\[ ?(?i:{_SEVERITY}) *\]|(?:{_SEVERITY})(?=[ \t:|\[]))"
_LEVEL_KEY: Final = "(?:level|levelname|lvl|severity)"
_TIME_KEY: Final = "(?:@?timestamp|time|ts)"
_CLOCK: Final = "[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]++)?+"
_MONTH: Final = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_WEEKDAY: Final = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_STAMP: Final = (
    f"(?:[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}}| UTC| GMT)?"
    f"|(?:[0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}}|[0-9]{{2}}[/.][0-9]{{2}}[/.](?:[0-9]{{4}}|[0-9]{{2}})) {_CLOCK}"
    rf"|[0-9]{{2}}[/-]{_MONTH}[/-][0-9]{{4}}[: ]{_CLOCK}(?: [+-][0-9]{{4}}\b)?"
    # not a hardware address; with the month and day of glog before it
    rf"|(?:[0-9]{{4}} )?{_CLOCK}Z?(?!:?\w)"
    # the seconds or milliseconds of 2011 to 2033
    r"|1[3-9][0-9]{8}(?:[0-9]{3})?(?:\.[0-9]++)?+(?![\w.-])"
    f"|{_MONTH} (?:[0-9]{{2}}| [0-9]) {_CLOCK}"
    f"|{_WEEKDAY} {_MONTH} (?:[0-9]{{2}}| [0-9]) {_CLOCK}(?: (?:19|20)[0-9]{{2}})?"
    r"| *+[0-9]++\.[0-9]{6}(?=\]))"
)
_LEAD: Final = (
    rf"(?>[ \t]*+(?:<[0-9]{{1,3}}>(?:1 )?)?(?:[\w.-]++ *+\| )?(?:{_LEVEL}[ \t:|-]*+|[IWEF](?=[0-9]{{4}} ))?"
    rf'(?:\{{(?:"{_LEVEL_KEY}": ?"?\w++"?, ?)?"{_TIME_KEY}": ?"?|(?:{_LEVEL_KEY}=\w++ )?{_TIME_KEY}="?|[\[(])?)'
)
# The first way is there for speed: most logs begin with a digit. Counters in brackets go with the stamp.
_MASK: Final = (
    rf"(?>((?=[0-9])|{_LEAD}|[^ \n]++ [^ \n]++ [^ \n]++ \[){_STAMP}"
    r'["\])]?(?: ?\[[0-9A-Fa-f]++\])*+)'
)
# A stamp before a comma or without words behind it is a row of data. Without a stamp, a line is one of a log by its
# severity alone, at the margin: names of severities that are indented or assigned to are code.
_LOG_LINE: Final = (
    rf"(?:{_LEVEL}(?![ \t]*=)|{_MASK}(?![,;.])(?=[^A-Za-z\x80-\U0010ffff\n]*+[^\n])"
    rf"|{_LEVEL_KEY}=|npm (?:WARN|ERR!|warn|error|notice) "
    rf'|\{{(?=[^\n]*?"{_LEVEL_KEY}": ?(?:"(?i:{_SEVERITY})"|[1-6]0[,}}])))'
)
_match_mask: Final = re.compile(_MASK, re.ASCII).match
_match_log_line: Final = re.compile(_LOG_LINE, re.ASCII).match
_LOG_LINES: Final = re.compile(rf"(?:\n{_LOG_LINE}[^\n]*+)++", re.ASCII)
_MARGIN: Final = re.compile(r"\n[^ \t\r\n]")
# A letter a line: L for one of a log, R for one that comes again, i for one that interrupts log lines
_INTERRUPTION: Final = re.compile("(?<=L)o{1,3}(?=L)")
_RUN: Final = re.compile("[LR][LRi]*")
# Texts without any of these have no stamp; they are found many times faster than stamps are
_STAMP_HINTS: Final = tuple(map(re.compile, (":[0-9]{2}:[0-9]{2}", "1[3-9][0-9]{8}", r"\.[0-9]{6}\]")))
_SEVERITY_HINT: Final = re.compile(rf'\n(?:{_LEVEL}|{_LEVEL_KEY}=|npm |\{{")', re.ASCII)

# In the place of a stamp: no text of Unicode holds it, so no line can be taken for a masked one
_MASKED: Final = "\ud800"

_TROUBLE: Final = (
    "error", "exception", "fatal", "critical", "panic", "traceback", "fail", "denied", "refused", "timeout", "timed out"
)  # fmt: skip
_TROUBLED: Final = re.compile(r'[EF][0-9]{4} [0-9]|[^"]*+"[^"]*+" 5[0-9]{2}\b')
_BISECTIONS: Final = 7
_MISSES: Final = 50  # groups in a row that do not fit, after which what is left of a budget is let go


class Group(NamedTuple):
    """A line, how often it comes, and the index of its first line. A blank line has a count of 1."""

    line: str
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]
    first: int


class Collapsed(NamedTuple):
    """The groups of a log, by first line. ``normalised``: without their stamps, fewer lines are different."""

    groups: list[Group]
    normalised: bool


def looks_like_log(text: str) -> bool:
    """Whether at least 8 consecutive lines of ``text`` look like log lines, and most of those at the margin do.

    A source file or an article that quotes a log is not one.
    """
    if not _hinted(text):
        return False
    padded = "\n" + text
    lengths = [padded.count("\n", *run.span()) for run in _LOG_LINES.finditer(padded)]
    if max(lengths, default=0) < MIN_LOG_RUN_LINES:
        return False
    return 2 * sum(lengths) >= sum(1 for _ in _MARGIN.finditer(padded))


def runs(text: str) -> list[tuple[int, int]]:
    """The (start, end) character ranges of the logs within ``text``, in whole lines.

    A log is at least 8 consecutive lines, none of them empty, that look like log lines or come more than once in
    ``text``. Where none looks like a log line, half of them must come again in the run itself: what all the entries
    of a listing have in common is no log. Up to three other lines between two that look like log lines belong to
    them, uncounted: a message of several lines, or what another program wrote in between.
    """
    lines = text.split("\n")
    if len(lines) < MIN_LOG_RUN_LINES:
        return []
    bare = [line.rstrip("\r") for line in lines] if "\r" in text else lines
    counts = Counter(bare)
    letters = {line: "R" if count > 1 else "o" for line, count in counts.items()}
    if _hinted(text):
        letters.update((line, "L") for line in counts if _match_log_line(line))
    elif len(counts) == len(bare):
        return []
    letters[""] = " "
    flags = _INTERRUPTION.sub(lambda found: "i" * len(found[0]), "".join(map(letters.__getitem__, bare)))
    spans = [run.span() for run in _RUN.finditer(flags) if _is_log(run[0], bare[run.start() : run.end()])]
    if not spans:
        return []
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    starts[-1] = len(text)
    return [(starts[start], starts[end]) for start, end in spans]


def _is_log(flags: str, lines: Sequence[str]) -> bool:
    if len(flags) - flags.count("i") < MIN_LOG_RUN_LINES:
        return False
    return "L" in flags or 2 * len(set(lines)) <= len(lines)


def timestamp_mask(line: str) -> str | None:
    """What ``line`` is without its stamp and the counters behind it, for comparing; None for a line without one."""
    found = _match_mask(line)
    return None if found is None else found[1] + _MASKED + line[found.end() :]


def collapse(text: str, mask: bool) -> Collapsed | None:
    """``text`` with lines that come again counted instead, wherever they are; with ``mask`` past their stamps.

    Blank lines are not counted: one is kept where it comes directly before a line that is. None when no line that
    is not blank comes again.
    """
    lines = _content_lines(text)
    keys = lines
    if mask and _stamped(text):
        masks = {line: timestamp_mask(line) or line for line in set(lines)}
        keys = [masks[line] for line in lines]
    counts = Counter(keys)
    if len(counts) == len(lines):
        return None
    firsts = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    groups: list[Group] = []
    repeats = False
    for key, count in counts.items():
        first = firsts[key]
        line = lines[first]
        if _blank(line):
            continue
        if groups and _blank(lines[first - 1]):
            groups.append(Group(lines[first - 1], 1, first - 1))
        groups.append(Group(line, count, first))
        repeats = repeats or count > 1
    return Collapsed(groups, mask and len(counts) < len(set(lines))) if repeats else None


def render(groups: Sequence[Group]) -> str:
    """The lines of ``groups``, each that came more than once followed by how often: ``line (x3)``."""
    return "\n".join([f"{line} (x{count})" if count > 1 else line for line, count, _ in groups])


def abridge(
    groups: Sequence[Group], matters: Callable[[str], bool], cost: Callable[[str], int], budget: int
) -> str | None:
    """As much of ``groups`` as ``cost`` lets into ``budget``, the most important first, in their order.

    Lines that tell of trouble and lines that ``matters`` come first, those that do both before the others; then the
    first and the last lines in turns. Wherever lines are left out, one says how many: ``[… 340 lines, 12 distinct]``.
    ``cost`` of a text is at most the sum of the costs of its parts. None when not even one line fits.
    """
    abridged = _Abridged(groups, cost)
    order = _by_importance(abridged.solid, matters)
    best: str | None = None
    low, high = 0, 2 * budget
    # parts are counted one by one, the whole is less: how much may be counted to fill the budget is searched for
    for _ in range(_BISECTIONS):
        allowance = (low + high) // 2
        text = abridged.within(allowance, order)
        if text is not None and cost(text) > budget:
            high = allowance
        else:
            best, low = text or best, allowance
    return best


class _Abridged:
    """A collapsed log of which only some groups are kept. Groups are known by their place among those not blank."""

    def __init__(self, groups: Sequence[Group], cost: Callable[[str], int]) -> None:
        self.solid = [group for group in groups if not _blank(group.line)]
        self._blanks = {after.first: before.line for before, after in pairwise(groups) if _blank(before.line)}
        self._counted = [0, *accumulate(group.count for group in self.solid)]
        self._cost = cost
        self._costs: dict[int, int] = {}
        self._gap_cost = cost(_left_out(self._counted[-1], len(self.solid)) + "\n")

    def within(self, allowance: int, order: Sequence[int]) -> str | None:
        """The text of the groups that cost no more than ``allowance``, taken in ``order``; None for none."""
        kept: set[int] = set()
        kept.update((-1, len(self.solid)))  # beyond the ends there is no gap
        left = allowance - self._gap_cost
        misses = 0
        for place in order:
            gaps = 1 - (place - 1 in kept) - (place + 1 in kept)
            price = self._price(place) + gaps * self._gap_cost
            if price <= left:
                kept.add(place)
                left -= price
                misses = 0
            elif (misses := misses + 1) > _MISSES:
                break
        places = sorted(kept)[1:-1]
        return "\n".join(self._lines(places)) if places else None

    def _price(self, place: int) -> int:
        if place not in self._costs:
            self._costs[place] = self._cost(render(self.solid[place : place + 1]) + "\n")
        return self._costs[place]

    def _lines(self, places: Sequence[int]) -> Iterator[str]:
        at = 0
        for place in places:
            if place > at:
                yield self._gap(at, place)
            elif place and self.solid[place].first in self._blanks:
                yield self._blanks[self.solid[place].first]
            yield render(self.solid[place : place + 1])
            at = place + 1
        if at < len(self.solid):
            yield self._gap(at, len(self.solid))

    def _gap(self, start: int, end: int) -> str:
        return _left_out(self._counted[end] - self._counted[start], end - start)


def _left_out(lines: int, groups: int) -> str:
    counted = f"{lines} line" if lines == 1 else f"{lines} lines"
    return f"[… {counted}]" if lines == groups else f"[… {counted}, {groups} distinct]"


def _by_importance(groups: Sequence[Group], matters: Callable[[str], bool]) -> list[int]:
    tiers: tuple[list[int], list[int], list[int]] = ([], [], [])
    for place, group in enumerate(groups):
        tiers[2 - bool(matters(group.line)) - _is_trouble(group.line)].append(place)
    return [place for tier in tiers for place in _from_both_ends(tier)]


def _from_both_ends(places: Sequence[int]) -> Iterator[int]:
    half = (len(places) + 1) // 2
    pairs = zip_longest(places[:half], reversed(places[half:]))
    return (place for place in chain.from_iterable(pairs) if place is not None)


def _is_trouble(line: str) -> bool:
    lowered = line.lower()
    return any(word in lowered for word in _TROUBLE) or _TROUBLED.match(line) is not None


def _stamped(text: str) -> bool:
    return any(hint.search(text) for hint in _STAMP_HINTS)


def _hinted(text: str) -> bool:
    return _stamped(text) or _SEVERITY_HINT.search("\n" + text) is not None


def _content_lines(text: str) -> list[str]:
    lines = text.split("\n")
    unended = lines.pop()
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    return [*lines, unended] if unended else lines


def _blank(line: str) -> bool:
    return not line or (line.isspace() and not trim(line))
