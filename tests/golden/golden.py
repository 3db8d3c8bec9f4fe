"""Reading the golden files, and putting an answer of ours into their symbols."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from velesdb_memory import MemoryService
from velesdb_memory.context.handles import content_hash
from velesdb_memory.context.media import decode

HERE = Path(__file__).parent
FACTS = (
    ("checkout requests time out during the evening peak", {"project": "shop", "seen": 20260401}),
    ("worker threads were starved by a synchronous audit hook", {"project": "shop", "seen": 20260402}),
    ("moving the audit hook to a queue restored throughput", {"project": "shop", "seen": 20260403}),
    ("the garden gate needs oil", {"project": "home", "seen": 20260404}),
)


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each request with its expected answer, by name."""
    for path in sorted((HERE / "cases").glob("*.json")):
        golden = json.loads(path.read_text(encoding="utf-8"))
        for index, case in enumerate(golden.pop("cases", [{}])):
            yield f"{path.stem}" + (f"-{index}" if case else ""), {**golden, **case}


def furnish(memory: MemoryService) -> None:
    """The store that the case with memories is about."""
    first, second, third, _ = (memory.remember(fact, metadata=dict(metadata)) for fact, metadata in FACTS)
    memory.relate(first, second, "caused_by")
    memory.relate(second, third, "fixed_by")
    memory.feedback(third, True)
    memory.feedback(third, True)


def symbols(request: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[int, str]:
    """What the golden files call each hash. Texts are hashed here again, where the request has them."""
    names: dict[int, str] = {}
    fragments = request.get("fragments")
    if fragments is None:
        # the fragments of a transcript are what the answer says they are
        for index, decision in enumerate(answer["context"]["decisions"]):
            names.setdefault(int(decision["content_hash"]), f"#{index}")
    for index, fragment in enumerate(fragments or []):
        names.setdefault(content_hash(fragment.get("content", "").encode()), f"#{index}")
        if "media" in fragment:
            names.setdefault(content_hash(decode(fragment["media"]["bytes_b64"])), f"#{index}.media")
    for fact, _ in FACTS:
        memory_id = int(memory_ids()[fact])
        names.setdefault(content_hash(fact.encode()), f"#memory:{memory_id}")
    return names


def memory_ids() -> dict[str, int]:
    from velesdb_memory.ids import fact_id

    return {fact: fact_id(fact) for fact, _ in FACTS}


def symbolic(answer: Any, names: Mapping[int, str]) -> Any:
    """``answer`` with hashes by name and without reasons, whose words are not compared."""
    if isinstance(answer, dict):
        return {key: symbolic(value, names) for key, value in answer.items() if key != "reason"}
    if isinstance(answer, list):
        return [symbolic(value, names) for value in answer]
    if isinstance(answer, str) and answer.startswith("ctx://source/"):
        number = int(answer.removeprefix("ctx://source/"))
        return f"ctx://source/{names.get(number, number)}"
    if isinstance(answer, int) and not isinstance(answer, bool):
        return names.get(answer, answer)
    return answer


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The scalars of a JSON value with their paths; an empty container is one too."""
    if isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from leaves(entry, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, entry in enumerate(value):
            yield from leaves(entry, f"{path}[{index}]")
    else:
        yield path, value


def differences(expected: Any, came: Any) -> dict[str, Any]:
    """What came, by path, wherever it is not what was expected; None where it is missing."""
    wanted, got = dict(leaves(expected)), dict(leaves(came))
    return {path: got.get(path) for path in {**wanted, **got} if wanted.get(path) != got.get(path)}
