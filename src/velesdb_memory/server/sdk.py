"""What is used of ``mcp``, imported without what is not. The rest of the server imports it from here and only here.

``import mcp.server.lowlevel`` runs the initialisers of ``mcp`` and ``mcp.server``, which import every client, the
decorator framework and what they depend on: about a third of the time from start to the first answer, for nothing
that is used here. Both packages are put in place uninitialised instead, and initialise themselves in full when a name
that is missing is first asked for, so other code in the process sees no difference.
"""

from __future__ import annotations

import gc
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class _Deferred(ModuleType):
    """A package whose initialiser runs at the first access to a name that it lacks."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__package__ = spec.name
        self.__file__ = spec.origin
        self.__path__ = list(spec.submodule_search_locations or ())

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        # names with underscores are the import system asking, which must find nothing
        if name.startswith("__") or spec is None or spec.loader is None:
            raise AttributeError(name)
        object.__setattr__(self, "__class__", ModuleType)  # once: what is still missing then is missing
        spec.loader.exec_module(self)
        return getattr(self, name)


def _defer(name: str) -> None:
    if name not in sys.modules and (spec := find_spec(name)) is not None:
        module = _Deferred(spec)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


# thousands of classes are made and none is garbage: collecting meanwhile would be a third of what is left
_collecting = gc.isenabled()
gc.disable()
try:
    _defer("mcp")
    _defer("mcp.server")
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel.server import Server
    from mcp.shared.exceptions import MCPError
    from mcp.shared.message import ServerMessageMetadata, SessionMessage
finally:
    if _collecting:
        gc.enable()
    gc.freeze()


def http_manager(server: Server[Any], *, json_response: bool, max_body: int) -> StreamableHTTPSessionManager:
    """What serves MCP over HTTP; who may use it, and for how long, is up to its caller. Imported only where needed."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    return StreamableHTTPSessionManager(
        server,
        json_response=json_response,
        session_idle_timeout=None,
        max_sessions=None,
        max_request_body_size=max_body,
    )


def has_sessions(protocol_version: str | None) -> bool:
    """Whether a request with this MCP-Protocol-Version header belongs to a session; later versions have none."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    return protocol_version is None or protocol_version in HANDSHAKE_PROTOCOL_VERSIONS


__all__ = [
    "MCPError", "Server", "ServerMessageMetadata", "ServerRequestContext", "SessionMessage", "has_sessions",
    "http_manager", "types",
]  # fmt: skip
