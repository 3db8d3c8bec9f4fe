"""Slots and shapes that several tools share."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...model import JsonObject, Recollection

Count = Annotated[int, Meta(ge=0)]
IdText = Annotated[str, Meta(description="The same id in decimal: relay this one, no client can round it.")]
IdNumber = Annotated[int, Meta(ge=0, description="The memory's id, an unsigned 64-bit number.")]
Content = Annotated[str, Meta(description="The text of the fact.")]
Metadata = Annotated[
    dict[str, Any], Meta(description="The fact's metadata as its writer gave it, with the automatic _veles_date.")
]
Query = Annotated[str, Meta(description="What you want to know, in plain words.")]
K = Annotated[int, Meta(ge=0, description="How many memories to return at most: 10 unless given, up to 1000.")]
Filter = Annotated[
    dict[str, Any] | None,
    Meta(
        description='Only memories whose metadata holds exactly these values, e.g. {"project": "checkout", '
        '"status": "resolved"}.'
    ),
]


def visible(metadata: JsonObject | None) -> JsonObject | UnsetType:
    """Metadata on the wire: the key is left out when there is none."""
    return metadata if metadata is not None else UNSET


class Hit(msgspec.Struct, frozen=True):
    id: IdNumber
    id_str: IdText
    score: Annotated[float, Meta(description="Cosine similarity to the query, -1 to 1; feedback does not change it.")]
    content: Content
    metadata: Metadata | UnsetType = UNSET


def hits(found: list[Recollection]) -> list[Hit]:
    """Recollections as a tool answers them, order kept."""
    return [Hit(hit.id, str(hit.id), hit.score, hit.content, visible(hit.metadata)) for hit in found]
