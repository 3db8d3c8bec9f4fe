"""Synthetic facts for the speed benchmark: English-like text of any amount, the same for the same seed.

Words follow Zipf's law over a vocabulary of common English words and invented ones, 8 to 20 words a fact. Blocks of
facts are drawn independently, so that any block can be made again without those before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

BLOCK: Final = 4_096
VOCABULARY: Final = 6_000
FIRST_DAY: Final = date(2020, 1, 1)
DAYS: Final = 2_500
PROJECTS: Final = 24
# bucket -> how much of the store it holds
SELECTIVITIES: Final = {"broad": 0.14, "narrow": 0.01, "rare": 0.001}

_COMMON: Final = """
    the of and to in is that it was for on are with as his they at be this from have or by one had not but what all
    were when we there can an your which their said if do will each about how up out them then she many some so these
    would other into has more her two like him see time could no make than first been its who now people my made over
    did down only way find use may water long little very after words called just where most know get through back
    much before go good new write our used me man too any day same right look think also around another came come
    work three word must because does part even place well such here take why things help put years different away
    again off went old number great tell men say small every found still between name should home big give air line
    set own under read last never us left end along while might next sound below saw something thought both few those
    always looked show large often together asked house world going want school important until form food keep server
    release customer invoice meeting budget deploy latency backup index query cache review ticket decision incident
""".split()  # noqa: SIM905
_ONSETS: Final = "b br c ch cl d dr f fl g gr h k l m n p pl pr qu r s sh sl st t th tr v w z".split()  # noqa: SIM905
_NUCLEI: Final = "a e i o u ai ea ee ie oa oo ou".split()  # noqa: SIM905
_CODAS: Final = "b ck d ft l ld m n nd ng nt p r rk rn s sk st t th x".split()  # noqa: SIM905


class Fact(NamedTuple):
    """A text and its metadata."""

    text: str
    metadata: dict[str, Any]


@lru_cache(1)
def _vocabulary() -> tuple[list[str], np.ndarray]:
    draw = np.random.default_rng(1)
    words = dict.fromkeys(_COMMON)
    while len(words) < VOCABULARY:
        parts = [
            f"{_ONSETS[draw.integers(len(_ONSETS))]}{_NUCLEI[draw.integers(len(_NUCLEI))]}"
            for _ in range(draw.integers(1, 4))
        ]
        words["".join(parts) + _CODAS[draw.integers(len(_CODAS))]] = None
    weights = 1 / (np.arange(VOCABULARY) + 2.7)
    return list(words), np.cumsum(weights / weights.sum())


def _draw(random: np.random.Generator, count: int) -> list[str]:
    words, bounds = _vocabulary()
    return [words[index] for index in np.searchsorted(bounds, random.random(count)).clip(max=VOCABULARY - 1)]


def facts(count: int, seed: int = 0) -> Iterator[Fact]:
    """``count`` facts. Equal texts are not to be expected even among millions: they have 8 words at least."""
    buckets, shares = list(SELECTIVITIES), np.cumsum(list(SELECTIVITIES.values()))
    for block in range(-(-count // BLOCK)):
        random = np.random.default_rng((seed, block))
        size = min(BLOCK, count - block * BLOCK)
        lengths = random.integers(8, 21, BLOCK)
        words = iter(_draw(random, int(lengths.sum())))
        chances, days = random.random(BLOCK), random.integers(0, DAYS, BLOCK)
        projects = np.minimum(random.zipf(1.5, BLOCK), PROJECTS)
        for row in range(size):
            sentence = " ".join(next(words) for _ in range(lengths[row]))
            day = FIRST_DAY + timedelta(days=int(days[row]))
            place = int(np.searchsorted(shares, chances[row], side="right"))
            yield Fact(
                sentence[0].upper() + sentence[1:] + ".",
                {
                    "bucket": buckets[place] if place < len(buckets) else "rest",
                    "project": f"project-{projects[row]}",
                    "_veles_date": int(day.strftime("%Y%m%d")),
                },
            )


def questions(count: int, facts_stored: int, seed: int = 1) -> list[str]:
    """Queries: some words of a stored fact in their order, and a word that need not be in it."""
    random = np.random.default_rng((seed, 77))
    sources = [fact.text for fact in facts(min(BLOCK, facts_stored))]
    asked: list[str] = []
    for _ in range(count):
        words = sources[random.integers(len(sources))].rstrip(".").lower().split()
        kept = sorted(random.choice(len(words), min(len(words), int(random.integers(3, 7))), replace=False))
        asked.append(" ".join([*(words[place] for place in kept), *_draw(random, 1)]))
    return asked


def line(fact: Fact) -> str:
    """A fact as a line of an export."""
    from velesdb_memory.ids import fact_id

    return json.dumps({"id_str": str(fact_id(fact.text)), "content": fact.text, "metadata": fact.metadata})
