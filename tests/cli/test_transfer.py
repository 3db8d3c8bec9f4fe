"""``export`` and ``import`` (D31)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.command import COMMAND, PATIENCE, environment, errors, exported, jsonl, parsed, run
from velesdb_memory import Link, MemoryService
from velesdb_memory.ids import fact_id, hub_id
from velesdb_memory.limits import MAX_EPOCH_SECONDS

posix = pytest.mark.skipif(sys.platform == "win32", reason="files and terminals of POSIX")
FUTURE = 4_000_000_000


def line(text: str, **metadata: Any) -> dict[str, Any]:
    """A line as the reference writes it."""
    return {"id": fact_id(text), "id_str": str(fact_id(text)), "content": text, "metadata": metadata}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Facts with all that a fact can have, and edges."""
    folder = tmp_path / "store"
    with MemoryService(folder) as memory:
        first = memory.remember("the mill burned down", metadata={"n": 1, "x": 1.5, "deep": {"a": [1, None, "é"]}})
        second = memory.remember("a lamp fell", links=[Link(first, "caused")], metadata={"_veles_date": 20200102})
        memory.remember("kept for a while", ttl_seconds=10**9)
        memory.feedback(first, True)
        memory.feedback(first, False)
        memory.relate(first, second, "because of — 'x'\u3000")
    return folder


def stored(store: Path) -> dict[str, dict[str, Any]]:
    return {entry["content"]: entry for entry in exported(store, internal=True) if "content" in entry}


# -- export ---------------------------------------------------------------------------------------------------------


def test_an_export_is_a_manifest_then_facts_then_edges(store: Path) -> None:
    done = run("export", store=store)
    assert done.returncode == 0
    manifest, *lines = parsed(done.stdout)
    assert (manifest["velesdb_memory_export"], manifest["facts"], manifest["edges"]) == (1, 3, 2)
    assert ["content" in entry for entry in lines] == [True] * 3 + [False] * 2
    for entry in lines[:3]:
        assert entry["id_str"] == str(entry["id"]) == str(fact_id(entry["content"]))
        assert not [key for key in entry["metadata"] if key.startswith("_veles_") and key != "_veles_date"]
    assert [entry["id"] for entry in lines[:3]] == sorted(entry["id"] for entry in lines[:3])
    assert str(store) in errors(done)


def test_d31_an_export_read_back_is_the_same_store(store: Path, tmp_path: Path) -> None:
    for options in ((), ("--include-internal",)):
        data = run("export", *options, store=store).stdout
        other = tmp_path / f"other{len(options)}"
        done = run("import", "-", store=other, input=data)
        assert done.returncode == 0, errors(done)
        assert exported(other, internal=True) == exported(store, internal=True)


def test_d31_an_import_run_twice_changes_nothing(store: Path, tmp_path: Path) -> None:
    data = run("export", "--include-internal", store=store).stdout
    other = tmp_path / "other"
    run("import", "-", store=other, input=data)
    before = exported(other, internal=True)
    again = run("import", "-", store=other, input=data)
    assert again.returncode == 0
    assert "0 facts and 0 edges written" in errors(again) and "5 already there" in errors(again)
    assert exported(other, internal=True) == before
    # a store takes its own export just so
    assert "0 facts and 0 edges written" in errors(run("import", "-", store=store, input=data))


def test_internal_records_are_exported_only_when_asked_for(tmp_path: Path) -> None:
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["Ada likes tea"]}
    run("import", "-", store=tmp_path / "s", input=jsonl(entity))
    contents = [entry.get("content") for entry in exported(tmp_path / "s")]
    assert contents == ["Ada likes tea"]
    everything = parsed(run("export", "--include-internal", store=tmp_path / "s").stdout)[1:]
    assert everything == exported(tmp_path / "s", internal=True)
    assert {entry.get("kind") for entry in everything if "content" in entry} == {None, "hub"}
    assert [entry["attribute"]["value"] for entry in everything if "attribute" in entry] == ["person"]


