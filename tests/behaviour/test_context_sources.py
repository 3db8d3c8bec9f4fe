"""The originals behind handles: kept with a compilation, given back to the byte (D3, D37, D48; context.md §19)."""

from __future__ import annotations

import base64
import json
import random
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Opener
from support.compiling import compiled, handle, noted
from support.fragments import png, text_fragments
from support.stores import assert_sound, contents, everything, files_of, lines_of, listed, scratch
from velesdb_memory import ColumnFilter, CompiledContext, ContextFragment, Media, MemoryService
from velesdb_memory.context.handles import content_hash, handle_of
from velesdb_memory.context.media import decode
from velesdb_memory.errors import IdCollision, InvalidArgument, StoreCorrupt, UnknownHandle
from velesdb_memory.ids import source_id
from velesdb_memory.store.base import Kind, Record
from velesdb_memory.testing import FixedClock

DAY = 86_400
ODD = "né\r\n\x00\u2028 漢字 😅 trailing  \n\n"


def database(folder: Path, sql: str, *values: Any) -> list[Any]:
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as connection:
        return connection.execute(sql, values).fetchall()


def handles(context: CompiledContext) -> set[str]:
    """Every handle that an answer mentions."""
    named = [*context.decisions, *context.sources, *context.retrieval_handles]
    return {each.handle for each in named if isinstance(each.handle, str)}


def kept(memory: MemoryService, text: str) -> bool:
    try:
        assert memory.retrieve_context_source(handle(text)).content == text
    except UnknownHandle:
        return False
    return True


# Given back


def test_an_original_comes_back_to_the_byte_after_the_store_was_reopened(
    memory: MemoryService, open_memory: Opener
) -> None:
    compiled(memory, ODD, "x" * 1_048_576)
    again = open_memory()
    assert again.retrieve_context_source(handle(ODD)).content == ODD
    source = again.retrieve_context_source(handle("x" * 1_048_576))
    assert source.content == "x" * 1_048_576
    assert not isinstance(source.media, Media)


@settings(max_examples=30, deadline=None)
@given(st.lists(text_fragments, min_size=1, max_size=8), st.integers(6, 300))
def test_d37_every_handle_of_every_answer_leads_back(fragments: list[ContextFragment], budget: int) -> None:
    with scratch() as memory:
        context = compiled(memory, *fragments, budget=budget)
        assert noted(context) == []
        texts = {handle(fragment.content): fragment.content for fragment in fragments}
        assert handles(context) <= set(texts)
        for each, text in texts.items():
            assert memory.retrieve_context_source(each).content == text


def test_d37_near_duplicates_are_kept_too(memory: MemoryService) -> None:
    context = compiled(memory, "Deploy on Friday", "deploy  on FRIDAY")
    assert [decision.action for decision in context.decisions] == ["preserve", "drop"]
    dropped = context.decisions[1].handle
    assert isinstance(dropped, str)
    assert memory.retrieve_context_source(dropped).content == "deploy  on FRIDAY"


def test_pulled_memories_are_originals_like_others(memory: MemoryService) -> None:
    from velesdb_memory import MemoryScope

    memory.remember("the broker ran out of handles")
    compiled(memory, query="broker handles", scope=MemoryScope())
    assert kept(memory, "the broker ran out of handles")


@pytest.mark.parametrize(
    "bytes_b64",
    [
        png(80, 60).bytes_b64,
        base64.b64encode(b"not an image at all").decode(),
        "QQ==",
        "QR==",  # the same byte, spelled otherwise
        "QUF=",
        "////",
    ],
)
def test_an_image_comes_back_as_it_was_spelled(memory: MemoryService, bytes_b64: str) -> None:
    image = Media("Image/PNG; x=\u00e9", bytes_b64)
    context = compiled(memory, ContextFragment("the caption", media=image))
    (source,) = context.sources
    assert source.handle == handle_of(content_hash(decode(bytes_b64)))
    found = memory.retrieve_context_source(source.handle)
    assert (found.content, found.media) == ("the caption", image)


