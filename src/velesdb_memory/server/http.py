"""MCP over HTTP for many clients: a process that listens, encrypted unless it was told not to be.

It stops as stdio does: at a signal it takes no more requests, answers those in flight, over TLS too, and exits with 0.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import anyio
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import InvalidArgument, StorageError
from ..limits import CONNECTION_IDLE_SECONDS, MAX_CONNECTIONS, MAX_HEAD_SECONDS
from ..settings import PREFIX, Address, Settings, is_loopback
from . import tls
from .app import NAME, Application, build_server
from .auth import Tokens
from .gate import MCP_PATH, Gate, host_name
from .log import Log
from .sessions import Sessions
from .signals import GRACE, HURRY, when_asked_to_end

if TYPE_CHECKING:
    from ..context.ingest import Roots
    from ..service import MemoryService

GOODBYE: Final = 1  # seconds for connections to close
TIDY: Final = 5.0  # seconds between two looks at idle sessions, revoked tokens and the certificate
BACKLOG: Final = 512


def serve_http(
    open_service: Callable[[], MemoryService],
    settings: Settings,
    roots: Roots | None = None,
    *,
    leaf_lifetime: timedelta = tls.LEAF_LIFETIME,
    tidy_every: float = TIDY,
) -> int:
    """Serve until a signal; returns the exit code of the process.

    ``open_service`` is called before anything listens. ``roots`` are the directories that fragments may be read from.
    Raises what it raises, InvalidArgument for settings that do not fit together, and StorageError where the address or
    the certificates cannot be used.
    """
    address = settings.http_address
    remote = not is_loopback(address.host)
    if remote and not settings.http_allow_remote:
        raise InvalidArgument(
            f"{address} can be reached from other machines: set {PREFIX}HTTP_ALLOW_REMOTE=1 if that is meant",
            field=PREFIX + "HTTP_ALLOW_REMOTE",
        )
    allowed = [host_name(host) for host in settings.http_allowed_hosts]
    names = [*tls.LOCAL_NAMES, *_own_names(address.host), *allowed]
    exposed = remote or not all(map(is_loopback, allowed))
    tokens = Tokens(settings.path, settings.http_token)
    must_have_token = exposed or settings.http_require_token or settings.http_token is not None
    certificate = None if settings.http_insecure else _certificate(settings, names, leaf_lifetime)
    sockets = listen(address)
    log = Log(settings.log)
    application = Application(
        open_service, default_ttl=settings.default_ttl, roots=roots, quiet=settings.quiet, log=log
    )
    gate = Gate(
        build_server(application),
        Sessions(settings.http_max_sessions, settings.http_keep_alive_secs, settings.http_evict_min_idle_secs),
        tokens,
        hosts=names,
        origins=[origin.lower() for origin in settings.http_allowed_origins],
        must_have_token=must_have_token,
        max_body=settings.http_max_body_bytes,
        log=log,
    )
    try:
        application.host()
        if not settings.quiet:
            bound = Address(address.host, sockets[0].getsockname()[1])
            _announce(settings, bound, certificate, tokens, remote=remote, must_have_token=must_have_token)
        clean = anyio.run(_serve, gate, sockets, certificate, tidy_every)
    except BaseException:
        application.close()
        raise
    if not settings.quiet:
        print(f"{NAME}: stopped by a signal", file=sys.stderr, flush=True)
    if not (clean and application.close_soon()):
        # a thread that cannot be interrupted would hold the process; every acknowledged write is durable
        os._exit(0)
    return 0


def _own_names(host: str) -> list[str]:
    """What ``host`` is called by clients: nothing where it stands for all addresses."""
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            return []
    return [host.lower()]


def _certificate(settings: Settings, names: Iterable[str], lifetime: timedelta) -> tls.ServerCertificate:
    authority = tls.authority(settings.tls_dir, list(names))
    unknown = [name for name in names if not authority.covers(name)]
    anew = tls.ANEW.format(folder=settings.tls_dir)
    needed = [name for name in unknown if name in _own_names(settings.http_address.host)]
    if needed:
        raise InvalidArgument(
            f"the certificate authority in {settings.tls_dir} may not certify {', '.join(needed)}: {anew}",
            field=PREFIX + "TLS_DIR",
        )
    if unknown and not settings.quiet:
        _say(f"no certificate for {', '.join(unknown)}, which is right behind a proxy that has one; otherwise {anew}")
    return tls.ServerCertificate(authority, names, lifetime)


def listen(address: Address) -> list[socket.socket]:
    """Listening sockets on every address that the host has; with port 0 all on the same free port.

    Raises StorageError, which names the address, if there is none.
    """
    sockets: list[socket.socket] = []
    problem: OSError | None = None
    port = address.port
    try:
        found = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise StorageError(f"{address} is no address of this machine: {error.strerror}") from error
    for family, kind, protocol, _, where in dict.fromkeys(found):
        try:
            sockets.append(_listener(family, kind, protocol, (where[0], port, *where[2:])))
        except OSError as error:
            # a machine without IPv6 may know ::1 by name all the same
            problem = error
        else:
            port = sockets[0].getsockname()[1]
    if not sockets:
        raise StorageError(
            f"nothing can listen on {address}: {problem.strerror if problem else 'it has no address'}; if another "
            f"daemon runs there, choose another address with {PREFIX}HTTP_BIND or --http-port"
        )
    return sockets


def _listener(family: int, kind: int, protocol: int, where: tuple[Any, ...]) -> socket.socket:
    listener = socket.socket(family, kind, protocol)
    try:
        if sys.platform == "win32":
            # the other option would let a second program take the port over
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(where)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _announce(
    settings: Settings,
    bound: Address,
    certificate: tls.ServerCertificate | None,
    tokens: Tokens,
    *,
    remote: bool,
    must_have_token: bool,
) -> None:
    scheme = "http" if certificate is None else "https"
    _say(f"serving {settings.path} at {scheme}://{bound}{MCP_PATH}")
    if certificate is not None:
        _say(f"clients must trust {settings.tls_dir / tls.CERTIFICATE}")
    elif remote:
        _say("WARNING: not encrypted: whoever is between a client and this machine can read memories and tokens")
    else:
        _say("WARNING: not encrypted: fine behind a proxy that is, on this machine")
    if must_have_token and not tokens.hashes():
        _say("clients need a token and there is none: make one with `velesdb-memory token create NAME`")


def _say(line: str) -> None:
    print(f"{NAME}: {line}", file=sys.stderr, flush=True)


async def _serve(
    gate: Gate, sockets: list[socket.socket], certificate: tls.ServerCertificate | None, tidy_every: float
) -> bool:
    """Serve until a signal. False if calls were left unanswered, whose threads may still run."""
    # what they would say quotes what clients sent
    for name in ("uvicorn", "asyncio", "sse_starlette"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    def context(*_: Any) -> ssl.SSLContext:
        assert certificate is not None
        return certificate.context

    config = uvicorn.Config(
        gate, http=_Protocol, ws="none", lifespan="off", interface="asgi3", loop="asyncio",
        log_config=None, access_log=False, proxy_headers=False, server_header=False,
        limit_concurrency=MAX_CONNECTIONS, timeout_keep_alive=CONNECTION_IDLE_SECONDS,
        timeout_graceful_shutdown=GOODBYE, ssl_context_factory=None if certificate is None else context,
    )  # fmt: skip
    server = _Server(config)
    graces = iter((GRACE,))
    when_asked_to_end(asyncio.get_running_loop(), lambda: gate.leave_within(next(graces, HURRY)))

    async def leave() -> None:
        if not await gate.drained():
            # cancelling would wait for threads that do not end
            _say("calls in flight took too long and were left unanswered")
            os._exit(0)
        server.should_exit = True

    async def tidy() -> None:
        while True:
            await anyio.sleep(tidy_every)
            try:
                await gate.tidy()
                if certificate is not None:
                    certificate.renew_if_due()
            except Exception as error:
                # such as no room on the disk for a moment: the old certificate is good for days, and others are served
                _say(f"housekeeping failed and is tried again: {type(error).__name__}")

    async with anyio.create_task_group() as tasks, gate.open():
        tasks.start_soon(leave)
        tasks.start_soon(tidy)
        await server.serve(sockets)
        tasks.cancel_scope.cancel()
    return True


class _Server(uvicorn.Server):
    """A server that leaves signals to us: it would stop before the calls in flight are answered."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class _Protocol(H11Protocol):
    """A connection that must send the head of a request soon after it has begun to, or is closed."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        # a client that does not look at its idle connections never says goodbye to an encrypted one
        self.loop.call_later(GOODBYE / 4, self._abort_if_idle)

    def _abort_if_idle(self) -> None:
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.transport.abort()

    def _await_head(self) -> None:
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(MAX_HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
