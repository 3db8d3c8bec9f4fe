"""suggest_budget's table (D49)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.context.windows import suggest

REFERENCE = {
    200_000: "claude-opus-4-5 claude-sonnet-4-5 claude-haiku-4-5 claude-sonnet-4 claude-3-7-sonnet o3",
    400_000: "gpt-5 gpt-5-mini",
    1_000_000: "gpt-4.1 gemini-2.5-pro gemini-2.0-flash",
    128_000: "gpt-4o",
}


def window(model: str) -> int | None:
    suggestion = suggest(model, 0)
    assert suggestion.suggested_budget == suggestion.window
    return suggestion.window


def test_the_vectors_of_the_contract_hold() -> None:
    recorded = Path(__file__).parents[1] / "golden" / "vectors.json"
    vectors = json.loads(recorded.read_text(encoding="utf-8"))["suggest_budget"]
    assert vectors
    for model, expected in vectors:
        suggestion = suggest(model, 1_000)
        assert (suggestion.window, suggestion.suggested_budget) == (expected["window"], expected["suggested_budget"])
        month = r"\d{4}-\d{2}"
        assert re.sub(month, "MONTH", suggestion.source) == re.sub(month, "MONTH", expected["source"])


def test_d49_every_row_of_the_reference_is_kept() -> None:
    for tokens, names in REFERENCE.items():
        for name in names.split():
            assert window(name) == window(name.upper()) == tokens, name


@pytest.mark.parametrize(("reserve", "budget"), [(0, 128_000), (8_000, 120_000), (128_000, 0), (2**64 - 1, 0)])
def test_the_reserve_is_taken_off_and_never_goes_below_nothing(reserve: int, budget: int) -> None:
    suggestion = suggest("gpt-4o", reserve)
    assert (suggestion.window, suggestion.suggested_budget) == (128_000, budget)


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-sonnet-4-5-20250929", 200_000),
        ("claude-3-7-sonnet-latest", 200_000),
        ("claude-3-5-sonnet@20240620", 200_000),
        ("claude-opus-4-1-20250805", 200_000),
        ("claude-sonnet-4-20250514", 200_000),
        ("claude-opus-5-5", 1_000_000),
        ("gpt-4o-2024-08-06", 128_000),
        ("gpt-4o-mini-2024-07-18", 128_000),
        ("chatgpt-4o-latest", 128_000),
        ("gpt-5-2025-08-07", 400_000),
        ("gpt-5-chat-latest", 128_000),
        ("o1-preview-2024-09-12", 128_000),
        ("o4-mini-2025-04-16", 200_000),
        ("gemini-2.0-flash-001", 1_000_000),
        ("gemini-2.5-flash-preview-05-20", 1_000_000),
        ("gemini-2.5-flash-preview-09-2025", 1_000_000),
        ("gemini-1.5-pro-latest", 2_000_000),
        ("command-r-plus-08-2024", 128_000),
        ("command-a-03-2025", 256_000),
        ("mistral-large-latest", 128_000),
        ("mistral-large-2512", 256_000),
        ("codestral-2501", 256_000),
        ("grok-4-0709", 256_000),
    ],
)
def test_d49_a_dated_snapshot_has_the_window_of_its_model(model: str, tokens: int) -> None:
    assert window(model) == tokens


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("openai/gpt-4o", 128_000),
        ("OpenRouter/OpenAI/GPT-4o-2024-11-20", 128_000),
        ("models/gemini-2.5-pro", 1_000_000),
        ("vertex_ai/claude-opus-4-5@20251101", 200_000),
        ("azure/gpt-4.1-mini", 1_000_000),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("anthropic.claude-3-haiku-20240307-v1:0", 200_000),
        ("bedrock/eu.anthropic.claude-3-7-sonnet-20250219-v1:0", 200_000),
        ("global.anthropic.claude-opus-4-6-v1", 1_000_000),
        ("meta.llama3-1-70b-instruct-v1:0", 128_000),
        ("mistral.mixtral-8x7b-instruct-v0:1", 32_000),
        ("openai.gpt-oss-120b-1:0", 131_072),
        ("amazon.nova-pro-v1:0", 300_000),
        ("meta-llama/Llama-3.3-70B-Instruct", 128_000),
        ("meta-llama/Meta-Llama-3-8B-Instruct", 8_192),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 10_000_000),
        ("mistralai/Mixtral-8x22B-Instruct-v0.1", 64_000),
        ("Qwen/Qwen2.5-72B-Instruct", 131_072),
        ("Qwen/Qwen3-32B", 32_768),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", 262_144),
        ("deepseek-ai/DeepSeek-V3-0324", 128_000),
        ("x-ai/grok-4-fast", 2_000_000),
    ],
)
def test_d49_a_model_is_known_by_the_name_that_a_cloud_or_a_router_gives_it(model: str, tokens: int) -> None:
    assert window(model) == tokens


@pytest.mark.parametrize(
    "model",
    [
        "",
        "/",
        "unknown-model",
        "gpt",
        "gpt-4o-audio",
        "gpt-4o-2024",
        "gpt-4o-",
        " gpt-4o",
        "my-gpt-4o",
        "acme/gpt-4o",
        "gpt-4o/v2",
        "ft:gpt-4o-mini-2024-07-18:acme::abc",
        "claude",
        "claude-latest",
        "claude-9",
        "claude-opus-4-5-fast",
        "claude-sonnet-4-5-20250929-v1:0",
        "anthropic.claude-3-sonnet-20240229-v1:0:28k",
        "acme.claude-3-haiku-20240307-v1:0",
        "llama3.1:70b",
        "codellama-7b",
        "o3\u0307",
        "gpt-4\u043e",
        "\u212a" * 3,
        "2025-01-01",
        "-latest",
    ],
)
def test_an_unknown_name_is_never_guessed(model: str) -> None:
    assert window(model) is None


@given(st.text(max_size=40) | st.from_regex(r"[a-z]{1,9}[-/.@:][a-z0-9.:@/-]{0,20}", fullmatch=True))
def test_any_name_is_answered(model: str) -> None:
    suggestion = suggest(model, 5)
    assert (suggestion.window is None) == (suggestion.suggested_budget is None)


def test_the_source_says_which_table_and_as_of_when() -> None:
    assert suggest("gpt-4o", 0).source == suggest("nosuch", 0).source
    assert re.search(r"table as of 20\d\d-(0[1-9]|1[0-2])$", suggest("gpt-4o", 0).source)
