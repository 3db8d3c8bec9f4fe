"""One entry of a JSON document is changed, and not a byte beside it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.clients.jsonc import JsonFile
from velesdb_memory.errors import MalformedFile

FILE = JsonFile(("mcpServers",))
STRICT = JsonFile(("mcpServers",), lenient=False)
ENTRY = {"command": "/x", "args": ["--a"], "env": {"K": "v"}}

SHAPES = {
    "nothing": "",
    "blank": " \n",
    "empty": "{}",
    "empty with a line end": "{}\n",
    "no servers": '{\n  "theme": "dark"\n}\n',
    "empty servers": '{\n  "mcpServers": {}\n}\n',
    "other servers": '{\n  "mcpServers": {\n    "other": {"command": "o"}\n  },\n  "z": 1\n}\n',
    "one line": '{"a": 1, "mcpServers": {"other": {"command": "o"}}}',
    "one line, no servers": '{"a": [1, 2]}',
    "four spaces": '{\n    "mcpServers": {\n        "other": {}\n    }\n}',
    "tabs": '{\n\t"mcpServers": {\n\t\t"other": {}\n\t}\n}\n',
    "windows": '{\r\n  "mcpServers": {\r\n    "other": {}\r\n  }\r\n}\r\n',
    "byte order mark": '\ufeff{\n  "a": 1\n}\n',
    "braces in texts": '{\n  "a": "}{\\"mcpServers\\": {",\n  "mcpServers": {"o": "// {"}\n}\n',
}
LENIENT_SHAPES = {
    "comments": '// top\n{\n  // why\n  "theme": "dark", /* n */\n  "mcpServers": { // a\n    "o": 1 // one\n  }\n}\n',
    "trailing commas": '{\n  "mcpServers": {\n    "o": [1, 2,],\n  },\n}\n',
    "comment before the end": '{\n  "mcpServers": {\n    "o": 1\n    // "off": 2\n  }\n}\n',
    "only a comment inside": '{\n  "mcpServers": {\n    // none yet\n  }\n}\n',
    "only a comment": "// nothing yet\n",
}
ALL = {**SHAPES, **LENIENT_SHAPES}


def plain(text: str) -> Any:
    """The value of a document, by another way than the code's: comments and trailing commas are taken out."""
    kept = re.sub(
        r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/',
        lambda found: found[1] or "",
        text.removeprefix("\ufeff"),
        flags=re.DOTALL,
    )
    kept = re.sub(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', lambda found: found[1] or "", kept)
    return json.loads(kept) if kept.strip() else {}


@pytest.mark.parametrize("shape", ALL)
def test_an_entry_is_added_and_everything_else_stays_as_it_was(shape: str) -> None:
    text = ALL[shape]
    after = FILE.put(text, "mine", ENTRY)
    expected = plain(text)
    expected.setdefault("mcpServers", {})["mine"] = ENTRY
    assert plain(after) == FILE.document(after) == expected
    assert FILE.entry(after, "mine") == ENTRY
    # what was there is still there, in its order: only something was put between
    left = iter(after)
    assert all(character in left for character in text.rstrip())
    if "\r\n" in text:
        assert "\n" not in after.replace("\r\n", "")
    if text.startswith("\ufeff"):
        assert after.startswith("\ufeff{")
    if "\n" not in text.strip() and text.strip() not in ("", "{}") and "//" not in text:
        assert "\n" not in after
    if "\t" in text:
        assert '\n\t\t"mine": {\n\t\t\t"command"' in after


@pytest.mark.parametrize("shape", ALL)
def test_adding_an_entry_again_changes_nothing_and_removing_it_leaves_the_rest(shape: str) -> None:
    text = ALL[shape]
    after = FILE.put(text, "mine", ENTRY)
    assert FILE.put(after, "mine", ENTRY) == after
    other = FILE.put(after, "mine", {"command": "/y"})
    assert FILE.entry(other, "mine") == {"command": "/y"}
    assert FILE.put(other, "mine", ENTRY) == after
    dropped = FILE.drop(after, "mine")
    expected = plain(text)
    expected.setdefault("mcpServers", {})
    assert plain(dropped) == expected
    if "mcpServers" in plain(text) and shape not in ("empty servers", "only a comment inside"):
        assert dropped == text


@pytest.mark.parametrize("name", ["first", "middle", "last"])
@pytest.mark.parametrize("comma", ["", ","])
def test_an_entry_is_removed_from_anywhere_among_others(name: str, comma: str) -> None:
    text = '{\n  "mcpServers": {\n    "first": 1, // one\n    "middle": {"a": 2},\n    "last": 3' + comma + "\n  }\n}\n"
    dropped = FILE.drop(text, name)
    expected = plain(text)
    del expected["mcpServers"][name]
    assert plain(dropped) == expected
    assert FILE.drop(dropped, name) == dropped


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("{", 1, 2),
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3),
        ('{\n  "a": tru\n}', 2, 8),
        ('{"a": 1} x', 1, 10),
        ('{"a": "\n"}', 1, 7),
        ("{'a': 1}", 1, 2),
        ('{"a" 1}', 1, 6),
        ('{"a": [1 2]}', 1, 10),
        ('{"a": 01}', 1, 8),
        ('{"a": NaN}', 1, 7),
        ('{"a": "\\x"}', 1, 7),
        ("[]", 1, 1),
        ('{\n  "mcpServers": []\n}', 2, 17),
        ('{"mcpServers": {}, "mcpServers": {}}', 1, 20),
        ("{ /* }", 1, 3),
        ("{,}", 1, 2),
        ('{"a": 1,,}', 1, 9),
        ("{" + '"a":{' * 500, 1, None),
    ],
)  # fmt: skip
def test_a_malformed_document_is_refused_with_its_place(text: str, line: int, column: int | None) -> None:
    for change in (lambda: FILE.put(text, "mine", ENTRY), lambda: FILE.drop(text, "mine")):
        with pytest.raises(MalformedFile) as caught:
            change()
        assert caught.value.line == line
        assert column is None or caught.value.column == column


