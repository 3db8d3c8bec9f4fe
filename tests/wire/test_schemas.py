"""What tools/list publishes (C04, C05, C06, D22, D23, D26)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from velesdb_memory.server.app import instructions
from velesdb_memory.server.tools import ALL
from wire.client import Server

Schema = dict[str, Any]
SCALARS = {"string", "integer", "number", "boolean"}
IDS = {
    ("remember", "links[].target"),
    ("relate", "from"),
    ("relate", "to"),
    ("unrelate", "from"),
    ("unrelate", "to"),
    ("forget", "id"),
    ("feedback", "id"),
    ("list_memories", "cursor"),
    ("compile_context", "fragments[].id"),
    ("explain_compilation", "fragment_id"),
    ("explain_compilation", "request.fragments[].id"),
    ("save_working_context", "working.decisions[].fragment_id"),
    ("save_working_context", "working.exact_evidence[].fragment_id"),
    ("save_working_context", "working.exact_evidence[].memory_id"),
}
EXEMPT = ("recall_where", "filters[].value")
SEED = {
    "remember": ({"fact"}, {"links", "metadata", "ttl_seconds"}),
    "recall": ({"query"}, {"k", "filter"}),
    "recall_where": ({"query", "filters"}, {"k"}),
    "recall_fused": (
        {"query"},
        {"k", "filter", "hops", "graph_boost", "lexical_boost", "pool", "date_field", "explain"},
    ),
    "entity": ({"name"}, set()),
    "remember_extracted": ({"text"}, {"metadata", "extractor", "idempotency_key"}),
    "extraction_status": ({"request_id"}, set()),
    "relate": ({"from", "to", "relation"}, set()),
    "unrelate": ({"from", "to", "relation"}, set()),
    "forget": ({"id"}, set()),
    "why": ({"decision"}, {"max_hops", "filter", "direction"}),
    "feedback": ({"id", "success"}, set()),
    "memory_status": (set(), set()),
    "list_memories": (set(), {"cursor", "limit", "filter", "include_internal"}),
    "compile_context": (
        {"query", "fragments", "token_budget"},
        {"project", "target_model", "memory_scope", "policy"},
    ),
    "compile_transcript": (
        {"query", "token_budget"},
        {"transcript", "path", "project", "target_model", "policy", "segmentation"},
    ),
    "explain_compilation": ({"request", "fragment_id"}, {"fragment_index"}),
    "retrieve_context_source": ({"handle"}, set()),
    "context_savings": (set(), {"project"}),
    "suggest_budget": ({"target_model"}, {"reserve_tokens"}),
    "save_working_context": ({"project", "session", "working"}, set()),
    "load_working_context": ({"project", "session"}, set()),
    "list_working_contexts": ({"project"}, set()),
}
NAMES = [tool.name for tool in ALL]


def slots(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every place for a value below ``schema``."""
    for name, slot in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, slot
        yield from slots(slot, here)
    for word, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        inner = schema.get(word)
        if isinstance(inner, dict):
            yield path + suffix, inner
            yield from slots(inner, path + suffix)


