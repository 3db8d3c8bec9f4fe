"""MCP over standard input and output: one JSON-RPC message a line, in UTF-8 whatever the locale.

The library's own transport gives up the calls in flight when input ends, and leaves a line that is not JSON without
an answer. This one answers both, keeps standard output for the protocol alone, and ends when there is nobody left to
serve: input at its end, output broken, the parent gone, or a signal.

Nothing heavy is imported here: the descriptors are moved before any import could print.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from .messages import INTERNAL_ERROR, INVALID_REQUEST, NotAMessage, error, read
from .parent import Parent
from .signals import GRACE, HURRY, when_asked_to_end

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from ..context.ingest import Roots
    from ..service import MemoryService
    from .log import Log
    from .sdk import Server, SessionMessage

MAX_LINE: Final = 80 * 2**20  # all images that one compilation may have, with room for texts
MAX_UNANSWERED: Final = 10_000  # requests read and not yet answered; more wait in the pipe
MAX_UNSENT: Final = 64 * 2**20  # bytes of answers the client has not taken
PATIENCE: Final = 30.0  # seconds for calls in flight while somebody may still read their answers
WATCH: Final = 0.25  # seconds between two looks at the parent and at standard output
CLOSING: Final = 0.3  # seconds for the last answer to leave
CHUNK: Final = 65_536


def serve_stdio(
    open_service: Callable[[], MemoryService],
    *,
    default_ttl: int | None = None,
    roots: Roots | None = None,
    quiet: bool = False,
    log: Log | None = None,
) -> int:
    """Serve one client until it leaves; returns the exit code of the process.

    ``open_service`` is called soon after the tools were listed or by the first tool call, in a worker thread, and
    again if it fails. ``default_ttl`` is the lifetime in seconds of facts whose writer names none. ``roots`` are the
    directories that fragments may be read from. ``quiet`` silences notices on standard error; ``log`` has a line for
    each call.
    """
    try:
        source, sink = _claim()
    except OSError as error:
        print(f"velesdb-memory: standard input and output are not usable: {error.strerror}", file=sys.stderr)
        return 1
    parent = Parent()

    import anyio

    from .app import Application, build_server

    application = Application(open_service, default_ttl=default_ttl, roots=roots, quiet=quiet, log=log)
    session = _Session(source, sink, parent)
    clean = anyio.run(session.serve, build_server(application))
    if session.reason and not quiet:
        print(f"velesdb-memory: {session.reason}", file=sys.stderr, flush=True)
    if not (clean and application.close_soon()):
        # a thread that cannot be interrupted would hold the process; every acknowledged write is durable
        os._exit(0)
    return 0


def _claim() -> tuple[int, int]:
    """Private descriptors of standard input and output; the public ones lead to nothing and to standard error.

    What dependencies, C libraries and child processes print then cannot reach the client, nor can they take its input.
    """
    source, sink = _above(0), _above(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(nothing, 1)
    finally:
        if nothing > 2:
            os.close(nothing)
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        for fd in (source, sink):
            msvcrt.setmode(fd, os.O_BINARY)
        # children inherit handles, which know nothing of descriptors
        for fd, name in ((0, -10), (1, -11)):
            ctypes.windll.kernel32.SetStdHandle(name, ctypes.c_void_p(msvcrt.get_osfhandle(fd)))
    stdout = cast("Any", sys.stdout)
    if stdout is not None:
        # a print that the locale cannot encode must not fail the call that made it
        with suppress(AttributeError, OSError, ValueError):
            stdout.reconfigure(errors="backslashreplace")
    return source, sink


def _above(fd: int) -> int:
    """A duplicate of ``fd`` that is not itself one of the three standard descriptors, should some be closed."""
    duplicate = os.dup(fd)
    if duplicate > 2:
        return duplicate
    try:
        return _above(fd)
    finally:
        os.close(duplicate)


class _Session:
    """One client: what it sends, what it gets, and when to leave."""

    def __init__(self, source: int, sink: int, parent: Parent) -> None:
        self._source = source
        self._sink = sink
        self._parent = parent
        self._outbox: SimpleQueue[tuple[bytes, bool] | None] = SimpleQueue()
        self._unsent = 0
        self._unanswered = 0
        self._deadline: float | None = None
        self.reason = ""

    # Everything below runs on the loop, except what is marked as a thread's

    async def serve(self, server: Server[Any]) -> bool:
        """Serve until there is a reason to stop and the calls in flight are answered. False if some could not be."""
        import anyio

        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        inbox, requests = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        self._inbox: MemoryObjectSendStream[SessionMessage | Exception] = inbox
        answers_in, answers = anyio.create_memory_object_stream["SessionMessage"](0)
        when_asked_to_end(self._loop, lambda: self._stop(GRACE, "stopped by a signal"))
        writer = threading.Thread(target=self._write, daemon=True, name="stdout")
        writer.start()
        threading.Thread(target=self._read, daemon=True, name="stdin").start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            tasks.start_soon(self._forward, answers)
            tasks.start_soon(server.run, requests, answers_in, server.create_initialization_options())
            while self._deadline is None or (self._unanswered and monotonic() < self._deadline):
                await self._change()
            if self._unanswered:
                # cancelling would wait for threads that do not end
                self._finish(writer)
                os._exit(0)
            await inbox.aclose()
            tasks.cancel_scope.cancel()
        return self._finish(writer)

    async def _change(self) -> None:
        self._changed.clear()
        timeout = None if self._deadline is None else max(0.0, self._deadline - monotonic())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout)

    def _finish(self, writer: threading.Thread) -> bool:
        self._outbox.put(None)
        writer.join(CLOSING)
        return not writer.is_alive()

    def _stop(self, grace: float, reason: str = "") -> None:
        """Take no more requests; leave when the rest is answered, or when the shortest grace is over.

        A second wish to end means that the first takes too long.
        """
        self.reason = self.reason or reason
        if self._deadline is None:
            self._deadline = monotonic() + grace
        else:
            self._deadline = min(self._deadline, monotonic() + HURRY)
        self._changed.set()

    async def _watch(self) -> None:
        while True:
            if self._parent.gone():
                self._stop(HURRY, "the parent process is gone")
            elif _hung_up(self._sink):
                self._stop(HURRY, "standard output is closed")
            await asyncio.sleep(WATCH)

    # In

    def _read(self) -> None:
        """The thread that reads standard input; it may stay blocked when the process leaves."""
        try:
            for batch in self._batches():
                asyncio.run_coroutine_threadsafe(self._deliver(batch), self._loop).result()
            self._loop.call_soon_threadsafe(self._stop, PATIENCE)
        except (RuntimeError, asyncio.CancelledError):
            pass  # the loop has ended while this thread waited

    def _batches(self) -> Any:
        """Thread: the messages of standard input, as many at once as one read gives."""
        pieces: list[bytes] = []
        size = 0
        while True:
            try:
                chunk = os.read(self._source, CHUNK)
            except OSError:
                chunk = b""
            ended = not chunk
            first, *others = (chunk or b"\n").split(b"\n")
            batch: list[SessionMessage | bytes] = []
            for index, piece in enumerate((first, *others)):
                if index:
                    batch += self._message(b"".join(pieces), size)
                    pieces, size = [], 0
                size += len(piece)
                # the rest of a line that is too long is counted and not kept
                if size <= MAX_LINE:
                    pieces.append(piece)
            if batch:
                yield batch
            if ended:
                return

    def _message(self, line: bytes, size: int) -> list[SessionMessage | bytes]:
        """Thread: the message in ``line``, or the answer to what is none; nothing for a blank line."""
        from .sdk import ServerMessageMetadata, SessionMessage, types

        if size > MAX_LINE:
            return [error(None, INVALID_REQUEST, f"a line of {size} bytes is over the cap of {MAX_LINE}")]
        if not line.removeprefix(codecs.BOM_UTF8).strip(b" \t\r\n"):
            return []
        try:
            found = read(line, "the line")
        except NotAMessage as problem:
            return [problem.answer]
        try:
            # pydantic checks the rest: the method, and what a response must have
            parsed = types.jsonrpc_message_adapter.validate_python(found, by_name=False)
        except ValueError:
            return [error(found.get("id"), INVALID_REQUEST, "invalid request: neither a request nor a response")]
        if isinstance(parsed, types.JSONRPCRequest):
            return [SessionMessage(parsed, ServerMessageMetadata(on_request_unanswered=self._unanswerable))]
        return [SessionMessage(parsed)]

    async def _deliver(self, batch: list[SessionMessage | bytes]) -> None:
        from .sdk import types

        for item in batch:
            while self._deadline is None and (self._unanswered >= MAX_UNANSWERED or self._unsent >= MAX_UNSENT):
                await asyncio.sleep(0.01)
            if self._deadline is not None:
                return
            if isinstance(item, bytes):
                self._send(item, False)
                continue
            if isinstance(item.message, types.JSONRPCRequest):
                self._unanswered += 1
            await self._inbox.send(item)

    async def _unanswerable(self) -> None:
        """A request was cancelled by its sender and gets no answer."""
        self._answered(1)

    # Out

    async def _forward(self, answers: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with answers:
            await self._forward_each(answers)

    async def _forward_each(self, answers: MemoryObjectReceiveStream[SessionMessage]) -> None:
        from .sdk import types

        async for item in answers:
            message = item.message
            is_answer = isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None
            try:
                line = msgspec.json.encode(message.model_dump(mode="json", by_alias=True, exclude_unset=True))
            except Exception:
                line = error(getattr(message, "id", None), INTERNAL_ERROR, "internal error: the answer is not JSON")
            self._send(line, is_answer)

    def _send(self, line: bytes, is_answer: bool) -> None:
        self._unsent += len(line)
        self._outbox.put((line, is_answer))

    def _sent(self, size: int, answers: int, broken: bool) -> None:
        self._unsent -= size
        self._answered(answers)
        if broken:
            self._stop(HURRY, "standard output is closed")

    def _answered(self, count: int) -> None:
        self._unanswered -= count
        if not self._unanswered:
            self._changed.set()

    def _write(self) -> None:
        """The thread that writes standard output, so that a client that does not read stops nobody else."""
        broken = False
        item = self._outbox.get()
        while item is not None:
            batch = [item]
            with suppress(Empty):
                while len(batch) < 256 and (item := self._outbox.get_nowait()) is not None:
                    batch.append(item)
            if not broken:
                try:
                    _write_all(self._sink, b"".join(line + b"\n" for line, _ in batch))
                except OSError:
                    broken = True
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(
                    self._sent, sum(len(line) for line, _ in batch), sum(answer for _, answer in batch), broken
                )
            if item is not None:
                item = self._outbox.get()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


if sys.platform == "win32":

    def _hung_up(fd: int) -> bool:
        """Windows tells at the next write, and by the end of standard input."""
        return False

else:
    import select

    def _hung_up(fd: int) -> bool:
        """Whether nobody can read what is written to ``fd`` any more."""
        poller = select.poll()
        poller.register(fd, 0)
        return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poller.poll(0))
