"""The tools as an MCP server: what it says about itself, and how a call runs, fails and is logged.

Errors map once, by category: what the caller can fix and what does not exist are -32602, everything else -32603. Text
of an exception that is not ours never reaches the client: it may hold anything.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Lock, Thread, Timer
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.from_thread
import anyio.to_thread

from .. import cancel
from ..context.ingest import Roots
from ..errors import Cancelled, Category, EmbedError, InvalidArgument, ReadOnlyAccess, StorageError, VelesMemoryError
from ..model import JsonObject
from .declare import AnyTool, Host
from .log import Log
from .sdk import MCPError, Server, ServerRequestContext, types
from .tools import ALL
from .wire import shown, suggestion

if TYPE_CHECKING:
    from ..service import MemoryService

NAME: Final = "velesdb-memory"
WORKERS: Final = 8  # calls that run at once; a store has one writer and a model seldom more
WARM_UP: Final = 0.25  # seconds after the tools were listed
CLOSING: Final = 0.3  # seconds for the service to close; all is on disk already
HEARTBEAT: Final = 1.0  # seconds between two signs of life of a call whose caller asked for its progress
READ_ONLY: Final = "velesdb_memory.read_only"  # the key of an HTTP request's scope that says it may not write
UNEXPECTED: Final = "internal error: the call failed unexpectedly; its details stay with the server"

INTRODUCTION: Final = (
    "Durable memory that stays on this machine: facts, typed metadata, and labelled links between facts. Recall before "
    "you start on a task; remember decisions with their reasons when you end it, and link them to their evidence, so "
    "that why can explain them later. When there is more text than fits, compile_context makes it fit a token budget, "
    "and retrieve_context_source gives back what was set aside. Before a session ends, save_working_context keeps its "
    "state for the next one. Ids are 64-bit: relay the _str forms. Tools:"
)


def instructions(tools: Sequence[AnyTool] = ALL) -> str:
    """What the server tells a model about itself; names every tool."""
    return "\n".join([INTRODUCTION, *(f"- {tool.name}: {tool.summary}" for tool in tools)])


def listing(tools: Sequence[AnyTool] = ALL) -> types.ListToolsResult:
    """The answer to tools/list."""
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=tool.decoder.schema,
                output_schema=tool.output_schema,
                annotations=types.ToolAnnotations(
                    title=tool.title,
                    read_only_hint=tool.read_only,
                    destructive_hint=tool.destructive,
                    idempotent_hint=tool.idempotent,
                    open_world_hint=False,
                ),
            )
            for tool in tools
        ]
    )


class Application:
    """The tools over one service, which is opened once the client knows the tools, or by the first call."""

    def __init__(
        self,
        open_service: Callable[[], MemoryService],
        *,
        default_ttl: int | None = None,
        roots: Roots | None = None,
        tools: Sequence[AnyTool] = ALL,
        log: Log | None = None,
        quiet: bool = False,
    ) -> None:
        self._quiet = quiet
        self._open_service = open_service
        self._default_ttl = default_ttl
        self._roots = roots or Roots()
        self._tools = {tool.name: tool for tool in tools}
        self._host: Host | None = None
        self._opening = Lock()
        self._closed = False
        self._warming: Timer | None = None
        self._log = log or Log()
        self.loading = False

    def host(self) -> Host:
        """The open service; opened once, and tried again after a failure."""
        with self._opening:
            if self._closed:
                raise StorageError("the server is leaving")
            if self._host is None:
                with cancel.regardless():
                    self._host = Host(self._open_service(), self._default_ttl, self._roots)
            return self._host

    def warm_up(self) -> None:
        """Open the service soon, in a thread: the first call need not wait, and work that was left waiting goes on.

        The handshake comes first. A failure is kept for the call that meets it.
        """
        if self._warming is None:
            self._warming = Timer(WARM_UP, self._open_quietly)
            self._warming.daemon = True
            self._warming.start()

    def _open_quietly(self) -> None:
        self.loading = True
        try:
            # a search loads what searches need
            self.host().service.recall(NAME, k=1)
        except EmbedError as error:
            if not self._quiet:
                print(f"{NAME}: searches by meaning do not work yet: {error}", file=sys.stderr, flush=True)
        except Exception:
            return
        finally:
            self.loading = False

    def close(self) -> None:
        """Close the service if it was opened; it is not opened again."""
        if self._warming is not None:
            self._warming.cancel()
        with self._opening:
            self._closed = True
            host, self._host = self._host, None
        if host is not None:
            host.service.close()

    def close_soon(self) -> bool:
        """Close, unless it takes too long: False, and a thread that cannot be interrupted would hold the process."""
        closing = Thread(target=self.close, daemon=True)
        closing.start()
        closing.join(CLOSING)
        return not closing.is_alive()

    def call(
        self, name: str, arguments: Mapping[str, Any] | None, read_only: bool = False
    ) -> tuple[JsonObject, str]:
        """Run one tool, in the calling thread. Raises MCPError and nothing else."""
        started = perf_counter()
        verdict, level, size = "ok", "info", 0
        try:
            tool = self._tools.get(name)
            if tool is None:
                raise InvalidArgument(f"unknown tool {shown(name)}; {suggestion(name, self._tools)}", field="name")
            if read_only and not tool.read_only:
                raise ReadOnlyAccess(name)
            # arguments first: a call that cannot succeed need not open a store
            decoded = tool.decoder.decode(arguments)
            host = self.host()
            # opening may have taken long
            cancel.check()
            result, text = tool.encode(tool.handler(host, decoded), decoded)
            size = len(text)
            return result, text
        except VelesMemoryError as error:
            verdict = error.code
            internal = error.category is Category.INTERNAL
            level = "error" if internal and not isinstance(error, Cancelled) else "warn"
            code = types.INTERNAL_ERROR if internal else types.INVALID_PARAMS
            raise MCPError(code=code, message=_sendable(error.message)) from None
        except Exception as error:
            verdict, level = f"unexpected:{type(error).__name__}@{_origin(error)}", "error"
            raise MCPError(code=types.INTERNAL_ERROR, message=UNEXPECTED) from None
        finally:
            # measuring what came in costs as much as writing it
            if self._log.wants(level):
                known = name if name in self._tools else "unknown"
                ms = (perf_counter() - started) * 1000
                self._log.call(known, verdict, level, ms=ms, received=_size(arguments), sent=size)


def _origin(error: Exception) -> str:
    """The file and line that raised ``error``: enough to find a fault, and no content."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def _size(arguments: Mapping[str, Any] | None) -> int:
    return len(json.dumps(arguments, separators=(",", ":")))


