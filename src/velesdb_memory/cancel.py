"""Giving up work that nobody waits for any more.

An edge says how to find out whether a call is still wanted; whatever takes long asks, between two steps. Where nothing
was said, everything is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from .errors import Cancelled

_unwanted: Final[ContextVar[Callable[[], bool] | None]] = ContextVar("unwanted", default=None)


def unwanted() -> bool:
    """Whether the call that this thread works for has been withdrawn."""
    asks = _unwanted.get()
    return asks is not None and asks()


def check() -> None:
    """Raises Cancelled if the call that this thread works for has been withdrawn."""
    if unwanted():
        raise Cancelled


@contextmanager
def withdrawn_when(asks: Callable[[], bool]) -> Generator[None]:
    """Have ``asks`` tell, in the block, whether the work is unwanted. It is called from the thread that works."""
    token = _unwanted.set(asks)
    try:
        yield
    finally:
        _unwanted.reset(token)


@contextmanager
def regardless() -> Generator[None]:
    """What is done in the block is wanted by others too, and is done to its end."""
    token = _unwanted.set(None)
    try:
        yield
    finally:
        _unwanted.reset(token)
