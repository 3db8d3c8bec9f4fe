"""The tools, one module a family; each has a tuple ``TOOLS``. ``ALL`` is the one list of what the server offers."""

from __future__ import annotations

from typing import Final

from ..declare import AnyTool
from . import audit, knowledge, memory

ALL: Final[tuple[AnyTool, ...]] = tuple(
    sorted((*memory.TOOLS, *knowledge.TOOLS, *audit.TOOLS), key=lambda tool: tool.name)
)
