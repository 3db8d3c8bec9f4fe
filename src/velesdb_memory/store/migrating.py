"""What a store does for a migration of its vectors to another model: the record of it, and the verbs.

A migration fills a second embedding space for the same records. Facts have a *place*: a number that grows with every
new vector and is never used twice, and what lies at a place never changes, so that one pass by ascending place, which
goes on until nothing is left above it, has seen everything. Edges have such places too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .base import Space

Phase = Literal[
    "prepared",
    "capturing",
    "base_copied",
    "catching_up",
    "non_converging",
    "cutover_ready",
    "quiescing",
    "activated",
    "committed",
    "cancelled",
]

TERMINAL: Final = frozenset[Phase](("committed", "cancelled"))
# From here on the switch is under way: nothing takes it back but its own recovery
SWITCHING: Final = frozenset[Phase](("quiescing", "activated"))

JOURNAL_RECORD_BYTES: Final = 24  # what one captured change is counted as: its row and its share of the page


class MigrationLimits(msgspec.Struct, frozen=True):
    """How a migration is to work. Batches are rows, the window is samples."""

    pause_budget_ms: int
    journal_max_bytes: int
    fact_batch: int
    replay_batch: int
    edge_cap: int
    observation_window: int
    verification_reserve_ms: int


class MigrationRecord(msgspec.Struct):
    """The durable state of the one migration that a store remembers.

    ``fact_place`` and ``edge_place`` are how far the pass has come, ``fact_end`` and ``edge_end`` how far the base copy
    goes. ``worker`` runs it until ``leased_until``; nobody does when that is None or gone.
    """

    epoch: str
    phase: Phase
    backend: str
    model: str
    dimension: int
    limits: MigrationLimits
    started_at: int
    destination: str = ""
    fact_place: int = 0
    fact_end: int = 0
    edge_place: int = 0
    edge_end: int = 0
    base_facts: int = 0
    base_edges: int = 0
    base_batches: int = 0
    estimated_pause_ms: float | None = None
    measured_cutover_ms: float | None = None
    cancellation_requested: bool = False
    last_error: str | None = None
    captured: int = 0  # changes in all, known at the end
    worker: str | None = None
    leased_until: int = 0


class Watermarks(msgspec.Struct, frozen=True):
    """The number of the last change that was captured, and of the last one up to which all are carried over."""

    input: int
    output: int

    @property
    def pending(self) -> int:
        """Changes that wait, counted from the first to the last."""
        return self.input - self.output

    @property
    def bytes(self) -> int:
        """What they take of the journal."""
        return self.pending * JOURNAL_RECORD_BYTES


class MigrationView(Protocol):
    """Looking at a migration in a snapshot."""

    def job(self) -> MigrationRecord | None:
        """The migration that runs, or the last one."""
        ...

    def witness(self) -> NDArray[np.float32] | None:
        """The target's vector for the fixed sentence, as it was at the start."""
        ...

    def watermarks(self) -> Watermarks: ...
    def dirty(self) -> tuple[int, int]:
        """How many facts, and how many sources of edges, have changes that wait. Reads the whole journal."""
        ...

    def ends(self) -> tuple[int, int]:
        """The highest places of facts and of edges."""
        ...

    def facts_above(self, place: int, limit: int) -> list[tuple[int, str]]:
        """Up to ``limit`` facts above ``place``, ascending: their places and texts. Expired ones too, until they are
        swept: somebody may still be reading them."""
        ...

    def edges_above(self, place: int, limit: int) -> tuple[int, int, int | None]:
        """Look at up to ``limit`` edges above ``place``: the last one's place, how many there were, and the id of the
        first that has an end which is not stored or an id that is not its own."""
        ...

    def uncovered(self) -> int:
        """How many facts up to the pass's place have no vector in the target. Reads all of them."""
        ...

    def tallies(self) -> tuple[int, int]:
        """How many facts there are, and how many vectors in the target; kept as numbers, so read at once."""
        ...

    def leftovers(self) -> int:
        """How many embedding spaces wait to be removed."""
        ...

    def former(self) -> Space | None:
        """The space that the last migration replaced, while it is kept."""
        ...


class MigrationTransaction(MigrationView, Protocol):
    """Changing a migration, together with whatever else the transaction does."""

    def begin(self, record: MigrationRecord, witness: NDArray[np.float32]) -> None:
        """Remember ``record`` in place of the former one, with an empty journal and an empty target space. Sets its
        ``destination``."""
        ...

    def save(self, record: MigrationRecord) -> None: ...
    def fill(self, vectors: Sequence[tuple[int, NDArray[np.float32]]]) -> int:
        """Store the target's vectors of facts, ascending above all former ones; those whose fact is gone are left out.
        How many were stored."""
        ...

    def retire(self, limit: int, record: MigrationRecord) -> int:
        """Look at the first ``limit`` captured changes and forget those that the pass has seen; how many that were."""
        ...

    def clear_journal(self) -> None: ...
    def settle_files(self) -> None:
        """Make what was written to the target's derived files survive a power loss; begin new ones after one."""
        ...

    def activate(self) -> None:
        """Make the target the space that searches use, and keep the one before."""
        ...

    def discard(self, record: MigrationRecord) -> None:
        """Give the target up, once it is proved to be that of ``record``. Raises StorageError otherwise."""
        ...

    def give_up_former(self) -> bool:
        """Let ``purge`` have the space that was replaced; whether there was one."""
        ...

    def purge(self, limit: int) -> bool:
        """Remove up to ``limit`` vectors of a space that was given up, and the space with its files when none is left;
        whether there is more to do."""
        ...
