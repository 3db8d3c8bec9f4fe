"""Durable, explainable, local-first memory for AI agents.

The names below are the public ones, with the modules ``errors``, ``limits`` and ``testing``. They are loaded when they
are first used: a program that only asks for the version does not wait for a database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .embed.base import Embedder
    from .embed.hashing import HashEmbedder
    from .errors import Internal, InvalidInput, NotFound, VelesMemoryError
    from .extract.base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction, Extractor
    from .extract.ollama import OllamaExtractor
    from .extract.openai import OpenAiExtractor
    from .extract.outline import OutlineExtractor
    from .memory.fused import Reranker
    from .model import (
        ColumnFilter,
        DatedContext,
        EntityProfile,
        EntityRelation,
        Explanation,
        ExtractionReceipt,
        ExtractionResult,
        ExtractionSnapshot,
        FusionOptions,
        ImportReport,
        Link,
        ListedMemory,
        MemoryPage,
        MemoryStatus,
        Recollection,
        Recollections,
        Signals,
        Unrelated,
        WhyEdge,
        WhyNode,
    )
    from .service import MemoryService
    from .store.base import MemoryStore
    from .store.sqlite import SqliteStore

__version__ = "0.1.0"

__all__ = [
    "ColumnFilter",
    "DatedContext",
    "Embedder",
    "EntityProfile",
    "EntityRelation",
    "Explanation",
    "ExtractedAttribute",
    "ExtractedFact",
    "ExtractedRelation",
    "Extraction",
    "ExtractionReceipt",
    "ExtractionResult",
    "ExtractionSnapshot",
    "Extractor",
    "FusionOptions",
    "HashEmbedder",
    "ImportReport",
    "Internal",
    "InvalidInput",
    "Link",
    "ListedMemory",
    "MemoryPage",
    "MemoryService",
    "MemoryStatus",
    "MemoryStore",
    "NotFound",
    "OllamaExtractor",
    "OpenAiExtractor",
    "OutlineExtractor",
    "Recollection",
    "Recollections",
    "Reranker",
    "Signals",
    "SqliteStore",
    "Unrelated",
    "VelesMemoryError",
    "WhyEdge",
    "WhyNode",
    "__version__",
]

_HOMES = {
    "Embedder": "embed.base",
    "HashEmbedder": "embed.hashing",
    **dict.fromkeys(("Internal", "InvalidInput", "NotFound", "VelesMemoryError"), "errors"),
    **dict.fromkeys(
        ("ExtractedAttribute", "ExtractedFact", "ExtractedRelation", "Extraction", "Extractor"), "extract.base"
    ),
    "MemoryService": "service",
    "MemoryStore": "store.base",
    "OllamaExtractor": "extract.ollama",
    "OpenAiExtractor": "extract.openai",
    "OutlineExtractor": "extract.outline",
    "Reranker": "memory.fused",
    "SqliteStore": "store.sqlite",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES.get(name, 'model')}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
