"""``purge-sources``: remove the originals that no compilation has used for a while."""

from __future__ import annotations

from ..config import Settings
from .serve import open_service


def run(settings: Settings, older_than: int, project: str | None, *, dry_run: bool) -> int:
    """Remove what was not used for ``older_than`` seconds and say what it was; the exit code."""
    with open_service(settings) as memory:
        report = memory.purge_sources(older_than, project, dry_run=dry_run)
    done = "would be removed" if dry_run else "removed"
    print(f"{report.sources} originals of {report.bytes} bytes {done} from {settings.path}")
    return 0
