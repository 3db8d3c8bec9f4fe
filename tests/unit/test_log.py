"""What the log says, and what it never says (D59)."""

from __future__ import annotations

import pytest

from velesdb_memory.server.log import Log


def lines(log: Log, capsys: pytest.CaptureFixture[str]) -> list[str]:
    log.call("recall", "ok", "info", ms=1.25, received=10, sent=20)
    log.call("recall", "InvalidArgument", "warn", ms=1, received=10, sent=0)
    log.call("recall", "StoreCorrupt", "error", ms=1, received=10, sent=0)
    log.request("POST", "/mcp", 200, ms=3, received=5, sent=6, paths=("/mcp",))
    log.request("POST", "/mcp", 401, ms=3, received=5, sent=6, paths=("/mcp",))
    log.request("POST", "/mcp", 500, ms=3, received=5, sent=6, paths=("/mcp",))
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_it_is_silent_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(Log(), capsys) == []


@pytest.mark.parametrize(("level", "kept"), [("error", [2, 5]), ("warn", [1, 2, 4, 5]), ("info", [0, 1, 2, 3, 4, 5])])
def test_a_level_keeps_what_is_at_least_as_bad(level: str, kept: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    everything = [
        "velesdb-memory: tool=recall verdict=ok ms=1.2 in=10 out=20",
        "velesdb-memory: tool=recall verdict=InvalidArgument ms=1.0 in=10 out=0",
        "velesdb-memory: tool=recall verdict=StoreCorrupt ms=1.0 in=10 out=0",
        "velesdb-memory: method=POST path=/mcp status=200 ms=3.0 in=5 out=6",
        "velesdb-memory: method=POST path=/mcp status=401 ms=3.0 in=5 out=6",
        "velesdb-memory: method=POST path=/mcp status=500 ms=3.0 in=5 out=6",
    ]
    assert lines(Log(level), capsys) == [everything[index] for index in kept]


def test_d59_a_clients_words_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    Log("info").request("SESAME", "/sesame\nfake line", 404, ms=1, received=0, sent=0, paths=("/mcp",))
    assert capsys.readouterr().err == "velesdb-memory: method=other path=other status=404 ms=1.0 in=0 out=0\n"