def test_a_later_caption_of_the_same_image_does_not_change_the_first(memory: MemoryService) -> None:
    image = png(80, 60)
    first = compiled(memory, ContextFragment("first caption", media=image))
    second = compiled(memory, ContextFragment("second caption", media=image))
    assert first.sources[0].handle == second.sources[0].handle
    assert noted(second) == []
    assert memory.retrieve_context_source(first.sources[0].handle).content == "first caption"


@pytest.mark.parametrize("padding", ["0", "000", "+", "+0"])
def test_numbers_in_handles_may_be_padded(memory: MemoryService, padding: str) -> None:
    compiled(memory, "x")
    found = memory.retrieve_context_source(handle("x").replace("source/", f"source/{padding}"))
    assert (found.handle, found.content) == (handle("x"), "x")


@pytest.mark.parametrize(
    "wrong",
    [
        "", "ctx://source/", "12", "CTX://source/12", "ctx://source/ 12", "ctx://source/12 ", "ctx://source/-1",
        "ctx://source/0x1", "ctx://source/1.0", "ctx://source/18446744073709551616", "ctx://source/" + "9" * 5_000,
        "ctx://source/١٢", "ctx://source/12\n", " ctx://source/12", "ctx://working/12", "ctx://source/12", "\0",
    ],
)  # fmt: skip
def test_a_handle_that_is_none_or_leads_nowhere_is_not_found(memory: MemoryService, wrong: str) -> None:
    compiled(memory, "x")
    with pytest.raises(UnknownHandle) as caught:
        memory.retrieve_context_source(wrong)
    assert caught.value.field == "handle"
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("wrong", [None, 5, b"ctx://source/12", "\ud800"])
def test_a_handle_that_is_no_text_is_refused(memory: MemoryService, wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        memory.retrieve_context_source(wrong)


# Kept


def test_the_policy_decides_whether_anything_is_stored(memory: MemoryService) -> None:
    compiled(memory, "x", store_sources=False, record_events=False)
    assert listed(memory, include_internal=True) == []
    compiled(memory, "x", record_events=False)
    assert [entry.content for entry in listed(memory, include_internal=True)] == ["x"]
    compiled(memory, "y", store_sources=False)
    assert memory.context_savings().events == 1
    assert not kept(memory, "y")


def test_a_slim_answer_has_handles_that_lead_back(memory: MemoryService) -> None:
    context = compiled(memory, "x", "X", slim_response=True)
    assert (context.sections, context.decisions) == ([], [])
    assert kept(memory, "x") and kept(memory, "X")


def test_what_is_kept_is_listed_only_on_request_and_whole(memory: MemoryService, clock: FixedClock) -> None:
    image = png(80, 60)
    compiled(memory, ODD, ContextFragment("caption", media=image), project="shop", record_events=False)
    assert listed(memory) == []
    shown = {entry.content: entry.metadata for entry in listed(memory, include_internal=True)}
    common = {
        "_veles_hub": True,
        "_veles_ctx_source": True,
        "_veles_ctx_used_at": clock.now(),
        "_veles_ctx_projects": ["shop"],
    }
    assert shown == {
        ODD: common,
        "caption": common
        | {"_veles_ctx_source_media": {"mime": image.mime, "bytes_b64": image.bytes_b64}},
    }


def test_d10_no_search_ever_finds_an_original(memory: MemoryService) -> None:
    fact = memory.remember("the broker stalled", metadata={"project": "shop"})
    compiled(memory, "the broker stalled again", "the broker stalled", project="shop")
    for hits in (
        memory.recall("broker stalled"),
        memory.recall_fused("broker stalled"),
        memory.recall_where("broker stalled", [ColumnFilter("project", "ne", "else")]),
        memory.why("broker stalled").nodes,
        listed(memory),
    ):
        assert [hit.id for hit in hits] == [fact]
    assert memory.memory_status().memory.facts == 1


def test_forgetting_the_record_makes_the_handle_lead_nowhere(memory: MemoryService) -> None:
    compiled(memory, "x")
    assert memory.forget(source_id(content_hash(b"x")))
    assert not kept(memory, "x")
    compiled(memory, "x")
    assert kept(memory, "x")
    assert_sound(memory)


def test_originals_are_kept_small_unless_that_makes_them_larger(memory: MemoryService, folder: Path) -> None:
    rough = "".join(random.Random(1).choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=30))
    compiled(memory, "again and again " * 1_000, rough, record_events=False)
    sizes = dict(database(folder, "SELECT deflated, length(content) FROM body"))
    assert sizes[0] == 30 and sizes[1] < 200
    assert kept(memory, rough)


