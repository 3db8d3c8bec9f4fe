"""The context windows of models, from a table: nothing is asked over a network, and an unknown name stays unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from .model import BudgetSuggestion

AS_OF: Final = "2026-11"
SOURCE: Final = f"static table as of {AS_OF}"

# Tokens, as the makers publish them; where they say no more than 128K, 128,000. Models of 2^20 tokens or a little less
# are listed with a million, which always fits.
_PUBLISHED: Final[Mapping[int, str]] = {
    200_000: """claude-3-opus claude-3-sonnet claude-3-haiku claude-3.5-sonnet claude-3.5-haiku claude-3.7-sonnet
        claude-opus-4 claude-opus-4-0 claude-sonnet-4 claude-sonnet-4-0 claude-opus-4.1 claude-opus-4.5
        claude-sonnet-4.5 claude-haiku-4.5
        o1 o1-pro o3 o3-pro o3-mini o3-deep-research o4-mini o4-mini-deep-research""",
    1_000_000: """claude-opus-4.6 claude-opus-4.7 claude-opus-4.8 claude-opus-5 claude-opus-5.5 claude-sonnet-4.6
        claude-sonnet-5 claude-sonnet-5.5 claude-haiku-5.5 claude-fable-5 claude-fable-5.1
        gpt-4.1 gpt-4.1-mini gpt-4.1-nano
        gemini-1.5-flash gemini-1.5-flash-8b gemini-2.0-flash gemini-2.0-flash-lite gemini-2.5-pro gemini-2.5-flash
        gemini-2.5-flash-lite gemini-3-pro-preview gemini-3-flash-preview gemini-3.1-pro-preview gemini-3.5-flash
        gemini-3.8-flash
        llama-4-maverick llama-4-maverick-17b llama-4-maverick-17b-128e
        deepseek-v4-pro grok-4.3 nova-premier nova-2-lite""",
    1_050_000: "gpt-5.4 gpt-5.5 gpt-5.6 gpt-5.6-sol gpt-6-sol gpt-6.2-sol",
    400_000: """gpt-5 gpt-5-mini gpt-5-nano gpt-5-pro gpt-5-codex gpt-5.1 gpt-5.1-codex gpt-5.1-codex-mini
        gpt-5.1-codex-max gpt-5.2 gpt-5.2-pro gpt-5.2-codex gpt-5.3-codex gpt-5.4-mini""",
    128_000: """gpt-4o gpt-4o-mini chatgpt-4o gpt-4-turbo gpt-5-chat gpt-5.1-chat gpt-5.2-chat o1-mini o1-preview
        llama-3.1-8b llama-3.1-70b llama-3.1-405b llama-3.2-1b llama-3.2-3b llama-3.2-11b-vision llama-3.2-90b-vision
        llama-3.3-70b
        mistral-large mistral-large-2407 mistral-large-2411 mistral-medium-latest mistral-medium-2505
        mistral-medium-2508 mistral-small-latest mistral-small-2503 mistral-small-2506 mistral-nemo open-mistral-nemo
        devstral-small-2505 devstral-small-2507 devstral-medium-2507 ministral-3b-latest ministral-8b-latest
        deepseek-chat deepseek-reasoner deepseek-v3 deepseek-v3-0324 deepseek-v3.1 deepseek-v3.2 deepseek-r1
        deepseek-r1-0528
        command-r command-r-plus command-r7b nova-micro""",
    131_072: """gpt-oss-20b gpt-oss-120b grok-2 grok-2-1212 grok-3 grok-3-fast grok-3-mini grok-3-mini-fast
        qwen2.5-7b qwen2.5-14b qwen2.5-32b qwen2.5-72b qwen2.5-coder-7b qwen2.5-coder-14b qwen2.5-coder-32b""",
    256_000: """grok-4 grok-4-0709 grok-code-fast-1 codestral-latest codestral-2501 codestral-2508 mistral-large-2512
        mistral-medium-3.5 devstral-2512 command-a""",
    262_144: """qwen3-235b-a22b-instruct-2507 qwen3-235b-a22b-thinking-2507 qwen3-30b-a3b-instruct-2507
        qwen3-30b-a3b-thinking-2507 qwen3-4b-instruct-2507 qwen3-4b-thinking-2507 qwen3-coder-480b-a35b
        qwen3-coder-30b-a3b qwen3-next-80b-a3b qwen3-next-80b-a3b-thinking""",
    # without the stretching (YaRN) that has to be switched on
    32_768: """qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen3-0.6b qwen3-1.7b qwen3-4b qwen3-8b qwen3-14b qwen3-32b
        qwen3-30b-a3b qwen3-235b-a22b""",
    2_000_000: """gemini-1.5-pro grok-4-fast grok-4-fast-reasoning grok-4-fast-non-reasoning grok-4.1-fast
        grok-4.1-fast-reasoning grok-4.1-fast-non-reasoning""",
    10_000_000: "llama-4-scout llama-4-scout-17b llama-4-scout-17b-16e",
    500_000: "grok-4.5",
    300_000: "nova-lite nova-pro",
    64_000: "mixtral-8x22b open-mixtral-8x22b",
    32_000: "mixtral-8x7b open-mixtral-8x7b",
    8_192: "gpt-4 llama-3-8b llama-3-70b",
}
# 4.5 and 4-5 are one version: makers, clouds and routers write either
_WINDOWS: Final = {name.replace(".", "-"): window for window, names in _PUBLISHED.items() for name in names.split()}

# Makers, and clouds and routers that pass their models through; behind any other prefix may be anything
_PREFIXES: Final = frozenset(
    {"anthropic", "openai", "google", "gemini", "models", "meta", "meta-llama", "mistral", "mistralai", "deepseek"}
    | {"deepseek-ai", "qwen", "xai", "x-ai", "cohere", "amazon", "azure", "bedrock", "vertex_ai", "openrouter"}
)
_BEDROCK: Final = re.compile(
    r"(?:(?:us|us-gov|eu|apac|jp|au|ca|global)\.)?(?:amazon|anthropic|cohere|meta|mistral|openai|qwen)\."
    r"(.+?)(?:-v\d+(?::\d+)?|-\d+:\d+)?"
)
# Llama's name is written in three ways
_LLAMA: Final = re.compile(r"\A(?:meta-)?llama-?(?=\d)")
# A snapshot of a model: -20250929, -2024-08-06, @20250929, -latest, -001, -08-2024, -preview-05-20, -preview-09-2025
_SNAPSHOT: Final = re.compile(
    r"(?:[-@](?:20\d{6}|latest)|-20\d\d-\d\d-\d\d|-00\d|-\d\d-20\d\d|-preview-\d\d-(?:20)?\d\d)\Z"
)
_TUNED: Final = re.compile(r"-instruct(?:-v0-\d)?\Z")


def suggest(target_model: str, reserve_tokens: int = 0) -> BudgetSuggestion:
    """The context window of ``target_model`` and what it leaves beside ``reserve_tokens``, both in tokens.

    Names are matched whole, in any ASCII case: the model's own, one of its dated snapshots, or either as a cloud or a
    router writes it. Both numbers are None for any other name.
    """
    window = _window(target_model)
    return BudgetSuggestion(window, None if window is None else max(0, window - reserve_tokens), SOURCE)


def _window(model: str) -> int | None:
    if not model.isascii():
        return None
    *prefixes, name = model.lower().split("/")
    if not _PREFIXES.issuperset(prefixes):
        return None
    hosted = _BEDROCK.fullmatch(name)
    exact = _LLAMA.sub("llama-", hosted[1] if hosted else name).replace(".", "-")
    undated = _SNAPSHOT.sub("", exact)
    return _WINDOWS.get(exact) or _WINDOWS.get(undated) or _WINDOWS.get(_TUNED.sub("", undated))
