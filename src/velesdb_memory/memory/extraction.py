"""Storing what an extractor found: facts, the entities they are about, and what they say of those."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from ..analysis import is_spaceless
from ..errors import EmptyFact, ExtractError, FactTooLarge, InvalidArgument, InvalidMetadata, VelesMemoryError
from ..extract.base import ExtractedAttribute, Extraction, Extractor
from ..ids import fact_id, hub_id
from ..limits import MAX_FACT_BYTES, MAX_METADATA_BYTES, MAX_TEACHERS
from ..model import ExtractionResult, JsonObject
from ..store.base import NOBODY, StoreTransaction
from ..text import canonical, require_text, trim, utf8_size
from . import checks, wiring
from .core import SWEEP_ALONG, Core
from .remember import put_fact
from .switching import follows_switch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_WORD: Final = re.compile(r"[^\W_]+")


def passage(value: object) -> str:
    """The trimmed text of a passage: 1 byte to 1 MiB."""
    text = trim(require_text(value, "text"))
    if not text:
        raise EmptyFact("text")
    size = utf8_size(text, "text")
    if size > MAX_FACT_BYTES:
        raise InvalidArgument(
            f"text is {size} bytes of UTF-8, over the cap of {MAX_FACT_BYTES}: split it",
            field="text",
            limit=MAX_FACT_BYTES,
        )
    return text


def run_extractor(extractor: Extractor, text: str) -> Extraction:
    """The extraction of ``text``, with everything in it that can be stored and what cannot counted.

    Whatever goes wrong in an extractor is an ExtractError. It tells the kind of fault, not its text, which may quote
    the passage.
    """
    try:
        answer = cast("object", extractor.extract(text))
        if not isinstance(answer, Extraction):
            raise TypeError("not an Extraction")
        return _sane(msgspec.convert(msgspec.to_builtins(answer), Extraction))
    except VelesMemoryError:
        raise
    except Exception as error:
        kind = type(error).__name__
        raise ExtractError(f"extraction error: extractor {extractor.name} failed or answered amiss ({kind})") from error


def _sane(extraction: Extraction) -> Extraction:
    """Without what UTF-8 or JSON cannot carry: an extraction must come back from its record as it went in."""
    dropped = Counter(extraction.dropped)
    facts, relations, attributes = extraction.facts, extraction.relations, extraction.attributes
    kept_facts = [fact for fact in facts if _is_json([fact.text, fact.entities])]
    kept_relations = [item for item in relations if _is_json([item.subject, item.predicate, item.object])]
    kept_attributes = [item for item in attributes if _is_json([item.entity, item.key]) and _is_json(item.value)]
    for reason, lost in (
        ("fact_not_text", len(facts) - len(kept_facts)),
        ("relation_not_text", len(relations) - len(kept_relations)),
        ("attribute_not_json", len(attributes) - len(kept_attributes)),
    ):
        if lost:
            dropped[reason] += lost
    return Extraction(kept_facts, kept_relations, kept_attributes, dict(dropped))


def _is_json(value: object) -> bool:
    try:
        checks.json_value(value, "value")
    except (InvalidMetadata, InvalidArgument):
        return False
    return True


def remember_extracted(
    core: Core, text: str, extractor: Extractor, metadata: JsonObject | None
) -> ExtractionResult:
    """Extract a passage and store it at once; see MemoryService.remember_extracted."""
    source, fields = passage(text), checks.metadata(metadata)
    # the extractor's work is not thrown away when the store is switched meanwhile
    return _store(core, Plan(run_extractor(extractor, source)), fields)


@follows_switch
def _store(core: Core, plan: Plan, fields: JsonObject) -> ExtractionResult:
    vectors = plan.embed(core)
    with core.store.transaction(core.clock.now()) as tx:
        if vectors:
            core.require_space(tx)
        result = plan.store(tx, vectors, fields, None, None)
        tx.sweep(SWEEP_ALONG)
    return result


class Plan:
    """An extraction sorted into what can be stored and what is left out, with the reasons counted."""

    def __init__(self, extraction: Extraction) -> None:
        self._extraction = extraction
        self._skipped: Counter[str] = Counter(extraction.dropped)
        self._over_cap = 0
        self.facts: list[tuple[str, list[str]]] = []
        for fact in extraction.facts:
            try:
                self.facts.append((checks.fact(fact.text), list(fact.entities)))
            except FactTooLarge:
                self._over_cap += 1
            except EmptyFact:
                self._skipped["blank_fact"] += 1

    def embed(self, core: Core) -> dict[str, NDArray[np.float32]]:
        """The vector of each fact."""
        texts = list(dict.fromkeys(text for text, _ in self.facts))
        return dict(zip(texts, core.embed(texts), strict=True)) if texts else {}

    def store(
        self,
        tx: StoreTransaction,
        vectors: dict[str, NDArray[np.float32]],
        metadata: JsonObject,
        expires_at: int | None,
        today: int | None,
    ) -> ExtractionResult:
        """Write the facts and wire them, inside the caller's transaction."""
        ids: list[int] = []
        for text, topics in self.facts:
            number = fact_id(text)
            put_fact(tx, number, text, metadata, vectors[text], expires_at, today)
            wiring.wire_topics(tx, number, topics, number)
            ids.append(number)
        self._wire(tx, _Teachers(self.facts))
        return ExtractionResult(ids, self._over_cap, dict(sorted(self._skipped.items())))

    def enrich(self, tx: StoreTransaction, fact: int, text: str) -> None:
        """Wire everything to one fact that is stored already; the extracted facts themselves are not stored."""
        topics = [topic for _, topics in self.facts for topic in topics]
        wiring.wire_topics(tx, fact, topics, fact)
        self._wire(tx, _Teachers([(text, topics)]))

    def _wire(self, tx: StoreTransaction, teachers: _Teachers) -> None:
        for relation in self._extraction.relations:
            subject, predicate, target = trim(relation.subject), trim(relation.predicate), trim(relation.object)
            for teacher in teachers.of(subject, target):
                reason = wiring.wire_relation(tx, subject, predicate, target, teacher)
                if reason:
                    self._skipped[reason] += 1
                    break
        rooms: dict[str, _Room] = {}
        for attribute in self._extraction.attributes:
            reason = self._teach(tx, attribute, teachers, rooms)
            if reason:
                self._skipped[reason] += 1

    def _teach(
        self,
        tx: StoreTransaction,
        attribute: ExtractedAttribute,
        teachers: _Teachers,
        rooms: dict[str, _Room],
    ) -> str | None:
        """Record an attribute of an entity; the reason when it cannot be done."""
        name, label = canonical(attribute.entity), trim(attribute.key)
        if not label:
            return "attribute_incomplete"
        if name not in rooms:
            rooms[name] = _Room()
            for known in tx.attributes(hub_id(name)):
                rooms[name].put(known.key, known.value)
        if not rooms[name].holds(label, attribute.value):
            return "attributes_over_cap"
        for teacher in teachers.of(name):
            reason = wiring.teach(tx, name, label, attribute.value, teacher)
            if reason:
                return reason
        rooms[name].put(label, attribute.value)
        return None


