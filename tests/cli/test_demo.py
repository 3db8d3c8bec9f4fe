from __future__ import annotations

from pathlib import Path

from cli.command import errors, run
from velesdb_memory import MemoryService


def test_demo_tells_that_recall_missed_the_cause_and_why_reached_it(tmp_path: Path) -> None:
    done = run("demo", TMPDIR=str(tmp_path), TEMP=str(tmp_path), TMP=str(tmp_path))
    assert done.returncode == 0, errors(done)
    told = done.stdout.decode()
    cause = "Payment requests timed out because every worker held a poisoned lock"
    recalled, _, explained = told.partition("\n3. why ")
    assert cause not in recalled
    assert "not among them" in recalled
    assert f"--fixes--> {cause}" in explained
    assert f"reached: {cause}" in explained
    # it leaves nothing behind
    assert list(tmp_path.iterdir()) == []


def test_demo_uses_a_store_of_its_own_and_keeps_it_when_asked(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (tmp_path / "t").mkdir()
    places = {name: str(tmp_path / "t") for name in ("TMPDIR", "TEMP", "TMP")}
    done = run("demo", "--keep", store=mine, **places)
    assert done.returncode == 0, errors(done)
    assert not mine.exists()
    kept = Path(done.stdout.decode().split("The store is at ")[1].strip())
    assert kept.parent == tmp_path / "t"
    with MemoryService(kept) as memory:
        status = memory.memory_status().memory
        # the twelve notes at least, and the four links between them
        assert status.facts >= 12 and status.edges >= 4
        assert [finding for finding in memory.check() if not finding.sound] == []
