"""The worker: takes passages and enrichments from the store's queues, and sweeps what has expired."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
from collections.abc import Callable
from typing import Final

from ..errors import EmbedderUnavailable, StorageError, VelesMemoryError
from ..limits import JOB_LEASE_SECONDS, JOB_PATIENCE_SECONDS, JOB_RETENTION_COUNT, JOB_RETENTION_SECONDS
from ..machine import process_space
from ..memory.core import Core
from ..memory.switching import current
from ..model import Outcome
from ..store.base import JobRecord, Record
from . import autograph, jobs
from .extractors import Extractors
from .heartbeat import heartbeat

_IDLE_SECONDS: Final = 1.0  # between looks at the queue: another process may have filled it
_PAUSE_SECONDS: Final = 30.0  # after the embedder could not be asked
_SWEEP_EVERY: Final = 60  # seconds
_SWEEP: Final = 256  # expired records of one transaction

Report = Callable[[str, Outcome], None]


class Worker:
    """One worker of this process. ``enrich`` says whether it takes enrichments too."""

    def __init__(self, core: Core, extractors: Extractors, *, enrich: bool) -> None:
        self._core = core
        self._extractors = extractors
        self._enrich = enrich and extractors.default is not None
        self.name = worker_name()
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._swept_at = 0

    def start(self) -> None:
        """Work in a thread of its own until ``stop``."""
        self._thread = threading.Thread(target=self._loop, name="velesdb-memory-worker", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Tell the thread that there is something to do."""
        self._wake.set()

    def stop(self, timeout: float = 1.0) -> None:
        """Stop taking work. What is under way for longer than ``timeout`` seconds is given back: any worker redoes
        it."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                with contextlib.suppress(VelesMemoryError), self._core.store.transaction(self._core.clock.now()) as tx:
                    tx.release(self.name)
            self._thread = None

    def run_until_idle(self, report: Report | None = None) -> int:
        """Work in the calling thread until nothing is left that can be done here; how much was done. Raises
        EmbedderUnavailable when the embedder cannot be asked: the rest waits."""
        self._release_the_dead()
        done = 0
        while not self._stop.is_set() and self._step(report):
            done += 1
        return done

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            pause = _IDLE_SECONDS
            try:
                self._release_the_dead()
                self._sweep()
                while not self._stop.is_set() and self._step(None):
                    pass
            except Exception as error:
                if isinstance(error, EmbedderUnavailable):
                    pause = _PAUSE_SECONDS
                # a full disk or a busy store passes, and the queue is still there; text that is not ours may quote it
                reason = error if isinstance(error, VelesMemoryError) else type(error).__name__
                if not self._stop.is_set():
                    print(f"velesdb-memory: background work waits: {reason}", file=sys.stderr)
            self._wake.wait(pause)

    def _step(self, report: Report | None) -> bool:
        """Do one piece of work; False when there was none, or it could not be done. Raises EmbedderUnavailable, with
        the work given back, when the embedder cannot be asked."""
        job, fact = self._claim()
        if job is not None:
            with heartbeat("velesdb-memory-heartbeat", JOB_LEASE_SECONDS / 3, self._beat):
                try:
                    outcome = jobs.perform(self._core, self._extractors, job, self.name)
                except EmbedderUnavailable:
                    self._give_back()
                    raise
            what = f"passage {job.request_id[:12]}"
        elif fact is not None:
            with heartbeat("velesdb-memory-heartbeat", JOB_LEASE_SECONDS / 3, self._beat):
                outcome = autograph.perform(self._core, self._extractors, fact, self.name)
            what = f"fact {fact.id}"
        else:
            return False
        if outcome == "given back":
            self._give_back()
        if report:
            report(what, outcome)
        return outcome != "given back"

    def _give_back(self) -> None:
        with self._core.store.transaction(self._core.clock.now()) as tx:
            tx.release(self.name)

    def _claim(self) -> tuple[JobRecord | None, Record | None]:
        now = self._core.clock.now()
        with self._core.store.view(now) as view:
            # a passage needs vectors; with another embedder than the store's it is left to other processes
            jobs_waiting = view.pending_jobs() if current(self._core).fits(view) else 0
            waiting = jobs_waiting, view.pending_enrichments()
        # a look costs no write; a claim is one
        if not waiting[0] and not (self._enrich and waiting[1]):
            return None, None
        with self._core.store.transaction(now) as tx:
            names = self._extractors.names()
            job = tx.claim_job(self.name, JOB_LEASE_SECONDS, names, JOB_PATIENCE_SECONDS) if waiting[0] else None
            if job is not None or not self._enrich:
                return job, None
            return None, tx.claim_enrichment(self.name, JOB_LEASE_SECONDS)

    def _beat(self) -> None:
        with contextlib.suppress(StorageError), self._core.store.transaction(self._core.clock.now()) as tx:
            tx.renew(self.name, JOB_LEASE_SECONDS)

    def _release_the_dead(self) -> None:
        """Free what workers of this machine held that are no longer running, without waiting for their leases."""
        now = self._core.clock.now()
        with self._core.store.view(now) as view:
            dead = [worker for worker in view.workers() if is_gone(worker)]
        if dead:
            with self._core.store.transaction(now) as tx:
                for worker in dead:
                    tx.release(worker)

    def _sweep(self) -> None:
        now = self._core.clock.now()
        if now - self._swept_at < _SWEEP_EVERY:
            return
        self._swept_at = now
        while not self._stop.is_set():
            with self._core.store.transaction(now) as tx:
                swept = tx.sweep(_SWEEP)
                tx.expire_jobs(now - JOB_RETENTION_SECONDS, JOB_RETENTION_COUNT)
            if swept < _SWEEP:
                return


def worker_name() -> str:
    """The machine and process, so that others there can tell when this one is gone."""
    return f"{process_space()}/{os.getpid()}/{secrets.token_hex(4)}"


def is_gone(worker: str) -> bool:
    """Whether ``worker`` is of this machine, since its last start, and its process has ended. When in doubt, no: its
    lease will run out."""
    machine, number, _ = worker.rsplit("/", 2)
    if machine != process_space() or not number.isdecimal() or sys.platform == "win32":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