@pytest.mark.parametrize("shape", LENIENT_SHAPES)
def test_where_a_program_reads_plain_json_comments_and_trailing_commas_are_malformed(shape: str) -> None:
    with pytest.raises(MalformedFile):
        STRICT.put(LENIENT_SHAPES[shape], "mine", ENTRY)


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_json_is_changed_the_same_where_nothing_else_is_allowed(shape: str) -> None:
    assert STRICT.put(SHAPES[shape], "mine", ENTRY) == FILE.put(SHAPES[shape], "mine", ENTRY)


def test_a_new_file_begins_with_what_its_program_expects() -> None:
    made = JsonFile(("mcp",), empty={"version": 1}).put("", "mine", ENTRY)
    assert json.loads(made) == {"version": 1, "mcp": {"mine": ENTRY}}
    assert made.endswith("}\n")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.text(), VALUES, max_size=4)
SERVERS = st.dictionaries(st.text(), VALUES, max_size=3)


@given(DOCUMENTS, st.none() | SERVERS, st.text(), VALUES, st.sampled_from([None, 2, "\t"]))
def test_any_document_gains_exactly_the_entry_and_loses_exactly_it(
    document: dict[str, Any], servers: dict[str, Any] | None, name: str, value: Any, indent: int | str | None
) -> None:
    document.pop("mcpServers", None)
    if servers is not None:
        document["mcpServers"] = {key: item for key, item in servers.items() if key != name}
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    after = STRICT.put(text, name, value)
    expected = {**document, "mcpServers": {**document.get("mcpServers", {}), name: value}}
    assert json.loads(after) == expected
    assert list(json.loads(after)) == list(expected)
    dropped = STRICT.drop(after, name)
    assert json.loads(dropped) == {**document, "mcpServers": document.get("mcpServers", {})}
    if document.get("mcpServers"):
        assert dropped == text


@given(st.text(alphabet='{}[]":,/*\\ \n\rab01.-eE\ufefftruefalsn', max_size=60))
def test_any_text_is_read_as_json_reads_it_or_refused(text: str) -> None:
    try:
        expected: Any = json.loads(text.removeprefix("\ufeff"))
    except ValueError:
        expected = ...
    try:
        found = STRICT.document(text)
    except MalformedFile:
        found = ...
    if isinstance(expected, dict):
        assert found == expected
    elif text.removeprefix("\ufeff").strip(" \t\r\n"):
        assert found is ...
