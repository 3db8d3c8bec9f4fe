"""Storing what an extractor found: facts, the entities they are about, and what they say of those."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..analysis import is_spaceless
from ..errors import EmptyFact, ExtractError, FactTooLarge, InvalidArgument, InvalidMetadata, VelesMemoryError
from ..extract.base import Extraction, Extractor
from ..ids import fact_id, hub_id
from ..limits import MAX_FACT_BYTES, MAX_METADATA_BYTES
from ..model import ExtractionResult, JsonObject
from ..store.base import NOBODY, StoreTransaction
from ..text import canonical, require_text, trim, utf8_size
from . import checks, wiring
from .core import SWEEP_ALONG, Core
from .remember import put_fact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
    """The extraction of ``text``; whatever goes wrong in an extractor is an ExtractError."""
    try:
        return extractor.extract(text)
    except VelesMemoryError:
        raise
    except Exception as error:
        raise ExtractError(f"extraction error: extractor {extractor.name} failed: {error}") from error


def remember_extracted(
    core: Core, text: str, extractor: Extractor, metadata: JsonObject | None
) -> ExtractionResult:
    """Extract a passage and store it at once; see MemoryService.remember_extracted."""
    source, fields = passage(text), checks.metadata(metadata)
    plan = Plan(run_extractor(extractor, source))
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
            except InvalidArgument:
                self._skipped["fact_not_text"] += 1

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
            number = put_fact(tx, text, metadata, vectors[text], expires_at, today)
            wiring.wire_topics(tx, number, topics, number)
            ids.append(number)
        self._wire(tx, _Teachers(self.facts), Counter())
        return ExtractionResult(ids, self._over_cap, dict(sorted(self._skipped.items())))

    def enrich(self, tx: StoreTransaction, fact: int, text: str) -> None:
        """Wire everything to one fact that is stored already; the extracted facts themselves are not stored."""
        topics = [topic for _, topics in self.facts for topic in topics]
        wiring.wire_topics(tx, fact, topics, fact)
        self._wire(tx, _Teachers([(text, topics)]), Counter())

    def _wire(self, tx: StoreTransaction, teachers: _Teachers, sizes: Counter[str]) -> None:
        for relation in self._extraction.relations:
            subject, predicate, target = trim(relation.subject), trim(relation.predicate), trim(relation.object)
            for teacher in teachers.of(subject, target):
                reason = wiring.wire_relation(tx, subject, predicate, target, teacher)
                if reason:
                    self._skipped[reason] += 1
                    break
        for attribute in self._extraction.attributes:
            reason = self._teach(tx, attribute.entity, attribute.key, attribute.value, teachers, sizes)
            if reason:
                self._skipped[reason] += 1

    def _teach(
        self, tx: StoreTransaction, entity: str, key: str, value: Any, teachers: _Teachers, sizes: Counter[str]
    ) -> str | None:
        name, label = canonical(entity), trim(key)
        if not label:
            return "attribute_incomplete"
        try:
            checked = checks.json_value(value, "value")
        except (InvalidMetadata, InvalidArgument):
            return "attribute_not_json"
        if name not in sizes:
            known = {attribute.key: attribute.value for attribute in tx.attributes(hub_id(name))}
            sizes[name] = _size(known)
        sizes[name] += _size({label: checked})
        if sizes[name] > MAX_METADATA_BYTES:
            return "attributes_over_cap"
        for teacher in teachers.of(name):
            reason = wiring.teach(tx, name, label, checked, teacher)
            if reason:
                return reason
        return None


def _size(value: JsonObject) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


class _Teachers:
    """Which facts of a passage taught a statement about some entities.

    Those that are about all of them, by topic or by name; else those about any; else all facts of the passage. With no
    fact at all it is NOBODY, and no forgetting takes it back.
    """

    def __init__(self, facts: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._facts: dict[int, tuple[str, set[str]]] = {}
        for text, topics in facts:
            _, known = self._facts.setdefault(fact_id(text), (text.lower(), set()))
            known |= {canonical(topic) for topic in topics}

    def of(self, *names: str) -> list[int]:
        """The ids of the teachers; [NOBODY] when the passage has no fact."""
        wanted = [(name, _mention(name)) for name in map(canonical, names)]
        about = {
            number: sum(name in topics or mention.search(text) is not None for name, mention in wanted)
            for number, (text, topics) in self._facts.items()
        }
        for least in range(len(wanted), -1, -1):
            teachers = [number for number, count in about.items() if count >= least]
            if teachers:
                return teachers
        return [NOBODY]


def _mention(name: str) -> re.Pattern[str]:
    escaped = re.escape(name)
    # a whole word: 'ann' is no part of 'annual'; where words are not set apart, any place will do
    return re.compile(escaped if is_spaceless(name) else rf"(?<![^\W_]){escaped}(?![^\W_])")


def encode(extraction: Extraction) -> bytes:
    """An extraction as the job record keeps it."""
    return msgspec.json.encode(extraction)


def decode(data: bytes) -> Extraction:
    """What ``encode`` wrote. Integers and floats stay what they were."""
    return msgspec.json.decode(data, type=Extraction)