def test_an_export_to_a_file_is_what_goes_to_standard_output(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    for option in ("-o", "--output"):
        done = run("export", option, str(target), store=store)
        assert (done.returncode, done.stdout) == (0, b"")
        assert parsed(target.read_bytes())[1:] == exported(store)


@posix
def test_an_exported_file_is_readable_by_its_owner_only_even_when_it_was_not(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    for _ in range(2):
        run("export", "-o", str(target), store=store)
        assert target.stat().st_mode & 0o777 == 0o600
        target.chmod(0o644)


def test_an_existing_file_is_replaced_whole(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_bytes(b"former\n" * 10_000)
    assert run("export", "-o", str(target), store=store).returncode == 0
    assert parsed(target.read_bytes())[1:] == exported(store)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "store"]


@posix
def test_an_export_that_runs_out_of_room_leaves_the_former_file(tmp_path: Path) -> None:
    store = filled(tmp_path, 1_500)
    target = tmp_path / "out.jsonl"
    target.write_bytes(b"former\n")
    limited = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
        f"sys.argv = ['velesdb-memory', 'export', '-o', {str(target)!r}];"
        "runpy.run_module('velesdb_memory', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited], capture_output=True, timeout=PATIENCE, env=environment(store)
    )
    assert done.returncode == 1
    assert "cannot be written" in errors(done) and "Traceback" not in errors(done)
    assert target.read_bytes() == b"former\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "store"]


def test_an_export_that_is_killed_leaves_the_former_file_or_the_whole_new_one(tmp_path: Path) -> None:
    store = filled(tmp_path, 4_000)
    target = tmp_path / "out.jsonl"
    whole = exported(store)
    for _ in range(3):
        target.write_bytes(b"former\n")
        process = subprocess.Popen(
            [*COMMAND, "export", "-o", str(target)], stderr=subprocess.DEVNULL, env=environment(store)
        )
        deadline = time.monotonic() + PATIENCE
        # the moment the new file appears beside it, or the process has ended
        while process.poll() is None and not list(tmp_path.glob(".out.jsonl.*")):
            assert time.monotonic() < deadline
        process.kill()
        process.wait(PATIENCE)
        data = target.read_bytes()
        assert data == b"former\n" or parsed(data)[1:] == whole
        for left in tmp_path.glob(".out.jsonl.*"):
            left.unlink()


def test_an_export_to_a_folder_that_is_not_there_is_refused_by_name(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "no" / "out.jsonl"
    done = run("export", "-o", str(target), store=store)
    assert (done.returncode, done.stdout) == (1, b"")
    assert str(target) in errors(done)


def filled(tmp_path: Path, facts: int) -> Path:
    store = tmp_path / "store"
    with MemoryService(store) as memory:
        report = memory.import_(json.dumps(line(f"barrel {n} holds rye from field {n * 7}", n=n)) for n in range(facts))
        assert report.facts == facts
    return store


@posix
def test_a_reader_that_leaves_early_ends_an_export_quietly(tmp_path: Path) -> None:
    store = filled(tmp_path, 3_000)
    process = subprocess.Popen(
        [*COMMAND, "export"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(store)
    )
    assert process.stdout is not None and process.stderr is not None
    first = process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert json.loads(first)["facts"] == 3_000
    assert process.wait(PATIENCE) == 0
    assert told == b""


@posix
def test_a_full_disk_behind_standard_output_is_told(store: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "export"], stdout=full, stderr=subprocess.PIPE, env=environment(store), timeout=PATIENCE
        )
    assert done.returncode == 1
    assert "cannot be written" in errors(done) and "Traceback" not in errors(done)


# -- import: the formats --------------------------------------------------------------------------------------------


def test_d31_the_references_export_is_read_with_what_it_learned(tmp_path: Path) -> None:
    store = tmp_path / "store"
    rated = line(
        "the mill burned down",
        topic="fire",
        _veles_date=20240131,
        _veles_rl_confidence=0.6000000238418579,
        _veles_rl_success=1,
        _veles_rl_failure=0,
    )
    lasting = line("kept for a while", _veles_expires_at=FUTURE)
    undated = line("a lamp fell")
    hub = {
        "id": hub_id("ada"),
        "id_str": str(hub_id("ada")),
        "content": "Entity: ada",
        "metadata": {"_veles_hub": True, "role": "miller"},
    }
    for round in range(2):
        done = run("import", "-", store=store, input=jsonl(rated, lasting, undated, hub))
        assert done.returncode == 0, errors(done)
        if round:
            assert "0 facts and 0 edges written" in errors(done)
    found = stored(store)
    assert found.keys() == {"the mill burned down", "kept for a while", "a lamp fell", "Entity: ada"}
    mill = found["the mill burned down"]
    assert (mill["confidence"], mill["successes"], mill["failures"]) == (0.6000000238418579, 1, 0)
    assert (mill["metadata"]["topic"], mill["metadata"]["_veles_date"]) == ("fire", 20240131)
    assert found["kept for a while"]["expires_at"] == FUTURE
    assert found["Entity: ada"]["kind"] == "hub"
    assert found["Entity: ada"]["metadata"]["role"] == "miller"
    with MemoryService(store) as memory:
        # entities stay out of searches
        assert {hit.content for hit in memory.recall("Entity ada mill lamp", k=10)} == found.keys() - {"Entity: ada"}
        assert memory.feedback(fact_id("the mill burned down"), True) == pytest.approx(0.7)


def test_d31_an_expiry_beyond_the_largest_saturates(tmp_path: Path) -> None:
    entry = {**line("kept for ages"), "expires_at": 10**30}
    assert run("import", "-", store=tmp_path / "s", input=jsonl(entry)).returncode == 0
    assert [found["expires_at"] for found in exported(tmp_path / "s")] == [MAX_EPOCH_SECONDS]


def test_d31_lines_of_the_reference_without_the_numeric_id_are_read(tmp_path: Path) -> None:
    text = "18446744073709551615 is the largest id"
    entry = {"id_str": str(fact_id(text)), "content": text, "metadata": {}}
    assert run("import", "-", store=tmp_path / "s", input=jsonl(entry)).returncode == 0
    assert [found["content"] for found in exported(tmp_path / "s")] == [text]


def test_d31_the_mcp_memory_servers_file_is_read_as_facts_entities_and_relations(tmp_path: Path) -> None:
    store = tmp_path / "store"
    lines = [
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["Ada runs the mill", "likes tea"]},
        {"type": "entity", "name": "Mill", "entityType": "building", "observations": []},
        {"type": "relation", "from": "Ada", "to": "Mill", "relationType": "owns"},
    ]
    done = run("import", "-", store=store, input=jsonl(*lines))
    assert done.returncode == 0, errors(done)
    before = exported(store, internal=True)
    facts = {entry["content"] for entry in before if "content" in entry and "kind" not in entry}
    # a sentence that does not name its subject gets it
    assert facts == {"Ada runs the mill", "Ada: likes tea"}
    relations = [entry["edge"]["relation"] for entry in before if "edge" in entry]
    assert sorted(relations) == ["about", "about", "mentions", "mentions", "owns"]
    again = run("import", "-", store=store, input=jsonl(*lines))
    assert (again.returncode, "0 facts and 0 edges written" in errors(again)) == (0, True)
    assert exported(store, internal=True) == before


def test_an_import_reads_files_standard_input_and_paths_under_home(store: Path, tmp_path: Path) -> None:
    data = run("export", store=store).stdout
    (tmp_path / "in.jsonl").write_bytes(data)
    for name, source in (("a", str(tmp_path / "in.jsonl")), ("b", "in.jsonl"), ("c", "~/in.jsonl")):
        done = run("import", source, store=tmp_path / name, cwd=tmp_path, HOME=str(tmp_path), USERPROFILE=str(tmp_path))
        assert done.returncode == 0, errors(done)
        assert exported(tmp_path / name) == exported(store)


def test_lines_may_be_blank_end_in_crlf_and_start_with_a_byte_order_mark(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + jsonl(line("first fact")) + b"\n\r\n" + jsonl(line("second fact")).replace(b"\n", b"\r\n")
    for name, source in (("stdin", "-"), ("file", str(tmp_path / "in.jsonl"))):
        (tmp_path / "in.jsonl").write_bytes(data)
        done = run("import", source, store=tmp_path / name, input=data if source == "-" else b"")
        assert done.returncode == 0, errors(done)
        assert {entry["content"] for entry in exported(tmp_path / name)} == {"first fact", "second fact"}


def test_an_empty_import_is_no_error(tmp_path: Path) -> None:
    done = run("import", "-", store=tmp_path / "s", input=b"\n\n")
    assert done.returncode == 0
    assert "0 facts and 0 edges written" in errors(done)


# -- import: what is refused ----------------------------------------------------------------------------------------


def test_bad_lines_are_reported_with_their_numbers_and_the_others_taken(tmp_path: Path) -> None:
    lines = [
        jsonl(line("first fact")),
        b"{not json\n",
        b"\n",
        b"[1, 2]\n",
        jsonl({**line("forged"), "id": 7, "id_str": "7"}),
        jsonl(line("second fact")),
        jsonl(line("has expired", _veles_expires_at=1)),
        jsonl({"neither": "this nor that"}),
        jsonl({"edge": {"from_str": "1", "to_str": "2", "relation": "r"}}),
        jsonl(line("x" * 2_049)),
    ]
    done = run("import", "-", store=tmp_path / "s", input=b"".join(lines))
    assert done.returncode == 1
    told = errors(done)
    numbers = {int(row.split()[1].rstrip(":")) for row in told.splitlines() if row.startswith("line ")}
    assert numbers == {2, 4, 5, 7, 8, 9, 10}
    assert "2 facts and 0 edges written" in told and "7 lines refused" in told
    assert {entry["content"] for entry in exported(tmp_path / "s")} == {"first fact", "second fact"}


FACT = line("hostile")
HOSTILE = {
    "kind is a list": {**FACT, "kind": []},
    "kind is unknown": {**FACT, "kind": "emperor"},
    "metadata is a list": {**FACT, "metadata": [1]},
    "metadata is text": {**FACT, "metadata": "x"},
    "content is a number": {**FACT, "content": 5},
    "content is null": {**FACT, "content": None},
    "content holds a surrogate": {**FACT, "content": "\ud800"},
    "hub holds a surrogate": {"id": 5, "kind": "hub", "content": "Entity: \ud800", "metadata": {}},
    "source holds a surrogate": {"id": 5, "kind": "source", "content": "\ud800", "metadata": {}},
    "metadata holds a surrogate": {**FACT, "metadata": {"x": "\ud800"}},
    "id is a float": {"id": 1.5, "content": "hostile", "metadata": {}},
    "id is missing": {"content": "hostile", "metadata": {}},
    "expiry is text": {**FACT, "expires_at": "soon"},
    "confidence is text": {**FACT, "confidence": "high"},
    "confidence is out of range": {**FACT, "confidence": 7},
    "successes are huge": {**FACT, "confidence": 0.5, "successes": 10**30},
    "successes are text": {**FACT, "confidence": 0.5, "successes": "many"},
    "number out of range": {**FACT, "metadata": {"n": 2**64}},
    "edge is a list": {"edge": [1, 2]},
    "edge is empty": {"edge": {}},
    "edge's teachers are a number": {
        "edge": {"from_str": FACT["id_str"], "to_str": "2", "relation": "r", "taught_by": 5}
    },
    "edge's relation is a number": {"edge": {"from_str": "1", "to_str": "2", "relation": 5}},
    "attribute is text": {"attribute": "x"},
    "attribute's key is a list": {"attribute": {"hub_str": "1", "key": [], "value": 1}},
    "attribute's hub is no hub": {"attribute": {"hub_str": FACT["id_str"], "key": "k", "value": 1}},
    "entity without a name": {"type": "entity", "observations": []},
    "entity whose name is a number": {"type": "entity", "name": 5, "observations": []},
    "entity whose name is punctuation": {"type": "entity", "name": "…", "observations": []},
    "observations are text": {"type": "entity", "name": "Ada", "observations": "x"},
    "an observation is a number": {"type": "entity", "name": "Ada", "observations": [5]},
    "relation without ends": {"type": "relation", "relationType": "r"},
    "relation to itself": {"type": "relation", "from": "Ada", "to": "ADA", "relationType": "r"},
    "relation without a type": {"type": "relation", "from": "Ada", "to": "Ben"},
    "manifest of the future": {"velesdb_memory_export": 99},
    "manifest is a list": {"velesdb_memory_export": [1]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_reported_and_harms_no_other(name: str, tmp_path: Path) -> None:
    # in this process: the command does nothing else with a line, and a hundred processes take long
    hostile = json.dumps(HOSTILE[name])
    with MemoryService(tmp_path) as memory:
        report = memory.import_([json.dumps(line("first fact")), hostile, json.dumps(line("last fact"))])
        assert [problem.line for problem in report.problems] == [2]
        assert (report.facts, report.edges, report.unchanged) == (2, 0, 0)
        listed = memory.list_memories(include_internal=True).memories
        assert {row.content for row in listed} == {"first fact", "last fact"}
        assert [finding for finding in memory.check() if not finding.sound] == []


NO_EXPORTS = [b'{"id": NaN}', b"[" * 100_000, b"\xff\xfe{}", b'{"content": 1e999, "id": 1}', b"null"]


@pytest.mark.parametrize("raw", NO_EXPORTS, ids=["NaN", "deep", "UTF-16", "infinite", "null"])
def test_bytes_that_are_no_export_are_refused_without_a_trace_of_python(raw: bytes, tmp_path: Path) -> None:
    done = run("import", "-", store=tmp_path / "s", input=raw + b"\n")
    assert (done.returncode, done.stdout) == (1, b"")
    assert 0 < len(done.stderr) < 2_000
    assert exported(tmp_path / "s") == []


def test_a_long_list_of_bad_lines_is_cut_and_counted(tmp_path: Path) -> None:
    done = run("import", "-", store=tmp_path / "s", input=jsonl(line("a fact")) + b"bad\n" * 500)
    assert done.returncode == 1
    assert len(errors(done).splitlines()) < 30
    assert "500 lines refused" in errors(done)


@pytest.mark.parametrize("name", ["nothing.jsonl", "."])
def test_an_import_of_what_cannot_be_read_is_refused_by_name(name: str, tmp_path: Path) -> None:
    done = run("import", str(tmp_path / name), store=tmp_path / "s")
    assert done.returncode == 1
    assert str(tmp_path / name) in errors(done)


def test_d30_an_import_into_a_store_of_another_model_is_refused_whole(store: Path, tmp_path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(store / "memory.db")
    with connection:
        connection.execute("UPDATE space SET model = 'other-model'")
    connection.close()
    before = exported(store)
    done = run("import", "-", store=store, input=jsonl(line("a new fact")))
    assert done.returncode == 1
    assert "other-model" in errors(done)
    assert exported(store) == before


# -- progress -------------------------------------------------------------------------------------------------------


@posix
def test_progress_is_shown_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(jsonl(*(line(f"barrel {number} of rye") for number in range(1_500))))
    on_terminal = on_a_terminal("import", str(source), store=tmp_path / "a")
    assert b"import" in on_terminal and b"/" in on_terminal and b"\x1b[" in on_terminal
    assert b"1500 facts" in on_terminal
    piped = run("import", str(source), store=tmp_path / "b")
    assert piped.returncode == 0
    assert b"\x1b" not in piped.stderr and len(piped.stderr.splitlines()) == 1
    shown = on_a_terminal("export", "-o", str(tmp_path / "out.jsonl"), store=tmp_path / "a")
    assert b"export" in shown and b"\x1b[" in shown
    # with standard output in a pipe, nothing but the export goes there
    assert len(exported(tmp_path / "a")) == 1_500


def on_a_terminal(*arguments: str, store: Path) -> bytes:
    """What a command writes to a terminal that is its standard error."""
    master, slave = os.openpty()
    try:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave,
            env=environment(store, TERM="xterm", COLUMNS="100"),
        )  # fmt: skip
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65_536)
            except OSError:  # Linux's way to say that nobody holds the other end
                break
            if not piece:
                break
            shown += piece
        assert process.wait(PATIENCE) == 0, shown.decode()
        return shown
    finally:
        os.close(master)
