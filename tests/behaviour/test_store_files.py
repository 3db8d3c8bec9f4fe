"""The files of a store: derived ones may be damaged, foreign ones are left alone (D28, D29, D31)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Opener
from support.stores import assert_sound, code_files, contents, files_of, listed
from velesdb_memory import ColumnFilter, MemoryService
from velesdb_memory.errors import (
    StorageError,
    StoreCorrupt,
    StoreForeign,
    StoreTooNew,
    StoreUnwritable,
    VelesMemoryError,
)
from velesdb_memory.testing import FixedEmbedder

FACTS = 150  # more than a search fetches before it has to trust the codes


def fill(memory: MemoryService) -> None:
    for n in range(FACTS):
        memory.remember(f"fact number {n}", metadata={"odd": n % 2 == 1})


def answers(memory: MemoryService) -> list[Any]:
    """What searches of every kind find."""
    found: list[Any] = [[hit.id for hit in memory.recall(f"fact number {n}", 3)] for n in range(0, FACTS, 10)]
    found.append([hit.id for hit in memory.recall("number 77", 10, {"odd": True})])
    found.append([hit.id for hit in memory.recall_where("number 78", [ColumnFilter("odd", "eq", False)], 5)])
    found.append([hit.id for hit in memory.recall("fact", 1_000)])
    found.append([node.id for node in memory.why("fact number 33").nodes])
    return found


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(7)


def empty(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(0)


def randomise(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(np.random.default_rng(1).bytes(size))


def zero(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(bytes(size))


def replace_by_another_file(path: Path) -> None:
    size = path.stat().st_size
    path.unlink()
    path.write_bytes(np.random.default_rng(2).bytes(size))


DAMAGE: list[Callable[[Path], None]] = [delete, truncate, empty, randomise, zero, replace_by_another_file]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A closed store, to be copied, and what searches find in it."""
    folder = tmp_path_factory.mktemp("sample")
    with MemoryService(folder, FixedEmbedder()) as memory:
        fill(memory)
        return folder, answers(memory)


@pytest.fixture
def copy(sample: tuple[Path, list[Any]], folder: Path) -> tuple[Path, list[Any]]:
    shutil.copytree(sample[0], folder)
    return folder, sample[1]


def damaged_files(folder: Path, which: str) -> list[Path]:
    return [path for path in code_files(folder) if which in ("all", path.name.split("-")[0])]


WHICH = ["codes", "scales", "slots", "all"]


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_D29_derived_files_damaged_while_the_store_was_closed_are_rebuilt(
    open_memory: Opener, copy: tuple[Path, list[Any]], damage: Callable[[Path], None], which: str
) -> None:
    folder, expected = copy
    for path in damaged_files(folder, which):
        damage(path)
    memory = open_memory()
    assert answers(memory) == expected
    assert_sound(memory)
    memory.remember("one more")
    assert contents(memory.recall("one more", 1)) == ["one more"]
    assert_sound(memory)


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_D29_derived_files_damaged_while_the_store_is_open_are_rebuilt(
    open_memory: Opener, copy: tuple[Path, list[Any]], damage: Callable[[Path], None], which: str
) -> None:
    folder, expected = copy
    memory = open_memory()
    assert answers(memory) == expected
    for path in damaged_files(folder, which):
        damage(path)
    assert answers(memory) == expected
    memory.remember("one more")
    assert contents(memory.recall("one more", 1)) == ["one more"]
    # what the open service reads may be right while the file that a new one would read is not
    memory.close()
    memory = open_memory()
    assert contents(memory.recall("one more", 1)) == ["one more"]
    memory.forget(memory.remember("one more"))
    assert answers(memory) == expected
    assert_sound(memory)


@pytest.mark.parametrize("damage", [delete, randomise], ids=lambda damage: damage.__name__)
def test_D29_a_write_comes_first_after_the_damage(
    open_memory: Opener, copy: tuple[Path, list[Any]], damage: Callable[[Path], None]
) -> None:
    memory = open_memory()
    memory.remember("before")
    for path in code_files(copy[0]):
        damage(path)
    memory.remember("after")
    assert {hit.content for text in ("before", "after") for hit in memory.recall(text, 1)} == {"before", "after"}
    memory.close()
    memory = open_memory()
    assert {hit.content for text in ("before", "after") for hit in memory.recall(text, 1)} == {"before", "after"}


