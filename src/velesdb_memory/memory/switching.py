"""Going on under another embedder when a migration of this process has switched the store.

A core has one embedder for life, so that no vector ever meets the space of another model. A switch puts a new core in
its place; what was under way with the old one is refused by the store, and done again with the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from ..embed.base import Embedder
from ..errors import ProvenanceMismatch
from .core import Core

P = ParamSpec("P")
T = TypeVar("T")


def current(core: Core) -> Core:
    """``core``, or the one that has taken its place."""
    while core.successor is not None:
        core = core.successor
    return core


def prepare_heir(core: Core, embedder: Embedder) -> None:
    """Be ready to go on with ``embedder`` from the moment at which the store is switched to it."""
    now = current(core)
    now.heir = Core(now.store, embedder, now.clock, autograph=now.autograph)


def inherited(core: Core) -> Core | None:
    """The core that takes over from now on, if the store has been switched to the one that stands ready."""
    heir = core.heir
    if heir is None:
        return None
    with core.store.view(core.clock.now()) as view:
        if view.space() != heir.identity():
            return None
    core.successor = heir
    return heir


def follows_switch(operation: Callable[Concatenate[Core, P], T]) -> Callable[Concatenate[Core, P], T]:
    """``operation`` with the current core, and once more when the store was switched under it."""

    @wraps(operation)
    def run(core: Core, /, *args: P.args, **kwargs: P.kwargs) -> T:
        now = current(core)
        try:
            return operation(now, *args, **kwargs)
        except ProvenanceMismatch:
            heir = inherited(now)
            if heir is None:
                raise
            return operation(heir, *args, **kwargs)

    return run
