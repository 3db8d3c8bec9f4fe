"""`velesdb-memory token`: who may use the daemon."""

from __future__ import annotations

import sys
import time

from ..server.auth import Tokens
from ..settings import Settings


def run_create(settings: Settings, name: str, *, read_only: bool) -> int:
    secret = Tokens(settings.path).create(name, read_only=read_only)
    # alone on standard output, so that a script can take it
    print(secret)
    print("velesdb-memory: keep it now: it is stored as a hash and cannot be shown again", file=sys.stderr)
    return 0


def run_list(settings: Settings) -> int:
    tokens = Tokens(settings.path).stored()
    width = max((len(token.name) for token in tokens), default=0)
    for token in tokens:
        made = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(token.created))
        print(f"{token.name:<{width}}  {'read-only ' if token.read_only else 'read-write'}  {made}")
    if not tokens:
        print("velesdb-memory: there are no tokens", file=sys.stderr)
    return 0


def run_revoke(settings: Settings, name: str) -> int:
    Tokens(settings.path).revoke(name)
    print(f"velesdb-memory: {name} is revoked; running daemons refuse it from now on", file=sys.stderr)
    return 0
