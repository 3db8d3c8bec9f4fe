"""The server on standard input and output, and the service behind every command."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from ..config import Settings, embedder_settings, make_embedder, make_target

if TYPE_CHECKING:
    from ..service import MemoryService


def open_service(settings: Settings, *, reads_passages: bool = False) -> MemoryService:
    """The service that the settings describe; with its extractor only where passages are read.

    Raises InvalidArgument for settings that do not fit together, and what opening a store raises.
    """
    from ..config import make_estimator, make_extractor
    from ..context.compiler import ContextCompiler
    from ..service import MemoryService
    from ..store.sqlite import SqliteStore

    extractor = make_extractor(settings) if reads_passages else None
    store = SqliteStore(settings.path, synchronous=settings.synchronous)
    return MemoryService.with_store(
        store,
        make_embedder(settings),
        extractor=extractor,
        autograph=reads_passages and settings.autograph,
        compiler=ContextCompiler(make_estimator(settings)),
        targets=lambda backend: make_target(settings, backend),
    )


def check_extractor(settings: Settings) -> None:
    """Refuse settings that name no usable extractor, before anything is served; nothing is contacted."""
    if settings.extractor != "none" or settings.autograph:
        from ..config import PREFIX, make_extractor
        from ..errors import InvalidArgument

        if make_extractor(settings) is None and settings.autograph:
            raise InvalidArgument(
                f"{PREFIX}AUTOGRAPH is 1 but no extractor is set: set {PREFIX}EXTRACTOR too", field=PREFIX + "EXTRACTOR"
            )


def run(settings: Settings) -> int:
    """Serve over HTTP if that is set, else one client on standard input and output; the exit code."""
    from ..config import make_estimator
    from ..context.ingest import Roots

    # what cannot work is refused before anything is served
    check_extractor(settings)
    make_estimator(settings)
    if settings.embedder != "hash":
        # that one has nothing to get wrong, and loading it here would keep the client waiting
        make_embedder(settings)
    roots = Roots.from_setting(os.pathsep.join(settings.ingest_roots))
    if not settings.quiet:
        if not settings.http:
            print(f"velesdb-memory: serving {settings.path} on stdio", file=sys.stderr)
        if settings.embedder == "hash":
            print("velesdb-memory: the hash embedder matches words and their forms, not meanings", file=sys.stderr)
        else:
            from ..embed.select import ignored_settings

            for notice in ignored_settings(embedder_settings(settings)):
                print(f"velesdb-memory: {notice}", file=sys.stderr)
        if settings.autograph and settings.extractor in ("ollama", "openai"):
            # a slow or absent model must not keep the client waiting
            threading.Thread(target=_probe, args=(settings,), daemon=True).start()

    def start() -> MemoryService:
        service = open_service(settings, reads_passages=True)
        service.start_worker()
        return service

    if settings.http:
        from ..server.http import serve_http

        return serve_http(start, settings, roots)

    from ..server.log import Log
    from ..server.stdio import serve_stdio

    return serve_stdio(
        start, default_ttl=settings.default_ttl, roots=roots, quiet=settings.quiet, log=Log(settings.log)
    )


def _probe(settings: Settings) -> None:
    from ..backends import OLLAMA_URL
    from ..extract.openai import probe

    warning = probe(settings.extractor_url or OLLAMA_URL, settings.extractor_model or "", settings.extractor_api_token)
    if warning:
        print(f"velesdb-memory: {warning}", file=sys.stderr)
