"""A process that uses a store as it is told: a line of JSON in, lines of JSON out.

Run as ``python worker.py``. Each line is ``{"do": name, ...}``; each ends with ``{"done": result}`` or
``{"failed": text}``, after any number of ``{"ack": ...}`` along the way. Everything goes through the public service.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import msgspec

from velesdb_memory import CompileRequest, ContextFragment, Link, MemoryService
from velesdb_memory.errors import NotFound
from velesdb_memory.model import Recollection

_inbox: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
_memory: MemoryService | None = None
_export: Iterator[dict[str, Any]] | None = None


def tell(**message: Any) -> None:
    """One whole line at once, so that a kill never leaves half an acknowledgement."""
    os.write(1, json.dumps(message).encode() + b"\n")


def memory() -> MemoryService:
    assert _memory is not None, "no store is open"
    return _memory


def hit(found: Recollection) -> dict[str, Any]:
    return {"id": str(found.id), "content": found.content, "score": found.score, "metadata": found.metadata}


def fact(name: str, number: int) -> str:
    """A text with words of its own, which a search for it must rank first."""
    return f"{name}{number} moved crate {number * 7919 % 100_003} past gate {name}x{number} on the northern quay"


def open_(path: str) -> str:
    global _memory
    close()
    _memory = MemoryService(path)
    return "open"


def close() -> None:
    global _memory
    if _memory is not None:
        _memory.close()
    _memory = None


def write(name: str, number: int, link: bool = False, first: int = 0) -> int:
    """Remember ``number`` facts and acknowledge each; with ``link`` each points at the one before."""
    before: int | None = None
    for index in range(first, first + number):
        links = [Link(before, "after")] if link and before is not None else None
        before = memory().remember(fact(name, index), links=links, metadata={"by": name, "index": index})
        tell(ack=index)
    return number


def read(names: list[str], limit: int) -> dict[str, int]:
    """Search until told to stop, and see that answers hold whole facts and that nothing disappears."""
    seen = 0
    for index in count():
        # one round at least
        with suppress(Empty):
            if index:
                _inbox.get_nowait()
                return {"rounds": index, "seen": seen}
        name = names[index % len(names)]
        wanted = index % limit
        for found in memory().recall(fact(name, wanted), k=5):
            assert found.metadata is not None
            assert found.content == fact(found.metadata["by"], found.metadata["index"]), found
        stored = memory().memory_status().memory.facts
        assert stored >= seen, f"{seen} facts were there, and then {stored}"
        seen = stored
    raise AssertionError("unreachable")


def remember(text: str, **metadata: Any) -> str:
    return str(memory().remember(text, metadata=metadata or None))


def recall(query: str, k: int = 10, filter: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [hit(found) for found in memory().recall(query, k=k, filter=filter)]


def forget(id: str) -> bool:
    return memory().forget(int(id))


def relate(source: str, target: str, relation: str) -> str:
    return str(memory().relate(int(source), int(target), relation))


def why(decision: str) -> list[str]:
    return [node.content for node in memory().why(decision).nodes]


def facts() -> int:
    return memory().memory_status().memory.facts


def check(repair: bool = False) -> list[str]:
    return [f"{f.subject}: {f.detail}" for f in memory().check(repair=repair) if not f.sound]


def import_(file: str) -> dict[str, int]:
    with Path(file).open(encoding="utf-8") as lines:
        report = memory().import_(lines, progress=lambda done: tell(ack=done))
    return {"facts": report.facts, "unchanged": report.unchanged, "problems": len(report.problems)}


def begin_export(lines: int) -> dict[str, Any]:
    """Read the first lines of an export and hold its snapshot."""
    global _export
    _export = memory().export()
    manifest = next(_export)
    for _ in range(lines):
        next(_export)
    return manifest


def end_export() -> int:
    assert _export is not None
    return sum(1 for line in _export if "content" in line)


def hold_snapshot(query: str) -> list[str]:
    """Begin a snapshot, acknowledge, wait for any line, then search inside it (through the store's own protocol)."""
    from velesdb_memory.embed.base import embed_checked
    from velesdb_memory.embed.hashing import HashEmbedder
    from velesdb_memory.store.sqlite import SqliteStore

    vector = embed_checked(HashEmbedder(), [query])[0]
    store = SqliteStore(memory().memory_status().store.path)
    try:
        with store.view(1_800_000_000) as view:
            assert view.space() is not None
            tell(ack="holding")
            assert _inbox.get() is not None, "left alone"
            found = view.nearest(vector, 3, ())
            records = view.get_many([each.id for each in found])
            return [records[each.id].content for each in found]
    finally:
        store.close()


def mutate(name: str, shared: list[str], victims: list[str]) -> dict[str, Any]:
    """Five kinds of changes at once, one thread each; what was refused must be refused cleanly."""
    chance = random.Random(name)
    order = chance.sample(victims, len(victims))

    def all_remember() -> list[str]:
        return [str(memory().remember(fact(name, index), metadata={"by": name})) for index in range(20)]

    def all_relate() -> int:
        ends = [(shared[i % len(shared)], shared[(i + 1) % len(shared)]) for i in range(20)]
        return len({relate(source, target, f"{name} {index}") for index, (source, target) in enumerate(ends)})

    def all_unrelate() -> int:
        pairs = list(pairwise(shared))[:10]
        made = [(int(s), int(t), f"{name} undone {i}") for i, (s, t) in enumerate(pairs)]
        for edge in made:
            memory().relate(*edge)
        return sum(memory().unrelate(*edge).removed for edge in made)

    def all_forget() -> int:
        return sum(forget(victim) for victim in order)

    def all_feedback() -> dict[str, int]:
        told = {"applied": 0, "refused": 0}
        for index in range(20):
            memory().feedback(int(shared[index % len(shared)]), True)
            told["applied"] += 1
            # a victim may be gone already, and then that is what is said
            try:
                memory().feedback(int(victims[index % len(victims)]), False)
            except NotFound:
                told["refused"] += 1
        return told

    kinds: list[Callable[[], Any]] = [all_remember, all_relate, all_unrelate, all_forget, all_feedback]
    with ThreadPoolExecutor(len(kinds)) as pool:
        results = [pool.submit(kind) for kind in kinds]
    names = ("remember", "relate", "unrelate", "forget", "feedback")
    return {name: result.result() for name, result in zip(names, results, strict=True)}


def compile_(name: str, number: int, project: str, shared: int = 0) -> int:
    """Compile ``number`` contexts of a text of their own and ``shared`` texts of everybody's; acknowledge each."""
    together = [ContextFragment(fact("everybody's", index)) for index in range(shared)]
    for index in range(number):
        mine = ContextFragment(fact(name, index))
        context = memory().compile_context(CompileRequest("", [mine, *together], 10_000, project))
        assert [warning.reason for warning in context.warnings] == []
        tell(ack=[index, context.sources[0].handle, context.insights.tokens_in])
    return number


def savings(project: str | None = None) -> dict[str, Any]:
    return msgspec.to_builtins(memory().context_savings(project))


def retrieve(handles: list[str]) -> list[str]:
    return [memory().retrieve_context_source(handle).content for handle in handles]


def purge(rounds: int) -> int:
    """Purge everything again and again; how many originals went."""
    return sum(memory().purge_sources(0).sources for _ in range(rounds))


def save(name: str, number: int, project: str, sessions: int) -> int:
    """Save ``number`` states under ``sessions`` names in turn, and a fact with each; acknowledge each."""
    for index in range(number):
        state = {"goal": f"{name} {index}", "pending_actions": [fact(name, index)]}
        memory().save_working_context(project, f"{name} {index % sessions}", state)
        memory().remember(fact(name, index))
        tell(ack=index)
    return number


def load(project: str, session: str) -> dict[str, Any]:
    return msgspec.to_builtins(memory().load_working_context(project, session))


def sessions(project: str) -> list[str]:
    return [each.session for each in memory().list_working_contexts(project)]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "open": open_,
    "import": import_,
    "compile": compile_,
    **{
        operation.__name__: operation
        for operation in (
            close, write, read, remember, recall, forget, relate, why, facts, check, begin_export, end_export,
            hold_snapshot, mutate, savings, retrieve, purge, save, load, sessions,
        )
    },
}  # fmt: skip


def _listen() -> None:
    for line in sys.stdin.buffer:
        _inbox.put(json.loads(line))
    # one for an operation that waits, one for the main loop
    _inbox.put(None)
    _inbox.put(None)


def main() -> None:
    threading.Thread(target=_listen, daemon=True).start()
    while (order := _inbox.get()) is not None:
        name = order.pop("do")
        if name == "stop":
            # meant for a reader that has failed already
            continue
        try:
            result = OPERATIONS[name](**order)
        except Exception as error:
            traceback.print_exc()
            tell(failed=f"{type(error).__name__}: {error}")
        else:
            tell(done=result)
    close()


if __name__ == "__main__":
    main()
