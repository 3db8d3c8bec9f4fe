"""Which scenarios of the conformance suite do not apply to this server, and why.

A reason names what the server would have to offer for the scenario to apply, so that it is checked against the running
server: once the server offers it, the scenario must pass.
"""

from __future__ import annotations

from typing import Final, NamedTuple

VERSIONS: Final = ("2025-11-25", "2026-07-28")


class Missing(NamedTuple):
    """What the server does not offer: a capability, a tool of that name, or a first tool of that name."""

    kind: str
    name: str

    def __str__(self) -> str:
        if self.kind == "capability":
            return f"the server does not declare the capability {self.name}"
        if self.kind == "first":
            return f"the suite calls the first tool of the list, with no arguments; here that is not {self.name}"
        return f"the suite's own tool {self.name} is not part of this server"


def _capability(name: str, *scenarios: str) -> dict[str, Missing]:
    return dict.fromkeys(scenarios, Missing("capability", name))


def _tool(name: str, *scenarios: str) -> dict[str, Missing]:
    return dict.fromkeys(scenarios, Missing("tool", name))


NOT_APPLICABLE: Final = {
    **_capability("logging", "logging-set-level"),
    **_capability("completions", "completion-complete"),
    **_capability(
        "resources",
        "resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read",
        "resources-subscribe", "resources-unsubscribe", "sep-2164-resource-not-found",
    ),
    **_capability(
        "prompts",
        "prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource",
        "prompts-get-with-image", "input-required-result-non-tool-request",
    ),
    **_tool("test_simple_text", "tools-call-simple-text"),
    **_tool("test_image_content", "tools-call-image"),
    **_tool("test_audio_content", "tools-call-audio"),
    **_tool("test_embedded_resource", "tools-call-embedded-resource"),
    **_tool("test_multiple_content_types", "tools-call-mixed-content"),
    **_tool("test_tool_with_logging", "tools-call-with-logging"),
    **_tool("test_error_handling", "tools-call-error"),
    **_tool("test_tool_with_progress", "tools-call-with-progress"),
    **_tool("test_sampling", "tools-call-sampling"),
    **_tool("test_elicitation", "tools-call-elicitation"),
    **_tool("json_schema_2020_12_tool", "json-schema-2020-12"),
    **_tool("test_elicitation_sep1034_defaults", "elicitation-sep1034-defaults"),
    **_tool("test_elicitation_sep1330_enums", "elicitation-sep1330-enums"),
    **_tool("test_reconnection", "server-sse-polling"),
    **_tool("test_custom_headers", "http-custom-header-server-validation"),
    **_tool(
        "test_input_required_result_elicitation",
        "input-required-result-basic-elicitation", "input-required-result-missing-input-response",
        "input-required-result-result-type", "input-required-result-ignore-extra-params",
        "input-required-result-validate-input", "input-required-result-unsupported-methods",
    ),
    **_tool("test_input_required_result_sampling", "input-required-result-basic-sampling"),
    **_tool("test_input_required_result_list_roots", "input-required-result-basic-list-roots"),
    **_tool("test_input_required_result_request_state", "input-required-result-request-state"),
    **_tool("test_input_required_result_multiple_inputs", "input-required-result-multiple-input-requests"),
    **_tool("test_input_required_result_multi_round", "input-required-result-multi-round"),
    **_tool("test_input_required_result_tampered_state", "input-required-result-tampered-state"),
    **_tool("test_input_required_result_capabilities", "input-required-result-capability-check"),
}  # fmt: skip

# single checks of scenarios that do apply
UNTESTABLE: Final = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": Missing("tool", "test_missing_capability"),
        "sep-2575-missing-capability-http-400": Missing("tool", "test_missing_capability"),
        "sep-2575-http-server-no-independent-requests-on-stream": Missing("tool", "test_streaming_elicitation"),
        "sep-2575-server-no-log-without-loglevel": Missing("tool", "test_logging_tool"),
    },
    "caching": {
        "sep-2549-prompts-list-caching-hints": Missing("capability", "prompts"),
        "sep-2549-resources-list-caching-hints": Missing("capability", "resources"),
        "sep-2549-resources-templates-list-caching-hints": Missing("capability", "resources"),
    },
    # tests/https/test_serving.py shows the same with memory_status, which needs no arguments
    "http-header-validation": {
        "sep-2243-server-accepts-whitespace-header-value": Missing("first", "a tool without required arguments"),
    },
}

# The suite's client for these cannot do what they are about over TLS: it takes the Host header that it sends for the
# name to find in the certificate, or always speaks plain HTTP. They run against the same daemon with --http-insecure.
PLAIN_ONLY: Final = {"dns-rebinding-protection", "http-header-validation"}