def keywords(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            # names of properties are not keywords
            yield from keywords(list(inner.values()) if key == "properties" else inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keywords(inner)


def test_the_list_is_the_registry_sorted_by_name(tools: dict[str, Schema]) -> None:
    assert list(tools) == sorted(NAMES) == NAMES


@pytest.mark.parametrize("name", SEED)
def test_arguments_are_those_of_the_contract(tools: dict[str, Schema], name: str) -> None:
    required, optional = SEED[name]
    schema = tools[name]["inputSchema"]
    assert set(schema.get("required", [])) == required
    assert set(schema["properties"]) == required | optional


@pytest.mark.parametrize("name", NAMES)
def test_c04_c05_input_schemas_are_flat(tools: dict[str, Schema], name: str) -> None:
    schema = tools[name]["inputSchema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert not {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "format", "default"} & set(keywords(schema))
    for path, slot in slots(schema):
        if (name, path) == EXEMPT:
            assert slot["type"] == ["string", "number", "boolean"]
        elif slot["type"] == "array":
            assert slot["items"]["type"]
        elif slot["type"] == "object":
            # declared objects are closed, the caller's own are open or have values of one type
            rest = slot["additionalProperties"]
            assert rest is False if "properties" in slot else rest is True or rest["type"]
        else:
            assert slot["type"] in SCALARS
        if slot["type"] == "integer":
            assert slot["minimum"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_and_result_key_is_described(tools: dict[str, Schema], name: str) -> None:
    for schema in (tools[name]["inputSchema"], tools[name]["outputSchema"]):
        for path, slot in slots(schema):
            if not path.endswith("[]"):
                assert slot["description"].strip(), path


@pytest.mark.parametrize("name", NAMES)
def test_c06_optional_means_not_required_and_plainly_typed(tools: dict[str, Schema], name: str) -> None:
    for path, slot in slots(tools[name]["inputSchema"]):
        assert slot["type"] != "null" and "null" not in slot["type"], path
        assert slot.get("required", []) is not None


def test_d4_ids_are_advertised_as_strings_and_nothing_else(tools: dict[str, Schema]) -> None:
    for name, path in IDS:
        assert dict(slots(tools[name]["inputSchema"]))[path]["type"] == "string"
    assert {name for name, _ in IDS} <= set(tools)


def test_one_name_and_type_mean_one_tolerance(tools: dict[str, Schema]) -> None:
    seen: dict[tuple[str, str], Schema] = {}
    for tool in tools.values():
        for path, slot in slots(tool["inputSchema"]):
            key = (path.rsplit(".", 1)[-1], str(slot["type"]))
            shape = {word: value for word, value in slot.items() if word != "description"}
            assert seen.setdefault(key, shape) == shape


@pytest.mark.parametrize("name", NAMES)
def test_d23_every_tool_has_a_title_hints_and_an_output_schema(tools: dict[str, Schema], name: str) -> None:
    tool = tools[name]
    assert tool["title"] and tool["description"]
    hints = tool["annotations"]
    assert hints["openWorldHint"] is False
    assert {type(hints[hint]) for hint in ("readOnlyHint", "destructiveHint", "idempotentHint")} == {bool}
    assert not (hints["readOnlyHint"] and hints["destructiveHint"])
    jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
    assert tool["outputSchema"]["type"] == "object"
    assert not {"$ref", "anyOf", "oneOf", "allOf"} & set(keywords(tool["outputSchema"]))


MARKED = ("fragment_id", "content_hash", "memory_id", "fragment_ids[]")
EITHER = ["integer", "string"]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("compile_context", [EITHER]),
        ("compile_transcript", [EITHER]),
        ("explain_compilation", [EITHER]),
        ("load_working_context", ["string", ["string", "null"]]),
    ],
)
def test_compiler_ids_are_published_in_every_form_that_occurs(
    tools: dict[str, Schema], name: str, kinds: list[Any]
) -> None:
    published = [
        slot["type"]
        for path, slot in slots(tools[name]["outputSchema"])
        if path.rsplit(".", 1)[-1] in MARKED
    ]
    assert published and all(kind in kinds for kind in published)


def test_a_priority_is_bounded_on_both_sides(tools: dict[str, Schema]) -> None:
    slot = dict(slots(tools["compile_context"]["inputSchema"]))["fragments[].priority"]
    assert (slot["minimum"], slot["maximum"]) == (0, 255)


@pytest.mark.parametrize("name", NAMES)
def test_every_id_of_a_result_has_a_string_twin(tools: dict[str, Schema], name: str) -> None:
    described = dict(slots(tools[name]["outputSchema"]))
    for path, slot in described.items():
        last = path.rsplit(".", 1)[-1]
        if last in ("id", "edge_id", "from", "to", "target_id"):
            assert slot["type"] == "integer" and slot["minimum"] == 0
            assert described[f"{path}_str"]["type"] == "string"


def test_the_instructions_name_every_tool(server: Server) -> None:
    told = server.hello["instructions"]
    assert told == instructions()
    for name in NAMES:
        assert f"- {name}: " in told


def test_the_reference_page_is_current() -> None:
    script = Path(__file__).parents[2] / "docs" / "generate.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_d26_the_handshake_loads_no_store_and_no_numerics(tmp_path: Path) -> None:
    with Server(tmp_path / "store", PYTHONPROFILEIMPORTTIME="1") as server:
        server.initialize()
        assert server.tools()
    loaded = server.errors.decode()
    assert "mcp_types" in loaded
    for heavy in (
        "numpy",
        "simsimd",
        "sqlite3",
        "onnxruntime",
        "psycopg",
        "rich",
        "mcp.client",
        "mcp.server.mcpserver",
    ):
        assert f" {heavy}\n" not in loaded, heavy
    assert not (tmp_path / "store").exists()
