"""Compiling through a service, in one line."""

from __future__ import annotations

from typing import Any

from velesdb_memory import CompiledContext, CompilePolicy, CompileRequest, ContextFragment, MemoryService
from velesdb_memory.context.handles import content_hash, handle_of


def request_for(
    *fragments: ContextFragment | str,
    query: str = "",
    budget: int = 10_000,
    project: str | None = None,
    target_model: str | None = None,
    scope: Any = None,
    **policy: Any,
) -> CompileRequest:
    """A request of texts or fragments; what is not named here is a field of the policy."""
    given = [ContextFragment(entry) if isinstance(entry, str) else entry for entry in fragments]
    return CompileRequest(query, given, budget, project, target_model, scope, CompilePolicy(**policy))


def compiled(memory: MemoryService, *fragments: ContextFragment | str, **more: Any) -> CompiledContext:
    return memory.compile_context(request_for(*fragments, **more))


def handle(text: str) -> str:
    """The handle of a text."""
    return handle_of(content_hash(text.encode()))


def noted(context: CompiledContext) -> list[str]:
    """What a compilation warns of beside what it set aside."""
    return [warning.reason for warning in context.warnings if not isinstance(warning.fragment_id, int)]
