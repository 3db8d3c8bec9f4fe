"""The tools, one module a family; each has a tuple ``TOOLS``. ``ALL`` is the one list of what the server offers."""

from __future__ import annotations

from typing import Final

from ..declare import AnyTool
from . import audit, context, knowledge, memory, working

ALL: Final[tuple[AnyTool, ...]] = tuple(
    sorted((*memory.TOOLS, *knowledge.TOOLS, *audit.TOOLS, *context.TOOLS, *working.TOOLS), key=lambda tool: tool.name)
)
