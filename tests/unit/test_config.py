"""Settings: a malformed one is an error that names it (D5, D28, D58; C20)."""

from __future__ import annotations

from pathlib import Path

import pytest

from velesdb_memory import config
from velesdb_memory.errors import InvalidArgument


def test_nothing_set_means_the_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = config.load({})
    assert settings.path == tmp_path / ".velesdb-memory"
    assert (settings.default_ttl, settings.embedder, settings.synchronous) == (None, "hash", "full")
    assert (settings.quiet, settings.log, settings.autograph) == (False, "off", False)


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), (" 60 ", 60), ("0", None), ("0060", 60), ("99999999999", 99999999999)]
)
def test_D5_the_default_ttl_is_whole_seconds_and_zero_means_none(text: str, seconds: int | None) -> None:
    assert config.load({"VELESDB_MEMORY_DEFAULT_TTL": text}).default_ttl == seconds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEFAULT_TTL", ""), ("DEFAULT_TTL", "-1"), ("DEFAULT_TTL", "1.5"), ("DEFAULT_TTL", "1h"), ("DEFAULT_TTL", "٣"),
        ("DEFAULT_TTL", "1_0"), ("DEFAULT_TTL", "9" * 30), ("EMBEDDER", ""), ("EMBEDDER", "HASH"), ("EMBEDDER", "nope"),
        ("SYNCHRONOUS", "off"), ("SYNCHRONOUS", "FULL"), ("SYNCHRONOUS", ""), ("AUTOGRAPH", "yes"),
        ("PATH", " "), ("PATH", ""), ("TOKENIZER", ""), ("TOKENIZER", "O200K"), ("TOKENIZER", "gpt2"),
    ],
)  # fmt: skip
def test_D58_a_malformed_setting_is_an_error_that_names_it(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=f"VELESDB_MEMORY_{name}") as caught:
        config.load({f"VELESDB_MEMORY_{name}": value})
    assert caught.value.field == f"VELESDB_MEMORY_{name}"


def test_D58_an_unknown_setting_is_refused_with_the_closest_one() -> None:
    with pytest.raises(InvalidArgument, match="VELESDB_MEMORY_EMBEDDER") as caught:
        config.load({"VELESDB_MEMORY_EMBEDER": "hash"})
    assert caught.value.field == "VELESDB_MEMORY_EMBEDER"


def test_settings_of_other_programs_are_none_of_ours() -> None:
    config.load({"VELESDB_PATH": "x", "velesdb_memory_foo": "y"})


def test_D28_synchronous_can_be_traded_for_speed() -> None:
    assert config.load({"VELESDB_MEMORY_SYNCHRONOUS": "normal"}).synchronous == "normal"


@pytest.mark.parametrize("name", config.TOKENIZERS)
def test_the_tokenizer_is_chosen_by_name(name: str) -> None:
    assert config.make_estimator(config.load({"VELESDB_MEMORY_TOKENIZER": name})).name == name


def test_tokens_are_estimated_when_nothing_is_set() -> None:
    assert config.make_estimator(config.load({})).name == "estimate"


def test_a_flag_for_silence_is_set_by_being_there() -> None:
    assert config.load({"VELESDB_MEMORY_QUIET": ""}).quiet


def test_C20_home_and_variables_in_a_path_are_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NOTES", "deep/notes")
    assert config.store_path("~/x") == tmp_path / "x"
    assert config.store_path("~/${NOTES}/y") == tmp_path / "deep/notes/y"
    assert config.store_path("$NOTES") == Path.cwd() / "deep/notes"


def test_C20_a_relative_path_becomes_absolute() -> None:
    assert config.store_path("here") == Path.cwd() / "here"


@pytest.mark.parametrize("value", ["${NOT_SET_ANYWHERE}/x", "$NOT_SET_ANYWHERE", "/a/${", "%NOT_SET_ANYWHERE%/x"])
def test_C20_a_variable_that_is_not_set_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgument, match="variable") as caught:
        config.store_path(value)
    assert caught.value.field == "path"


def test_C20_the_home_of_nobody_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        config.store_path("~no-such-user-here/x")


def test_the_path_of_the_command_line_wins(tmp_path: Path) -> None:
    assert config.load({"VELESDB_MEMORY_PATH": "/elsewhere"}, {"PATH": str(tmp_path)}).path == tmp_path


def test_D59_a_token_is_not_shown() -> None:
    settings = config.load({"VELESDB_MEMORY_EXTRACTOR_API_TOKEN": "s3cr3t"})
    assert "s3cr3t" not in repr(settings)
