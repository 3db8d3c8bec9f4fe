"""The table of settings: each is set by flag, environment and file, in this order of weight, or refused (D58)."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from velesdb_memory import config
from velesdb_memory.cli.configuration import render
from velesdb_memory.config import PREFIX, SETTINGS, Setting, Source
from velesdb_memory.errors import InvalidArgument
from velesdb_memory.settings import Address, Bind, Duration, Folder, Kind, Name, Secret, Switch, Texts, Url, Whole

ROWS = [pytest.param(row, id=name) for name, row in SETTINGS.items()]
OPEN_ROWS = [pytest.param(row, id=name) for name, row in SETTINGS.items() if row.key]


class Sample(NamedTuple):
    """A value as the environment and a flag write it, as a file writes it, and what it means; and a malformed one."""

    text: str
    toml: Any
    value: Any
    malformed: str | None


def sample(row: Setting, other: bool = False) -> Sample:
    """A value that is not the default; ``other`` is another such value, or the default again."""
    kind = row.kind
    match kind:
        case Secret():
            return Sample("s3cr3t-token", None, "s3cr3t-token", " ")
        case Name():
            names = [name for name in kind.names if name != row.default] or list(kind.names)
            name = names[-1] if other else names[0]
            return Sample(name, name, name, "no-such-name")
        case Switch():
            return Sample("0", False, False, "yes") if other else Sample("1", True, True, "yes")
        case Whole():
            number = kind.low + (72 if other else 71)
            return Sample(str(number), number, number, "many")
        case Folder():
            path = str(Path("other" if other else "one").absolute())
            return Sample(path, path, Path(path), "${NOT_SET_ANYWHERE}/x")
        case Texts():
            items = ["c"] if other else ["a", "b"]
            return Sample(kind.separator.join(items), items, tuple(items), None)
        case Bind():
            port = 1234 if other else 4321
            return Sample(f"127.0.0.2:{port}", f"127.0.0.2:{port}", Address("127.0.0.2", port), "127.0.0.2")
        case Duration():
            return Sample("9m", "9m", "9m", "soon") if other else Sample("8m", "8m", "8m", "soon")
        case Url():
            url = f"http://127.0.0.1:{2 if other else 1}"
            return Sample(url, url, url, None)
        case Kind():
            return Sample("z", "z", "z", None) if other else Sample("y", "y", "y", None)


def written(folder: Path, *pairs: tuple[str, Any]) -> Path:
    """A file with these keys."""
    lines: list[str] = []
    for key, value in pairs:
        table, _, name = key.rpartition(".")
        lines += ([f"[{table}]"] if table else []) + [f"{name} = {json.dumps(value)}"]
    file = folder / "given.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.parametrize("row", ROWS)
def test_every_setting_is_set_by_its_variable(row: Setting, tmp_path: Path) -> None:
    given = sample(row)
    text = str(written(tmp_path)) if row.name == "CONFIG" else given.text
    found = config.read({row.variable: text}, {})
    assert getattr(found.settings, row.attribute) == (Path(text) if row.name == "CONFIG" else given.value)
    assert found.origins[row.attribute] == config.Origin(Source.ENVIRONMENT, row.variable)


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in SETTINGS.items() if row.flag])
def test_every_setting_that_is_no_secret_is_set_by_its_flag(row: Setting, tmp_path: Path) -> None:
    given = sample(row)
    text = str(written(tmp_path)) if row.name == "CONFIG" else given.text
    found = config.read({}, {row.name: text})
    assert getattr(found.settings, row.attribute) == (Path(text) if row.name == "CONFIG" else given.value)
    assert found.origins[row.attribute] == config.Origin(Source.FLAG, row.flag)


@pytest.mark.parametrize("row", OPEN_ROWS)
def test_every_setting_with_a_key_is_set_by_a_file(row: Setting, tmp_path: Path) -> None:
    given = sample(row)
    file = written(tmp_path, (row.key, given.toml))
    found = config.read({"VELESDB_MEMORY_CONFIG": str(file)}, {})
    assert getattr(found.settings, row.attribute) == given.value
    assert found.origins[row.attribute] == config.Origin(Source.FILE, f"{file}: {row.key}")
    assert (found.file, found.from_file) == (file, 1)


@pytest.mark.parametrize("row", OPEN_ROWS)
def test_a_flag_outweighs_the_environment_and_that_the_file_and_that_the_default(row: Setting, tmp_path: Path) -> None:
    one, other = sample(row), sample(row, other=True)
    file = str(written(tmp_path, (row.key, one.toml)))
    quiet = row.name == "QUIET"  # any value of its variable means on
    environment = {"VELESDB_MEMORY_CONFIG": file, row.variable: other.text}
    assert getattr(config.load(environment, {}), row.attribute) == (True if quiet else other.value)
    assert getattr(config.load(environment, {row.name: one.text}), row.attribute) == one.value


MALFORMED = [
    pytest.param(row, malformed, id=name)
    for name, row in SETTINGS.items()
    # any text is a value of the others
    if name != "QUIET" and (malformed := sample(row).malformed) is not None
]


@pytest.mark.parametrize(("row", "malformed"), MALFORMED)
def test_d58_a_malformed_value_names_the_variable_the_flag_or_the_key(
    row: Setting, malformed: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        config.load({row.variable: malformed}, {})
    assert caught.value.field == row.variable and row.variable in str(caught.value)
    if row.flag:
        with pytest.raises(InvalidArgument) as caught:
            config.load({}, {row.name: malformed})
        assert caught.value.field == row.flag and str(caught.value).startswith(row.flag)
    if row.key:
        file = written(tmp_path, (row.key, malformed))
        with pytest.raises(InvalidArgument) as caught:
            config.load({}, {"CONFIG": str(file)})
        assert caught.value.field == f"{file}: {row.key}"


@pytest.mark.parametrize("row", OPEN_ROWS)
def test_d58_a_value_of_the_wrong_type_in_a_file_names_the_key(row: Setting, tmp_path: Path) -> None:
    for wrong in ({"a": 1}, 1.5, [1]):
        file = tmp_path / "wrong.toml"
        table, _, name = row.key.rpartition(".")
        shown = "{ a = 1 }" if isinstance(wrong, dict) else json.dumps(wrong)
        file.write_text((f"[{table}]\n" if table else "") + f"{name} = {shown}\n", encoding="utf-8")
        with pytest.raises(InvalidArgument) as caught:
            config.load({}, {"CONFIG": str(file)})
        assert caught.value.field == f"{file}: {row.key}"


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in SETTINGS.items() if row.secret])
def test_secrets_are_taken_from_the_environment_alone_and_never_shown(row: Setting, tmp_path: Path) -> None:
    assert (row.flag, row.key) == ("", "")
    found = config.read({row.variable: "s3cr3t-token"}, {})
    assert "s3cr3t" not in repr(found) + render(found) + str(found.given())
    assert f"{row.variable} is set" in render(found)
    table, _, name = row.attribute.partition("_")
    file = written(tmp_path, (f"{table}.{name}", "s3cr3t-token"))
    for malformed in ("s3cr3t token", "s3cr3t\ntoken", "s3cr3t-tökén"):
        with pytest.raises(InvalidArgument) as caught:
            config.load({row.variable: malformed}, {})
        assert "s3cr3t" not in str(caught.value)
    with pytest.raises(InvalidArgument, match=row.variable) as caught:
        config.load({}, {"CONFIG": str(file)})
    assert "s3cr3t" not in str(caught.value)


def test_a_file_that_is_no_toml_does_not_repeat_a_token_that_was_put_there(tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    for text in ("[extractor]\napi_token = s3cr3t\n", 'api_token = "s3cr3t\n', "api_token s3cr3t", '"s3cr3t" = = 1'):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidArgument) as caught:
            config.load({}, {"CONFIG": str(file)})
        assert str(file) in str(caught.value) and "line" in str(caught.value)
        assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("embeder = 1", "embeder"),
        ("[http]\nbnid = '127.0.0.1:1'", "http.bnid"),
        ("[htpp]\nbind = '127.0.0.1:1'", "htpp"),
        ("[http.bind]\nx = 1", "http.bind"),
        ("http = true", "http"),
        ("config = 'x'", "config"),
    ],
)
def test_d58_an_unknown_key_is_refused_by_name(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "given.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidArgument) as caught:
        config.load({}, {"CONFIG": str(file)})
    assert caught.value.field == f"{file}: {named}"


def test_d58_an_unknown_key_comes_with_what_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "given.toml"
    file.write_text("[http]\nbnid = '127.0.0.1:1'", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"did you mean http\.bind\?"):
        config.load({}, {"CONFIG": str(file)})


def test_the_variable_of_the_hooks_is_none_of_ours_and_no_mistake() -> None:
    config.load({"VELESDB_MEMORY_BIN": "/x/velesdb-memory"}, {})


# -- which file -----------------------------------------------------------------------------------------------------


def test_the_file_is_looked_for_by_flag_variable_store_and_working_directory(tmp_path: Path) -> None:
    store, here = tmp_path / "store", Path.cwd()
    store.mkdir()
    for number, place in enumerate(
        (tmp_path / "flag.toml", tmp_path / "variable.toml", store / config.FILE_NAME, here / config.FILE_NAME)
    ):
        place.write_text(f"default_ttl = {number + 1}", encoding="utf-8")
    environment = {"VELESDB_MEMORY_PATH": str(store), "VELESDB_MEMORY_CONFIG": str(tmp_path / "variable.toml")}
    assert config.load(environment, {"CONFIG": str(tmp_path / "flag.toml")}).default_ttl == 1
    assert config.load(environment, {}).default_ttl == 2
    assert config.load({**environment, "VELESDB_MEMORY_CONFIG": " "}, {}).default_ttl == 3
    (store / config.FILE_NAME).unlink()
    assert config.load({"VELESDB_MEMORY_PATH": str(store)}, {}).default_ttl == 4
    (here / config.FILE_NAME).unlink()
    assert config.load({"VELESDB_MEMORY_PATH": str(store)}, {}).default_ttl is None


def test_a_path_in_a_file_does_not_move_the_search_and_is_relative_to_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, ("path", "notes"))
    assert config.load({}, {"CONFIG": str(file)}).path == tmp_path / "notes"


@pytest.mark.parametrize("make", ["missing", "folder", "binary", "huge"])
def test_a_file_that_cannot_be_read_is_refused_by_name(make: str, tmp_path: Path) -> None:
    file = tmp_path / "given.toml"
    if make == "folder":
        file.mkdir()
    elif make == "binary":
        file.write_bytes(b"\xff\xfe")
    elif make == "huge":
        file.write_bytes(b"#" * (config.MAX_FILE_BYTES + 1))
    with pytest.raises(InvalidArgument) as caught:
        config.load({}, {"CONFIG": str(file)})
    assert caught.value.field == str(file)


GUARDED = [pytest.param(row, id=name) for name, row in SETTINGS.items() if row.guarded]


def test_what_sends_content_away_or_lets_others_in_is_guarded() -> None:
    names = {"EXTRACTOR_URL", "HTTP_BIND", "HTTP_INSECURE", "HTTP_ALLOW_REMOTE", "HTTP_ALLOWED_HOSTS"}
    assert names <= {name for name, row in SETTINGS.items() if row.guarded}


@pytest.mark.parametrize("row", GUARDED)
def test_a_file_that_came_with_a_project_cannot_set_what_is_guarded(row: Setting, tmp_path: Path) -> None:
    """A repository that somebody cloned must not decide where memories are sent (D60)."""
    file = written(tmp_path, (row.key, sample(row).toml)).rename(Path.cwd() / config.FILE_NAME)
    with pytest.raises(InvalidArgument, match="--config") as caught:
        config.load({}, {})
    assert caught.value.field == f"{file}: {row.key}"
    # by name it is trusted
    assert getattr(config.load({}, {"CONFIG": str(file)}), row.attribute) == sample(row).value


# -- details --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "flags", "expected"),
    [
        ({}, {"HTTP_PORT": "1"}, "127.0.0.1:1"),
        ({"HTTP_BIND": "[::1]:5"}, {"HTTP_PORT": "1"}, "[::1]:1"),
        ({"HTTP_BIND": "localhost:5", "HTTP_PORT": "6"}, {}, "localhost:6"),
        # a port of the environment does not replace that of an address that outweighs it
        ({"HTTP_PORT": "6"}, {"HTTP_BIND": "127.0.0.1:5"}, "127.0.0.1:5"),
        ({"HTTP_PORT": "0"}, {}, "127.0.0.1:0"),
    ],
)
def test_a_port_replaces_that_of_an_address_of_no_more_weight(
    environment: dict[str, str], flags: dict[str, str], expected: str
) -> None:
    settings = config.load({PREFIX + name: value for name, value in environment.items()}, flags)
    assert str(settings.http_address) == expected


@pytest.mark.parametrize(
    "value", ["", "127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:65536", "::1:80", "http://h:1", "a b:1", "u@h:1", "h:٣"]
)
def test_d58_an_address_is_a_host_and_a_port(value: str) -> None:
    with pytest.raises(InvalidArgument, match="HOST:PORT"):
        config.load({"VELESDB_MEMORY_HTTP_BIND": value}, {})


@pytest.mark.parametrize("name", ["HTTP_MAX_BODY_BYTES", "HTTP_MAX_SESSIONS", "HTTP_KEEP_ALIVE_SECS"])
def test_d58_a_zero_limit_is_refused_and_not_replaced_in_silence(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{PREFIX}{name} is 0"):
        config.load({PREFIX + name: "0"}, {})


def test_quiet_is_set_by_being_there_but_a_file_and_a_flag_can_say_no(tmp_path: Path) -> None:
    assert config.load({"VELESDB_MEMORY_QUIET": "0"}, {}).quiet
    for value in (True, False):
        assert config.load({}, {"CONFIG": str(written(tmp_path, ("quiet", value)))}).quiet is value
    assert not config.load({"VELESDB_MEMORY_QUIET": "1"}, {"QUIET": "0"}).quiet


@pytest.mark.parametrize(
    ("text", "level"), [("1", "info"), ("debug", "info"), ("", "off"), ("0", "off"), ("warn", "warn")]
)
def test_the_log_knows_the_usual_levels(text: str, level: str) -> None:
    assert config.load({"VELESDB_MEMORY_LOG": text}, {}).log == level


def test_a_number_of_seconds_in_a_file_may_be_a_number(tmp_path: Path) -> None:
    for value in (-1, "-1"):
        file = written(tmp_path, ("embedder.keep_alive", value))
        assert config.load({}, {"CONFIG": str(file)}).ollama_keep_alive == "-1"


def test_an_item_of_a_list_cannot_hold_what_separates_items(tmp_path: Path) -> None:
    file = written(tmp_path, ("http.allowed_hosts", ["a,b"]))
    with pytest.raises(InvalidArgument, match=r"http\.allowed_hosts"):
        config.load({}, {"CONFIG": str(file)})


def test_what_config_prints_is_a_file_that_sets_the_same(tmp_path: Path) -> None:
    environment = {
        row.variable: sample(row).text for row in SETTINGS.values() if row.key and row.name != "EXTRACTOR_URL"
    }
    found = config.read(environment, {})
    printed = render(found)
    file = tmp_path / "printed.toml"
    file.write_text(printed, encoding="utf-8")
    again = config.read({}, {"CONFIG": str(file)})
    assert {
        row.name
        for row in SETTINGS.values()
        if row.key and getattr(again.settings, row.attribute) != getattr(found.settings, row.attribute)
    } == set()
    for row in SETTINGS.values():
        if row.variable in environment:
            assert f"# {row.variable}\n" in printed
    assert tomllib.loads(render(config.read({}, {})))


def test_a_password_in_a_url_is_not_printed() -> None:
    found = config.read({"VELESDB_MEMORY_EXTRACTOR_URL": "http://me:s3cr3t@host/x"}, {})
    assert "s3cr3t" not in render(found)
    assert "http://***@host/x" in render(found)


def test_what_another_process_must_be_told_is_what_flags_and_variables_set(tmp_path: Path) -> None:
    file = written(tmp_path, ("default_ttl", 60))
    found = config.read(
        {"VELESDB_MEMORY_HTTP_TOKEN": "t", "VELESDB_MEMORY_AUTOGRAPH": "0", "VELESDB_MEMORY_CONFIG": str(file)},
        {"PATH": "here", "HTTP_BIND": "[::1]:5", "HTTP_ALLOWED_HOSTS": "a, b", "DEFAULT_TTL": "0"},
    )
    assert found.given() == {
        "PATH": str(Path.cwd() / "here"),
        "CONFIG": str(file),
        "DEFAULT_TTL": "0",
        "AUTOGRAPH": "0",
        "HTTP_BIND": "[::1]:5",
        "HTTP_ALLOWED_HOSTS": "a,b",
    }
    assert config.load({PREFIX + name: value for name, value in found.given().items()}, {}).http_bind.host == "::1"
