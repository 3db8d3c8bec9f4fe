"""The data sets the retrieval benchmark reads, as one shape: groups of facts, and questions with their evidence.

Nothing is bundled; a path is given on the command line. The kind of a file is told by its content:

- LoCoMo (Maharana et al., ACL 2024): a list of conversations with ``qa``. A fact is one turn, ``speaker: text``, with
  ``[image: caption]`` where there is one; a group is one conversation. Questions of categories 1 to 4 whose evidence
  names at least one turn that exists; category 5 has no answer in the conversation.
- HotpotQA, distractor setting (Yang et al., EMNLP 2018): a list of questions with ``context`` and
  ``supporting_facts``. A fact is one sentence, ``title: sentence``, or one paragraph; a group is the ten paragraphs of
  one question. The title graph: a fact is about its own title, and about the other titles that its text names.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from velesdb_memory.limits import MAX_EMBEDDABLE_TEXT_BYTES

ANSWERABLE_CATEGORIES: Final = frozenset({1, 2, 3, 4})
_BRACKETS: Final = re.compile(r" \([^)]*\)$")
_TURN_ID: Final = re.compile(r"D\d+:\d+")


@dataclass(frozen=True)
class Question:
    """A question and the positions, in its group's facts, of what answers it (at least one)."""

    text: str
    evidence: frozenset[int]


@dataclass(frozen=True)
class Group:
    """Facts that are searched together, and the questions asked of them; ``topics`` are the entities of each fact."""

    name: str
    facts: tuple[str, ...]
    questions: tuple[Question, ...]
    topics: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Dataset:
    """A named list of groups."""

    name: str
    groups: tuple[Group, ...]

    def limited(self, questions: int | None) -> Dataset:
        """The same data with at most ``questions`` questions, taken in order; groups left without one are dropped."""
        if questions is None:
            return self
        kept: list[Group] = []
        for group in self.groups:
            if questions <= 0:
                break
            kept.append(Group(group.name, group.facts, group.questions[:questions], group.topics))
            questions -= len(kept[-1].questions)
        return Dataset(self.name, tuple(kept))

    def merged(self) -> Dataset:
        """The same data as one group: every question is asked of all facts."""
        facts: list[str] = []
        questions: list[Question] = []
        for group in self.groups:
            start = len(facts)
            facts += group.facts
            questions += [
                Question(question.text, frozenset(start + position for position in question.evidence))
                for question in group.questions
            ]
        topics = tuple(names for group in self.groups for names in group.topics)
        return Dataset(self.name, (Group("all", tuple(facts), tuple(questions), topics),))


def load(path: Path, *, paragraphs: bool = False) -> Dataset:
    """The data set in ``path``; with ``paragraphs`` a HotpotQA fact is a whole one. Raises ValueError for a file of
    neither kind."""
    rows: Any = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(rows, list) and rows and isinstance(rows[0], dict):
        if "conversation" in rows[0] and "qa" in rows[0]:
            return Dataset("LoCoMo", tuple(_conversation(row) for row in rows))
        if "context" in rows[0] and "supporting_facts" in rows[0]:
            groups = (_paragraphs(position, row, paragraphs) for position, row in enumerate(rows))
            return Dataset("HotpotQA", tuple(groups))
    raise ValueError(f"{path} holds neither LoCoMo conversations nor HotpotQA questions")


def _conversation(row: dict[str, Any]) -> Group:
    facts: list[str] = []
    positions: dict[str, int] = {}
    for key, session in row["conversation"].items():
        if not (key.startswith("session_") and isinstance(session, list)):
            continue
        for turn in session:
            caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            positions[turn["dia_id"]] = len(facts)
            facts.append(f"{turn['speaker']}: {turn['text']}{caption}")
    questions: list[Question] = []
    for entry in row["qa"]:
        # one string sometimes names several turns, parted by spaces or semicolons
        named = [turn for text in entry.get("evidence", []) for turn in _TURN_ID.findall(text)]
        evidence = frozenset(positions[turn] for turn in named if turn in positions)
        if entry["category"] in ANSWERABLE_CATEGORIES and evidence:
            questions.append(Question(entry["question"], evidence))
    return Group(str(row.get("sample_id", "")), tuple(facts), tuple(questions))


def _paragraphs(position: int, row: dict[str, Any], whole: bool) -> Group:
    context, supporting = row["context"], row["supporting_facts"]
    if isinstance(context, dict):  # the columnar release; the original one holds pairs
        context = zip(context["title"], context["sentences"], strict=True)
        supporting = zip(supporting["title"], supporting["sent_id"], strict=True)
    context = list(context)
    gold: set[tuple[str, int]] = {(title, number) for title, number in supporting}
    # "Ed Wood (film)" is called "Ed Wood" in the texts of others
    called = {title: _BRACKETS.sub("", title) for title, _ in context}
    facts: list[str] = []
    topics: list[tuple[str, ...]] = []
    evidence: set[int] = set()
    for title, sentences in context:
        numbers = [n for n in range(len(sentences)) if (title, n) in gold]
        if whole:
            evidence.update([len(facts)] if numbers else [])
            texts = [_within(f"{title}: {' '.join(sentence.strip() for sentence in sentences)}")]
        else:
            evidence.update(len(facts) + n for n in numbers)
            texts = [f"{title}: {sentence.strip()}" for sentence in sentences]
        facts += texts
        others = [other for other in called if other != title]
        topics += [(title, *(other for other in others if called[other] in text)) for text in texts]
    return Group(str(position), tuple(facts), (Question(row["question"], frozenset(evidence)),), tuple(topics))


def _within(text: str) -> str:
    """``text`` cut to what one fact may hold."""
    return text.encode()[:MAX_EMBEDDABLE_TEXT_BYTES].decode(errors="ignore")
