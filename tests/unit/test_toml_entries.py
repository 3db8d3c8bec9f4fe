"""One table of a TOML document is changed, and not a byte beside it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.clients.tomltext import TomlFile
from velesdb_memory.errors import MalformedFile

FILE = TomlFile(("mcp_servers",))
ENTRY = {"command": "/x y", "args": ["--a", 'q"\\'], "env": {"K": "v", "a.b": "\x7f"}, "n": 3, "on": True}

SHAPES = {
    "nothing": "",
    "a setting": 'model = "o"\n',
    "no line end": 'model = "o"',
    "other server": '# mine\nmodel = "o"\n\n[mcp_servers.other]\ncommand = "o"\nenv = { A = "1" }\n',
    "windows": 'model = "o"\r\n\r\n[mcp_servers.other]\r\ncommand = "o"\r\n',
    "lookalikes": 'text = """\n[mcp_servers.mine]\ncommand = "no"\n"""\n[mcp_servers."mine.not"]\ncommand = "n"\n',
    "array of tables": '[[profiles]]\nname = "a"\n[[profiles]]\nname = "b"\n',
    "longer name": '[mcp_servers.mine-too]\ncommand = "o"\n\n[projects."/a/[b]"]\ntrust = true\n',
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_table_is_added_and_removed_and_everything_else_stays_as_it_was(shape: str) -> None:
    text = SHAPES[shape]
    after = FILE.put(text, "mine", ENTRY)
    assert after.startswith(text)
    expected = tomllib.loads(text)
    expected.setdefault("mcp_servers", {})["mine"] = ENTRY
    assert tomllib.loads(after) == expected
    assert FILE.entry(after, "mine") == ENTRY
    assert FILE.put(after, "mine", ENTRY) == after
    assert tomllib.loads(FILE.drop(after, "mine")) == tomllib.loads(text)
    if text.endswith("\n"):
        assert FILE.drop(after, "mine") == text
    if "\r" in text:
        assert "\n" not in after.replace("\r\n", "")


WRITTEN = """model = "o"
# the first
[mcp_servers.mine]
command = "old"
# a note of it

[mcp_servers.mine.env]
A = "1"

# the next
[mcp_servers.next]
command = "n"

[ mcp_servers . "mine" . tools.x ]
mode = "ask"
"""


def test_a_table_that_is_there_is_replaced_with_all_its_parts_where_it_stands() -> None:
    after = FILE.put(WRITTEN, "mine", {"command": "new"})
    assert (
        after
        == """model = "o"
# the first
[mcp_servers.mine]
command = "new"

# the next
[mcp_servers.next]
command = "n"
"""
    )
    assert (
        FILE.drop(WRITTEN, "mine")
        == """model = "o"
# the first

# the next
[mcp_servers.next]
command = "n"
"""
    )


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { mine = { command = "x" } }\n',
        'mcp_servers.mine.command = "x"\n',
        '[mcp_servers]\nmine = { command = "x" }\n',
        '[mcp_servers]\nmine.command = "x"\n',
        '[[mcp_servers.mine]]\ncommand = "x"\n',
        "mcp_servers = 3\n",
    ],
)
def test_an_entry_that_is_no_table_of_its_own_is_refused(text: str) -> None:
    for change in (lambda: FILE.put(text, "mine", ENTRY), lambda: FILE.drop(text, "mine")):
        with pytest.raises(MalformedFile, match=r"mine|mcp_servers"):
            change()


def test_what_only_looks_like_the_table_is_never_taken_for_it() -> None:
    text = 'text = """\n[mcp_servers.mine]\n"""\n[mcp_servers.mine]\ncommand = \'\'\'\n[mcp_servers.next]\n\'\'\'\n'
    assert FILE.drop(text, "mine") == 'text = """\n[mcp_servers.mine]\n"""\n'


@pytest.mark.parametrize(("text", "line"), [("a = 1\nb = \n", 2), ("a = 1\na = 2\n", 2), ("[x\n", 1), ("=", 1)])
def test_a_malformed_document_is_refused_with_its_place(text: str, line: int) -> None:
    for change in (lambda: FILE.put(text, "mine", ENTRY), lambda: FILE.drop(text, "mine")):
        with pytest.raises(MalformedFile) as caught:
            change()
        assert caught.value.line == line


PRINTABLE = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
ENTRIES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    PRINTABLE,
    PRINTABLE | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.lists(PRINTABLE, max_size=3),
    max_size=4,
)


@given(PRINTABLE, ENTRIES, ENTRIES)
def test_any_entry_is_read_back_as_it_was_written(name: str, entry: dict[str, Any], other: dict[str, Any]) -> None:
    text = FILE.put('model = "o"\n', "other", other)
    after = FILE.put(text, name, entry)
    assert FILE.entry(after, name) == entry
    if name != "other":
        assert FILE.entry(after, "other") == other
        assert FILE.drop(after, name) == text
