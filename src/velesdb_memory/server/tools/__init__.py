"""The tools, one module a family; each has a tuple ``TOOLS``. ``ALL`` is the one list of what the server offers."""

from __future__ import annotations

from typing import Final

from ..declare import AnyTool
from . import audit, context, knowledge, memory, migration, working

_FAMILIES: Final = (memory, knowledge, audit, context, working, migration)
ALL: Final[tuple[AnyTool, ...]] = tuple(
    sorted((tool for family in _FAMILIES for tool in family.TOOLS), key=lambda tool: tool.name)
)