def test_a_second_identical_compile_writes_nothing(memory: MemoryService, folder: Path, clock: FixedClock) -> None:
    texts = [f"text {index}" for index in range(50)]
    first = compiled(memory, *texts, record_events=False)

    def stored() -> dict[str, bytes]:
        # the third file of SQLite is memory that processes share
        return {name: data for name, data in files_of(folder).items() if not name.endswith("-shm")}

    before = stored()
    clock.advance(DAY - 1)
    assert compiled(memory, *texts, record_events=False) == first
    assert stored() == before


def test_the_time_of_use_moves_once_a_day_and_each_project_is_noted_once(
    memory: MemoryService, clock: FixedClock
) -> None:
    def noted_use() -> tuple[int, list[str | None]]:
        (entry,) = listed(memory, include_internal=True)
        assert entry.metadata is not None
        return entry.metadata["_veles_ctx_used_at"] - 1_700_000_000, entry.metadata["_veles_ctx_projects"]

    for seconds, project, expected in [
        (0, "a", (0, ["a"])),
        (DAY - 1, "a", (0, ["a"])),
        (1, "a", (DAY, ["a"])),
        (5, None, (DAY + 5, ["a", None])),
        (5, "a", (DAY + 5, ["a", None])),
        (-3 * DAY, "b", (DAY + 5, ["a", None, "b"])),
    ]:
        clock.advance(seconds)
        compiled(memory, "x", project=project, record_events=False)
        assert noted_use() == expected


# Lifetimes


@pytest.mark.parametrize(
    ("first", "second", "lives"),
    [
        (None, None, None), (0, None, None), (None, 10, None), (0, 10, None), (10, None, None), (10, 0, None),
        (10, 20, 25), (20, 10, 20), (10, 5, 10), (10, 10, 15),
    ],
)  # fmt: skip
def test_the_life_of_an_original_only_ever_gets_longer(
    memory: MemoryService, clock: FixedClock, first: int | None, second: int | None, lives: int | None
) -> None:
    start = clock.now()
    compiled(memory, "x", source_ttl_seconds=first, record_events=False)
    clock.advance(5)
    compiled(memory, "x", source_ttl_seconds=second, record_events=False)
    if lives is None:
        clock.advance(10**9)
        assert kept(memory, "x")
        return
    clock.advance(start + lives - 1 - clock.now())
    assert kept(memory, "x")
    clock.advance(1)
    assert not kept(memory, "x")
    assert listed(memory, include_internal=True) == []


def test_an_expired_original_is_kept_anew_and_swept_with_what_is_long_in_it(
    memory: MemoryService, folder: Path, clock: FixedClock
) -> None:
    compiled(memory, "x", "y", source_ttl_seconds=10)
    clock.advance(10)
    compiled(memory, "x")
    assert kept(memory, "x") and not kept(memory, "y")
    memory.remember("a write sweeps along")
    assert database(folder, "SELECT count(*) FROM body") == [(1,)]
    assert_sound(memory)


@pytest.mark.parametrize("field", ["source_ttl_seconds", "event_ttl_seconds"])
@pytest.mark.parametrize("wrong", [-1, 1.5, "5", True])
def test_a_lifetime_that_is_none_is_refused_and_nothing_is_written(
    memory: MemoryService, field: str, wrong: Any
) -> None:
    with pytest.raises(InvalidArgument, match=field):
        compiled(memory, "x", **{field: wrong})
    assert listed(memory, include_internal=True) == []


@pytest.mark.parametrize("field", ["project", "target_model"])
def test_a_project_or_model_of_more_than_256_bytes_is_refused(memory: MemoryService, field: str) -> None:
    compiled(memory, "x", **{field: "é" * 128})
    with pytest.raises(InvalidArgument) as caught:
        compiled(memory, "y", **{field: "é" * 128 + "x"})
    assert (caught.value.field, caught.value.limit) == (field, 256)
    assert not kept(memory, "y")


# What has the id already


