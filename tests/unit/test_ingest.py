"""Reading the files that fragments name, with real files below real roots."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest

from velesdb_memory.context import ingest
from velesdb_memory.context.ingest import SETTING, Roots, elsewhere
from velesdb_memory.context.model import ContextFragment, Media
from velesdb_memory.errors import (
    ContextOverLimit,
    IngestDisabled,
    IngestOutsideRoots,
    IngestPath,
    InvalidArgument,
    VelesMemoryError,
)
from velesdb_memory.limits import MAX_INGEST_FILE_BYTES, MAX_TRANSCRIPT_BYTES

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and FIFOs of POSIX")
SECRET = "the secret outside"


@pytest.fixture(params=["stepwise", "whole"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening a file, wherever the system has both."""
    if request.param == "whole":
        monkeypatch.setattr(ingest, "_STEPWISE", False)
    elif not ingest._STEPWISE:
        pytest.skip("this system cannot open relative to a directory")
    return request.param


@pytest.fixture
def root(tmp_path: Path, way: str) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET, encoding="utf-8")
    return folder


def opened(*folders: Path) -> Roots:
    return Roots.from_setting(os.pathsep.join(map(str, folders)))


def read(roots: Roots, path: Path | str) -> str:
    [resolved] = roots.resolve_fragments([ContextFragment(path=str(path))])
    assert resolved.path is None
    return resolved.content


def refused(error: type[VelesMemoryError], roots: Roots, path: Path | str, *others: Path) -> VelesMemoryError:
    """The error for ``path``: the same for a fragment as for a transcript, with the path as it was asked for."""
    with pytest.raises(error) as first:
        roots.resolve_fragments([ContextFragment(content="a"), ContextFragment(path=str(path))])
    with pytest.raises(error) as second:
        roots.read_transcript(str(path))
    assert (first.value.field, second.value.field) == ("fragments[1].path", "path")
    for raised in (first.value, second.value):
        assert str(path) in str(raised) or not str(path).isprintable()
        assert not any(str(other) in str(raised) for other in others)
    return first.value


# -- the setting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "", os.pathsep, os.pathsep * 3])
def test_without_roots_reading_is_disabled_and_texts_pass_as_they_are(value: str | None, tmp_path: Path) -> None:
    roots = Roots.from_setting(value)
    fragments = [ContextFragment(content="text", id=7), ContextFragment()]
    assert roots.resolve_fragments(fragments) == fragments
    (tmp_path / "file").write_text("text", encoding="utf-8")
    for path in (str(tmp_path / "file"), "relative", ""):
        with pytest.raises(IngestDisabled, match=SETTING):
            roots.resolve_fragments([*fragments, ContextFragment(path=path)])
        with pytest.raises(IngestDisabled, match=SETTING):
            roots.read_transcript(path)


def test_roots_are_a_list_as_in_path_and_empty_entries_are_passed_over(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name, encoding="utf-8")
    roots = Roots.from_setting(os.pathsep.join(["", str(tmp_path / "a"), "", str(tmp_path / "b"), ""]))
    assert [read(roots, tmp_path / name / "file") for name in "ab"] == ["a", "b"]


@pytest.mark.parametrize("entry", ["missing", "file", "  ", "file/below"])
def test_an_entry_that_is_no_directory_is_named_with_its_setting(entry: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text", encoding="utf-8")
    named = str(tmp_path / entry)
    with pytest.raises(InvalidArgument) as raised:
        Roots.from_setting(os.pathsep.join([str(tmp_path), named]))
    assert named in str(raised.value) and SETTING in str(raised.value)
    assert raised.value.field == SETTING


def test_a_home_is_expanded_and_one_that_nobody_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "notes").mkdir()
    assert Roots.from_setting("~/notes").directories == (Path(os.path.realpath(tmp_path / "notes")),)
    with pytest.raises(InvalidArgument, match="~nobody-has-this-name"):
        Roots.from_setting("~nobody-has-this-name/notes")


@posix
def test_a_root_that_is_a_link_opens_what_it_leads_to(root: Path, tmp_path: Path) -> None:
    (root / "file").write_text("text", encoding="utf-8")
    (tmp_path / "link").symlink_to(root)
    assert read(opened(tmp_path / "link"), root / "file") == "text"
    assert read(opened(tmp_path / "link"), tmp_path / "link" / "file") == "text"
    assert read(opened(root), tmp_path / "link" / "file") == "text"


