"""Cutting transcripts of one JSON object a line (D46)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from velesdb_memory.context.model import SegmentationPolicy
from velesdb_memory.context.transcript import Cut, segment
from velesdb_memory.errors import SegmentationError
from velesdb_memory.limits import MAX_FRAGMENT_BYTES, MAX_FRAGMENTS

AUTO = SegmentationPolicy()
JSONL = SegmentationPolicy("jsonl")
LOG = "".join(f"10:23:4{number} INFO step {number}\n" for number in range(8))


def jsonl(*objects: Any) -> str:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects)


def cut(transcript: str, policy: SegmentationPolicy = AUTO) -> list[Cut]:
    detected, cuts, _ = segment(transcript, policy)
    assert detected == "jsonl"
    return cuts


def turns(*objects: Any) -> list[tuple[str | None, str]]:
    return [(one.role, one.fragment.content) for one in cut(jsonl(*objects))]


def said(content: Any) -> str:
    """What a message with this content says."""
    [(_, text)] = turns({"role": "assistant", "content": content})
    return text


# Format


HELLO = '{"role": "user", "content": "hello"}'


@pytest.mark.parametrize(
    "transcript",
    [
        HELLO,
        f"{HELLO}\n",
        f"\n \t\n{HELLO}\r\n\u3000\n{HELLO}\n\n",
        f"  {HELLO}  ",
        f"\ufeff{HELLO}",
        f'{HELLO}\n{{"anything": 1}}\n',
        f'{{"type": "snapshot", "id": 5}}\n{HELLO}',
    ],
)
def test_lines_of_objects_with_a_turn_among_them_are_read_as_jsonl(transcript: str) -> None:
    assert cut(transcript)[0].fragment.content == "hello"
    assert cut(transcript, JSONL) == cut(transcript)


@pytest.mark.parametrize(
    ("transcript", "line"),
    [
        (f"{HELLO}\nnot json\n", 2),
        (f'\n{HELLO}\n["user", "hello"]\n', 3),
        (f"{HELLO}\n{HELLO[:-1]}", 2),
        (f"{HELLO} {HELLO}", 1),
        (f"{HELLO}\n\ufeff{HELLO}", 2),
        (f"{HELLO}\nnull", 2),
        ("User: hello", 1),
        ('{"level": "info", "msg": "hello"}\n', 1),
        ('{"type": "article", "text": "hello"}\n', 1),
        ('{"type": "summary", "summary": "hello"}\n', 1),
        ('{"type": "phone_call", "duration": 5}\n', 1),
        ('{"from": "EUR", "to": "USD", "value": 1.1}\n', 1),
        ("\n \n", 1),
        ("[" * 200_000, 1),
    ],
)
def test_anything_else_is_plain_and_an_error_that_names_the_line_where_jsonl_is_wanted(
    transcript: str, line: int
) -> None:
    assert segment(transcript, AUTO)[0] == "plain"
    with pytest.raises(SegmentationError, match=f"line {line} ") as refused:
        segment(transcript, JSONL)
    assert refused.value.field == "transcript"


def test_jsonl_is_plain_where_plain_is_wanted() -> None:
    detected, cuts, _ = segment(HELLO, SegmentationPolicy("plain"))
    assert (detected, cuts[0].fragment.content, cuts[0].role) == ("plain", HELLO, None)


# Ranges


def test_a_line_is_a_turn_and_blank_lines_belong_to_the_one_before_or_else_the_first() -> None:
    transcript = f'\r\n\n{HELLO}\n\n{{"role": "assistant", "content": "é"}}\r\n  \n{HELLO}'
    cuts = cut(transcript)
    data = transcript.encode()
    assert [data[one.byte_start : one.byte_end].decode() for one in cuts] == [
        f"\r\n\n{HELLO}\n\n",
        '{"role": "assistant", "content": "é"}\r\n  \n',
        HELLO,
    ]
    assert [(one.turn, one.role) for one in cuts] == [(0, "user"), (1, "assistant"), (2, "user")]


def test_lines_that_say_nothing_belong_to_the_turn_before_or_else_the_first() -> None:
    silent = '{"type": "file-history-snapshot", "snapshot": {"files": []}}\n'
    transcript = f"{silent}{HELLO}\n{silent}{silent}{HELLO}\n{silent}"
    assert [(one.byte_start, one.byte_end) for one in cut(transcript)] == [
        (0, len(f"{silent}{HELLO}\n{silent}{silent}")),
        (len(f"{silent}{HELLO}\n{silent}{silent}"), len(transcript)),
    ]


def test_parts_of_a_turn_share_the_range_of_its_line() -> None:
    content = "a" * 300 + "\n```\n" + "b" * 300 + "\n```\n"
    transcript = f"{HELLO}\n" + jsonl({"role": "assistant", "content": content}) + HELLO
    first, body, code, last = cut(transcript)
    assert (body.kind, body.fragment.content) == ("body", "a" * 300 + "\n")
    assert (code.kind, code.fragment.content) == ("code", "```\n" + "b" * 300 + "\n```\n")
    span = last.byte_start - first.byte_end
    assert (body.byte_start, body.byte_end) == (first.byte_end, first.byte_end + span * 301 // len(content))
    assert (code.byte_start, code.byte_end) == (body.byte_end, last.byte_start)


# Shapes


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": ["hello"]},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "user", "content": {"type": "text", "text": "hello"}},
        {"role": "user", "parts": [{"text": "hello"}]},
        {"role": "user", "content": {"parts": [{"text": "hello"}]}},
        {"role": "user", "text": "hello"},
        {"role": "user", "message": "hello"},
        {"role": "user", "content": "hello", "message": {"id": 1}},
        {"type": "user", "message": {"role": "user", "content": "hello"}},
        {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "hello"}]}},
        {"type": "user", "message": {"content": "hello"}},
        {"type": "user", "message": "hello"},
        {"type": "user", "content": "hello"},
        {"message": {"role": "user", "content": "hello"}},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        },
        {"from": "user", "value": "hello"},
    ],
)
def test_a_message_is_read_in_every_shape_it_is_written_in_D46(message: dict[str, Any]) -> None:
    assert turns(message) == [("user", "hello")]
    assert turns({"timestamp": "2026-07-18T10:23:45Z", "uuid": "x", **message}) == [("user", "hello")]


def test_blocks_of_text_become_paragraphs() -> None:
    assert said([{"type": "text", "text": "one\ntwo"}, {"type": "output_text", "text": "three"}]) == "one\ntwo\n\nthree"
    assert said([]) == said(None) == said("") == ""


def test_a_call_of_a_tool_is_written_out_by_argument() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"path": "a.py", "new": "x = 1\ny = 2", "n": 2}}
    assert said([{"type": "text", "text": "Editing."}, block]) == (
        "Editing.\n\n[tool call Edit]\npath: a.py\nnew:\nx = 1\ny = 2\nn: 2"
    )
    assert said([{"type": "tool_use", "name": "List", "input": {}}]) == "[tool call List]"
    assert said([{"type": "tool_use", "name": "Draw", "input": {"type": "image", "of": "é"}}]) == (
        "[tool call Draw]\ntype: image\nof: é"
    )
    assert said([{"functionCall": {"name": "find", "args": {"what": ["a", 1]}}}]) == '[tool call find]\nwhat: ["a",1]'


def test_calls_beside_the_content_of_a_message_follow_it() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Nîmes"}'}}
    assert turns({"role": "assistant", "content": None, "tool_calls": [call, call]}) == [
        ("assistant", "[tool call weather]\ncity: Nîmes\n\n[tool call weather]\ncity: Nîmes")
    ]
    assert turns({"role": "assistant", "content": "So:", "function_call": {"name": "f", "arguments": "not json"}}) == [
        ("assistant", "So:\n\n[tool call f]\nnot json")
    ]
    assert turns({"role": "tool", "tool_call_id": "c1", "content": "sunny"}) == [("tool", "sunny")]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "tool_result", "content": "ok\n"}, "[tool result]\nok\n"),
        ({"type": "tool_result", "content": [{"type": "text", "text": "ok"}]}, "[tool result]\nok"),
        ({"type": "tool_result", "content": "lost", "is_error": True}, "[tool error]\nlost"),
        ({"type": "tool_result"}, "[tool result]"),
        ({"type": "tool_result", "content": '{"exact": 1}'}, '[tool result]\n{"exact": 1}'),
        (
            {"functionResponse": {"name": "f", "response": {"output": "a\nb", "code": 0}}},
            "[tool result]\noutput:\na\nb\ncode: 0",
        ),
    ],
)
def test_a_result_of_a_tool_is_its_text(block: dict[str, Any], text: str) -> None:
    assert said([block]) == text


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, "[thinking]\nHm."),
        ({"type": "redacted_thinking", "data": "c2VjcmV0"}, ""),
        ({"type": "image", "source": {"media_type": "image/png", "data": "iVBO"}}, "[image image/png]"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}, "[image_url]"),
        ({"type": "input_image", "image_url": "data:image/png;base64,iVBO"}, "[input_image]"),
        ({"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}, "[input_audio]"),
        ({"inlineData": {"mimeType": "image/jpeg", "data": "/9j/"}}, "[file image/jpeg]"),
        ({"type": "document", "title": "plan.txt", "source": {"type": "text", "data": "the plan"}}, "the plan"),
        ({"type": "document", "title": "plan.pdf", "source": {"data": "JVBE"}}, "[document plan.pdf]"),
        ({"type": "novel", "content": ["nested"]}, "nested"),
        ({"type": "novel", "value": 1}, '{"type":"novel","value":1}'),
        (5, "5"),
    ],
)
def test_other_blocks_are_read_named_or_shown_as_they_are(block: Any, text: str) -> None:
    assert said([block]) == text


@pytest.mark.parametrize("wrapped", [False, True])
def test_items_of_a_session_are_turns_of_those_who_make_them(wrapped: bool) -> None:
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "x"},
        {"type": "function_call", "name": "shell", "arguments": '{"command": "ls"}', "call_id": "1"},
        {"type": "function_call_output", "output": '{"output": "a\\nb\\n", "metadata": {"exit_code": 0}}'},
        {"type": "custom_tool_call", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "output": "done"},
    ]
    assert turns(*({"type": "response_item", "payload": item} if wrapped else item for item in items)) == [
        ("user", "go"),
        ("assistant", "[thinking]\nHm."),
        ("assistant", "[tool call shell]\ncommand: ls"),
        ("tool", 'output:\na\nb\n\nmetadata: {"exit_code":0}'),
        ("assistant", "[tool call patch]\n*** Begin"),
        ("tool", "done"),
    ]


def test_a_session_file_is_read_past_its_bookkeeping() -> None:
    tool = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make"}}
    result = {"tool_use_id": "t", "type": "tool_result", "content": "built"}
    assert turns(
        {"type": "summary", "summary": "Fixing the build", "leafUuid": "u"},
        {"type": "file-history-snapshot", "snapshot": {}},
        {"type": "user", "message": {"role": "user", "content": "fix it"}, "uuid": "u1"},
        {"type": "assistant", "message": {"role": "assistant", "content": [tool]}, "uuid": "u2"},
        {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": {"stdout": "built"}},
        {"type": "system", "subtype": "info", "content": "compacted", "level": "info"},
        {"type": "progress", "data": {"type": "hook"}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
    ) == [
        ("summary", "Fixing the build"),
        ("user", "fix it"),
        ("assistant", "[tool call Bash]\ncommand: make"),
        ("user", "[tool result]\nbuilt"),
        ("system", "compacted"),
    ]


def test_an_object_that_says_nothing_known_is_a_turn_as_it_was_written() -> None:
    odd = '{"speaker":  "alice", "says": "hé"}'
    assert [(one.role, one.fragment.content) for one in cut(f"{HELLO}\n  {odd}\n")][1] == (None, odd)
    assert turns({"role": "user", "content": "a"}, {"role": "user", "mood": "good"})[1] == (
        None,
        '{"role": "user", "mood": "good"}',
    )


def test_a_role_longer_than_a_name_is_cut() -> None:
    assert turns({"role": "r" * 100_000, "content": "x"}) == [("r" * 64, "x")]


def test_what_strict_json_forbids_and_agents_write_is_read() -> None:
    cuts = cut('{"role": "user", "content": "cut \\ud83d off", "score": NaN}\n')
    assert cuts[0].fragment.content == "cut \ufffd off"
    assert cut('{"role": "user", "content": "\\ud83d\\ude00", "score": 1e999}')[0].fragment.content == "😀"
    assert cut('{"role": "a", "role": "user", "content": "x"}')[0].role == "user"


@pytest.mark.parametrize("depth", [50, 500, 900])
def test_however_deep_a_message_is_nested_it_is_read(depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"content":', "}")):
        transcript = f'{{"role":"user","content":{opening * depth}"deep"{closing * depth}}}'
        assert "deep" in cut(f"{HELLO}\n{transcript}")[1].fragment.content


# Fragments


def test_markers_in_the_content_open_no_turn_and_small_turns_stay_whole() -> None:
    content = "one\nUser: two\n```\ncode\n```\n"
    [only] = cut(jsonl({"role": "user", "content": content}))
    assert (only.kind, only.fragment.kind, only.fragment.content) == ("body", None, content)
    assert [one.kind for one in cut(jsonl({"role": "user", "content": content}), SegmentationPolicy("auto", 0))] == [
        "body",
        "code",
    ]


def test_logs_and_code_are_found_in_what_tools_said_D45() -> None:
    content = f"$ make\n{LOG}done\n```\n{'x' * 300}\n```\nUser: no marker\n"
    cuts = cut(jsonl({"role": "tool", "content": content}))
    assert [one.kind for one in cuts] == ["body", "log", "body", "code", "body"]
    assert cuts[1].fragment.kind == "log"
    assert "".join(one.fragment.content for one in cuts) == content
    assert {(one.turn, one.role) for one in cuts} == {(0, "tool")}


def test_a_first_turn_of_the_system_is_cached_in_any_case() -> None:
    for role in ("system", "System", "SYSTEM"):
        first, second = cut(jsonl({"role": role, "content": "a"}, {"role": role, "content": "b"}))
        assert first.fragment.metadata == {"role": role, "turn": 0, "cache": True}
        assert second.fragment.metadata == {"role": role, "turn": 1}


def test_an_empty_message_is_an_empty_fragment() -> None:
    transcript = jsonl({"role": "user", "content": ""}, {"role": "assistant", "content": "x"})
    for policy in (AUTO, SegmentationPolicy("auto", 0)):
        empty, _ = cut(transcript, policy)
        assert (empty.fragment.content, empty.byte_start) == ("", 0)
        assert empty.byte_end == transcript.index("\n") + 1


def test_a_message_of_more_than_a_mebibyte_is_cut_and_its_parts_share_its_range() -> None:
    content = ("é" * 1_000 + "\n\n") * 1_200
    transcript = jsonl({"role": "user", "content": content}, {"role": "user", "content": "x"})
    cuts = cut(transcript)
    assert [one.turn for one in cuts] == [0, 0, 0, 1]
    assert "".join(one.fragment.content for one in cuts[:-1]) == content
    assert all(len(one.fragment.content.encode()) <= MAX_FRAGMENT_BYTES for one in cuts)
    assert [one.byte_start for one in cuts] == [0, *(one.byte_end for one in cuts[:-1])]


def test_turns_beyond_1024_are_windowed_and_those_of_one_role_say_it_once_D46() -> None:
    old = [{"role": "tool", "content": f"t{number}"} for number in range(4)]
    new = [{"role": role, "content": f"m{number}"} for number in range(511) for role in ("user", "assistant")]
    detected, cuts, merged = segment(jsonl(*old, *new), AUTO)
    assert (detected, len(cuts), merged) == ("jsonl", MAX_FRAGMENTS, 2)
    assert [(one.turn, one.role, one.fragment.content) for one in cuts[:3]] == [
        (0, "tool", "t0\n\nt1\n\nt2"),
        (3, "tool", "t3"),
        (4, "user", "m0"),
    ]


def test_a_window_of_several_roles_says_who_speaks() -> None:
    talk = [{"role": role, "content": f"m{number}"} for number in range(600) for role in ("user", "assistant")]
    transcript = jsonl({"role": "system", "content": "rules"}, *talk)
    cuts = cut(transcript)
    assert len(cuts) == MAX_FRAGMENTS
    assert cuts[0].fragment.content == "rules"
    assert (cuts[1].turn, cuts[1].role, cuts[1].fragment.content) == (1, None, "user: m0\n\nassistant: m0")
    assert cuts[-1].fragment.content == "m599"
    assert [one.byte_start for one in cuts] == [0, *(one.byte_end for one in cuts[:-1])]
    assert cuts[-1].byte_end == len(transcript)


def test_windows_of_parts_do_not_part_what_one_message_said() -> None:
    content = "".join(f"{number} {'a' * 300}\n\n{LOG}" for number in range(600))
    cuts = cut(jsonl({"role": "tool", "content": content}, {"role": "user", "content": "thanks"}))
    assert len(cuts) == MAX_FRAGMENTS
    assert "".join(one.fragment.content for one in cuts[:-1]) == content
    assert cuts[0].kind == "body"