def test_a_fact_on_the_id_is_neither_overwritten_nor_served(memory: MemoryService) -> None:
    """The id is a plain hash of a text that anybody can remember."""
    squatter = f"veles-ctx-source:{content_hash(b'x')}"
    number = memory.remember(squatter)
    assert number == source_id(content_hash(b"x"))
    context = compiled(memory, "x", "y")
    assert context.content == "x\n\ny"
    (words,) = noted(context)
    assert handle("x") in words and "not kept" in words
    assert not kept(memory, "x") and kept(memory, "y")
    assert memory.context_savings().events == 1
    assert contents(memory.recall("x")) == [squatter]
    memory.forget(number)
    assert noted(compiled(memory, "x")) == [] and kept(memory, "x")
    with pytest.raises(IdCollision):
        memory.remember(squatter)


def test_d3_other_bytes_under_the_same_hash_are_not_overwritten(memory: MemoryService) -> None:
    """No such pair is known, so what another text of the same hash would have left is put there by hand."""
    number = source_id(content_hash(b"x"))
    metadata = {"_veles_ctx_used_at": 0, "_veles_ctx_projects": []}
    with memory._core.store.transaction(0) as tx:
        tx.put(Record(number, Kind.SOURCE, "something else", metadata), None)
    before = everything(memory)
    context = compiled(memory, "x", record_events=False)
    assert context.content == "x"
    assert len(noted(context)) == 1 and handle("x") in noted(context)[0]
    assert everything(memory) == before
    # nor is it taken for the original
    assert not kept(memory, "x")


# Damage


@pytest.mark.parametrize("damage", ["UPDATE body SET content = x'00ff', deflated = 1", "DELETE FROM body"])
def test_an_original_that_cannot_be_read_is_found_out_and_taken_out(
    memory: MemoryService, folder: Path, damage: str
) -> None:
    compiled(memory, "x" * 100, "y", record_events=False)
    slot = database(folder, "SELECT slot FROM memory WHERE id = ?", source_id(content_hash(b"y")) - 2**63)[0][0]
    database(folder, f"{damage} WHERE slot <> ?", slot)
    with pytest.raises(StoreCorrupt, match="doctor"):
        memory.retrieve_context_source(handle("x" * 100))
    # the compilation itself is of use
    context = compiled(memory, "x" * 100)
    assert context.content == "x" * 100 and "not kept" in noted(context)[0]
    (finding,) = [finding for finding in memory.check() if not finding.sound]
    assert finding.subject == "originals" and "1 of 2" in finding.detail
    assert [each.subject for each in memory.check(repair=True) if each.repaired] == ["originals"]
    assert_sound(memory)
    assert not kept(memory, "x" * 100) and kept(memory, "y")
    assert noted(compiled(memory, "x" * 100)) == [] and kept(memory, "x" * 100)


def test_what_is_left_of_records_that_are_gone_is_found_and_taken_out(memory: MemoryService, folder: Path) -> None:
    compiled(memory, "x")
    database(folder, "INSERT INTO body VALUES (999, x'', 0, NULL, NULL, NULL)")
    assert [finding.subject for finding in memory.check() if not finding.sound] == ["originals"]
    memory.check(repair=True)
    assert_sound(memory)
    assert kept(memory, "x")


def test_a_fault_in_an_image_is_found_by_its_hash(memory: MemoryService, folder: Path) -> None:
    context = compiled(memory, ContextFragment("c", media=png(80, 60)))
    database(folder, "UPDATE body SET media = x'00'")
    with pytest.raises(UnknownHandle):
        memory.retrieve_context_source(context.sources[0].handle)


# Moving


def test_d31_originals_move_with_an_export_and_again_without_change(
    memory: MemoryService, open_memory: Opener, tmp_path: Path, clock: FixedClock
) -> None:
    images = [Media("image/png", "QR=="), png(5, 5)]
    compiled(memory, ODD, "y" * 5_000, *(ContextFragment("c", media=image) for image in images), project="shop")
    compiled(memory, ODD, "short", source_ttl_seconds=50, project="other")
    lines = lines_of(memory.export(include_internal=True))
    other = open_memory(tmp_path / "other")
    assert other.import_(lines).problems == []
    assert list(other.export(include_internal=True))[1:] == list(memory.export(include_internal=True))[1:]
    assert_sound(other)
    before = everything(other)
    report = other.import_(lines)
    assert (report.unchanged, report.problems) == (len(lines) - 1, [])
    assert everything(other) == before
    for image in images:
        number = content_hash(decode(image.bytes_b64))
        assert other.retrieve_context_source(handle_of(number)).media == image
    clock.advance(50)
    assert not kept(other, "short") and kept(other, ODD)


