"""What a tool is: one declaration, from which its schemas, its documentation and its calls are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from ..context.ingest import Roots
from ..model import JsonObject
from .results import Ids, encode, ids_to_strings, output_schema
from .wire import Arguments

if TYPE_CHECKING:
    from ..service import MemoryService

A = TypeVar("A", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)


@dataclass(frozen=True)
class Host:
    """What a handler works with: the service, and what the operator has configured for calls that do not say."""

    service: MemoryService
    default_ttl: int | None = None
    roots: Roots = field(default_factory=Roots)


@dataclass(frozen=True)
class Tool(Generic[A, R]):
    """One tool. ``description`` begins with a sentence that stands alone: the server's instructions repeat it.

    ``aliases`` are former argument names, still read. ``destructive`` says that a call can lose or replace what was
    there; ``idempotent`` that repeating it changes nothing more. ``ids_as_strings`` tells whether the ids that the
    result marks are answered as decimal strings: never, always, or as the arguments of a call ask.
    """

    name: str
    title: str
    description: str
    arguments: type[A]
    result: type[R]
    handler: Callable[[Host, A], R]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    ids_as_strings: bool | Callable[[A], bool] = False

    @cached_property
    def decoder(self) -> Arguments[A]:
        return Arguments(self.arguments, self.aliases)

    @cached_property
    def output_schema(self) -> JsonObject:
        fixed: Ids = "strings" if self.ids_as_strings is True else "numbers"
        return output_schema(self.result, "either" if callable(self.ids_as_strings) else fixed)

    @cached_property
    def _to_strings(self) -> Callable[[Any], Any] | None:
        return ids_to_strings(self.result)

    def encode(self, result: R, arguments: A) -> tuple[JsonObject, str]:
        """A result as a JSON object and as its text, as the call with these ``arguments`` asked for it."""
        strings = self.ids_as_strings(arguments) if callable(self.ids_as_strings) else self.ids_as_strings
        return encode(result, self._to_strings if strings else None)

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        return self.description.split(". ", 1)[0].removesuffix(".") + "."

    def call(self, host: Host, arguments: Mapping[str, Any] | None) -> R:
        """Decode, call. Raises InvalidArgument for arguments that do not fit, and what the service raises."""
        return self.handler(host, self.decoder.decode(arguments))


AnyTool = Tool[Any, Any]
