"""Durable, explainable, local-first memory for AI agents.

The names below are the public ones, with the modules ``errors``, ``limits`` and ``testing``. They are loaded when they
are first used: a program that only asks for the version does not wait for a database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context.compiler import ContextCompiler
    from .context.model import (
        BudgetSuggestion,
        ChunkPolicy,
        CompiledContext,
        CompiledTranscript,
        CompilePolicy,
        CompileRequest,
        ContextFragment,
        ContextSavings,
        ContextSource,
        Decision,
        DecisionReference,
        Importance,
        Insights,
        LoadedWorkingContext,
        Media,
        MemoryScope,
        ModelPrice,
        Note,
        Pricing,
        RetrievalHandle,
        Section,
        Segment,
        Segmentation,
        SegmentationPolicy,
        Source,
        SourceReference,
        TranscriptRequest,
        WorkingContext,
        WorkingContextSession,
    )
    from .context.tokens import DefaultEstimator, ExactEstimator, TokenEstimator
    from .embed.base import Embedder
    from .embed.hashing import HashEmbedder
    from .embed.local import LocalEmbedder
    from .embed.ollama import OllamaEmbedder
    from .embed.openai import OpenAiEmbedder
    from .errors import Internal, InvalidInput, NotFound, VelesMemoryError
    from .extract.base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction, Extractor
    from .extract.ollama import OllamaExtractor
    from .extract.openai import OpenAiExtractor
    from .extract.outline import OutlineExtractor
    from .memory.fused import Reranker
    from .migrate.job import MigrationEstimate, MigrationJob, MigrationProgress, MigrationStatus
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
        PurgeReport,
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
    "BudgetSuggestion",
    "ChunkPolicy",
    "ColumnFilter",
    "CompilePolicy",
    "CompileRequest",
    "CompiledContext",
    "CompiledTranscript",
    "ContextCompiler",
    "ContextFragment",
    "ContextSavings",
    "ContextSource",
    "DatedContext",
    "Decision",
    "DecisionReference",
    "DefaultEstimator",
    "Embedder",
    "EntityProfile",
    "EntityRelation",
    "ExactEstimator",
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
    "Importance",
    "Insights",
    "Internal",
    "InvalidInput",
    "Link",
    "ListedMemory",
    "LoadedWorkingContext",
    "LocalEmbedder",
    "Media",
    "MemoryPage",
    "MemoryScope",
    "MemoryService",
    "MemoryStatus",
    "MemoryStore",
    "MigrationEstimate",
    "MigrationJob",
    "MigrationProgress",
    "MigrationStatus",
    "ModelPrice",
    "NotFound",
    "Note",
    "OllamaEmbedder",
    "OllamaExtractor",
    "OpenAiEmbedder",
    "OpenAiExtractor",
    "OutlineExtractor",
    "Pricing",
    "PurgeReport",
    "Recollection",
    "Recollections",
    "Reranker",
    "RetrievalHandle",
    "Section",
    "Segment",
    "Segmentation",
    "SegmentationPolicy",
    "Signals",
    "Source",
    "SourceReference",
    "SqliteStore",
    "TokenEstimator",
    "TranscriptRequest",
    "Unrelated",
    "VelesMemoryError",
    "WhyEdge",
    "WhyNode",
    "WorkingContext",
    "WorkingContextSession",
    "__version__",
]

_HOMES = {
    "ContextCompiler": "context.compiler",
    **dict.fromkeys(("DefaultEstimator", "ExactEstimator", "TokenEstimator"), "context.tokens"),
    "Embedder": "embed.base",
    "HashEmbedder": "embed.hashing",
    "LocalEmbedder": "embed.local",
    "OllamaEmbedder": "embed.ollama",
    "OpenAiEmbedder": "embed.openai",
    **dict.fromkeys(("Internal", "InvalidInput", "NotFound", "VelesMemoryError"), "errors"),
    **dict.fromkeys(
        ("ExtractedAttribute", "ExtractedFact", "ExtractedRelation", "Extraction", "Extractor"), "extract.base"
    ),
    "MemoryService": "service",
    "MemoryStore": "store.base",
    **dict.fromkeys(("MigrationEstimate", "MigrationJob", "MigrationProgress", "MigrationStatus"), "migrate.job"),
    "OllamaExtractor": "extract.ollama",
    "OpenAiExtractor": "extract.openai",
    "OutlineExtractor": "extract.outline",
    "Reranker": "memory.fused",
    "SqliteStore": "store.sqlite",
}


# of every other name: the first of these that has it
_VALUES = ("model", "context.model")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = [_HOMES[name]] if name in _HOMES else _VALUES
    modules = (import_module(f".{home}", __name__) for home in homes)
    value = next(getattr(module, name) for module in modules if hasattr(module, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
