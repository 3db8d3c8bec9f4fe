"""What the extractors that ask a model over HTTP have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from ..backends import Variables
from ..errors import ExtractError
from ..http import CONNECT_SECONDS, RETRY_WAITS, Endpoint
from .base import Extraction
from .prompt import PASSAGE_BYTES, Reply, extract_in_pieces

GENERATION_SECONDS: Final = 300.0


class GenerativeExtractor(ABC):
    """Extraction by a model behind an HTTP endpoint. Safe to share between threads.

    ``deadline`` bounds the time for one piece of a passage, in seconds, and ``passage_bytes`` its size; ``connect``
    and ``waits`` are seconds too. Raises InvalidArgument when the URL, the model or the token is missing or unusable.
    """

    backend: ClassVar[str]
    path: ClassVar[str]
    reply_field: ClassVar[str]  # where the text of an answer stands, for messages

    def __init__(
        self,
        model: str,
        url: str,
        token: str | None = None,
        *,
        deadline: float = GENERATION_SECONDS,
        connect: float = CONNECT_SECONDS,
        waits: Sequence[float] = RETRY_WAITS,
        passage_bytes: int = PASSAGE_BYTES,
    ) -> None:
        self._endpoint = Endpoint(
            role="extractor",
            kind=self.backend,
            url=url,
            model=model,
            variables=Variables.of("EXTRACTOR"),
            failure=ExtractError,
            deadline=deadline,
            token=token,
            connect=connect,
            waits=waits,
        )
        self._passage_bytes = passage_bytes

    @property
    def name(self) -> str:
        return self.backend

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint!r})"

    def extract(self, text: str) -> Extraction:
        """What the model finds in ``text``, piece by piece; nothing, without a request, for a blank one.

        Raises ExtractError when the server fails or a reply cannot be read; nothing found so far is kept then.
        """
        return extract_in_pieces(text, self._generate, self._unusable, self._passage_bytes)

    def _generate(self, piece: str) -> Reply:
        answer = self._endpoint.post(self.path, self._payload(self._endpoint.model, piece), private=piece)
        reply = self._reply(answer)
        if reply is None:
            raise self._unusable(f"answered without the text field '{self.reply_field}'")
        return reply

    def _unusable(self, cause: str) -> Exception:
        return self._endpoint.failed(cause, path=self.path)

    @abstractmethod
    def _payload(self, model: str, piece: str) -> dict[str, Any]:
        """The body of the request about one piece of a passage."""

    @abstractmethod
    def _reply(self, answer: dict[str, Any]) -> Reply | None:
        """What the model wrote; None when the answer holds no text."""
