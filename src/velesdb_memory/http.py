"""How this package talks to a model server: one policy for every role that needs one.

* One request, its retries and their waits together end within ``deadline`` seconds, whatever the server does:
  also one that sends a byte now and then. Connecting may take ``connect`` seconds, one write ``write``
  seconds.
* Up to three attempts. Tried again: HTTP 429 and 500 or more, and failures of the connection (name look-up,
  refused, reset, an answer that ends early). Never tried again: time-outs, other statuses, a certificate that
  is not trusted, a complete answer that cannot be used. The type of a failure decides, never its wording.
* Errors name the role, the kind of endpoint, its URL without credentials, the model, the number of attempts,
  the cause and the environment variables to change; never a token, and nothing that was sent.
* Requests go to the configured address and nowhere else (D60): redirects are not followed, and the proxies
  and the ``.netrc`` of the environment are not used. A proxy meant for the web would otherwise receive passages that
  were addressed to this machine, and ``.netrc`` would add credentials that nobody configured. Certificate
  authorities of the environment (``SSL_CERT_FILE``) do count: they say whom to trust, not where to send.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from .backends import Variables, redacted, require_model, require_token, require_url
from .errors import Internal

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS: Final = 2.0
WRITE_SECONDS: Final = 10.0
RETRY_WAITS: Final = (0.1, 0.2)  # seconds before the second and the third attempt
MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024
MAX_REMARK_CHARS: Final = 200

_IDLE_CONNECTIONS: Final = 4
_FINAL: Final = (400, 413, 422)  # statuses that speak of the request, not of the server or its settings
# One of these underneath a broken connection means that the next attempt would fail in the same way
_HOPELESS: Final = (PermissionError, BlockingIOError, TimeoutError, ssl.SSLCertVerificationError)


class Answer(msgspec.Struct, frozen=True):
    """A complete HTTP response, whatever its status."""

    status: int
    body: bytes


class Trouble(msgspec.Struct, frozen=True):
    """Why there is no usable answer; ``again`` when another attempt may succeed, ``final`` when this very
    request was refused and no later one will fare better.
    """

    cause: str
    again: bool = False
    final: bool = False


Outcome: TypeAlias = Answer | Trouble


class Endpoint:
    """A model server as one role sees it. Safe to share between threads.

    ``role`` and ``kind`` are words for messages (``extractor``, ``ollama``), ``advice`` a sentence for their
    end; ``failure`` is the class of error to raise, ``unavailable`` that for a server that may answer another
    time; ``deadline``, ``connect``, ``write`` and ``waits`` are seconds, and there is one attempt more than
    there are waits. Raises InvalidArgument for an unusable URL, model or token.
    """

    def __init__(
        self,
        *,
        role: str,
        kind: str,
        url: str | None,
        model: str | None,
        variables: Variables,
        failure: type[Internal],
        deadline: float,
        unavailable: type[Internal] | None = None,
        advice: str = "",
        token: str | None = None,
        connect: float = CONNECT_SECONDS,
        write: float = WRITE_SECONDS,
        waits: Sequence[float] = RETRY_WAITS,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        base = require_url(url, variables.url)
        self.role = role
        self.kind = kind
        self.model = require_model(model, variables.model)
        self.shown_url = redacted(base)
        self._variables = variables
        self._failure = failure
        self._unavailable = unavailable or failure
        self._advice = f". {advice}" if advice else ""
        self._deadline = deadline
        self._connect = connect
        self._write = write
        self._waits = tuple(waits)
        self._late = f"did not answer completely within {deadline:g} s"
        self._max_response_bytes = max_response_bytes
        self._token = require_token(token, variables.token)
        self._headers = {
            "Accept": "application/json",
            # A compressed answer could grow past the cap on its size before it is seen
            "Accept-Encoding": "identity",
            "User-Agent": "velesdb-memory",
        }
        self._base, credentials = _without_credentials(base)
        if self._token is not None:
            self._headers["Authorization"] = f"Bearer {self._token}"
        elif credentials is not None:
            self._headers["Authorization"] = f"Basic {credentials}"
        self._secrets = [secret for secret in (self._token, credentials, urlsplit(base).password) if secret]
        self._idle: list[_Connection] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._trust: ssl.SSLContext | bool | None = None
        weakref.finalize(self, _close_all, self._idle)

    def __repr__(self) -> str:
        return f"Endpoint({self.kind} {self.shown_url}, model={self.model!r})"

    def post(self, path: str, payload: object, *, private: str = "") -> dict[str, Any]:
        """The JSON object with which the server answers ``payload`` at ``path``.

        ``private`` is the text that no error may repeat, should the server quote it. Raises the role's error
        when no attempt succeeds, when the answer is no JSON object, or when it is an error report (also one
        with status 200).
        """
        content = json.dumps(payload).encode()
        until = time.monotonic() + self._deadline
        attempts = 1
        while True:
            outcome = self.attempt("POST", path, content, until=until)
            if isinstance(outcome, Answer) and 200 <= outcome.status < 300:
                return self._decoded(path, outcome, attempts, private)
            trouble = outcome if isinstance(outcome, Trouble) else self._refusal(outcome, private)
            if not trouble.again or attempts > len(self._waits):
                raise self._given_up(trouble, trouble.cause, path, attempts)
            wait = self._waits[attempts - 1]
            if time.monotonic() + wait >= until:
                raise self._given_up(trouble, f"{trouble.cause}, and the time is up", path, attempts)
            time.sleep(wait)
            attempts += 1

    def failed(self, cause: str, *, path: str = "", attempts: int = 1) -> Internal:
        """The role's error for ``cause``, a phrase such as ``answered HTTP 404``; the caller raises it."""
        return self._failure(self._told(cause, path, attempts))

    def _given_up(self, trouble: Trouble, cause: str, path: str, attempts: int) -> Internal:
        kind = self._failure if trouble.final else self._unavailable
        return kind(self._told(cause, path, attempts))

    def _told(self, cause: str, path: str, attempts: int) -> str:
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        names = self._variables
        token = f" or {names.token}" if self.kind == "openai" else ""
        return (
            f"{self.role} failed after {times}: {self.kind} endpoint {self.shown_url}{path}, "
            f"model '{self.model}', {cause}. To change it: {names.url}, {names.model}{token}{self._advice}"
        )

    def attempt(
        self, method: str, path: str, content: bytes | None = None, *, until: float | None = None
    ) -> Outcome:
        """One request, without retries, over by ``until`` (``time.monotonic``; default: the deadline from
        now).

        Never raises for what a server or the network may do.
        """
        until = time.monotonic() + self._deadline if until is None else until
        headers = self._headers if content is None else {**self._headers, "Content-Type": "application/json"}
        connection = self._take()
        box: SimpleQueue[Outcome] = SimpleQueue()

        def work() -> None:
            outcome = connection.exchange(method, self._base + path, headers, content, self._timeouts(until))
            connection.finish()
            box.put(outcome)

        # A time-out of a socket bounds one read, and the system's name look-up has none: only a thread that
        # can be left behind makes the deadline true.
        try:
            threading.Thread(target=work, name="velesdb-memory-http", daemon=True).start()
            outcome = box.get(timeout=max(until - time.monotonic(), 0))
        except Empty:
            connection.abandon()
            return Trouble(self._late)
        except BaseException:
            connection.abandon()
            raise
        if isinstance(outcome, Answer):
            self._give_back(connection)
        else:
            connection.close()
        return outcome

    def _timeouts(self, until: float) -> httpx2.Timeout:
        import httpx2

        left = max(until - time.monotonic(), 0.001)
        return httpx2.Timeout(left, connect=min(self._connect, left), write=min(self._write, left))

    def _take(self) -> _Connection:
        with self._lock:
            if self._owner != os.getpid():
                # After a fork the parent goes on using these sockets
                self._idle.clear()
                self._owner = os.getpid()
            if self._idle:
                return self._idle.pop()
            if self._trust is None:
                # Reading the certificate authorities takes 60 ms, and plain HTTP has no use for them
                self._trust = _trusted_authorities() if self._base.startswith("https:") else False
            return _Connection(self._trust, self._max_response_bytes, self._late)

    def _give_back(self, connection: _Connection) -> None:
        with self._lock:
            if len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def _refusal(self, answer: Answer, private: str) -> Trouble:
        status = answer.status
        advice = ""
        if status in (401, 403):
            advice = f" (the credential was refused: see {self._variables.token})"
        elif status == 404:
            advice = " (it knows no such path, or no such model)"
            if self.kind == "ollama":
                advice = f" (it knows no such model: run `ollama pull {self.model}`)"
        elif 300 <= status < 400:
            advice = " (redirects are not followed: configure the address it points to)"
        remark = self._remark(_object(answer.body), private)
        again = status == 429 or status >= 500
        return Trouble(f"answered HTTP {status}{advice}{remark}", again, final=status in _FINAL)

    def _decoded(self, path: str, answer: Answer, attempts: int, private: str) -> dict[str, Any]:
        payload = _object(answer.body)
        if payload is None:
            cause = f"answered {len(answer.body)} bytes that are not a JSON object"
            raise self.failed(cause, path=path, attempts=attempts)
        if payload.get("error"):
            cause = f"refused the request{self._remark(payload, private)}"
            raise self.failed(cause, path=path, attempts=attempts)
        return payload

    def _remark(self, payload: dict[str, Any] | None, private: str) -> str:
        """What an error report says, to be appended to a cause; withheld when it repeats what was sent."""
        error: Any = (payload or {}).get("error")
        message: Any = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else error
        if not isinstance(message, str):
            return ""
        line = " ".join(re.findall(r"[^\s\x00-\x1f\x7f\ud800-\udfff]+", message))[:MAX_REMARK_CHARS]
        if not line:
            return ""
        if _repeats(line, private, 12) or any(_repeats(line, secret, 6) for secret in self._secrets):
            return " (its message is withheld: it repeats what was sent)"
        return f": {line}"