# -- what is read ---------------------------------------------------------------------------------------------------


def test_the_text_replaces_the_path_and_everything_else_stays(root: Path) -> None:
    text = "naïve\r\n漢字 😅\n\x1c\ufeff no newline at the end"
    (root / "deep").mkdir()
    (root / "deep" / "notes – 漢字.md").write_bytes(text.encode())
    image = ContextFragment(content="caption", media=Media("image/png", "AAAA"))
    asked = ContextFragment(
        id=7, path=str(root / "deep" / "notes – 漢字.md"), kind="code", priority=3, metadata={"verbatim": True}
    )
    resolved = opened(root).resolve_fragments([image, asked])
    assert resolved == [image, ContextFragment(text, 7, None, "code", 3, {"verbatim": True})]
    assert opened(root).read_transcript(str(root / "deep" / "notes – 漢字.md")) == text


def test_an_empty_file_is_an_empty_text(root: Path) -> None:
    (root / "empty").touch()
    assert read(opened(root), root / "empty") == ""


def test_a_byte_order_mark_is_text(root: Path) -> None:
    (root / "bom").write_bytes(b"\xef\xbb\xbftext")
    assert read(opened(root), root / "bom") == "\ufefftext"


@pytest.mark.parametrize(
    ("head", "image"), [(b"\x89PNG\r\n\x1a\n\0", True), (b"\xff\xd8\xff\xe0", True), (b"\xe9", False)]
)
def test_what_is_not_utf8_is_refused_and_an_image_is_told_where_it_belongs(
    head: bytes, image: bool, root: Path
) -> None:
    (root / "file").write_bytes(head + b"rest")
    error = refused(IngestPath, opened(root), root / "file")
    assert "UTF-8" in str(error)
    assert ("media" in str(error)) is image


def test_a_surrogate_written_as_three_bytes_is_not_utf8(root: Path) -> None:
    (root / "file").write_bytes(b"a\xed\xa0\x80b")
    refused(IngestPath, opened(root), root / "file")


# -- where it may lie -----------------------------------------------------------------------------------------------


def test_a_path_that_climbs_out_is_outside_and_one_that_comes_back_is_not(root: Path) -> None:
    (root / "deep").mkdir()
    (root / "file").write_text("text", encoding="utf-8")
    refused(IngestOutsideRoots, opened(root), root / ".." / "outside" / "secret.txt")
    refused(IngestOutsideRoots, opened(root), root / "deep" / ".." / ".." / "outside" / "secret.txt")
    assert read(opened(root), root / ".." / "root" / "deep" / ".." / "file") == "text"