@pytest.mark.parametrize("which", WHICH)
def test_D29_files_of_another_store_are_not_taken_for_ones_own(
    open_memory: Opener, copy: tuple[Path, list[Any]], tmp_path: Path, which: str
) -> None:
    folder, expected = copy
    with open_memory(tmp_path / "other") as other:
        for n in range(FACTS):
            other.remember(f"something else {n}")
    for mine, theirs in zip(code_files(folder), code_files(tmp_path / "other"), strict=True):
        if which in ("all", mine.name.split("-")[0]):
            shutil.copyfile(theirs, mine)
    assert answers(open_memory()) == expected


def test_D29_files_of_an_earlier_state_are_not_taken_for_the_present(
    open_memory: Opener, copy: tuple[Path, list[Any]]
) -> None:
    folder, _ = copy
    former = {path: path.read_bytes() for path in code_files(folder)}
    with open_memory() as memory:
        memory.remember("newest")
        expected = answers(memory)
    for path, data in former.items():
        path.write_bytes(data)
    memory = open_memory()
    assert contents(memory.recall("newest", 1)) == ["newest"]
    assert answers(memory) == expected


def test_D29_a_few_flipped_bytes_are_found_and_repaired(open_memory: Opener, copy: tuple[Path, list[Any]]) -> None:
    folder, expected = copy
    memory = open_memory()
    codes = next(path for path in code_files(folder) if path.name.startswith("codes"))
    with codes.open("r+b") as file:
        file.seek(40 * 32)
        row = file.read(32)
        file.seek(40 * 32)
        file.write(bytes(byte ^ 0x80 for byte in row))
    assert [finding.subject for finding in memory.check() if not finding.sound] == ["codes"]
    assert [finding.subject for finding in memory.check(repair=True) if finding.repaired] == ["codes"]
    assert answers(memory) == expected
    assert_sound(memory)