class _Connection:
    """A connection that one request uses at a time, and that another thread can cut off."""

    def __init__(self, trust: ssl.SSLContext | bool, max_response_bytes: int, late: str) -> None:
        import httpx2

        self._client = httpx2.Client(
            verify=trust,
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=1),
        )
        self._max_response_bytes = max_response_bytes
        self._late = late
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._busy = False
        self._abandoned = False

    def exchange(
        self, method: str, url: str, headers: dict[str, str], content: bytes | None, timeouts: httpx2.Timeout
    ) -> Outcome:
        import httpx2

        with self._lock:
            self._busy = True
        try:
            with self._client.stream(
                method,
                url,
                headers=headers,
                content=content,
                timeout=timeouts,
                extensions={"trace": self._note_socket},
            ) as response:
                if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                    return Trouble("answered in an encoding that was not asked for")
                body = bytearray()
                for chunk in response.iter_raw():
                    body += chunk
                    if len(body) > self._max_response_bytes:
                        return Trouble(f"answered more than {self._max_response_bytes} bytes")
                return Answer(response.status_code, bytes(body))
        except httpx2.ConnectTimeout:
            return Trouble("could not be reached in time")
        except httpx2.WriteTimeout:
            return Trouble("did not take the request in time")
        except httpx2.TimeoutException:
            return Trouble(self._late)
        except (httpx2.NetworkError, httpx2.ProxyError) as error:
            return _broken(error)
        except httpx2.RemoteProtocolError:
            return Trouble("ended the connection before its answer was complete", again=True)
        except Exception as error:
            # The caller waits for an outcome, whatever it is; the text of an unforeseen error may quote
            # anything
            return Trouble(f"could not be asked ({type(error).__name__})")

    def finish(self) -> None:
        """To be called by the thread that ran ``exchange``, last of all."""
        with self._lock:
            self._busy = False
            abandoned = self._abandoned
        if abandoned:
            self._client.close()

    def abandon(self) -> None:
        """Cut the connection off under the thread that uses it, which then closes it."""
        with self._lock:
            self._abandoned = True
            busy = self._busy
            cut = self._socket
        if cut is not None:
            _shut(cut)
        if not busy:
            self._client.close()

    def close(self) -> None:
        self._client.close()

    def _note_socket(self, event: str, info: dict[str, Any]) -> None:
        if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        made = cast("socket.socket | None", info["return_value"].get_extra_info("socket"))
        with self._lock:
            self._socket = made
            abandoned = self._abandoned
        if abandoned and made is not None:
            _shut(made)


