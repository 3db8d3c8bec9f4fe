"""The seam to extractors and the values they answer with."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class ExtractedFact(msgspec.Struct, frozen=True):
    """One self-contained statement and the entities it is about (canonical names)."""

    text: str
    entities: list[str] = []


class ExtractedRelation(msgspec.Struct, frozen=True):
    """One typed, directed link between two entities (canonical names)."""

    subject: str
    predicate: str
    object: str


class ExtractedAttribute(msgspec.Struct, frozen=True):
    """One property of an entity (canonical name); ``value`` is any JSON value."""

    entity: str
    key: str
    value: Any


class Extraction(msgspec.Struct, frozen=True):
    """What a passage says. ``dropped`` counts items of the answer that were unusable, by reason."""

    facts: list[ExtractedFact] = []
    relations: list[ExtractedRelation] = []
    attributes: list[ExtractedAttribute] = []
    dropped: dict[str, int] = {}


class Extractor(Protocol):
    """Anything that reads a passage. Raises ExtractError when it fails or its answer is unusable."""

    @property
    def name(self) -> str:
        """The backend's name: ``outline``, ``ollama``, ``openai``, or one of your own."""
        ...

    def extract(self, text: str) -> Extraction: ...