def test_an_export_without_internals_holds_no_originals(memory: MemoryService) -> None:
    memory.remember("a fact")
    compiled(memory, "x")
    assert [line["content"] for line in memory.export() if "content" in line] == ["a fact"]


def test_an_import_lengthens_the_life_of_an_original_and_never_shortens_it(
    memory: MemoryService, open_memory: Opener, tmp_path: Path
) -> None:
    compiled(memory, "x", source_ttl_seconds=50, record_events=False)
    other = open_memory(tmp_path / "other")
    compiled(other, "x", record_events=False)
    moved = lines_of(memory.export(include_internal=True))
    assert other.import_(moved).unchanged == 1
    assert memory.import_(lines_of(other.export(include_internal=True))).problems == []
    assert "expires_at" not in list(memory.export(include_internal=True))[1]


LINE = {
    "id_str": str(source_id(content_hash(b"x"))),
    "content": "x",
    "kind": "source",
    "metadata": {"_veles_ctx_used_at": 5, "_veles_ctx_projects": [None, "shop"]},
}


@pytest.mark.parametrize(
    "bad",
    [
        {"content": "y"}, {"content": 5}, {"content": None}, {"content": "\ud800"}, {"content": "x" * 1_048_577},
        {"id_str": "5"}, {"metadata": {}}, {"metadata": LINE["metadata"] | {"_veles_ctx_used_at": "now"}},
        {"metadata": LINE["metadata"] | {"_veles_ctx_used_at": -1}},
        {"metadata": LINE["metadata"] | {"_veles_ctx_projects": "shop"}},
        {"metadata": LINE["metadata"] | {"_veles_ctx_projects": [5]}},
        {"metadata": LINE["metadata"] | {"_veles_ctx_projects": ["x" * 257]}},
        {"metadata": LINE["metadata"] | {"_veles_ctx_source_media": 5}},
        {"metadata": LINE["metadata"] | {"_veles_ctx_source_media": {"mime": "image/png"}}},
        {"metadata": LINE["metadata"] | {"_veles_ctx_source_media": {"mime": "i", "bytes_b64": "QQ="}}},
        {"metadata": LINE["metadata"] | {"_veles_ctx_source_media": {"mime": "i", "bytes_b64": "é==="}}},
        {"metadata": LINE["metadata"] | {"_veles_ctx_source_media": {"mime": "i", "bytes_b64": "A" * 4_194_308}}},
    ],
    ids=lambda bad: json.dumps(bad)[:70],
)  # fmt: skip
def test_d31_an_exported_original_with_a_fault_is_reported(memory: MemoryService, bad: Any) -> None:
    report = memory.import_([json.dumps(LINE | bad), json.dumps(LINE)])
    assert [problem.line for problem in report.problems] == [1]
    assert kept(memory, "x")
    assert_sound(memory)


def test_pages_of_long_originals_end_early_and_lose_none(memory: MemoryService) -> None:
    texts = [f"{index} {'x' * 900_000}" for index in range(40)]
    compiled(memory, *texts, budget=10_000_000, record_events=False)
    page = memory.list_memories(limit=1_000, include_internal=True)
    assert 10 < len(page.memories) < 40 and page.next_cursor is not None
    walked = listed(memory, include_internal=True, limit=1_000)
    assert sorted(entry.content for entry in walked) == sorted(texts)
    assert sum(1 for line in memory.export(include_internal=True) if "content" in line) == 40


def test_the_stream_of_a_body_is_plain_zlib(memory: MemoryService, folder: Path) -> None:
    """What docs/store.md says; another program can read it."""
    compiled(memory, "z" * 1_000, record_events=False)
    ((content,),) = database(folder, "SELECT content FROM body")
    assert zlib.decompress(content).decode() == "z" * 1_000
