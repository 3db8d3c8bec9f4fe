"""Which extractors a process can run."""

from __future__ import annotations

from ..errors import ExtractorUnavailable, InvalidArgument
from ..extract.base import Extractor

REMOTE = ("ollama", "openai")


class Extractors:
    """The configured extractor, if any, and ``outline``, which needs no configuration."""

    def __init__(self, default: Extractor | None = None) -> None:
        self.default = default

    def names(self) -> list[str]:
        """Those that can run here."""
        return sorted({"outline", *([self.default.name] if self.default else [])})

    def find(self, name: str) -> Extractor | None:
        """The extractor called ``name``, None when it cannot run here."""
        if self.default is not None and self.default.name == name:
            return self.default
        if name == "outline":
            from ..extract.outline import OutlineExtractor

            return OutlineExtractor()
        return None

    def resolve(self, name: str | None) -> Extractor:
        """The extractor for a call that asks for ``name``, or for the default.

        Raises ExtractorUnavailable when it is not configured, InvalidArgument for a name that no extractor has.
        """
        if name is None:
            if self.default is None:
                raise ExtractorUnavailable(
                    'no extractor is configured: pass extractor "outline", or set VELESDB_MEMORY_EXTRACTOR to outline, '
                    "ollama or openai",
                    field="extractor",
                )
            return self.default
        found = self.find(name)
        if found is not None:
            return found
        if name in REMOTE:
            running = f"{self.default.name} is" if self.default else "none is"
            raise ExtractorUnavailable(
                f"extractor {name} is not configured here ({running}): set VELESDB_MEMORY_EXTRACTOR={name} and its "
                'model, or pass "outline"',
                field="extractor",
            )
        raise InvalidArgument(
            f"extractor is {name[:64]!r}, not one of {', '.join(dict.fromkeys((*self.names(), *REMOTE)))}",
            field="extractor",
        )
