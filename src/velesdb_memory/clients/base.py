"""What every format of configuration can do for one entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Format(Protocol):
    """A format, and the place of entries in it. All that is read is text; each method raises MalformedFile."""

    @property
    def path(self) -> Sequence[str]:
        """The names that lead to the entries."""
        ...

    def entry(self, text: str, name: str) -> Any:
        """The value of the entry called ``name``; None if there is none."""
        ...

    def document(self, text: str) -> Any:
        """Everything that the file says."""
        ...

    def put(self, text: str, name: str, value: Any) -> str:
        """``text`` with the entry set to ``value``, and nothing else changed."""
        ...

    def drop(self, text: str, name: str) -> str:
        """``text`` without the entry, and nothing else changed."""
        ...
