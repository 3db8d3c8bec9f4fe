"""Everything between a connection and MCP: which requests are let through, as whom, and to which session.

The protocol itself is the library's. What it gets has passed, in this order: the path, Host and Origin, the token, the
size of the body, its JSON, and the session. Each refusal has one status, and one line in the log that repeats nothing
of the request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from ..errors import StorageError
from ..limits import MAX_STALL_SECONDS
from .app import READ_ONLY, UNEXPECTED
from .auth import Token, Tokens, bearer
from .log import Log
from .messages import INTERNAL_ERROR, INVALID_REQUEST, NotAMessage, error, read
from .sdk import has_sessions, http_manager
from .sessions import Session, Sessions

if TYPE_CHECKING:
    from .sdk import Server

MCP_PATH: Final = "/mcp"
HEALTH_PATH: Final = "/health"
SESSION_HEADER: Final = "mcp-session-id"
REALM: Final = 'Bearer realm="velesdb-memory"'
GONE: Final = 499  # in the log: the client hung up before there was an answer, as other servers write it
LARGE: Final = 262_144  # bytes of JSON that are read in a thread, so that other clients do not wait
DRAINING: Final = {"retry-after": "5", "connection": "close"}


class Refused(Exception):
    """A request that is not let through: the status, and the body that says why."""

    def __init__(
        self, status: int, message: str, headers: dict[str, str] | None = None, *, body: bytes | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body = body or error(None, INTERNAL_ERROR if status >= 500 else INVALID_REQUEST, message)


class _Gone(Exception):
    """The client hung up before it had sent its request."""


class _Reply:
    """What is sent in answer to one request, and what there is to say about it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None
        self.received = 0  # bytes of bodies
        self.sent = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.sent += len(message.get("body", b""))
        await self._send(message)

    async def give(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        raw = {"content-length": str(len(body)), **headers}
        encoded = [(name.encode(), value.encode()) for name, value in raw.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})


