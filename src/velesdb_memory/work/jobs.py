"""The queue of passages: durable acceptance, and what became of each."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Final

from ..clock import yyyymmdd
from ..errors import (
    EmbedderUnavailable,
    ExtractorUnavailable,
    InvalidArgument,
    JobConflict,
    ProvenanceMismatch,
    QueueFull,
    StorageError,
    UnknownRequest,
    VelesMemoryError,
)
from ..limits import JOB_PATIENCE_SECONDS, MAX_IDEMPOTENCY_KEY_BYTES, MAX_JOB_ATTEMPTS, MAX_PENDING_JOBS
from ..memory import checks
from ..memory.core import Core, expiry
from ..memory.extraction import Plan, decode, encode, passage, run_extractor
from ..memory.switching import current
from ..model import ExtractionReceipt, ExtractionSnapshot, JobState, JsonObject, Outcome
from ..store.base import JobRecord
from ..text import require_text, utf8_size
from .extractors import Extractors

_REQUEST_ID: Final = re.compile(r"[0-9a-f]{64}")


def accept(
    core: Core,
    extractors: Extractors,
    text: str,
    metadata: JsonObject | None,
    extractor: str | None,
    idempotency_key: str | None,
    ttl_seconds: int | None,
) -> ExtractionReceipt:
    """Take a passage into the queue; see MemoryService.accept_extraction."""
    source, fields = passage(text), checks.metadata(metadata)
    key = _key(idempotency_key)
    seconds = checks.ttl(ttl_seconds)
    name = extractors.resolve(None if extractor is None else require_text(extractor, "extractor")).name
    fingerprint = _sha256(
        json.dumps(
            {"v": 1, "text": source, "metadata": fields or None, "extractor": name},
            ensure_ascii=False,
            sort_keys=True,
            separators=(",", ":"),
        )
    )
    # with a key the id depends on the key alone, so that the same key with another payload is seen
    request_id = _sha256("job-v1\0" + (f"payload:{fingerprint}" if key is None else f"key:{key}"))
    now = core.clock.now()
    with core.store.transaction(now) as tx:
        known = tx.job(request_id)
        if known is not None:
            if known.fingerprint != fingerprint:
                raise JobConflict(
                    "idempotency_key was used before with another text, metadata or extractor: use a new key",
                    field="idempotency_key",
                )
            return ExtractionReceipt(request_id, known.state, reused=True)
        if tx.pending_jobs() >= MAX_PENDING_JOBS:
            raise QueueFull(
                f"{MAX_PENDING_JOBS} passages are waiting, as many as are admitted: try again later",
                field="text",
                limit=MAX_PENDING_JOBS,
            )
        tx.accept_job(
            JobRecord(
                request_id,
                fingerprint,
                name,
                "accepted",
                now,
                text=source,
                metadata=fields,
                expires_at=expiry(now, seconds),
            )
        )
    return ExtractionReceipt(request_id, "accepted", reused=False)


def status(core: Core, request_id: str) -> ExtractionSnapshot:
    """What became of a passage; see MemoryService.extraction_status."""
    if not _REQUEST_ID.fullmatch(require_text(request_id, "request_id")):
        raise InvalidArgument(
            "request_id must be the 64 lower-case hexadecimal digits of the receipt", field="request_id", limit=64
        )
    with core.store.view(core.clock.now()) as view:
        job = view.job(request_id)
    if job is None:
        raise UnknownRequest(request_id)
    return ExtractionSnapshot(
        job.request_id, job.state, job.ids, [str(number) for number in job.ids], job.skipped_over_cap, job.error,
        job.skipped,
    )  # fmt: skip


def perform(core: Core, extractors: Extractors, job: JobRecord, worker: str) -> Outcome:
    """Bring a claimed job to its end, or give it back, also when it was lost to another worker.

    The extraction is stored before the first memory is written, and memories and outcome are one transaction: a
    crash anywhere replays the same facts or finds them done.
    """
    try:
        plan = _planned(core, extractors, job, worker)
        if plan is None:
            return "given back"
        core = current(core)
        vectors = plan.embed(core)
        with core.store.transaction(core.clock.now()) as tx:
            if vectors:
                core.require_space(tx)
            result = plan.store(tx, vectors, job.metadata or {}, job.expires_at, yyyymmdd(job.accepted_at))
            done = _ended(job, "committed", ids=result.ids, over_cap=result.skipped_over_cap, skipped=result.skipped)
            if not tx.finish_job(done, worker):
                raise _LeaseLost
        return "committed"
    except EmbedderUnavailable:
        # what the model is asked for can wait: the extraction is stored
        raise
    except (_LeaseLost, ProvenanceMismatch):
        # a process with the embedder that filled the store can do it
        return "given back"
    except StorageError as error:
        if job.attempts < MAX_JOB_ATTEMPTS:
            return "given back"
        return _fail(core, job, worker, error.message)
    except VelesMemoryError as error:
        return _fail(core, job, worker, error.message)
    except Exception as error:
        return _fail(core, job, worker, f"internal error ({type(error).__name__})")


class _LeaseLost(Exception):
    """Another worker has the job; what this one did is rolled back."""


def _planned(core: Core, extractors: Extractors, job: JobRecord, worker: str) -> Plan | None:
    if job.extraction is not None:
        return Plan(decode(job.extraction))
    extractor = extractors.find(job.extractor)
    if extractor is None:
        raise ExtractorUnavailable(
            f"extractor {job.extractor} is no longer configured, and no process that has it took the job within "
            f"{JOB_PATIENCE_SECONDS} seconds"
        )
    extraction = run_extractor(extractor, job.text or "")
    with core.store.transaction(core.clock.now()) as tx:
        if not tx.save_extraction(job.request_id, worker, encode(extraction)):
            return None
    return Plan(extraction)


def _fail(core: Core, job: JobRecord, worker: str, reason: str) -> Outcome:
    with core.store.transaction(core.clock.now()) as tx:
        return "failed" if tx.finish_job(_ended(job, "failed", error=reason), worker) else "given back"


def _ended(
    job: JobRecord,
    state: JobState,
    *,
    ids: list[int] | None = None,
    over_cap: int | None = None,
    skipped: dict[str, int] | None = None,
    error: str | None = None,
) -> JobRecord:
    # text, metadata and extraction are left out: a snapshot keeps no second copy of the passage
    return JobRecord(
        job.request_id,
        job.fingerprint,
        job.extractor,
        state,
        job.accepted_at,
        job.attempts,
        ids=ids or [],
        skipped_over_cap=over_cap,
        skipped=skipped,
        error=error,
    )


def _key(value: str | None) -> str | None:
    if value is None:
        return None
    size = utf8_size(require_text(value, "idempotency_key"), "idempotency_key")
    if not 1 <= size <= MAX_IDEMPOTENCY_KEY_BYTES:
        raise InvalidArgument(
            f"idempotency_key is {size} bytes of UTF-8, outside 1 to {MAX_IDEMPOTENCY_KEY_BYTES}",
            field="idempotency_key",
            limit=MAX_IDEMPOTENCY_KEY_BYTES,
        )
    return value


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
