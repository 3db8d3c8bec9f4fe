"""The golden compilations, through the library and over MCP, compared to the letter (D50).

The expected answers are those of the reference. ``differences.json`` lists every place where ours differs, with the
decision that says so, or with ``estimator`` where only a count differs because the reference's constants count too few
tokens for a text like that (docs/tokens.md); a difference that is not listed fails, and so does one that is listed and
gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from golden.golden import HERE, cases, differences, furnish, symbolic, symbols
from velesdb_memory import MemoryService
from velesdb_memory.context.model import CompileRequest, SegmentationPolicy, TranscriptRequest
from wire.client import Server

CASES = dict(cases())
LISTED: dict[str, dict[str, Any]] = json.loads((HERE / "differences.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with MemoryService(folder) as memory:
        furnish(memory)
    return folder


@pytest.fixture(scope="module")
def library(furnished: Path) -> Iterator[MemoryService]:
    with MemoryService(furnished) as memory:
        yield memory


@pytest.fixture(scope="module")
def server(furnished: Path) -> Iterator[Server]:
    with Server(furnished) as running:
        running.initialize()
        yield running


def compile_with(memory: MemoryService, case: dict[str, Any]) -> Any:
    if case["tool"] == "compile_transcript":
        return msgspec.to_builtins(memory.compile_transcript(msgspec.convert(case["request"], TranscriptRequest)))
    return msgspec.to_builtins(memory.compile_context(msgspec.convert(case["request"], CompileRequest, strict=False)))


def assert_as_golden(name: str, came: dict[str, Any]) -> None:
    case = CASES[name]
    ours = symbolic(came, symbols(case["request"], came))
    listed = LISTED.get(name, {})
    found = differences(case["response"], ours)
    assert found == {path: entry["ours"] for path, entry in listed.items()}
    assert all(entry["because"].startswith(("D", "estimator")) for entry in listed.values())


@pytest.mark.parametrize("name", CASES)
def test_a_golden_compiles_as_the_reference_does_but_for_what_the_decisions_change(
    name: str, library: MemoryService
) -> None:
    """D50."""
    assert_as_golden(name, compile_with(library, CASES[name]))


@pytest.mark.parametrize("name", CASES)
def test_a_golden_compiles_over_mcp_exactly_as_in_the_library(
    name: str, library: MemoryService, server: Server
) -> None:
    case = CASES[name]
    answer = server.call_with(case["tool"], case["request"])
    assert_as_golden(name, answer)
    assert answer == compile_with(library, case)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["tool"] == "compile_context"])
def test_every_handle_of_a_golden_resolves_and_every_decision_can_be_explained(
    name: str, library: MemoryService
) -> None:
    """D37: also those of near-duplicates, which the reference cannot give back."""
    request = msgspec.convert(CASES[name]["request"], CompileRequest, strict=False)
    compiled = library.compile_context(request)
    for index, (fragment, decision) in enumerate(zip(request.fragments, compiled.decisions, strict=False)):
        assert library.explain_compilation(request, decision.fragment_id, index) == decision
        first = library.explain_compilation(request, decision.fragment_id)
        assert first == next(each for each in compiled.decisions if each.fragment_id == decision.fragment_id)
        if decision.handle is not msgspec.UNSET:
            kept = library.retrieve_context_source(decision.handle)
            if fragment.media is None:
                assert kept.content == fragment.content
            else:
                assert kept.media is not msgspec.UNSET
                assert kept.media.bytes_b64 == fragment.media.bytes_b64
    for source in compiled.sources:
        assert library.retrieve_context_source(source.handle).handle == source.handle


def test_no_difference_is_listed_for_a_golden_that_does_not_exist() -> None:
    assert set(LISTED) <= set(CASES)


def test_the_default_segmentation_is_the_documented_one() -> None:
    assert SegmentationPolicy() == SegmentationPolicy("auto", 256, True)