class Gate:
    """The ASGI application of the daemon.

    ``hosts`` and ``origins`` are what requests may name, in lower case; ``must_have_token`` refuses those without.
    """

    def __init__(
        self,
        server: Server[Any],
        sessions: Sessions,
        tokens: Tokens,
        *,
        hosts: Iterable[str],
        origins: Iterable[str],
        must_have_token: bool,
        max_body: int,
        log: Log,
    ) -> None:
        self.sessions = sessions
        self._tokens = tokens
        self._hosts = frozenset(hosts)
        self._origins = frozenset(origins)
        self._must_have_token = must_have_token
        self._max_body = max_body
        self._log = log
        # which of the two a client gets, it says itself by what it accepts
        self._streaming, self._plain = (
            http_manager(server, json_response=json, max_body=max_body) for json in (False, True)
        )
        self._calls = 0  # requests being answered; streams that only listen are not
        self._deadline: float | None = None
        self._changed = anyio.Event()

    # Life

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Requests can be served in the block."""
        async with self._streaming.run(), self._plain.run():
            yield

    def leave_within(self, seconds: float) -> None:
        """Take no more requests, and do not wait for longer than this for those being answered."""
        deadline = monotonic() + seconds
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
        self._note()

    async def drained(self) -> bool:
        """Wait until the daemon is to leave, and every call is answered: False if some were not in time."""
        while self._deadline is None or (self._calls and monotonic() < self._deadline):
            self._changed = anyio.Event()
            with anyio.move_on_after(None if self._deadline is None else self._deadline - monotonic()):
                await self._changed.wait()
        if self._calls:
            return False
        for session in self.sessions:
            await self._end(session)
        return True

    async def tidy(self) -> None:
        """End the sessions that have been idle for too long, and those whose token was revoked."""
        ended = self.sessions.expired()
        if any(session.owner for session in self.sessions):
            try:
                valid = self._tokens.hashes()
            except StorageError:
                valid = frozenset[str]()  # a request would be refused as well
            ended += [session for session in self.sessions if session.owner and session.owner not in valid]
        for session in ended:
            await self._end(session)

    def _note(self) -> None:
        self._changed.set()

    # Requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        reply = _Reply(send)
        if scope["path"] == HEALTH_PATH:
            await self._health(scope["method"], reply)
            return
        started = perf_counter()
        counts = scope["method"] != "GET"
        self._calls += counts
        try:
            await self._serve(scope, receive, reply)
        except Refused as refusal:
            headers = {"content-type": "application/json", **refusal.headers}
            await reply.give(refusal.status, refusal.body, headers)
        except _Gone:
            pass
        except Exception:
            # what it says may hold anything
            if reply.status is None:
                await reply.give(500, error(None, INTERNAL_ERROR, UNEXPECTED), {"content-type": "application/json"})
        finally:
            self._calls -= counts
            self._note()
            self._log.request(
                scope["method"], scope["path"], reply.status or GONE,
                ms=(perf_counter() - started) * 1000, received=reply.received, sent=reply.sent, paths=(MCP_PATH,),
            )  # fmt: skip

    async def _health(self, method: str, reply: _Reply) -> None:
        plain = {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store"}
        if method not in ("GET", "HEAD"):
            await reply.give(405, b"", {"allow": "GET, HEAD"})
        elif self._deadline is not None:
            await reply.give(503, b"leaving", {**plain, **DRAINING})
        else:
            await reply.give(200, b"OK", plain)

    async def _serve(self, scope: Scope, receive: Receive, reply: _Reply) -> None:
        headers = Headers(scope=scope)
        if scope["path"].rstrip("/") != MCP_PATH:
            raise Refused(404, f"there is only {MCP_PATH} and {HEALTH_PATH} here")
        self._check_sender(headers)
        if self._deadline is not None:
            raise Refused(503, "the daemon is leaving", DRAINING)
        token = self._authenticate(headers)
        if scope["method"] not in ("GET", "POST", "DELETE"):
            raise Refused(405, "only GET, POST and DELETE are answered here", {"allow": "GET, POST, DELETE"})
        message: dict[str, Any] = {}
        if scope["method"] == "POST":
            body = await self._body(headers, receive)
            reply.received = len(body)
            message = await _message(body)
            receive = _replayed(body, receive)
        scope = {**scope, "path": MCP_PATH, READ_ONLY: token is not None and token.read_only}
        owner = token.sha256 if token else ""
        if not has_sessions(headers.get("mcp-protocol-version")):
            await self._manager(headers).handle_request(scope, receive, reply.send)
        elif SESSION_HEADER in headers:
            session = await self._session(headers[SESSION_HEADER], owner)
            session.ready = session.ready or message.get("method") == "notifications/initialized"
            await self._in_session(session, scope, receive, reply)
        elif message.get("method") == "initialize":
            await self._in_new_session(owner, self._manager(headers), scope, receive, reply)
        else:
            raise Refused(400, "there is no Mcp-Session-Id header: send initialize first, and then the id it returns")

    def _check_sender(self, headers: Headers) -> None:
        """Refuse what a web page makes a browser send: by name of another site (421), or from one (403)."""
        host = host_name(headers.get("host", ""))
        if host not in self._hosts:
            raise Refused(
                421, f"Host {host[:80]!r} is not served: the operator can add it to VELESDB_MEMORY_HTTP_ALLOWED_HOSTS"
            )
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins and not self._is_ours(origin):
            raise Refused(
                403, "this Origin is not allowed: the operator can add it to VELESDB_MEMORY_HTTP_ALLOWED_ORIGINS"
            )

    def _is_ours(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin.lower())
            return parts.scheme in ("http", "https") and parts.hostname in self._hosts
        except ValueError:
            return False

    def _authenticate(self, headers: Headers) -> Token | None:
        secret = bearer(headers.get("authorization"))
        if secret is None:
            if self._must_have_token:
                raise Refused(401, "a bearer token is required", {"www-authenticate": REALM})
            return None
        try:
            token = self._tokens.match(secret)
        except StorageError:
            token = None
        if token is None:
            challenge = f'{REALM}, error="invalid_token", error_description="unknown or revoked"'
            raise Refused(401, "the bearer token is unknown or was revoked", {"www-authenticate": challenge})
        return token

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        announced = headers.get("content-length", "")
        # digits only: the HTTP parser has refused the rest
        if announced.isdecimal() and int(announced) > self._max_body:
            raise self._too_large()
        pieces: list[bytes] = []
        size, more = 0, True
        while more:
            try:
                with anyio.fail_after(MAX_STALL_SECONDS):
                    message = await receive()
            except TimeoutError:
                late = f"nothing of the body came for {MAX_STALL_SECONDS} seconds"
                raise Refused(408, late, {"connection": "close"}) from None
            if message["type"] == "http.disconnect":
                raise _Gone
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > self._max_body:
                raise self._too_large()
            more = message.get("more_body", False)
        return b"".join(pieces)

    def _too_large(self) -> Refused:
        return Refused(413, f"the request is over the limit of {self._max_body} bytes")

    def _manager(self, headers: Headers) -> Any:
        accepted = ",".join(headers.getlist("accept")).lower()
        streams = any(kind in accepted for kind in ("text/event-stream", "text/*", "*/*"))
        return self._streaming if streams else self._plain

    # Sessions

    async def _session(self, session_id: str, owner: str) -> Session:
        for session in self.sessions.expired():
            await self._end(session)
        session = self.sessions.find(session_id, owner)
        if session is None:
            raise Refused(404, "there is no such session, or it has ended: send initialize for a new one")
        return session

    async def _in_session(self, session: Session, scope: Scope, receive: Receive, reply: _Reply) -> None:
        session.in_flight += 1
        try:
            await session.manager.handle_request(scope, receive, reply.send)
        finally:
            session.in_flight -= 1
            session.active = self.sessions.clock()
        if reply.status == 404 or (scope["method"] == "DELETE" and reply.status == 200):
            self.sessions.drop(session)

    async def _in_new_session(self, owner: str, manager: Any, scope: Scope, receive: Receive, reply: _Reply) -> None:
        if self.sessions.full:
            idle = self.sessions.to_evict()
            if idle is None:
                raise Refused(
                    503,
                    f"too many concurrent sessions (at most {self.sessions.limit}): close one, or try again later",
                    {"retry-after": "60"},
                )
            await self._end(idle)
        opened: list[Session] = []

        async def send(message: Message) -> None:
            # the client may use the id as soon as it has read it
            if message["type"] == "http.response.start" and message["status"] < 400:
                session_id = Headers(raw=message["headers"]).get(SESSION_HEADER)
                if session_id and not opened:
                    opened.append(self.sessions.add(session_id, owner, manager))
                    opened[0].in_flight += 1
                    self.sessions.opening -= 1
            await reply.send(message)

        self.sessions.opening += 1
        try:
            await manager.handle_request(scope, receive, send)
        finally:
            self.sessions.opening -= not opened
            for session in opened:
                session.in_flight -= 1
                session.active = self.sessions.clock()

    async def _end(self, session: Session) -> None:
        """End the session as its client would."""
        self.sessions.drop(session)
        scope: Scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": "DELETE",
            "root_path": "", "path": MCP_PATH, "raw_path": MCP_PATH.encode(), "query_string": b"",
            "headers": [(SESSION_HEADER.encode(), session.id.encode())],
        }  # fmt: skip

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Message) -> None:
            pass

        await session.manager.handle_request(scope, receive, send)


def host_name(value: str) -> str:
    """The name in a Host header, or in a setting of one: without port and brackets, in lower case."""
    name = value.strip(" \t").lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    # more than one colon: an IPv6 address without brackets, which only a setting may hold
    return (name if name.count(":") > 1 else name.partition(":")[0]).removesuffix(".")


async def _message(body: bytes) -> dict[str, Any]:
    try:
        if len(body) > LARGE:
            return await anyio.to_thread.run_sync(read, body, "the body")
        return read(body, "the body")
    except NotAMessage as problem:
        raise Refused(400, "", body=problem.answer) from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What receives ``body`` once, and then what comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
