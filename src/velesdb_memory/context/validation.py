"""What a compilation refuses, before it does anything; the first fault found is the one reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..errors import (
    ContextBudget,
    ContextOverLimit,
    IngestDisabled,
    InvalidArgument,
    InvalidMetadata,
    MetadataTooLarge,
    QueryTooLarge,
)
from ..limits import (
    MAX_FRAGMENT_BYTES,
    MAX_FRAGMENTS,
    MAX_MEDIA_BYTES,
    MAX_METADATA_BYTES,
    MAX_PRIORITY,
    MAX_QUERY_BYTES,
    MAX_TOKEN_BUDGET,
    MAX_TOTAL_MEDIA_BYTES,
)
from ..text import require_text, shown
from . import media
from .model import CompileRequest, ContextFragment


class Admitted(NamedTuple):
    """A request that can be compiled, with what finding that out has read: the texts in UTF-8, the images (None for a
    fragment without), and the tokens that the budget leaves for content."""

    request: CompileRequest
    texts: list[bytes]
    images: list[bytes | None]
    usable: int


def admit(request: CompileRequest) -> Admitted:
    """The request, checked. Raises what :meth:`ContextCompiler.compile` raises, budget errors last."""
    _check_query(request.query)
    texts = encoded_texts(request.fragments)
    _check_metadata(request.fragments)
    images = _decoded_images(request.fragments)
    return Admitted(request, texts, images, _usable_tokens(request))


def _usable_tokens(request: CompileRequest) -> int:
    """What the budget leaves for content. Raises ContextBudget when that is nothing."""
    budget, reserve = request.token_budget, request.policy.response_reserve_tokens
    for value, field in ((budget, "token_budget"), (reserve, "policy.response_reserve_tokens")):
        if type(value) is not int or value < 0:
            raise InvalidArgument(f"{field} is {shown(value)}, not a whole number of at least 0", field=field)
    usable = min(budget, MAX_TOKEN_BUDGET) - reserve
    if usable <= 0:
        raise ContextBudget(min(budget, MAX_TOKEN_BUDGET), reserve)
    return usable


def encoded_texts(fragments: Sequence[ContextFragment], behind: int = 0) -> list[bytes]:
    """The texts in UTF-8 of fragments that stand ``behind`` so many others.

    Raises IngestDisabled for a path that nobody has read, ContextOverLimit for too many fragments or too long a text,
    and InvalidArgument for a text or priority that is none.
    """
    for index, fragment in enumerate(fragments, behind):
        if fragment.path is not None:
            raise IngestDisabled(
                f"fragments[{index}].path: files are read by the server, when VELESDB_MEMORY_INGEST_ROOTS opens a "
                "directory; pass the text as content",
                field=f"fragments[{index}].path",
            )
    count = behind + len(fragments)
    if count > MAX_FRAGMENTS:
        raise ContextOverLimit(
            f"fragments holds {count}, over the cap of {MAX_FRAGMENTS}", field="fragments", limit=MAX_FRAGMENTS
        )
    texts: list[bytes] = []
    for index, fragment in enumerate(fragments, behind):
        try:
            data = fragment.content.encode()
        except (UnicodeEncodeError, AttributeError):
            require_text(fragment.content, f"fragments[{index}].content")
            raise
        if len(data) > MAX_FRAGMENT_BYTES:
            raise ContextOverLimit(
                f"fragments[{index}].content is {len(data)} bytes of UTF-8, over the cap of {MAX_FRAGMENT_BYTES}",
                field=f"fragments[{index}].content",
                limit=MAX_FRAGMENT_BYTES,
            )
        if type(fragment.priority) is not int or not 0 <= fragment.priority <= MAX_PRIORITY:
            raise InvalidArgument(
                f"fragments[{index}].priority is {shown(fragment.priority)}, not a whole number of 0 to {MAX_PRIORITY}",
                field=f"fragments[{index}].priority",
                limit=MAX_PRIORITY,
            )
        texts.append(data)
    return texts


def _check_metadata(fragments: list[ContextFragment]) -> None:
    """Raise MetadataTooLarge or InvalidMetadata for the first fragment whose metadata cannot be taken."""
    for index, fragment in enumerate(fragments):
        if fragment.metadata is None:
            continue
        field = f"fragments[{index}].metadata"
        try:
            size = len(msgspec.json.encode(fragment.metadata))
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise InvalidMetadata(f"{field} is not JSON: {error}", field=field) from error
        if size > MAX_METADATA_BYTES:
            raise MetadataTooLarge(size, MAX_METADATA_BYTES, field)


def _decoded_images(fragments: list[ContextFragment]) -> list[bytes | None]:
    """The images, None for a fragment without. Raises ContextOverLimit for what is too large or no base64."""
    images: list[bytes | None] = []
    total = 0
    for index, fragment in enumerate(fragments):
        if fragment.media is None:
            images.append(None)
            continue
        field = f"fragments[{index}].media.bytes_b64"
        size = len(fragment.media.bytes_b64)
        total += size
        if total > MAX_TOTAL_MEDIA_BYTES:
            raise ContextOverLimit(
                f"the images of this request are over {MAX_TOTAL_MEDIA_BYTES} bytes of base64 in total",
                field=field,
                limit=MAX_TOTAL_MEDIA_BYTES,
            )
        if size > MAX_MEDIA_BYTES:
            raise ContextOverLimit(
                f"{field} is {size} bytes of base64, over the cap of {MAX_MEDIA_BYTES}",
                field=field,
                limit=MAX_MEDIA_BYTES,
            )
        try:
            images.append(media.decode(fragment.media.bytes_b64))
        except ValueError as error:
            raise ContextOverLimit(f"{field} is not standard base64: {error}", field=field) from error
    return images


def _check_query(query: str) -> None:
    """Raise QueryTooLarge for a query over its cap, InvalidArgument for one that is no text."""
    size = len(require_text(query, "query").encode())
    if size > MAX_QUERY_BYTES:
        raise QueryTooLarge(size, MAX_QUERY_BYTES)
