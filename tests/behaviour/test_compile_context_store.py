"""Compiling with a store behind it: one transaction, no side effects of an explanation, faults that cost little."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from conftest import Opener
from support.compiling import compiled, handle, noted, request_for
from support.fragments import requests
from support.stores import assert_sound, everything, listed, scratch
from velesdb_memory import (
    CompileRequest,
    ContextCompiler,
    ContextFragment,
    MemoryScope,
    MemoryService,
    TranscriptRequest,
)
from velesdb_memory.context.handles import content_hash
from velesdb_memory.errors import (
    FragmentIndexOutOfBounds,
    FragmentNotFound,
    IngestDisabled,
    InvalidArgument,
    InvalidInput,
    StorageError,
    StoreFull,
)
from velesdb_memory.ids import fact_id
from velesdb_memory.store.sqlite import SqliteStore
from velesdb_memory.testing import FixedClock, FixedEmbedder


class Failing(SqliteStore):
    """A store whose disk is full whenever it is told so, at the end of a write."""

    full = False

    @contextmanager
    def transaction(self, now: int) -> Iterator[Any]:
        with super().transaction(now) as tx:
            yield tx
            if self.full:
                raise StoreFull("no room left")


@pytest.fixture
def failing(folder: Path) -> Iterator[tuple[MemoryService, Failing]]:
    store = Failing(folder)
    with MemoryService.with_store(store, FixedEmbedder(), clock=FixedClock()) as memory:
        yield memory, store


class Counting:
    """An estimator for which every character is a token."""

    bytes_per_token = 1

    def count(self, text: str) -> int:
        return len(text)

    def count_many(self, texts: Any) -> list[int]:
        return [len(text) for text in texts]


@settings(max_examples=40, deadline=None)
@given(requests)
def test_the_answer_is_that_of_the_compiler_alone(request: CompileRequest) -> None:
    with scratch() as memory:
        try:
            expected = ContextCompiler().compile(request)
        except InvalidInput as error:
            with pytest.raises(type(error)):
                memory.compile_context(request)
            assert listed(memory, include_internal=True) == []
            return
        # twice: what the first left behind changes nothing
        assert memory.compile_context(request) == memory.compile_context(request) == expected
        assert memory.context_savings().events == 2


# One transaction (D6)


def test_d6_originals_and_counts_are_stored_together_or_not_at_all(failing: tuple[MemoryService, Failing]) -> None:
    memory, store = failing
    compiled(memory, "before")
    before = everything(memory)
    store.full = True
    compiled(memory, "x", "y", project="shop")
    store.full = False
    assert everything(memory) == before
    assert_sound(memory)


def test_d48_a_full_disk_costs_the_handles_and_not_the_context(failing: tuple[MemoryService, Failing]) -> None:
    memory, store = failing
    expected = compiled(memory, "x", "y", store_sources=False, record_events=False)
    store.full = True
    context = compiled(memory, "x", "y")
    (words,) = noted(context)
    assert "no room left" in words and "not kept" in words and "not counted" in words
    assert (context.content, context.decisions) == (expected.content, expected.decisions)
    assert "not counted" not in noted(compiled(memory, "x", record_events=False))[0]
    assert "not kept" not in noted(compiled(memory, "x", store_sources=False))[0]
    assert noted(compiled(memory, "x", store_sources=False, record_events=False)) == []
    slim = compiled(memory, "x", slim_response=True)
    assert slim.decisions == [] and len(noted(slim)) == 1
    transcript = memory.compile_transcript(TranscriptRequest("", "User: x", 100))
    assert len(noted(transcript.context)) == 1


def test_a_search_that_fails_before_anything_is_compiled_is_an_error(
    failing: tuple[MemoryService, Failing], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, store = failing

    def broken(now: int) -> Any:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(store, "view", broken)
    with pytest.raises(StorageError, match="the disk is gone"):
        compiled(memory, "x", query="x", scope=MemoryScope())
    assert compiled(memory, "x", query="x").content == "x"


def test_a_closed_service_says_so(memory: MemoryService) -> None:
    memory.close()
    for call in (
        lambda: compiled(memory, "x"),
        lambda: compiled(memory, "x", store_sources=False, record_events=False),
        lambda: memory.compile_transcript(TranscriptRequest("", "x", 10)),
        lambda: memory.explain_compilation(request_for("x"), 1, 0),
        lambda: memory.retrieve_context_source(handle("x")),
        lambda: memory.context_savings(),
        lambda: memory.purge_sources(0),
        lambda: memory.save_working_context("p", "s", {"goal": "x"}),
        lambda: memory.load_working_context("p", "s"),
        lambda: memory.list_working_contexts("p"),
    ):
        with pytest.raises(StorageError, match="closed"):
            call()


def test_nothing_of_a_store_is_needed_for_a_budget(memory: MemoryService) -> None:
    known = memory.suggest_budget("CLAUDE-SONNET-4-5", 1_000)
    assert (known.window, known.suggested_budget) == (200_000, 199_000)
    assert memory.suggest_budget("gpt-5", 10**9).suggested_budget == 0
    unknown = memory.suggest_budget("no-such-model")
    assert (unknown.window, unknown.suggested_budget) == (None, None)
    assert unknown.source == known.source
    for wrong in (-1, 1.5, "5"):
        with pytest.raises(InvalidArgument, match="reserve_tokens"):
            memory.suggest_budget("gpt-5", wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match="target_model"):
        memory.suggest_budget(None)  # pyright: ignore[reportArgumentType]


def test_a_path_is_never_read_by_the_library(memory: MemoryService, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text("x", encoding="utf-8")
    with pytest.raises(IngestDisabled):
        compiled(memory, ContextFragment(path=str(file)))


# Compilers


def test_a_call_its_service_or_the_default_decides_who_compiles(folder: Path) -> None:
    counting = ContextCompiler(Counting())  # pyright: ignore[reportArgumentType]
    with MemoryService(folder, FixedEmbedder(), compiler=counting) as memory:
        assert compiled(memory, "x" * 60).insights.tokens_in == 60
        default = ContextCompiler()
        tokens = default.compile(request_for("x" * 60)).insights.tokens_in
        assert tokens < 60
        assert memory.compile_context(request_for("x" * 60), default).insights.tokens_in == tokens
        assert memory.compile_context(request_for("x" * 60), compiler=default).insights.tokens_in == tokens
        request = TranscriptRequest("", "x" * 60, 100)
        assert memory.compile_transcript(request).context.insights.tokens_in == 60
        assert memory.compile_transcript(request, default).context.insights.tokens_in == tokens
    with MemoryService.with_store(SqliteStore(folder), FixedEmbedder(), compiler=counting) as memory:
        assert compiled(memory, "x" * 60).insights.tokens_in == 60


# Transcripts


def test_a_transcripts_segments_are_kept_under_their_handles(memory: MemoryService) -> None:
    text = "System: be brief\nUser: why is the queue slow?\nAssistant: " + "because " * 500
    answer = memory.compile_transcript(TranscriptRequest("queue", text, 60, project="shop"))
    assert answer.context.retrieval_handles
    raw = text.encode()
    for segment in answer.segmentation.segments:
        part = raw[segment.byte_start : segment.byte_end].decode()
        assert memory.retrieve_context_source(handle(part)).content == part
        assert segment.fragment_id == content_hash(part.encode())
    assert memory.context_savings("shop").events == 1


# Explanations


def test_an_explanation_is_the_decision_and_leaves_no_trace(memory: MemoryService) -> None:
    memory.remember("checkout is slow")
    asked = {"query": "checkout", "budget": 40, "scope": MemoryScope()}
    request = request_for("checkout", "CHECKOUT ", "x" * 9_000, **asked, slim_response=True)
    decisions = compiled(memory, *request.fragments, **asked, store_sources=False, record_events=False).decisions
    before = everything(memory)
    for index, decision in enumerate(decisions[:3]):
        assert memory.explain_compilation(request, 0, index) == decision
        assert memory.explain_compilation(request, decision.fragment_id) == decision
        assert memory.explain_compilation(request, f" {decision.fragment_id} ") == decision
    # a pulled memory is found by its id alone
    assert memory.explain_compilation(request, decisions[3].fragment_id) == decisions[3]
    assert decisions[3].memory_id == fact_id("checkout is slow")
    assert everything(memory) == before


def test_an_index_tells_equal_fragments_apart_and_goes_before_the_id(memory: MemoryService) -> None:
    request = request_for("same", "same", ContextFragment("other", id=7))
    assert memory.explain_compilation(request, content_hash(b"same")).action == "preserve"
    assert memory.explain_compilation(request, content_hash(b"same"), 1).action == "drop"
    assert memory.explain_compilation(request, 7, 1).action == "drop"
    assert memory.explain_compilation(request, 7).content_hash == content_hash(b"other")


def test_what_an_explanation_cannot_find_is_said(memory: MemoryService) -> None:
    memory.remember("x y z")
    request = request_for("x", query="y", scope=MemoryScope())
    with pytest.raises(FragmentIndexOutOfBounds) as caught:
        # memories that were pulled are not the caller's fragments
        memory.explain_compilation(request, 0, 1)
    assert caught.value.field == "fragment_index"
    with pytest.raises(FragmentNotFound) as missing:
        memory.explain_compilation(request, 12345)
    assert "12345" in str(missing.value)
    for wrong in (-1, 1.5, "0", True):
        with pytest.raises(InvalidArgument, match="fragment_index"):
            memory.explain_compilation(request, 0, wrong)  # pyright: ignore[reportArgumentType]
    for wrong in (1.5, "x", None, -1, 2**64):
        with pytest.raises(InvalidArgument, match="fragment_id"):
            memory.explain_compilation(request, wrong)  # pyright: ignore[reportArgumentType]


# Purging


@pytest.fixture
def used(memory: MemoryService, clock: FixedClock) -> MemoryService:
    """Originals of two projects and of none, on three days."""
    for texts, project in ((["old a"], "a"), (["old none"], None), (["old both", "old kept up"], "a")):
        compiled(memory, *texts, project=project, record_events=False)
    clock.advance(86_400)
    compiled(memory, "old both", project="b", record_events=False)
    compiled(memory, "middle b", project="b", record_events=False)
    clock.advance(86_400)
    compiled(memory, "old kept up", "new a", project="a", record_events=False)
    return memory


def left(memory: MemoryService) -> set[str]:
    return {entry.content for entry in listed(memory, include_internal=True)}


EVERYTHING = {"old a", "old none", "old both", "old kept up", "middle b", "new a"}


@pytest.mark.parametrize(
    ("older", "project", "gone"),
    [
        (2 * 86_400, None, {"old a", "old none"}),
        (2 * 86_400 + 1, None, set[str]()),
        (86_400, None, {"old a", "old none", "old both", "middle b"}),
        (0, None, EVERYTHING),
        (0, "a", {"old a", "old kept up", "new a"}),
        (86_400, "a", {"old a"}),
        (0, "b", {"middle b"}),
        (0, "A", set[str]()),
        (10**30, None, set[str]()),
    ],
)
def test_a_purge_takes_what_was_not_used_for_so_long(
    used: MemoryService, older: int, project: str | None, gone: set[str]
) -> None:
    preview = used.purge_sources(older, project, dry_run=True)
    assert left(used) == EVERYTHING
    assert preview.sources == len(gone) and (preview.bytes > 0) == bool(gone)
    assert used.purge_sources(older, project) == preview
    assert left(used) == EVERYTHING - gone
    assert used.purge_sources(older, project).sources == 0
    assert_sound(used)


def test_a_purge_leaves_everything_else_alone(used: MemoryService) -> None:
    used.remember("a fact", metadata={"project": "a"})
    compiled(used, "x", project="a")
    used.save_working_context("a", "s", {"goal": "x"})
    used.purge_sources(0)
    assert [entry.content for entry in listed(used)] == ["a fact"]
    assert used.context_savings("a").events == 1
    assert used.load_working_context("a", "s").found


def test_many_originals_are_purged_in_pages(memory: MemoryService) -> None:
    compiled(memory, *(f"text {index}" for index in range(700)), budget=10**6, record_events=False)
    assert memory.purge_sources(0).sources == 700
    assert listed(memory, include_internal=True) == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"older_than_seconds": -1}, "older_than_seconds"),
        ({"older_than_seconds": 1.5}, "older_than_seconds"),
        ({"older_than_seconds": 0, "project": 5}, "project"),
        ({"older_than_seconds": 0, "dry_run": "no"}, "dry_run"),
    ],
)
def test_a_purge_that_is_not_understood_purges_nothing(
    used: MemoryService, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        used.purge_sources(**arguments)
    assert caught.value.field == field
    assert left(used) == EVERYTHING


# Stores of earlier versions


def test_a_store_of_the_first_schema_is_brought_up_to_date(folder: Path, open_memory: Opener) -> None:
    migrations = resources.files("velesdb_memory.store.sqlite") / "migrations"
    with open_memory() as memory:
        memory.remember("from before", metadata={"n": 1})
        expected = [each for each in everything(memory) if "content" in each]
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as new:
        new.execute("PRAGMA wal_checkpoint(truncate)")
        rows = {
            table: new.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("tally", "facet", "posting", "space", "embedding")
        }
        meta = new.execute("SELECT * FROM meta WHERE key <> 'store'").fetchall()
        columns = "slot, id, kind, content, metadata, dated, confidence, successes, failures, expires_at"
        memories = new.execute(f"SELECT {columns} FROM memory").fetchall()
    (folder / "memory.db").unlink()
    with closing(sqlite3.connect(folder / "memory.db")) as old:
        old.executescript((migrations / "0001_initial.sql").read_text(encoding="utf-8"))
        for table, values in {**rows, "meta": meta, f"memory ({columns})": memories}.items():
            if values:
                old.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values[0]))})", values)
        # what an import of that version made of another store's internal records
        old.execute(
            f"INSERT INTO memory ({columns}) VALUES (99, 5, 2, 'x', '{{}}', 0, NULL, 0, 0, NULL)"
        )
        old.execute(f"PRAGMA application_id = {0x564D454D}")
        old.execute("PRAGMA user_version = 1")
        old.commit()
    memory = open_memory()
    assert [each for each in everything(memory) if "content" in each] == expected
    assert [hit.content for hit in memory.recall("from before")] == ["from before"]
    assert compiled(memory, "x").content == "x"
    assert memory.retrieve_context_source(handle("x")).content == "x"
    memory.save_working_context("p", "s", {"goal": "g"})
    assert memory.context_savings().events == 1
    assert_sound(memory)
    memory.close()
    again = open_memory()
    assert again.load_working_context("p", "s").found
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        latest = max(int(entry.name[:4]) for entry in migrations.iterdir() if entry.name.endswith(".sql"))
        assert connection.execute("PRAGMA user_version").fetchone()[0] == latest >= 2


def test_every_store_has_a_name_of_its_own(open_memory: Opener, tmp_path: Path) -> None:
    stores = [open_memory(tmp_path / name)._core.store for name in ("a", "b")]
    names: list[str] = []
    for store in stores:
        for _ in range(2):
            with store.view(0) as view:
                names.append(view.store_id())
    assert names[0] == names[1] != names[2] == names[3]
