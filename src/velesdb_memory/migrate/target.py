"""What is asked of a migration's target: that it is the model it was, and how long it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..embed.base import Embedder, embed_checked
from ..errors import MigrationRefused
from ..memory.core import SAME_MODEL
from ..store.migrating import MigrationRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WITNESS: Final = "The quick brown fox jumps over the lazy dog, and 42 herons watch it from the reeds."
_SMOOTHING: Final = 0.3  # weight of the latest measurement


def witness_of(embedder: Embedder) -> NDArray[np.float32]:
    """What the model makes of the fixed sentence."""
    return embed_checked(embedder, [WITNESS])[0]


def require_witness(before: NDArray[np.float32] | None, now: NDArray[np.float32], model: str) -> None:
    """Raise MigrationRefused unless both are of the same model. The last bits differ between machines and batches, so
    it is a cosine that is compared and not a hash."""
    if before is None or before.shape != now.shape or float(before @ now) < SAME_MODEL:
        raise MigrationRefused(
            f"the target model {model} answers otherwise than when the migration began: it was replaced under its "
            "name. Put the former one back, or call migration_cancel and start again"
        )


def require_dimension(record: MigrationRecord, dimension: int) -> None:
    """Raise MigrationRefused when the target's vectors have another length than they had."""
    if dimension != record.dimension:
        raise MigrationRefused(
            f"the target model {record.model} answers with {dimension} dimensions, not {record.dimension} as when the "
            "migration began: put the former model back, or call migration_cancel and start again"
        )


class Costs:
    """What things take, in milliseconds, as a moving average."""

    def __init__(self) -> None:
        self.call = 0.0  # asking the model anything at all
        self.fact = 0.0  # each further text, and storing it
        self.switch = 0.0  # counting, switching and committing

    def estimate(self, pending: int) -> float:
        """What a switch with ``pending`` changes would take."""
        return self.switch + (self.call + pending * self.fact if pending else 0.0)

    def note(self, name: str, value: float) -> None:
        known = getattr(self, name)
        setattr(self, name, value if not known else known + _SMOOTHING * (value - known))