@pytest.mark.parametrize("damage", [delete, truncate, randomise], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("opened", [True, False])
def test_D29_files_are_rebuilt_also_where_most_facts_were_forgotten(
    open_memory: Opener, copy: tuple[Path, list[Any]], damage: Callable[[Path], None], opened: bool
) -> None:
    memory = open_memory()
    for n in range(FACTS - 5):
        memory.forget(memory.remember(f"fact number {n}"))
    rest = {entry.id for entry in listed(memory)}
    if not opened:
        memory.close()
        memory = open_memory()
    for path in code_files(copy[0]):
        damage(path)
    assert {hit.id for hit in memory.recall("fact", 10, {"odd": True})} | {
        hit.id for hit in memory.recall("fact", 10, {"odd": False})
    } == rest
    assert {hit.id for hit in memory.recall("fact", 10)} == rest
    assert_sound(memory)


@pytest.mark.parametrize("damage", [delete, truncate, randomise], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("first", ["read", "write"])
def test_D29_files_are_rebuilt_also_where_all_facts_were_forgotten(
    open_memory: Opener, folder: Path, damage: Callable[[Path], None], opened: bool, first: str
) -> None:
    memory = open_memory()
    for number in [memory.remember(f"fact {n}") for n in range(5)]:
        memory.forget(number)
    if not opened:
        memory.close()
        memory = open_memory()
    for path in code_files(folder):
        damage(path)
    if first == "read":
        assert memory.recall("fact") == []
    memory.remember("fresh")
    assert contents(memory.recall("fresh")) == ["fresh"]
    assert_sound(memory)


@pytest.mark.parametrize(
    ("statement", "subject"),
    [
        ("DELETE FROM facet WHERE slot % 7 = 0", "facets"),
        ("UPDATE facet SET value = 5 WHERE slot = 3 AND field = 'odd'", "facets"),
        ("DELETE FROM posting WHERE term = 'number'", "words"),
        ("UPDATE tally SET value = value + 1 WHERE name = 'lexical.tokens'", "words"),
        ("INSERT INTO edge (id, src, dst, relation, stated) VALUES (1, 2, 3, 'x', 1)", "edges"),
    ],
)
def test_D29_check_finds_and_repairs_what_is_derived_inside_the_database(
    open_memory: Opener, copy: tuple[Path, list[Any]], statement: str, subject: str
) -> None:
    folder, expected = copy
    with closing(sqlite3.connect(folder / "memory.db")) as connection, connection:
        connection.execute(statement)
    memory = open_memory()
    assert [finding.subject for finding in memory.check() if not finding.sound] == [subject]
    assert [finding.subject for finding in memory.check(repair=True) if finding.repaired] == [subject]
    assert_sound(memory)
    assert answers(memory) == expected


def test_check_tells_of_a_missing_vector(open_memory: Opener, copy: tuple[Path, list[Any]]) -> None:
    with closing(sqlite3.connect(copy[0] / "memory.db")) as connection, connection:
        connection.execute("DELETE FROM embedding WHERE key = (SELECT min(key) FROM embedding)")
    unsound = [finding for finding in open_memory().check() if not finding.sound]
    assert "vectors" in [finding.subject for finding in unsound]
    assert all(finding.advice for finding in unsound)


def test_check_reports_progress(open_memory: Opener, copy: tuple[Path, list[Any]]) -> None:
    seen: list[tuple[str, int, int]] = []
    open_memory().check(progress=lambda *step: seen.append(step))
    assert seen and all(0 <= done <= total for _, done, total in seen)


# -- files that are not ours -------------------------------------------------------------------------------------


def sqlite_file(path: Path, *statements: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def refused(folder: Path, kind: type[StorageError]) -> StorageError:
    """The error of opening ``folder``, which must leave it byte for byte as it was."""
    before = files_of(folder)
    for _ in range(2):
        with pytest.raises(kind) as caught:
            MemoryService(folder, FixedEmbedder())
        assert type(caught.value) is kind and isinstance(caught.value, RuntimeError)
        assert files_of(folder) == before
    return caught.value


@pytest.mark.parametrize("data", [b"hello, I am a text\n" * 50, b"SQLite", b"\0" * 4_096, os.urandom(5_000)])
def test_a_file_that_is_no_database_is_left_alone(folder: Path, data: bytes) -> None:
    folder.mkdir()
    (folder / "memory.db").write_bytes(data)
    refused(folder, StoreForeign)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE notes (text)", "INSERT INTO notes VALUES ('mine')"],
        ["PRAGMA application_id = 77", "CREATE TABLE notes (text)"],
        ["PRAGMA application_id = 77"],
        ["PRAGMA user_version = 3", "CREATE TABLE memory (id)"],
    ],
)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_the_database_of_another_program_is_left_alone(folder: Path, statements: list[str], journal: str) -> None:
    sqlite_file(folder / "memory.db", "CREATE TABLE tmp (a)", "DROP TABLE tmp", *statements)
    sqlite_file(folder / "memory.db", f"PRAGMA journal_mode = {journal}")
    refused(folder, StoreForeign)


def test_D31_a_store_of_a_newer_version_is_left_alone(open_memory: Opener, folder: Path) -> None:
    with open_memory() as memory:
        memory.remember("x")
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute(f"PRAGMA user_version = {version + 1}")
    assert str(version + 1) in str(refused(folder, StoreTooNew))


@pytest.mark.parametrize("start", [16, 100])
def test_a_damaged_database_is_reported_and_left_alone(copy: tuple[Path, list[Any]], start: int) -> None:
    path = copy[0] / "memory.db"
    data = path.read_bytes()
    path.write_bytes(data[:start] + np.random.default_rng(4).bytes(len(data) - start))
    before = files_of(copy[0])
    with pytest.raises(StorageError) as caught:
        MemoryService(copy[0], FixedEmbedder())
    # random header fields may look like another program's or a newer version's first
    assert isinstance(caught.value, StoreCorrupt | StoreForeign | StoreTooNew)
    assert files_of(copy[0]) == before


def test_damage_inside_the_database_is_an_error_and_never_a_wrong_answer(
    open_memory: Opener, copy: tuple[Path, list[Any]]
) -> None:
    path = copy[0] / "memory.db"
    data = bytearray(path.read_bytes())
    random = np.random.default_rng(4)
    for page in range(8, len(data) // 4_096):
        data[page * 4_096 : (page + 1) * 4_096] = random.bytes(4_096)
    path.write_bytes(data)
    seen = 0
    try:
        memory = open_memory()
    except StorageError:
        return
    for call in (
        lambda: memory.recall("fact"),
        lambda: listed(memory),
        lambda: memory.remember("x", metadata={"k": 1}),
        lambda: list(memory.export()),
        lambda: memory.memory_status(),
    ):
        try:
            call()
        except VelesMemoryError as error:
            assert isinstance(error, StorageError)
            seen += 1
    assert seen
    database = memory.check()[0]
    assert (database.subject, database.sound) == ("database", False) and database.advice


def test_a_file_in_place_of_the_directory_is_refused(folder: Path) -> None:
    folder.write_text("a file", encoding="utf-8")
    with pytest.raises(StoreUnwritable):
        MemoryService(folder, FixedEmbedder())
    with pytest.raises(StoreUnwritable):
        MemoryService(folder / "below", FixedEmbedder())
    assert folder.read_text(encoding="utf-8") == "a file"


def test_a_directory_in_place_of_the_database_is_refused(folder: Path) -> None:
    (folder / "memory.db").mkdir(parents=True)
    with pytest.raises(StoreUnwritable):
        MemoryService(folder, FixedEmbedder())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is denied to root")
def test_a_directory_that_may_not_be_written_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o500)
    with pytest.raises(StoreUnwritable):
        MemoryService(folder, FixedEmbedder())
    folder.chmod(0o700)


def test_a_path_that_no_file_system_takes_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(VelesMemoryError):
        MemoryService(tmp_path / "a\0b", FixedEmbedder())
    with pytest.raises(VelesMemoryError):
        MemoryService(tmp_path / ("x" * 5_000), FixedEmbedder())


def test_C20_missing_folders_are_made_and_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with MemoryService("~/deep/er/store", FixedEmbedder()) as memory:
        assert memory.memory_status().store.path == str(tmp_path / "deep/er/store")
        memory.remember("x")
    assert (tmp_path / "deep/er/store/memory.db").stat().st_mode & 0o077 in (0, 0o044)


def test_an_empty_file_becomes_a_store(folder: Path) -> None:
    folder.mkdir()
    (folder / "memory.db").touch()
    with MemoryService(folder, FixedEmbedder()) as memory:
        memory.remember("x")
        assert_sound(memory)


def test_a_copied_folder_is_the_same_memory(open_memory: Opener, folder: Path, tmp_path: Path) -> None:
    with open_memory() as memory:
        fill(memory)
        expected = answers(memory)
    shutil.copytree(folder, tmp_path / "copy")
    copied = open_memory(tmp_path / "copy")
    assert answers(copied) == expected
    assert_sound(copied)


# -- a full disk -------------------------------------------------------------------------------------------------

FULL_DISK = """
import json, resource, sys
from velesdb_memory import MemoryService
from velesdb_memory.errors import StorageError
from velesdb_memory.testing import FixedEmbedder

memory = MemoryService(sys.argv[1], FixedEmbedder())
stored, failure = [], None
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
for n in range(3_000):
    try:
        stored.append(memory.remember(f"fact {n}", metadata={"pad": "x" * 2_000}))
    except StorageError as error:
        failure = type(error).__name__
        break
readable = len(memory.recall("fact", 1_000))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
after = memory.remember("there is room again")
print(json.dumps({"stored": stored, "failure": failure, "readable": readable, "after": after}))
memory.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs setrlimit")
@pytest.mark.parametrize("limit", [200_000, 600_000, 1_500_000])
def test_D6_a_full_disk_costs_the_one_write_and_nothing_else(open_memory: Opener, folder: Path, limit: int) -> None:
    import json

    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(folder), str(limit)],
        capture_output=True, text=True, encoding="utf-8", timeout=100, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    outcome = json.loads(run.stdout)
    assert outcome["failure"] is not None
    assert outcome["readable"] == len(outcome["stored"])
    memory = open_memory()
    assert {entry.id for entry in listed(memory, limit=1_000)} == {*outcome["stored"], outcome["after"]}
    assert contents(memory.recall("there is room again", 1)) == ["there is room again"]
    assert_sound(memory)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_what_is_remembered_is_readable_by_its_user_only(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    with MemoryService(shared) as memory:
        memory.remember("a secret")
        modes = {path.name: path.stat().st_mode & 0o077 for path in shared.iterdir()}
    assert set(modes.values()) == {0}, modes
