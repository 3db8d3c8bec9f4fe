"""The sessions of the daemon: how many there may be, whose they are, and which one makes room for a newcomer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..limits import SESSION_INITIALIZE_SECONDS


@dataclass(eq=False)
class Session:
    """One client's session. Times are those of the sessions' clock."""

    id: str
    owner: str  # the hash of the token that opened it; empty without one
    manager: Any
    active: float
    ready: bool = False  # the client has said that it is initialised
    in_flight: int = 0  # its requests being served, an open stream among them


@dataclass
class Sessions:
    """At most ``limit`` sessions; ``keep_alive`` and ``min_idle`` are in seconds."""

    limit: int
    keep_alive: float
    min_idle: float
    clock: Callable[[], float] = time.monotonic
    opening: int = 0  # requests that are about to open one
    _by_id: dict[str, Session] = field(default_factory=dict[str, Session])

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def full(self) -> bool:
        return len(self) + self.opening >= self.limit

    def add(self, session_id: str, owner: str, manager: Any) -> Session:
        session = self._by_id[session_id] = Session(session_id, owner, manager, self.clock())
        return session

    def drop(self, session: Session) -> None:
        """Forget the session. Idempotent."""
        self._by_id.pop(session.id, None)

    def find(self, session_id: str, owner: str) -> Session | None:
        """The live session of this id, if it is this owner's."""
        session = self._by_id.get(session_id)
        return session if session and session.owner == owner and not self._idle(session, self.keep_alive) else None

    def expired(self) -> list[Session]:
        """The sessions that have been idle for longer than is allowed."""
        return [session for session in self if self._idle(session, self.keep_alive)]

    def to_evict(self) -> Session | None:
        """The session to end for a newcomer: the one idle longest of those that have nothing in flight and have been
        idle long enough, a minute for those that were never initialised. None if there is no such."""
        floor = min(self.min_idle, self.keep_alive)
        candidates = [
            session for session in self if self._idle(session, floor if session.ready else SESSION_INITIALIZE_SECONDS)
        ]
        return min(candidates, key=lambda session: session.active, default=None)

    def _idle(self, session: Session, seconds: float) -> bool:
        return not session.in_flight and self.clock() - session.active >= seconds