def test_a_sibling_that_begins_with_the_roots_name_is_outside(root: Path, tmp_path: Path) -> None:
    for name in ("root-evil", "root2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(SECRET, encoding="utf-8")
        refused(IngestOutsideRoots, opened(root), tmp_path / name / "file")
    (tmp_path / "rootfile").write_text(SECRET, encoding="utf-8")
    refused(IngestOutsideRoots, opened(root), tmp_path / "rootfile")


def test_an_error_does_not_tell_whether_something_outside_exists(root: Path, tmp_path: Path) -> None:
    there, missing = tmp_path / "outside" / "secret.txt", tmp_path / "outside" / "nosuch.txt"
    below, behind = there / "below", tmp_path / "nosuch" / "secret.txt"
    folder = tmp_path / "outside"
    answers = {
        str(refused(IngestOutsideRoots, opened(root), path)).replace(str(path), "PATH")
        for path in (there, missing, below, behind, folder)
    }
    assert len(answers) == 1


@posix
def test_links_are_followed_and_what_they_lead_to_decides(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (root / "deep").mkdir()
    (root / "deep" / "file").write_text("text", encoding="utf-8")
    links = {
        "inside": root / "deep" / "file",
        "inside-folder": root / "deep",
        "relative": Path("deep") / "file",
        "out": outside / "secret.txt",
        "out-folder": outside,
        "out-relative": Path("..") / "outside" / "secret.txt",
        "out-missing": outside / "nosuch.txt",
        "dangling": root / "nosuch",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    (root / "chain").symlink_to(root / "out-folder")
    (root / "loop").symlink_to(root / "loop")
    (outside / "back").symlink_to(root)
    roots = opened(root)
    for path in ("inside", "inside-folder/file", "relative"):
        assert read(roots, root / path) == "text"
    assert read(roots, outside / "back" / "inside") == "text"
    for path in ("out", "out-relative", "out-missing", "out-folder/secret.txt", "out-folder/no", "chain/secret.txt"):
        refused(IngestOutsideRoots, roots, root / path, outside)
    for path in ("dangling", "loop", "loop/file"):
        refused(IngestPath, roots, root / path)


@posix
@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_link_put_there_after_the_check_is_not_followed(
    swapped: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = root / "folder" / "secret.txt"
    target.parent.mkdir()
    target.write_text("harmless", encoding="utf-8")
    real = ingest._resolved

    def resolve(path: str) -> Path:
        answer = real(path)
        if not (target.is_symlink() or target.parent.is_symlink()):
            if swapped == "file":
                target.unlink()
                target.symlink_to(tmp_path / "outside" / "secret.txt")
            else:
                target.parent.rename(root / "away")
                target.parent.symlink_to(tmp_path / "outside")
        return answer

    monkeypatch.setattr(ingest, "_resolved", resolve)
    with pytest.raises(IngestPath) as raised:
        read(opened(root), target)
    assert SECRET not in str(raised.value)


@posix
def test_a_file_put_in_the_place_of_the_one_that_was_checked_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "_STEPWISE", False)
    checked, other = tmp_path / "file", tmp_path / "other"
    checked.write_text("harmless", encoding="utf-8")
    other.write_text(SECRET, encoding="utf-8")
    real = os.open

    def swapping(path: Any, *arguments: Any, **named: Any) -> int:
        if other.exists():
            other.replace(checked)
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", swapping)
    with pytest.raises(IngestPath, match="replaced"):
        read(opened(tmp_path), checked)


@pytest.mark.parametrize(
    ("path", "foreign"),
    [
        (r"C:\notes\file", False),
        (r"\\server\share\file", True),
        ("//server/share/file", True),
        (r"\\HOME\Share\file", False),
        ("//home/share/file", False),
        (r"\\home\other\file", True),
        (r"\\?\UNC\server\share\file", True),
    ],
)
def test_a_share_of_windows_that_no_root_is_on_is_not_even_looked_at(path: str, foreign: bool) -> None:
    assert elsewhere(path, [PureWindowsPath(r"C:\notes"), PureWindowsPath(r"\\home\share\notes")]) is foreign


# -- what is no file ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "file", "./file", "../root/file", "~/file"])
def test_a_relative_path_is_refused(path: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    (root / "file").write_text("text", encoding="utf-8")
    assert "absolute" in str(refused(IngestPath, opened(root), path))


def test_a_missing_file_and_a_directory_are_refused(root: Path) -> None:
    (root / "folder").mkdir()
    (root / "file").write_text("text", encoding="utf-8")
    roots = opened(root)
    for path in (root / "nosuch", root / "folder", root, root / "file" / "below"):
        refused(IngestPath, roots, path)


@pytest.mark.parametrize("name", ["a\0b", "\0", "x" * 300, "x/" * 20_000, "\ud800"])
def test_a_name_that_no_file_can_have_is_refused(name: str, root: Path) -> None:
    with pytest.raises((IngestPath, IngestOutsideRoots)) as raised:
        read(opened(root), f"{root}{os.sep}{name}")
    assert len(str(raised.value).encode()) < 5_000


@posix
def test_a_fifo_is_refused_without_waiting_for_a_writer(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(root / "pipe")
    refused(IngestPath, opened(root), root / "pipe")
    refused(IngestPath, opened(root), root / "link")


@posix
def test_a_fifo_that_takes_the_place_of_a_file_does_not_block(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    real = ingest._require_regular
    looks: list[os.stat_result] = []

    def late(found: os.stat_result) -> None:
        looks.append(found)
        if len(looks) > 1:
            real(found)

    monkeypatch.setattr(ingest, "_require_regular", late)
    with pytest.raises(IngestPath, match="regular"):
        read(opened(root), root / "pipe")
    assert len(looks) == 2


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device of POSIX")
def test_a_device_is_refused(way: str) -> None:
    refused(IngestPath, opened(Path("/dev")), "/dev/zero")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(root: Path) -> None:
    (root / "file").write_text("text", encoding="utf-8")
    (root / "file").chmod(0)
    assert "ermission" in str(refused(IngestPath, opened(root), root / "file"))


# -- limits ---------------------------------------------------------------------------------------------------------


def sized(path: Path, size: int) -> Path:
    """A file of NULs that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_a_file_may_have_a_mebibyte_and_a_transcript_eight(root: Path) -> None:
    roots = opened(root)
    assert len(read(roots, sized(root / "file", MAX_INGEST_FILE_BYTES))) == MAX_INGEST_FILE_BYTES
    with pytest.raises(ContextOverLimit) as raised:
        read(roots, sized(root / "file", MAX_INGEST_FILE_BYTES + 1))
    assert raised.value.limit == MAX_INGEST_FILE_BYTES
    assert len(roots.read_transcript(str(sized(root / "log", MAX_TRANSCRIPT_BYTES)))) == MAX_TRANSCRIPT_BYTES
    with pytest.raises(ContextOverLimit) as raised:
        roots.read_transcript(str(sized(root / "log", MAX_TRANSCRIPT_BYTES + 1)))
    assert raised.value.limit == MAX_TRANSCRIPT_BYTES


@pytest.mark.parametrize(("grown", "fits"), [(MAX_INGEST_FILE_BYTES, True), (MAX_INGEST_FILE_BYTES + 1, False)])
def test_a_file_that_grows_while_it_is_read_is_read_up_to_the_cap(
    grown: int, fits: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sized(root / "log", 10)
    real = os.fstat

    def growing(descriptor: int) -> os.stat_result:
        before = real(descriptor)
        sized(root / "log", grown)
        return before

    monkeypatch.setattr(os, "fstat", growing)
    if fits:
        assert len(read(opened(root), root / "log")) == grown
    else:
        with pytest.raises(ContextOverLimit):
            read(opened(root), root / "log")


def test_64_files_of_the_largest_size_are_read_and_65_of_any_size_are_not(root: Path) -> None:
    roots, text = opened(root), ContextFragment(content="text")
    largest = ContextFragment(path=str(sized(root / "largest", MAX_INGEST_FILE_BYTES)))
    resolved = roots.resolve_fragments([text, *[largest] * 64])
    assert sum(len(fragment.content) for fragment in resolved) == 4 + 64 * MAX_INGEST_FILE_BYTES
    with pytest.raises(ContextOverLimit) as raised:
        roots.resolve_fragments([text, *[ContextFragment(path=str(sized(root / "small", 1)))] * 65])
    assert raised.value.limit == 64


def test_the_files_of_a_request_are_counted_together(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "MAX_TOTAL_INGEST_BYTES", 100)
    roots = opened(root)
    half, more = (ContextFragment(path=str(sized(root / str(size), size))) for size in (50, 51))
    assert len(roots.resolve_fragments([half, half])) == 2
    with pytest.raises(ContextOverLimit) as raised:
        roots.resolve_fragments([half, ContextFragment(content="x" * 500), more])
    assert (raised.value.limit, raised.value.field) == (100, "fragments[2].path")


def test_the_first_failure_ends_a_request(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "file").write_text("text", encoding="utf-8")
    asked: list[Callable[..., Any]] = []
    real = ingest._open
    monkeypatch.setattr(ingest, "_open", lambda *where: asked.append(real) or real(*where))
    good, bad = ContextFragment(path=str(root / "file")), ContextFragment(path="relative")
    with pytest.raises(IngestPath, match=r"fragments\[1\]"):
        opened(root).resolve_fragments([good, bad, good, good])
    assert len(asked) == 1


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_text("text", encoding="utf-8")
    (root / "latin").write_bytes(b"\xe9")
    sized(root / "large", MAX_INGEST_FILE_BYTES + 1)

    def lowest_free() -> int:
        descriptor = os.open(root / "latin", os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    before = lowest_free()
    roots = opened(root)
    for path in ("a/b/file", "a/b/nosuch", "a/b", "latin", "large", "a/nosuch/file"):
        try:
            read(roots, root / path)
        except VelesMemoryError:
            continue
    assert lowest_free() == before
