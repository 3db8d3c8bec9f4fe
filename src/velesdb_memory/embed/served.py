"""What the embedders that ask a model over HTTP have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from ..backends import Variables
from ..errors import EmbedderUnavailable, EmbedError
from ..http import CONNECT_SECONDS, RETRY_WAITS, Endpoint
from ..limits import MAX_EMBED_BATCH
from .base import as_vectors, flaw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EMBED_SECONDS: Final = 60.0
_MEANWHILE: Final = "Meanwhile facts are still listed, filtered, linked, exported and found by words (recall_fused)"


class ServedEmbedder(ABC):
    """Embeddings by a model behind an HTTP endpoint. Contacts nobody before the first text; safe to share between
    threads.

    ``deadline`` bounds the time for one request, which holds up to 32 texts, in seconds; ``connect`` and ``waits`` are
    seconds too; ``role`` is the one whose variables errors name (``EMBEDDER``, ``MIGRATION``). Raises InvalidArgument
    when the URL, the model or the token is missing or unusable.
    """

    backend: ClassVar[str]
    path: ClassVar[str]
    answer_field: ClassVar[str]  # where the vectors of an answer stand, for messages

    def __init__(
        self,
        model: str,
        url: str,
        token: str | None = None,
        *,
        deadline: float = EMBED_SECONDS,
        connect: float = CONNECT_SECONDS,
        waits: Sequence[float] = RETRY_WAITS,
        role: str = "EMBEDDER",
    ) -> None:
        self._endpoint = Endpoint(
            role="embedder",
            kind=self.backend,
            url=url,
            model=model,
            variables=Variables.of(role),
            failure=EmbedError,
            unavailable=EmbedderUnavailable,
            advice=_MEANWHILE,
            deadline=deadline,
            token=token,
            connect=connect,
            waits=waits,
        )
        self._dimension: int | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint!r})"

    @property
    def model(self) -> str:
        """The name that was configured."""
        return self._endpoint.model

    @property
    def fingerprint(self) -> str:
        """The model's name, whoever serves it: ``name`` and ``name:latest`` are one."""
        return self.model.removesuffix(":latest")

    @property
    def dimension(self) -> int | None:
        """The length of the vectors, None before the first answer; every later one must have it too."""
        return self._dimension

    @property
    def semantic(self) -> bool:
        """True."""
        return True

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, as the model answered. Raises EmbedderUnavailable when there is no answer, EmbedError
        when the request is refused or the answer is no usable vector for each text (C38)."""
        import numpy as np

        pieces = [texts[start : start + MAX_EMBED_BATCH] for start in range(0, len(texts), MAX_EMBED_BATCH)]
        rows = [self._ask(piece) for piece in pieces]
        return np.concatenate(rows) if rows else np.empty((0, self._dimension or 0), np.float32)

    def _ask(self, texts: Sequence[str]) -> NDArray[np.float32]:
        answer = self._endpoint.post(self.path, self._payload(self.model, texts), private="\n".join(texts))
        try:
            vectors = as_vectors(msgspec.convert(self._vectors(answer), list[list[float]]))
        except (KeyError, TypeError, ValueError, OverflowError):
            cause = f"answered without a list of numbers for each text in '{self.answer_field}'"
            raise self._endpoint.failed(cause, path=self.path) from None
        wrong = flaw(vectors, len(texts), self._dimension)
        if wrong:
            raise self._endpoint.failed(f"answered with {wrong}", path=self.path)
        self._dimension = vectors.shape[1]
        return vectors

    @abstractmethod
    def _payload(self, model: str, texts: Sequence[str]) -> dict[str, Any]:
        """The body of the request about some texts."""

    @abstractmethod
    def _vectors(self, answer: dict[str, Any]) -> Any:
        """Where the lists of numbers stand in an answer, in the order of the texts. Raises KeyError, TypeError or
        ValueError when it holds none."""
