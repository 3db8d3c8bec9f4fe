"""How many sessions there may be, and which one makes room."""

from __future__ import annotations

from pathlib import Path

from https.conftest import Gated
from support.daemon import MODERN, Daemon, Session, hello
from velesdb_memory.server.sessions import Sessions
from velesdb_memory.testing import FixedClock

# The clock of the daemon's sessions is the number in a file
CLOCKED = """
import pathlib, functools, velesdb_memory.server.http as http
clock = pathlib.Path({path!r})
http.Sessions = functools.partial(http.Sessions, clock=lambda: float(clock.read_text()))
"""


class Clock:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 0.0
        self.advance(1000)

    def advance(self, seconds: float, after: int = 0, daemon: Daemon | None = None) -> None:
        """Let time pass once ``daemon`` is done with so many POSTs: a client has its answer a moment before."""
        if daemon is not None:
            daemon.wait_for("method=POST", after)
        self.now += seconds
        new = self.path.with_suffix(".new")
        new.write_text(str(self.now), encoding="utf-8")
        new.replace(self.path)


def sessions(clock: FixedClock, limit: int = 3) -> Sessions:
    return Sessions(limit, keep_alive=3600, min_idle=300, clock=clock.now)


def test_the_session_idle_longest_makes_room_if_it_has_been_idle_long_enough(clock: FixedClock) -> None:
    kept = sessions(clock)
    for name in "abc":
        kept.add(name, "", None).ready = True
        clock.advance(100)
    assert kept.full and kept.to_evict() is not None
    evicted = kept.to_evict()
    assert evicted is not None and evicted.id == "a"  # idle for 300 seconds
    kept.drop(evicted)
    kept.drop(evicted)
    assert not kept.full and kept.to_evict() is None
    clock.advance(100)
    next_one = kept.to_evict()
    assert next_one is not None and next_one.id == "b"


def test_a_session_with_something_in_flight_is_neither_evicted_nor_ended(clock: FixedClock) -> None:
    kept = sessions(clock, 1)
    session = kept.add("a", "", None)
    session.ready, session.in_flight = True, 1
    clock.advance(10_000)
    assert kept.to_evict() is None and kept.expired() == [] and kept.find("a", "") is session
    session.in_flight = 0
    assert kept.to_evict() is session and kept.expired() == [session] and kept.find("a", "") is None


def test_a_session_that_was_never_initialised_makes_room_after_a_minute(clock: FixedClock) -> None:
    kept = sessions(clock)
    kept.add("ready", "", None).ready = True
    abandoned = kept.add("abandoned", "", None)
    clock.advance(59)
    assert kept.to_evict() is None
    clock.advance(1)
    assert kept.to_evict() is abandoned


def test_the_floor_of_eviction_is_never_above_the_idle_time_out(clock: FixedClock) -> None:
    kept = Sessions(1, keep_alive=10, min_idle=300, clock=clock.now)
    session = kept.add("a", "", None)
    session.ready = True
    clock.advance(10)
    assert kept.to_evict() is session


def test_requests_that_are_opening_a_session_count(clock: FixedClock) -> None:
    kept = sessions(clock, 2)
    kept.add("a", "", None)
    kept.opening = 1
    assert kept.full


def test_a_session_is_its_owner_s_only(clock: FixedClock) -> None:
    kept = sessions(clock)
    session = kept.add("a", "hash", None)
    assert kept.find("a", "hash") is session and kept.find("a", "") is None and kept.find("b", "hash") is None


def test_the_65th_session_is_refused_and_a_closed_one_makes_room(daemon: Daemon) -> None:
    client = daemon.client()
    opened = [Session(client, "2025-11-25") for _ in range(64)]
    answer = client.post("/mcp", json=hello(), headers=headers())
    assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
    assert "at most 64" in answer.json()["error"]["message"]
    # the sessions there are, and clients without one, are none the worse
    assert opened[0].tools() and Session(client, MODERN).tools()
    assert opened[1].delete().status_code == 200
    assert opened[1].delete().status_code == 404
    opened[1] = Session(client, "2025-11-25")
    for session in opened:
        session.delete()


def headers(**more: str) -> dict[str, str]:
    return {"accept": "application/json, text/event-stream", **more}


def test_an_idle_session_is_evicted_for_a_newcomer_and_its_client_is_told(gated: Gated, tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    daemon = gated(patch=CLOCKED.format(path=str(clock.path)), HTTP_MAX_SESSIONS="2", LOG="info").daemon
    first, second = daemon.session(), daemon.session()
    clock.advance(299, 4, daemon)
    assert second.tools()
    assert daemon.client().post("/mcp", json=hello(), headers=headers()).status_code == 503
    clock.advance(1)
    third = daemon.session()
    assert first.ask("tools/list").status_code == 404
    assert second.tools() and third.tools()


def test_an_idle_session_ends_and_answers_404(gated: Gated, tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    daemon = gated(patch=CLOCKED.format(path=str(clock.path)), HTTP_KEEP_ALIVE_SECS="100", LOG="info").daemon
    idle, busy, listening = daemon.session(), daemon.session(), daemon.session()
    with listening.client.stream("GET", "/mcp", headers=listening.headers) as stream:
        assert stream.status_code == 200
        clock.advance(99, 6, daemon)
        assert busy.tools()
        clock.advance(1, 7, daemon)
        assert idle.ask("tools/list").status_code == 404
        assert busy.tools()
        # who listens is there
        clock.advance(1_000, 9, daemon)
        assert listening.tools()
    assert busy.ask("tools/list").status_code == 404
    assert daemon.session().tools()
