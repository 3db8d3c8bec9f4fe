"""What compilations keep stays as it is while the facts move to another embedder (D52)."""

from __future__ import annotations

from support.jobs import Opener
from support.migrations import PAUSE, QUICK, fill, text_of
from support.stores import assert_sound
from velesdb_memory import CompileRequest, ContextFragment, MemoryScope, WorkingContext


def test_memories_are_pulled_by_meaning_before_and_after_the_switch(moving: Opener) -> None:
    memory = moving()
    fill(memory, 10)
    request = CompileRequest(text_of(4), [ContextFragment("a fragment")], 500, memory_scope=MemoryScope(k=1))
    before = memory.compile_context(request)
    memory.migrate("target", PAUSE, **QUICK)
    after = memory.compile_context(request)
    assert before.warnings == after.warnings == []
    assert text_of(4) in before.content and text_of(4) in after.content


def test_originals_savings_and_working_contexts_outlive_a_migration(moving: Opener) -> None:
    memory = moving()
    fill(memory, 10)
    compiled = memory.compile_context(CompileRequest("q", [ContextFragment("set aside " * 90)], 9, project="p"))
    memory.save_working_context("p", "s", WorkingContext(goal="go on"))
    memory.migrate("target", PAUSE, **QUICK)
    memory.migrate("other", PAUSE, **QUICK)
    handle = compiled.retrieval_handles[0].handle
    assert memory.retrieve_context_source(handle).content == "set aside " * 90
    assert memory.context_savings("p").events == 1
    assert memory.load_working_context("p", "s").working == WorkingContext(goal="go on")
    assert_sound(memory)
