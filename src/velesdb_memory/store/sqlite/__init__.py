"""The SQLite store: one database is the truth, the code files beside it are derived."""

from .store import SqliteStore

__all__ = ["SqliteStore"]