def _sendable(message: str) -> str:
    """``message`` on one line and as UTF-8 can carry it, whatever it quotes."""
    return " ".join(message.encode("utf-8", "backslashreplace").decode().splitlines())


def _may_only_read(context: ServerRequestContext[Any]) -> bool:
    """Whether what carried this request says that its sender may not write; standard input never does."""
    return context.request is not None and context.request.scope.get(READ_ONLY, False)


def _while_wanted(call: Callable[..., tuple[JsonObject, str]], *arguments: Any) -> tuple[JsonObject, str]:
    """Thread: ``call``, which can find out whether its caller has withdrawn it."""
    with cancel.withdrawn_when(_withdrawn):
        return call(*arguments)


def _withdrawn() -> bool:
    try:
        anyio.from_thread.check_cancelled()
    except asyncio.CancelledError:
        return True
    return False


@asynccontextmanager
async def _signs_of_life(
    context: ServerRequestContext[Any], name: str, application: Application
) -> AsyncGenerator[None]:
    """While the block runs, tell its caller every second that it does. How much is left is not known."""
    failure: MCPError | None = None

    async def beat() -> None:
        for second in itertools.count(1):
            await anyio.sleep(HEARTBEAT)
            what = "the embedding model is being loaded; " if application.loading else ""
            await context.session.report_progress(second * HEARTBEAT, message=f"{what}{name} has run for {second} s")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        try:
            yield
        except MCPError as error:
            failure = error  # the group would wrap it
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def build_server(application: Application) -> Server[Any]:
    """The MCP server of ``application``, for any transport."""
    from .. import __version__

    limiter: anyio.CapacityLimiter | None = None
    tools = listing()
    readable = listing([tool for tool in ALL if tool.read_only])
    schemas = {tool.name: tool.input_schema for tool in tools.tools}

    async def list_tools(
        context: ServerRequestContext[Any], _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        application.warm_up()
        return readable if _may_only_read(context) else tools

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        nonlocal limiter
        if limiter is None:
            limiter = anyio.CapacityLimiter(WORKERS)
        work = partial(_while_wanted, application.call, params.name, params.arguments, _may_only_read(context))
        if params.meta is None or params.meta.get("progress_token") is None:
            result, text = await anyio.to_thread.run_sync(work, limiter=limiter)
        else:
            async with _signs_of_life(context, params.name, application):
                result, text = await anyio.to_thread.run_sync(work, limiter=limiter)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], structured_content=result, is_error=False
        )

    # the library logs the content of requests that it cannot make sense of
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    server = Server[Any](
        NAME,
        version=__version__,
        instructions=instructions(),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=schemas.get,
    )
    server.middleware.clear()  # tracing that nothing here exports
    return server