def _broken(error: BaseException) -> Trouble:
    """What lies underneath a failed connection, in the words of the system, which quote nothing of ours."""
    link: BaseException | None = error
    reason = ""
    again = True
    while link is not None:
        if isinstance(link, _HOPELESS):
            again = False
        if isinstance(link, ssl.SSLCertVerificationError):
            reason = "its certificate is not trusted"
        elif isinstance(link, OSError) and link.strerror:
            reason = link.strerror
        link = link.__cause__ or link.__context__
    return Trouble(f"could not be reached ({reason or type(error).__name__})", again=again)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        payload: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", payload) if isinstance(payload, dict) else None


def _repeats(message: str, secret: str, window: int) -> bool:
    """Whether ``window`` letters or digits in a row of ``secret`` occur in ``message``, however they are
    spaced.
    """
    said = _letters(message)
    kept = _letters(secret)
    window = min(window, len(kept))
    if not window:
        return False
    seen = {said[start : start + window] for start in range(len(said) - window + 1)}
    return any(kept[start : start + window] in seen for start in range(len(kept) - window + 1))


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _without_credentials(url: str) -> tuple[str, str | None]:
    """``url`` without its user name and password, and those as HTTP Basic wants them."""
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = userinfo.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}"
    return urlunsplit(parts._replace(netloc=host)), base64.b64encode(pair.encode()).decode()


def _trusted_authorities() -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context(trust_env=True)


def _shut(connected: socket.socket) -> None:
    # Closing would not wake a thread that is blocked in a read on it; shutting it down does
    try:
        connected.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _close_all(connections: list[_Connection]) -> None:
    while connections:
        connections.pop().close()
