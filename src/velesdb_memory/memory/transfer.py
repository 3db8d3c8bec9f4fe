"""Export and import: everything the store knows as lines of JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from ..errors import InvalidArgument, ReservedKey, SelfRelation, TransferFormat, VelesMemoryError
from ..ids import edge_id, fact_id, hub_id, parse_id
from ..limits import MAX_EPOCH_SECONDS, MAX_FACT_BYTES, MAX_LIST_LIMIT
from ..model import ImportReport, JsonObject, LineProblem
from ..store.base import NOBODY, Attribute, Kind, Record, Refusal, StoreTransaction, StoreView
from ..text import canonical, require_text, trim, utf8_size
from . import checks, savings, sources, working
from .core import Core
from .listing import verbatim
from .remember import put_fact
from .switching import follows_switch
from .wiring import HUB_PREFIX, ensure_hub, has_name, wire_topics

MANIFEST: Final = "velesdb_memory_export"
VERSION: Final = 1
_BATCH: Final = 512  # lines of one transaction
_BATCH_LENGTH: Final = 2**24  # characters of one transaction: the lines of originals are long
_MAX_TALLY: Final = 2**63 - 1  # what the database counts to
_KINDS: Final = {kind.name.lower(): kind for kind in Kind}
_LEARNED: Final = ("_veles_rl_confidence", "_veles_rl_success", "_veles_rl_failure")

Progress = Callable[[int], None] | None


# -- export -----------------------------------------------------------------------------------------------------


def export(core: Core, include_internal: bool, progress: Progress = None) -> Iterator[JsonObject]:
    """The lines of an export, as one snapshot; see MemoryService.export."""
    now = core.clock.now()
    with core.store.view(now) as view:
        counts, space = view.counts(), view.space()
        yield {
            MANIFEST: VERSION,
            "exported_at": now,
            "facts": counts.facts,
            "edges": counts.edges,
            "include_internal": include_internal,
            "model": space.model if space else None,
            "dimension": space.dimension if space else None,
        }
        for done, record in enumerate(_records(view, include_internal), 1):
            yield _fact_line(view, record, include_internal)
            if progress:
                progress(done)
        yield from _edge_lines(view, include_internal)
        if include_internal:
            yield from _attribute_lines(view)
            for refusal in view.refusals():
                yield {
                    "refused": {
                        "edge_str": str(refusal.edge),
                        "from_str": str(refusal.source),
                        "to_str": str(refusal.target),
                        "taught_by": str(refusal.fact),
                    }
                }


def _records(view: StoreView, include_internal: bool) -> Iterator[Record]:
    after: int | None = None
    more = True
    while more:
        records, more = view.page(after, MAX_LIST_LIMIT, (), include_internal)
        yield from records
        if records:
            after = records[-1].id


def _fact_line(view: StoreView, record: Record, include_internal: bool) -> JsonObject:
    line: JsonObject = {
        "id": record.id,
        "id_str": str(record.id),
        "content": record.content,
        "metadata": verbatim(view, record) if include_internal else checks.visible(record.metadata) or {},
        "dated": record.dated,
    }
    if record.kind is not Kind.FACT:
        line["kind"] = record.kind.name.lower()
    if record.confidence is not None:
        line["confidence"] = record.confidence
        line["successes"], line["failures"] = record.successes, record.failures
    if record.expires_at is not None:
        line["expires_at"] = record.expires_at
    return line


def _edge_lines(view: StoreView, include_internal: bool) -> Iterator[JsonObject]:
    after = 0
    while page := view.edges(after, MAX_LIST_LIMIT):
        after = page[-1][0]
        ends = view.get_many([end for _, edge in page for end in (edge.source, edge.target)])
        for _, edge in page:
            if not include_internal and any(ends[end].kind is not Kind.FACT for end in (edge.source, edge.target)):
                continue
            stated, teachers = view.edge_facts(edge.id)
            yield {
                "edge": {
                    "id_str": str(edge.id),
                    "from_str": str(edge.source),
                    "to_str": str(edge.target),
                    "relation": edge.relation,
                    "stated": stated,
                    "taught_by": [str(fact) for fact in teachers],
                }
            }


def _attribute_lines(view: StoreView) -> Iterator[JsonObject]:
    for record in _records(view, True):
        if record.kind is Kind.HUB:
            for attribute in view.attributes(record.id):
                yield {
                    "attribute": {
                        "hub_str": str(attribute.hub),
                        "key": attribute.key,
                        "value": attribute.value,
                        "taught_by": None if attribute.fact is None else str(attribute.fact),
                    }
                }


# -- import -----------------------------------------------------------------------------------------------------


class _Problem(Exception):
    pass


def import_lines(core: Core, lines: Iterable[str], progress: Progress = None) -> ImportReport:
    """Read an export of this package, of the reference, or of the MCP memory server; see MemoryService.import_."""
    return _Import(core, progress).run(lines)


class _Import:
    """One import. Lines are taken in batches, each one transaction, so that an import can be cut and run again."""

    def __init__(self, core: Core, progress: Progress) -> None:
        self._core = core
        self._progress = progress
        self._facts = self._edges = self._unchanged = 0
        self._understood = 0
        self._problems: list[LineProblem] = []

    def run(self, lines: Iterable[str]) -> ImportReport:
        # some editors begin a file with a byte order mark
        marked = (line if number > 1 else line.removeprefix("\ufeff") for number, line in enumerate(lines, 1))
        numbered = ((number, line) for number, line in enumerate(marked, 1) if trim(line))
        done = 0
        for batch in _batches(numbered):
            self._take(batch)
            done += len(batch)
            if self._progress:
                self._progress(done)
        if self._problems and not self._understood:
            first = self._problems[0]
            raise TransferFormat(
                f"no line could be read as an export (line {first.line}: {first.reason}); expected JSON lines of "
                "`velesdb-memory export`, of the reference's export, or of the MCP memory server",
                field="file",
            )
        return ImportReport(self._facts, self._edges, self._unchanged, self._problems)

    def _take(self, batch: list[tuple[int, str]]) -> None:
        entries: list[tuple[int, JsonObject]] = []
        for number, line in batch:
            try:
                entries.append((number, _object(line)))
                self._understood += 1
            except _Problem as problem:
                self._problems.append(LineProblem(number, str(problem)))
        follows_switch(self._store)(self._core, entries)

    def _store(self, core: Core, entries: list[tuple[int, JsonObject]]) -> None:
        texts = sorted({text for _, entry in entries for text in _texts(entry)})
        vectors = dict(zip(texts, core.embed(texts), strict=True)) if texts else {}
        with core.store.transaction(core.clock.now()) as tx:
            core.require_space(tx)
            for number, entry in entries:
                try:
                    self._write(tx, entry, vectors)
                except (_Problem, VelesMemoryError) as problem:
                    self._problems.append(LineProblem(number, str(problem)))

    def _write(self, tx: StoreTransaction, entry: JsonObject, vectors: dict[str, Any]) -> None:
        if MANIFEST in entry:
            if entry[MANIFEST] != VERSION:
                raise _Problem(f"export version {entry[MANIFEST]!r} is not {VERSION}: upgrade velesdb-memory")
        elif "edge" in entry:
            self._write_edge(tx, _inner(entry, "edge"))
        elif "attribute" in entry:
            self._write_attribute(tx, _inner(entry, "attribute"))
        elif "refused" in entry:
            refused = _inner(entry, "refused")
            names = ("edge_str", "from_str", "to_str", "taught_by")
            tx.refuse(Refusal(*(parse_id(refused.get(name), name) for name in names)))
        elif entry.get("type") == "entity":
            self._write_entity(tx, entry, vectors)
        elif entry.get("type") == "relation":
            self._write_relation(tx, entry)
        elif "content" in entry:
            self._write_record(tx, entry, vectors)
        else:
            raise _Problem("the line is neither a fact, an edge, an attribute, an entity nor a relation")

    def _write_record(self, tx: StoreTransaction, entry: JsonObject, vectors: dict[str, Any]) -> None:
        raw: JsonObject = entry.get("metadata") or {}
        kind = _kind(entry, raw)
        metadata = checks.metadata({key: value for key, value in raw.items() if not checks.is_reserved(key)})
        number = parse_id(entry.get("id_str", entry.get("id")), "id")
        expires_at = entry.get("expires_at", raw.get("_veles_expires_at"))
        if expires_at is not None:
            expires_at = min(checks.integer(expires_at, "expires_at"), MAX_EPOCH_SECONDS)
            if expires_at <= tx.now:
                raise _Problem("it has expired")
        if kind in (Kind.SOURCE, Kind.EVENT, Kind.WORKING):
            content = require_text(entry["content"], "content")
            self._unchanged += not _take_internal(tx, kind, number, content, raw, expires_at)
            return
        if kind is Kind.FACT:
            text = checks.fact(entry["content"], "content")
            if number != fact_id(text):
                raise _Problem(f"its id {number} is not the id of its content ({fact_id(text)})")
            confidence, successes, failures = _learned(entry, raw)
        else:
            text = require_text(entry["content"], "content")
            if utf8_size(text, "content") > MAX_FACT_BYTES:
                raise _Problem(f"its content is over {MAX_FACT_BYTES} bytes")
            if number != hub_id(text.removeprefix(HUB_PREFIX)):
                raise _Problem(f"its id {number} is not the id of this entity")
            confidence, successes, failures = None, 0, 0
        former = tx.get(number)
        # an export without internals says nothing about automatic dates; a date that is there was there
        dated = bool(entry.get("dated", checks.DATE_KEY in metadata))
        record = Record(
            number,
            kind,
            text,
            {} if kind is Kind.HUB else metadata,
            dated=dated,
            confidence=confidence,
            successes=successes,
            failures=failures,
            expires_at=expires_at,
        )
        if kind is Kind.HUB:
            # the reference keeps attributes as metadata of the hub; ours come as lines of their own
            known = {attribute.key for attribute in tx.attributes(number)}
            for key, value in metadata.items() if "kind" not in entry else ():
                if key not in known and key != checks.DATE_KEY:
                    tx.put(record, None)
                    tx.teach(Attribute(number, key, value, None))
        if former is not None and former == record and _same(former.metadata, record.metadata):
            self._unchanged += 1
            return
        tx.put(record, vectors[text] if kind is Kind.FACT else None)
        self._facts += kind is Kind.FACT

    def _write_edge(self, tx: StoreTransaction, edge: JsonObject) -> None:
        source, target = parse_id(edge.get("from_str"), "from_str"), parse_id(edge.get("to_str"), "to_str")
        label = checks.relation(edge.get("relation"))
        if source == target:
            raise SelfRelation(source)
        taught_by: object = edge.get("taught_by") or []
        if not isinstance(taught_by, list):
            raise _Problem("'taught_by' is not a list")
        teachers = [parse_id(fact, "taught_by") for fact in cast("list[Any]", taught_by)]
        present = tx.get_many([source, target, *teachers])
        for number in (source, target):
            if number not in present:
                raise _Problem(f"memory {number}, an end of the edge, is not in the store")
        teachers = [teacher for teacher in teachers if teacher in present or teacher == NOBODY]
        known = tx.edge(edge_id(source, target, label))
        before = tx.edge_facts(known.id) if known else None
        for teacher in teachers:
            tx.add_edge(source, target, label, taught_by=teacher)
        if edge.get("stated", True) or not teachers:
            tx.add_edge(source, target, label, taught_by=None)
        changed = before is None or before != tx.edge_facts(edge_id(source, target, label))
        self._edges += changed
        self._unchanged += not changed

    def _write_attribute(self, tx: StoreTransaction, attribute: JsonObject) -> None:
        hub = parse_id(attribute.get("hub_str"), "hub_str")
        key = require_text(attribute.get("key"), "key")
        if checks.is_reserved(key):
            raise ReservedKey(key, "key")
        fact = None if attribute.get("taught_by") is None else parse_id(attribute["taught_by"], "taught_by")
        present = tx.get_many([hub] if fact is None else [hub, fact])
        if hub not in present or present[hub].kind is not Kind.HUB:
            raise _Problem(f"memory {hub} is not an entity of the store")
        value = checks.json_value(attribute.get("value"), "value")
        wanted = Attribute(hub, key, value, fact if fact in present else None)
        if any(known == wanted and _same(known.value, value) for known in tx.attributes(hub)):
            self._unchanged += 1
        else:
            tx.teach(wanted)

    def _write_entity(self, tx: StoreTransaction, entry: JsonObject, vectors: dict[str, Any]) -> None:
        name = _entity_name(entry, "name")
        sentences = _observations(entry)
        kind = entry.get("entityType")
        if isinstance(kind, str):
            require_text(kind, "entityType")
        for sentence in sentences:
            number = fact_id(sentence)
            if tx.get(number) is None:
                put_fact(tx, number, sentence, {}, vectors[sentence], None)
                self._facts += 1
            else:
                self._unchanged += 1
            wire_topics(tx, number, [name], number)
        hub = ensure_hub(tx, name)
        known = Attribute(hub, "type", kind, None)
        if isinstance(kind, str) and known not in tx.attributes(hub):
            tx.teach(known)

    def _write_relation(self, tx: StoreTransaction, entry: JsonObject) -> None:
        subject, target = _entity_name(entry, "from"), _entity_name(entry, "to")
        label = checks.relation(entry.get("relationType"), "relationType")
        if canonical(subject) == canonical(target):
            raise _Problem("it relates an entity to itself")
        source, end = ensure_hub(tx, subject), ensure_hub(tx, target)
        known = tx.edge(edge_id(source, end, label)) is not None
        tx.add_edge(source, end, label, taught_by=None)
        self._edges += not known
        self._unchanged += known


def _batches(lines: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    batch: list[tuple[int, str]] = []
    length = 0
    for line in lines:
        batch.append(line)
        length += len(line[1])
        if len(batch) == _BATCH or length > _BATCH_LENGTH:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _take_internal(
    tx: StoreTransaction, kind: Kind, number: int, content: str, metadata: JsonObject, expires_at: int | None
) -> bool:
    """Write a record of the context compiler; whether anything changed."""
    if kind is Kind.SOURCE:
        return sources.take(tx, number, content, metadata, expires_at)
    if kind is Kind.EVENT:
        return savings.take(tx, number, metadata, expires_at)
    return working.take(tx, number, content, metadata)


def _same(former: Any, value: Any) -> bool:
    # Python takes 1, 1.0 and True for equal, JSON does not
    return json.dumps(former, sort_keys=True) == json.dumps(value, sort_keys=True)


def _object(line: str) -> JsonObject:
    def refuse(name: str) -> Any:
        raise _Problem(f"{name} is no JSON number")

    try:
        entry = json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise _Problem(f"not JSON: {error}") from None
    if not isinstance(entry, dict):
        raise _Problem("not a JSON object")
    return cast("JsonObject", entry)


def _inner(entry: JsonObject, key: str) -> JsonObject:
    if not isinstance(entry[key], dict):
        raise _Problem(f"'{key}' is not an object")
    return cast("JsonObject", entry[key])


def _texts(entry: JsonObject) -> list[str]:
    """The texts that a line needs vectors of; lines with a fault are found out when they are written."""
    try:
        if entry.get("type") == "entity":
            return _observations(entry)
        raw: Any = entry.get("metadata") or {}
        if "content" in entry and isinstance(raw, dict) and _kind(entry, cast("JsonObject", raw)) is Kind.FACT:
            return [checks.fact(entry["content"], "content")]
    except (_Problem, VelesMemoryError):
        pass
    return []


def _kind(entry: JsonObject, metadata: JsonObject) -> Kind:
    if not isinstance(cast("object", metadata), dict):
        raise _Problem("'metadata' is not an object")
    name = entry.get("kind")
    if name is None:
        # the reference marks its internals in their metadata; it hashes originals in another way and counts each
        # compilation by itself, so only entities and working contexts mean anything here
        if "_veles_ctx_working" in metadata:
            return Kind.WORKING
        if any(key.startswith("_veles_ctx_") for key in metadata):
            raise _Problem("it is an internal record of the reference's context compiler, which is not taken over")
        return Kind.HUB if "_veles_hub" in metadata else Kind.FACT
    if not isinstance(name, str) or name not in _KINDS:
        raise _Problem(f"kind {name!r} is unknown")
    return _KINDS[name]


def _learned(entry: JsonObject, metadata: JsonObject) -> tuple[float | None, int, int]:
    confidence = entry.get("confidence", metadata.get(_LEARNED[0]))
    if confidence is None:
        return None, 0, 0
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 <= confidence <= 1:
        raise InvalidArgument(f"confidence is {confidence!r}, not a number from 0 to 1", field="confidence")
    successes = checks.integer(entry.get("successes", metadata.get(_LEARNED[1], 0)), "successes", maximum=_MAX_TALLY)
    failures = checks.integer(entry.get("failures", metadata.get(_LEARNED[2], 0)), "failures", maximum=_MAX_TALLY)
    return float(confidence), successes, failures


def _entity_name(entry: JsonObject, key: str) -> str:
    name = entry.get(key)
    if not isinstance(name, str) or not has_name(checks.fact(name, key)):
        raise _Problem(f"'{key}' names no entity")
    return name


def _observations(entry: JsonObject) -> list[str]:
    """An entity's observations as sentences that stand alone: they get the name where they lack it."""
    name = _entity_name(entry, "name")
    observations = entry.get("observations", [])
    if not isinstance(observations, list):
        raise _Problem("'observations' is not a list")
    sentences: list[str] = []
    for observation in cast("list[Any]", observations):
        text = checks.fact(observation, "observations")
        told = canonical(name) in text.lower()
        sentences.append(text if told else checks.fact(f"{name}: {text}", "observations"))
    return sentences