class _Room:
    """The bytes of what an entity has, by key: all of it together is bounded as one fact's metadata is."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._total = 0

    def _with(self, key: str, value: Any) -> tuple[int, int]:
        size = len(json.dumps({key: value}, ensure_ascii=False, separators=(",", ":")).encode())
        return size, self._total - self._sizes.get(key, 0) + size

    def holds(self, key: str, value: Any) -> bool:
        return self._with(key, value)[1] <= MAX_METADATA_BYTES

    def put(self, key: str, value: Any) -> None:
        self._sizes[key], self._total = self._with(key, value)


class _Teachers:
    """Which facts of a passage taught a statement about some entities.

    Those that are about all of them, by topic or by name; else those about any; else any fact of the passage. At most
    the first 16 of them, so that the work grows with the passage and not with its square. With no fact at all it is
    NOBODY, and no forgetting takes it back.
    """

    def __init__(self, facts: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._texts: dict[int, str] = {}
        self._places: dict[int, int] = {}
        self._by_topic: dict[str, list[int]] = {}
        self._by_word: dict[str, list[int]] = {}
        for text, topics in facts:
            number = fact_id(text)
            for topic in map(canonical, topics):
                self._by_topic.setdefault(topic, []).append(number)
            if number not in self._texts:
                self._texts[number] = text.lower()
                self._places[number] = len(self._places)
                for word in set(_WORD.findall(text.lower())):
                    self._by_word.setdefault(word, []).append(number)
        self._first = list(islice(self._texts, MAX_TEACHERS)) or [NOBODY]
        self._known: dict[str, dict[int, None]] = {}

    def of(self, *names: str) -> list[int]:
        """The ids of the teachers, in the order of the passage; [NOBODY] when it has no fact."""
        fewest, *others = sorted((self._about(canonical(name)) for name in names), key=len)
        both = (number for number in fewest if all(number in other for other in others))
        teachers = list(islice(both, MAX_TEACHERS))
        if not teachers:
            heads = {number for about in (fewest, *others) for number in islice(about, MAX_TEACHERS)}
            teachers = sorted(heads, key=self._places.__getitem__)[:MAX_TEACHERS]
        return teachers or self._first

    def _about(self, name: str) -> dict[int, None]:
        """The facts that are about an entity, in the order of the passage: a dict is Python's ordered set."""
        if name not in self._known:
            words = _WORD.findall(name)
            if is_spaceless(name) or not words:
                # words are not set apart there: any place will do
                mentioned = [number for number, text in self._texts.items() if name in text]
            else:
                rarest = min((self._by_word.get(word, []) for word in words), key=len)
                whole = re.compile(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])")
                mentioned = [number for number in rarest if whole.search(self._texts[number])]
            about = {*mentioned, *self._by_topic.get(name, [])}
            self._known[name] = dict.fromkeys(sorted(about, key=self._places.__getitem__))
        return self._known[name]


def encode(extraction: Extraction) -> bytes:
    """An extraction as the job record keeps it."""
    return msgspec.json.encode(extraction)


def decode(data: bytes) -> Extraction:
    """What ``encode`` wrote. Integers and floats stay what they were."""
    return msgspec.json.decode(data, type=Extraction)
