"""What holds for every transcript, whatever is in it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from velesdb_memory.context.fences import fences
from velesdb_memory.context.model import SegmentationPolicy
from velesdb_memory.context.transcript import Cut, segment
from velesdb_memory.limits import MAX_FRAGMENTS

LINES = [
    "User: hello",
    "assistant: hi",
    "### Tool",
    "SYSTEM: rules",
    "### Userland",
    "```",
    "```py",
    "````",
    "~~~",
    "    ```",
    "inline ``` fence",
    "",
    " ",
    "\x00",
    "\x1c\u2028\u3000",
    "lone\rreturn",
    "\r",
    "né 漢 😀",
    "\ufeff",
    "again",
    "again",
    "10:23:45 INFO step",
    '{"role": "user", "content": "x"}',
]
ENDS = ["\n", "\n", "\r\n", "\n\n", "\r", ""]
some_lines = st.tuples(st.sampled_from(LINES), st.sampled_from(ENDS), st.sampled_from([1, 1, 1, 4, 9])).map(
    lambda drawn: (drawn[0] + drawn[1]) * drawn[2]
)
plain_transcripts = st.lists(some_lines | st.text(max_size=6), min_size=1, max_size=14).map("".join).filter(bool)
policies = st.builds(
    SegmentationPolicy, st.sampled_from(["auto", "plain"]), st.sampled_from([0, 20, 256]), st.booleans()
)

texts = st.sampled_from(["", "x", "né 😀\nUser: y\n", "a" * 300 + "\n```\ncode\n```\n", "10:23:45 INFO a\n" * 20])
blocks = st.lists(
    st.one_of(
        texts,
        st.builds(lambda text: {"type": "text", "text": text}, texts),
        st.builds(lambda text: {"type": "tool_result", "content": text}, texts),
        st.builds(lambda text: {"type": "tool_use", "name": "f", "input": {"a": text, "b": 1}}, texts),
        st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=3),
        st.dictionaries(st.sampled_from(["type", "text", "content", "input", "image"]), st.text(max_size=9)),
    ),
    max_size=4,
)
roles = st.sampled_from(["user", "assistant", "tool", "System", "né"])
messages: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda role, content: {"role": role, "content": content}, roles, texts | blocks | st.none()),
    st.builds(lambda role, content: {"type": role, "message": {"role": role, "content": content}}, roles, blocks),
    st.builds(lambda content: {"type": "response_item", "payload": {"type": "message", "content": content}}, blocks),
    st.builds(lambda text: {"from": "human", "value": text}, texts),
    st.dictionaries(st.sampled_from(["type", "role", "content", "message", "payload", "output"]), texts | blocks),
)
jsonl_lines = st.builds(
    lambda blank, message, is_ascii, end: blank + json.dumps(message, ensure_ascii=is_ascii) + end,
    st.sampled_from(["", "", "\n", " \r\n\u3000\n"]),
    messages,
    st.booleans(),
    st.sampled_from(["\n", "\r\n", " \n", "\n\n"]),
)
jsonl_transcripts = st.lists(jsonl_lines, min_size=1, max_size=10).map("".join)


def assert_partition(cuts: list[Cut], transcript: str) -> None:
    assert cuts[0].byte_start == 0
    assert [one.byte_start for one in cuts[1:]] == [one.byte_end for one in cuts[:-1]]
    assert cuts[-1].byte_end == len(transcript.encode())
    assert all(one.byte_start <= one.byte_end for one in cuts)


@settings(max_examples=2_000)
@given(plain_transcripts, policies)
def test_the_fragments_of_a_plain_transcript_are_its_bytes(transcript: str, policy: SegmentationPolicy) -> None:
    detected, cuts, merged = segment(transcript, policy)
    if detected == "jsonl":
        return
    assert_partition(cuts, transcript)
    data = transcript.encode()
    assert [one.fragment.content.encode() for one in cuts] == [data[one.byte_start : one.byte_end] for one in cuts]
    assert all(one.fragment.content for one in cuts)
    assert merged >= 0
    assert len({one.turn for one in cuts}) == cuts[-1].turn + 1
    for one in cuts:
        assert one.fragment.kind == (None if one.kind == "body" else one.kind)
        if one.kind != "code":
            assert fences(one.fragment.content) == []
    for before, after in pairwise(cuts):
        if (before.turn, before.kind) == (after.turn, after.kind):
            smaller = min(before.byte_end - before.byte_start, after.byte_end - after.byte_start)
            assert smaller >= policy.min_segment_bytes


@settings(max_examples=400)
@given(jsonl_transcripts, st.sampled_from([0, 256]))
def test_the_ranges_of_a_jsonl_transcript_partition_its_bytes(transcript: str, smallest: int) -> None:
    detected, cuts, _ = segment(transcript, SegmentationPolicy("auto", smallest))
    assert_partition(cuts, transcript)
    if detected == "plain":
        assert "".join(one.fragment.content for one in cuts) == transcript
        return
    ends_of_lines = {0, len(transcript.encode())} | {
        at + 1 for at, byte in enumerate(transcript.encode()) if byte == ord("\n")
    }
    for before, after in pairwise(cuts):
        assert before.turn == after.turn or (before.byte_end in ends_of_lines and after.turn == before.turn + 1)


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(["User: a\n", "AI: bé\n", "Tool:\n```\nx\n```\n", "tool: d\n"]), min_size=9, max_size=9),
    st.integers(100, 300),
)
def test_many_turns_are_windowed_without_losing_a_byte(some: list[str], times: int) -> None:
    transcript = "".join(some) * times
    _, cuts, merged = segment(transcript, SegmentationPolicy("plain", 0))
    assert_partition(cuts, transcript)
    assert "".join(one.fragment.content for one in cuts) == transcript
    assert len(cuts) <= MAX_FRAGMENTS
    assert merged == 0 or len(cuts) == MAX_FRAGMENTS
    assert [one.turn for one in cuts] == sorted(one.turn for one in cuts)
