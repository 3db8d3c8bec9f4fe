"""Many clients at once, beside stdio servers, and a signal in the middle; the full show is benchmarks/daemon.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "daemon.py"


@pytest.mark.skipif(sys.platform == "win32", reason="a signal is not a request there")
def test_nothing_is_lost_and_nothing_fails_under_many_clients(tmp_path: Path) -> None:
    """C47, C50: all are answered, what was acknowledged is there, and the exit code is 0."""
    report = tmp_path / "report.json"
    sizes = ("--seconds", "3", "--clients", "12", "--stdio", "2", "--json", str(report))
    ran = subprocess.run([sys.executable, str(PROGRAM), *sizes], capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(report.read_bytes())
    assert (found["errors"], found["lost"], found["stored_without_an_answer"], found["exit_code"]) == ({}, 0, 0, 0)
    assert {"remember", "recall", "remember (stdio)", "recall (stdio)"} <= set(found["calls"])
