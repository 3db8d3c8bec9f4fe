"""The context compiler's tools over stdio: the seed's examples, shapes, files, leniency, ids (C03, C09, D22-D24)."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.fragments import png
from velesdb_memory.context.handles import content_hash
from velesdb_memory.ids import working_id
from wire.client import INTERNAL_ERROR, PATIENCE, SERVER, Call, Server, ToolError, environment, refusal

FRAGMENTS = [
    {"content": "The canary is green: 2% traffic, zero errors in the last 10 minutes."},
    {"content": "Rollback runbook: kubectl rollout undo deployment/canary."},
]
CANARY: dict[str, Any] = {"query": "state of the canary deploy", "token_budget": 500, "fragments": FRAGMENTS}
LARGE = 2**64 - 1
_number = count()


def request_of(*texts: str, **more: Any) -> dict[str, Any]:
    return {"query": "", "fragments": [{"content": text} for text in texts], "token_budget": 1_000} | more


def project() -> str:
    """A project of a test's own: the server is shared."""
    return f"project {next(_number)}"


def identifiers(value: Any) -> Iterator[Any]:
    """Every id of a compiler's answer."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("fragment_id", "content_hash", "memory_id", "fragment_ids"):
                yield from inner if isinstance(inner, list) else [inner]
            else:
                yield from identifiers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from identifiers(inner)


# The seed's examples


def test_compile_context_example(call: Call) -> None:
    answer = call("compile_context", **CANARY)
    assert answer["content"] == "\n\n".join(fragment["content"] for fragment in FRAGMENTS)
    assert [decision["action"] for decision in answer["decisions"]] == ["preserve", "preserve"]
    assert answer["insights"]["tokens_saved"] == 0 and answer["risk"] == "low"
    assert set(answer) == {
        "content", "sections", "decisions", "sources", "retrieval_handles", "insights", "risk", "warnings"
    }  # fmt: skip


def test_what_is_set_aside_comes_back_by_its_handle(call: Call) -> None:
    long = "the canary of line 7\n\n" * 400
    answer = call("compile_context", **request_of("keep this", long, query="canary", token_budget=30))
    (handle,) = answer["retrieval_handles"]
    assert call("retrieve_context_source", handle=handle["handle"]) == {"handle": handle["handle"], "content": long}
    assert answer["warnings"][0]["action"] == "retrieve"


def test_an_image_comes_back_as_it_was_sent(call: Call) -> None:
    media = {"mime": "image/png", "bytes_b64": png(80, 60).bytes_b64}
    answer = call("compile_context", query="", fragments=[{"content": "caption", "media": media}], token_budget=900)
    handle = answer["sources"][0]["handle"]
    assert call("retrieve_context_source", handle=handle) == {"handle": handle, "content": "caption", "media": media}


def test_a_transcript_is_cut_up_and_compiled(call: Call) -> None:
    text = "System: be brief\nUser: hello there\nAssistant: hi"
    answer = call("compile_transcript", query="hello", transcript=text, token_budget=200)
    segments, decisions = answer["segmentation"]["segments"], answer["context"]["decisions"]
    assert [segment["role"] for segment in segments] == ["System", "User", "Assistant"]
    assert [segment["fragment_id"] for segment in segments] == [decision["fragment_id"] for decision in decisions]
    assert answer["context"]["sections"][0]["kind"] == "cache"
    assert (segments[0]["byte_start"], segments[-1]["byte_end"]) == (0, len(text))


def test_an_explanation_is_the_decision_that_was_made(call: Call) -> None:
    request = request_of("same", "same", "other")
    decisions = call("compile_context", **request)["decisions"]
    number = str(content_hash(b"same"))
    assert call("explain_compilation", request=request, fragment_id=number) == decisions[0]
    assert call("explain_compilation", request=request, fragment_id=number, fragment_index=1) == decisions[1]
    assert decisions[1]["action"] == "drop"
    assert "no fragment" in refusal(call, "explain_compilation", request=request, fragment_id="1")
    assert "fragment_index is 3" in refusal(
        call, "explain_compilation", request=request, fragment_id=number, fragment_index=3
    )


def test_savings_are_counted_for_the_project(call: Call) -> None:
    name = project()
    before = call("context_savings")["events"]
    saved = call("compile_context", **request_of("say it twice", "say it twice", project=name))["insights"]
    call("compile_transcript", query="", transcript="User: x", token_budget=50, project=name)
    call("explain_compilation", request=request_of("x", project=name), fragment_id="0", fragment_index=0)
    answer = call("context_savings", project=name)
    assert answer["events"] == 2 and call("context_savings")["events"] == before + 2
    assert answer["tokens_saved"] == saved["tokens_saved"] > 0
    assert answer["cost_saved_micros_by_currency"] == {} and answer["truncated"] is False


def test_budgets_are_suggested_without_a_store(call: Call) -> None:
    known = call("suggest_budget", target_model="Claude-Sonnet-4-5", reserve_tokens=8_000)
    assert (known["window"], known["suggested_budget"]) == (200_000, 192_000)
    unknown = call("suggest_budget", target_model="no such model")
    assert (unknown["window"], unknown["suggested_budget"]) == (None, None)


def test_a_working_context_goes_round(call: Call) -> None:
    name = project()
    working = {
        "goal": "ship",
        "verified_facts": [{"text": "CI is green", "source": "run 7"}, {"text": "no source"}],
        "decisions": [{"fragment_id": LARGE, "rule_id": "preserve.url"}],
        "exact_evidence": [{"fragment_id": "7", "handle": "ctx://source/7", "memory_id": str(LARGE)}],
    }
    saved = call("save_working_context", project=name, session="s", working=working)
    assert saved == {"id": working_id(name, "s"), "id_str": str(working_id(name, "s"))}
    loaded = call("load_working_context", project=name, session="s")
    assert loaded["found"] and loaded["other_sessions"] == []
    state = loaded["working"]
    assert state["decisions"] == [{"fragment_id": str(LARGE), "rule_id": "preserve.url"}]
    assert state["exact_evidence"] == [{"fragment_id": "7", "handle": "ctx://source/7", "memory_id": str(LARGE)}]
    assert state["verified_facts"] == working["verified_facts"]
    assert state["pending_actions"] == []
    # what was loaded is taken back as it is
    call("save_working_context", project=name, session="s2", working=state)
    assert call("load_working_context", project=name, session="s2")["working"] == state
    assert [each["session"] for each in call("list_working_contexts", project=name)["sessions"]] == ["s2", "s"]
    missed = call("load_working_context", project=name, session="S")
    assert (missed["found"], missed["working"]) == (False, None)
    assert [each["session"] for each in missed["other_sessions"]] == ["s2", "s"]
    assert call("forget", id=saved["id_str"])["found"]
    assert [each["session"] for each in call("list_working_contexts", project=name)["sessions"]] == ["s2"]


def test_c34_an_empty_state_is_refused_and_the_first_one_stands(call: Call) -> None:
    name = project()
    call("save_working_context", project=name, session="s", working={"goal": "first"})
    for empty in ({}, {"goal": None}, {"goal": " "}, {"pending_actions": []}):
        assert "records nothing" in refusal(call, "save_working_context", project=name, session="s", working=empty)
    assert call("load_working_context", project=name, session="s")["working"]["goal"] == "first"


def test_d10_what_the_compiler_keeps_is_listed_only_on_request(call: Call) -> None:
    name = project()
    call("compile_context", **request_of(f"kept for {name}", project=name))
    call("save_working_context", project=name, session="s", working={"goal": name})

    def walk(**arguments: Any) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            page = call("list_memories", limit=1_000, cursor=cursor, **arguments)
            yield from page["memories"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    assert not [row for row in walk() if name in json.dumps(row)]
    shown = [row["metadata"] for row in walk(include_internal=True) if name in json.dumps(row)]
    markers = ("_veles_ctx_source", "_veles_ctx_event", "_veles_ctx_working")
    assert all(any(row.get(marker) for row in shown) for marker in markers)


# Ids


def test_ids_are_numbers_unless_strings_are_asked_for(call: Call) -> None:
    call("remember", fact="canary memory of the wire test", metadata={"project": "wire canary"})
    request = {**CANARY, "memory_scope": {"project": "wire canary"}}
    request["fragments"] = [*FRAGMENTS, {"content": "x " * 2_000, "id": str(LARGE)}]
    plain = call("compile_context", **request)
    text = call("compile_context", **request, policy={"ids_as_strings": True})
    assert {type(number) for number in identifiers(plain)} == {int}
    assert {type(number) for number in identifiers(text)} == {str}
    assert [str(number) for number in identifiers(plain)] == list(identifiers(text))
    assert str(LARGE) in set(identifiers(text))
    assert any("memory_id" in decision for decision in text["decisions"])
    asked = {**request, "policy": {"ids_as_strings": True}}
    explained = call("explain_compilation", request=asked, fragment_id=str(LARGE))
    assert explained == text["decisions"][2]


def test_ids_of_segments_follow_the_same_switch(call: Call) -> None:
    arguments = {"query": "", "transcript": "User: x\nAssistant: y", "token_budget": 100}
    plain = call("compile_transcript", **arguments)
    text = call("compile_transcript", **arguments, policy={"ids_as_strings": True})
    assert {type(number) for number in identifiers(plain)} == {int}
    assert {type(number) for number in identifiers(text)} == {str}
    assert [str(number) for number in identifiers(plain)] == list(identifiers(text))


@pytest.mark.parametrize("number", [float(2**60), 1.5, True, -1, "x", "", 2**64])
def test_an_id_that_is_none_is_refused_by_its_place(call: Call, number: Any) -> None:
    message = refusal(call, "compile_context", query="", token_budget=9, fragments=[{"content": "x", "id": number}])
    assert "fragments[0].id" in message
    working = {"exact_evidence": [{"fragment_id": number, "handle": "x"}]}
    message = refusal(call, "save_working_context", project="p", session="s", working=working)
    assert "working.exact_evidence[0].fragment_id" in message


# Leniency (C03, D24)


def test_c03_every_argument_that_is_not_text_may_be_json_in_a_string(call: Call) -> None:
    name = project()
    policy = {
        "response_reserve_tokens": "5",
        "near_dup_dedup": "true",
        "disabled_rules": "[]",
        "chunk": '{"max_chunk_bytes": "512"}',
        "importance": '{"confidence": "0.5"}',
        "source_ttl_seconds": "null",
    }
    fragments = [
        json.dumps({"content": "first", "priority": "3", "metadata": '{"verbatim": true}'}),
        {"content": "second", "media": json.dumps({"mime": "image/png", "bytes_b64": png(5, 5).bytes_b64})},
    ]
    arguments = {"query": "first", "token_budget": " 900 ", "project": name, "memory_scope": '{"k": "2"}'}
    expected = call("compile_context", **arguments, policy=policy, fragments=fragments)
    assert expected["decisions"][0]["rule_id"] == "preserve.marked_verbatim"
    again = call("compile_context", **arguments, policy=json.dumps(policy), fragments=json.dumps(fragments))
    assert again == expected
    request = {**arguments, "policy": json.dumps(policy), "fragments": json.dumps(fragments)}
    explained = call("explain_compilation", request=json.dumps(request), fragment_id="0", fragment_index="1")
    assert explained == expected["decisions"][1]
    segmentation = json.dumps({"format": "plain", "min_segment_bytes": "0", "cache_system_turn": "false"})
    answer = call("compile_transcript", query="", transcript="System: x", token_budget="50", segmentation=segmentation)
    assert answer["context"]["sections"][0]["kind"] == "body"
    call("save_working_context", project=name, session="s", working='{"goal": "as text", "pending_actions": "[]"}')
    assert call("load_working_context", project=name, session="s")["working"]["goal"] == "as text"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"token_budget": "many"}, "token_budget"), ({"token_budget": 1.5}, "token_budget"),
        ({"token_budget": -1}, "token_budget"), ({"token_budget": None}, "token_budget"),
        ({"fragments": "garbage"}, "fragments"), ({"fragments": "{}"}, "fragments"), ({"fragments": {}}, "fragments"),
        ({"fragments": [5]}, "fragments[0]"), ({"fragments": ["text"]}, "fragments[0]"),
        ({"fragments": [{"content": 5}]}, "fragments[0].content"),
        ({"fragments": [{"content": "x", "priority": 256}]}, "fragments[0].priority"),
        ({"fragments": [{"content": "x", "priority": -1}]}, "fragments[0].priority"),
        ({"fragments": [{"content": "x", "priority": "06"}]}, "fragments[0].priority"),
        ({"fragments": [{"content": "x", "metadata": []}]}, "fragments[0].metadata"),
        ({"fragments": [{"content": "x", "media": {"mime": "image/png"}}]}, "fragments[0].media.bytes_b64"),
        ({"fragments": [{"content": "x", "kund": "log"}]}, "did you mean 'kind'"),
        ({"memory_scope": {"k": "1e2"}}, "memory_scope.k"), ({"memory_scope": "true"}, "memory_scope"),
        ({"memory_scope": {"hops": True}}, "memory_scope.hops"), ({"memory_scope": {"top": 1}}, "'top'"),
        ({"policy": {"chunk": {"boundary": "Sentence"}}}, "did you mean 'sentence'"),
        ({"policy": {"near_dup_dedup": 1}}, "policy.near_dup_dedup"),
        ({"policy": {"disabled_rules": "media.atomic"}}, "policy.disabled_rules"),
        ({"policy": {"pricing": {"version": "1", "currency": "USD", "models": {"m": {}}}}}, "policy.pricing.models.m"),
        ({"policy": {"slim": True}}, "slim_response"), ({"budget": 5}, "token_budget"),
    ],
    ids=lambda value: json.dumps(value)[:60],
)  # fmt: skip
def test_c09_d22_a_wrong_argument_is_refused_by_name(call: Call, wrong: dict[str, Any], named: str) -> None:
    assert named in refusal(call, "compile_context", **{**CANARY, **wrong})


def test_priorities_at_both_ends_are_taken(call: Call) -> None:
    fragments = [{"content": "low", "priority": 0}, {"content": "high", "priority": 255}]
    assert call("compile_context", query="", token_budget=99, fragments=fragments)["risk"] == "low"


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["query", "fragments", "token_budget", "project", "target_model", "memory_scope", "policy"]


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), JSON_VALUES, max_size=3), JSON_VALUES)
def test_nothing_that_a_client_sends_is_an_internal_error(call: Call, changed: dict[str, Any], fragment: Any) -> None:
    try:
        call("compile_context", **{**CANARY, "fragments": [fragment], **changed})
    except ToolError as error:
        assert error.code != INTERNAL_ERROR, error.message


# What is refused before anything is compiled


@pytest.mark.parametrize(
    "fragment",
    [
        {}, {"content": ""}, {"kind": "log"}, {"id": "5"}, {"path": "/tmp/x", "content": "y"},
        {"path": "/tmp/x", "media": {"mime": "image/png", "bytes_b64": "QQ=="}},
    ],
    ids=str,
)  # fmt: skip
def test_d36_a_fragment_that_says_nothing_or_too_much_is_refused_before_all_else(
    call: Call, fragment: dict[str, Any]
) -> None:
    many = [{"path": "/nowhere"}, {"content": "x" * 1_048_577}, fragment]
    for tool, arguments in (
        ("compile_context", {"query": "", "fragments": many, "token_budget": 0}),
        ("explain_compilation", {"request": {"query": "", "fragments": many, "token_budget": 0}, "fragment_id": 1}),
    ):
        assert "fragments[2]" in refusal(call, tool, **arguments)


def test_d36_a_caption_and_an_image_with_empty_text_are_taken(call: Call) -> None:
    media = {"mime": "image/png", "bytes_b64": png(5, 5).bytes_b64}
    fragments = [{"content": "caption", "media": media}, {"content": "", "media": {**media, "bytes_b64": "QQ=="}}]
    answer = call("compile_context", query="", fragments=fragments, token_budget=900)
    assert [decision["rule_id"] for decision in answer["decisions"]] == ["media.atomic", "media.atomic"]


@pytest.mark.parametrize("given", [{}, {"transcript": "x", "path": "/x"}, {"transcript": None, "path": "null"}])
def test_a_transcript_is_either_text_or_a_path(call: Call, given: dict[str, Any]) -> None:
    message = refusal(call, "compile_transcript", query="", token_budget=50, **given)
    assert "transcript" in message or "INGEST_ROOTS" in message


def test_an_empty_transcript_is_refused(call: Call) -> None:
    assert "transcript" in refusal(call, "compile_transcript", query="", token_budget=50, transcript="")


def test_c41_limits_are_named_with_the_size(call: Call) -> None:
    message = refusal(call, "compile_context", **request_of("x" * 1_048_577))
    assert "1048577" in message and "1048576" in message
    message = refusal(call, "compile_context", query="", token_budget=5, fragments=[{"content": "x"}] * 1_025)
    assert "1025" in message and "1024" in message
    message = refusal(call, "save_working_context", project="p", session="s", working={"goal": "x" * 1_048_577})
    assert "1048576" in message
    assert "256" in refusal(call, "save_working_context", project="p", session="s" * 257, working={"goal": "x"})
    assert "blank" in refusal(call, "save_working_context", project=" ", session="s", working={"goal": "x"})
    message = refusal(call, "retrieve_context_source", handle="ctx://source/1")
    assert "ctx://source/1" in message


def test_a_call_of_many_megabytes_of_images_is_taken(call: Call) -> None:
    header = base64.b64decode(png(80, 60).bytes_b64)
    pictures = (base64.b64encode(header.ljust(3_145_728, bytes([index]))).decode() for index in range(5))
    fragments = [{"media": {"mime": "image/png", "bytes_b64": picture}} for picture in pictures]
    policy = {"store_sources": False}
    answer = call("compile_context", query="", fragments=fragments, token_budget=10**7, policy=policy)
    assert [decision["action"] for decision in answer["decisions"]] == ["preserve"] * 5


# Files


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roots")
    (folder / "open").mkdir()
    (folder / "open" / "notes.md").write_text("# Notes\nnaïve 漢字\n", encoding="utf-8", newline="")
    (folder / "open" / "session.txt").write_text("User: hello\nAssistant: hi\n", encoding="utf-8", newline="")
    (folder / "open" / "blob.png").write_bytes(base64.b64decode(png(5, 5).bytes_b64))
    (folder / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def reading(roots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    setting = os.pathsep.join([str(roots / "open"), ""])
    with Server(tmp_path_factory.mktemp("store"), VELESDB_MEMORY_INGEST_ROOTS=setting) as server:
        server.initialize()
        yield server


def test_files_below_the_open_directories_are_read(reading: Server, roots: Path) -> None:
    notes = str(roots / "open" / "notes.md")
    request = {"query": "", "token_budget": 500, "fragments": [{"path": notes, "kind": "note"}, {"content": "x"}]}
    answer = reading.call("compile_context", **request)
    assert answer["content"] == "# Notes\nnaïve 漢字\n\n\nx"
    handle = answer["sources"][0]["handle"]
    assert reading.call("retrieve_context_source", handle=handle)["content"] == "# Notes\nnaïve 漢字\n"
    number = str(answer["decisions"][0]["fragment_id"])
    assert reading.call("explain_compilation", request=request, fragment_id=number) == answer["decisions"][0]


def test_a_transcript_is_read_from_a_file(reading: Server, roots: Path) -> None:
    path = str(roots / "open" / "session.txt")
    answer = reading.call("compile_transcript", query="", token_budget=99, path=path)
    assert [segment["role"] for segment in answer["segmentation"]["segments"]] == ["User", "Assistant"]


def test_no_other_file_is_read(reading: Server, roots: Path) -> None:
    secret = str(roots / "secret.txt")
    for path in (secret, str(roots / "open" / ".." / "secret.txt")):
        message = refusal(reading.call, "compile_context", query="", token_budget=9, fragments=[{"path": path}])
        assert "outside" in message and path in message
        assert "outside" in refusal(reading.call, "compile_transcript", query="", token_budget=9, path=path)
    blob = [{"path": str(roots / "open" / "blob.png")}]
    assert "media" in refusal(reading.call, "compile_context", query="", token_budget=9, fragments=blob)


def test_without_the_setting_no_file_is_read(call: Call, roots: Path) -> None:
    path = str(roots / "open" / "notes.md")
    message = refusal(call, "compile_context", query="", token_budget=9, fragments=[{"path": path}])
    assert "VELESDB_MEMORY_INGEST_ROOTS" in message
    message = refusal(call, "compile_transcript", query="", token_budget=9, path=path)
    assert "VELESDB_MEMORY_INGEST_ROOTS" in message


def test_a_server_with_a_bad_root_does_not_start_and_names_it(roots: Path, tmp_path: Path) -> None:
    for bad in (str(roots / "nowhere"), str(roots / "secret.txt")):
        setting = os.pathsep.join([str(roots / "open"), bad])
        done = subprocess.run(
            SERVER,
            env=environment(tmp_path / "store", VELESDB_MEMORY_INGEST_ROOTS=setting),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
        )
        assert done.returncode != 0 and done.stdout == b""
        told = done.stderr.decode()
        assert bad in told and "VELESDB_MEMORY_INGEST_ROOTS" in told and "Traceback" not in told
        assert not (tmp_path / "store").exists()


# Processes


def test_what_one_process_kept_another_gives_back(tmp_path: Path) -> None:
    with Server(tmp_path / "store") as one:
        one.initialize()
        handle = one.call("compile_context", **CANARY, project="shop")["sources"][0]["handle"]
        one.call("save_working_context", project="shop", session="s", working={"goal": "go on"})
        with Server(tmp_path / "store") as two:
            two.initialize()
            found = two.call("retrieve_context_source", handle=handle)
            assert found["content"] == FRAGMENTS[0]["content"]
            assert two.call("load_working_context", project="shop", session="s")["working"]["goal"] == "go on"
            two.call("compile_context", **CANARY, project="shop")
        assert one.call("context_savings", project="shop")["events"] == 2
