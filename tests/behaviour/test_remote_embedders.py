"""Embedders against a model server in a process of its own: what they send, and how they fail (C38)."""

from __future__ import annotations

import json
import logging
import math
from time import monotonic
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Opener
from support.model_server import ModelServer, embedding
from support.served import BOTH, FACT, Build, ollama, openai
from support.stores import assert_sound, contents, everything
from velesdb_memory import config
from velesdb_memory.embed.served import ServedEmbedder
from velesdb_memory.errors import EmbedderUnavailable, EmbedError
from velesdb_memory.extract.outline import OutlineExtractor
from velesdb_memory.limits import MAX_EMBED_BATCH

TOKEN = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def proxies_that_must_be_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


def failure(embedder: ServedEmbedder, kind: type[EmbedError], texts: list[str] | None = None) -> str:
    with pytest.raises(EmbedError) as caught:
        embedder.embed(texts or [FACT])
    assert type(caught.value) is kind
    message = str(caught.value)
    assert not any(word in message for word in ("Nora", "Oslo", "hypertension", TOKEN)), message
    assert caught.value.__cause__ is None
    return message


def vectors_as(build: Build, vectors: Any) -> dict[str, Any]:
    """A step that answers with ``vectors``, as the protocol of ``build`` wants it."""
    if build is ollama:
        return {"body": json.dumps({"embeddings": vectors})}
    return {"body": json.dumps({"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]})}


# --- what is sent, and what is read


@pytest.mark.parametrize(("keep_alive", "sent"), [(-1, -1), ("-1", -1), (" 600 ", 600), ("10m", "10m")])
def test_ollama_is_sent_the_documented_request(server: ModelServer, keep_alive: Any, sent: Any) -> None:
    vectors = ollama(server.url + "//", keep_alive=keep_alive).embed([FACT, "tea"])
    assert vectors.shape == (2, 8)
    assert vectors[1].tolist() == pytest.approx(embedding("tea"))
    (request,) = server.seen()
    assert (request["method"], request["path"]) == ("POST", "/api/embed")
    assert request["body"] == {"model": "tiny", "input": [FACT, "tea"], "keep_alive": sent}
    assert "authorization" not in request["headers"]


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1//"])
def test_openai_is_sent_the_documented_request_whatever_the_base_url_ends_in(server: ModelServer, suffix: str) -> None:
    assert openai(server.url + suffix).embed([FACT]).shape == (1, 8)
    (request,) = server.seen()
    assert (request["method"], request["path"]) == ("POST", "/v1/embeddings")
    assert request["body"] == {"model": "tiny", "input": [FACT]}
    assert "authorization" not in request["headers"]


def test_a_token_is_sent_as_bearer_and_shown_nowhere(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.script({"status": 401, "body": json.dumps({"error": {"message": f"bad key {TOKEN}"}})})
    embedder = openai(server.url, f" {TOKEN}\n")
    message = failure(embedder, EmbedderUnavailable)
    assert server.seen()[0]["headers"]["authorization"] == f"Bearer {TOKEN}"
    assert "VELESDB_MEMORY_EMBEDDER_API_TOKEN" in message
    assert TOKEN not in f"{message} {embedder!r} {vars(embedder)} {caplog.text}"
    assert "hypertension" not in caplog.text


@pytest.mark.parametrize("numbered", [[1, 0], [0, 0], [None, None]], ids=["out of order", "all 0", "not at all"])
def test_the_entries_of_openai_go_to_the_texts_they_are_numbered_for(server: ModelServer, numbered: list[Any]) -> None:
    entries = [{"index": place, "embedding": [1.0, float(at)]} for at, place in enumerate(numbered)]
    server.script({"body": json.dumps({"data": entries})})
    rows = openai(server.url).embed(["a", "b"]).tolist()
    assert rows == ([[1.0, 1.0], [1.0, 0.0]] if numbered == [1, 0] else [[1.0, 0.0], [1.0, 1.0]])


@BOTH
def test_many_texts_go_in_few_requests_over_one_connection(
    server: ModelServer, open_memory: Opener, build: Build
) -> None:
    memory = open_memory(embedder=build(server.url))
    text = "\n".join(f"fact number {number}" for number in range(80))
    assert len(memory.remember_extracted(text, OutlineExtractor()).ids) == 80
    seen = server.seen()
    assert [len(request["body"]["input"]) for request in seen] == [MAX_EMBED_BATCH, MAX_EMBED_BATCH, 16]
    assert len({request["connection"] for request in seen}) == 1
    assert contents(memory.recall("fact number 7", 1)) == ["fact number 7"]
    assert_sound(memory)


# --- how it fails


@BOTH
@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_up_to_three_times(server: ModelServer, build: Build, status: int) -> None:
    server.script({"status": status}, {"status": status}, {})
    assert build(server.url).embed([FACT]).shape == (1, 8)
    assert len(server.seen()) == 3
    server.script({"status": status})
    message = failure(build(server.url), EmbedderUnavailable)
    assert len(server.seen()) == 3
    for told in ("after 3 attempts", server.url, "'tiny'", str(status), "VELESDB_MEMORY_EMBEDDER_URL", "_MODEL"):
        assert told in message


@BOTH
def test_an_unknown_model_is_told_at_once_with_what_to_do(server: ModelServer, build: Build) -> None:
    server.script({"status": 404, "body": json.dumps({"error": 'model "tiny" not found, try pulling it first'})})
    message = failure(build(server.url), EmbedderUnavailable)
    assert len(server.seen()) == 1
    assert "after 1 attempt:" in message and "HTTP 404" in message
    assert ("ollama pull tiny" in message) == (build is ollama)
    assert "VELESDB_MEMORY_EMBEDDER_MODEL" in message


@BOTH
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_refused_for_itself_will_not_fare_better_later(
    server: ModelServer, build: Build, status: int
) -> None:
    server.script({"status": status, "body": json.dumps({"error": {"message": "input is too long"}})})
    assert "input is too long" in failure(build(server.url), EmbedError)
    assert len(server.seen()) == 1


@BOTH
@pytest.mark.parametrize("fault", ["hang", "dribble", "dribble_body"])
def test_a_slow_server_is_given_up_at_the_deadline_and_not_asked_again(
    server: ModelServer, build: Build, fault: str
) -> None:
    server.script({"fault": fault})
    started = monotonic()
    message = failure(build(server.url, deadline=0.4), EmbedderUnavailable)
    assert monotonic() - started < 3
    assert "within 0.4 s" in message
    assert len(server.seen()) == 1


def test_the_time_for_a_request_can_be_set(server: ModelServer) -> None:
    server.script({"fault": "hang"})
    variables = {"EMBEDDER": "ollama", "EMBEDDER_URL": server.url, "EMBEDDER_TIMEOUT": "1"}
    settings = config.load({f"VELESDB_MEMORY_{name}": value for name, value in variables.items()})
    with pytest.raises(EmbedderUnavailable, match="within 1 s"):
        config.make_embedder(settings).embed([FACT])


@BOTH
@pytest.mark.parametrize("fault", ["close", "truncate"])
def test_a_broken_connection_is_tried_again(server: ModelServer, build: Build, fault: str) -> None:
    server.script({"fault": fault}, {})
    assert build(server.url).embed([FACT]).shape == (1, 8)
    assert len(server.seen()) == 2


@BOTH
def test_a_server_that_is_not_there_is_named(nowhere: str, build: Build) -> None:
    message = failure(build(nowhere), EmbedderUnavailable)
    assert nowhere in message and "after 3 attempts" in message and "recall_fused" in message


@BOTH
@pytest.mark.parametrize(
    "body",
    ["", "<html>", "[]", "{}", '{"embeddings": null, "data": null}', '{"embeddings": {"0": [1]}, "data": {"0": [1]}}',
     '{"embeddings": [["1"]], "data": [{"embedding": ["1"]}]}',
     '{"embeddings": [[true]], "data": [{"embedding": [true]}]}',
     '{"embeddings": [[null]], "data": [{"embedding": [null]}]}', '{"embeddings": [1], "data": [{"embedding": 1}]}',
     '{"error": "out of memory"}'],
)  # fmt: skip
def test_c38_an_answer_without_vectors_is_an_error_that_is_not_tried_again(
    server: ModelServer, build: Build, body: str
) -> None:
    server.script({"body": body})
    assert server.url in failure(build(server.url), EmbedError)
    assert len(server.seen()) == 1


@BOTH
@pytest.mark.parametrize(
    ("vectors", "told"),
    [
        ([], "shape"), ([[1.0, 0.0], [0.0, 1.0]], "shape"), ([[]], "0 numbers"), ([[0.0, 0.0]], "zero"),
        ([[math.nan, 1.0]], "not finite"), ([[math.inf, 1.0]], "not finite"), ([[1e300, 1.0]], "not finite"),
        ([[10**400, 1]], "list of numbers"),
    ],
)  # fmt: skip
def test_c38_vectors_that_cannot_be_used_are_refused_and_teach_nothing(
    server: ModelServer, build: Build, vectors: Any, told: str
) -> None:
    embedder = build(server.url)
    server.script(vectors_as(build, vectors))
    assert told in failure(embedder, EmbedError)
    assert embedder.dimension is None
    server.script({})
    assert embedder.embed([FACT]).shape == (1, 8)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(value=JSON)
def test_c38_whatever_an_answer_holds_it_is_a_vector_or_an_error(shared_model: ModelServer, value: Any) -> None:
    shared_model.script({"body": json.dumps({"embeddings": [value], "data": [{"embedding": value}]})})
    for build in (ollama, openai):
        try:
            [vector] = build(shared_model.url).embed([FACT])
        except EmbedError:
            continue
        assert isinstance(value, list) and len(value) == len(vector)
        assert np.isfinite(vector).all() and vector.any()


@BOTH
def test_c38_vectors_of_several_lengths_are_refused(server: ModelServer, build: Build) -> None:
    server.script(vectors_as(build, [[1.0, 0.0], [1.0]]))
    assert "list of numbers" in failure(build(server.url), EmbedError, [FACT, "x"])


@BOTH
def test_c38_another_dimension_midway_is_refused_and_nothing_is_written(
    server: ModelServer, open_memory: Opener, build: Build
) -> None:
    memory = open_memory(embedder=build(server.url))
    memory.remember(FACT)
    before = everything(memory)
    server.script({"dimension": 12})
    for call in (lambda: memory.remember("another"), lambda: memory.recall("another")):
        with pytest.raises(EmbedError, match="12 numbers, not 8"):
            call()
    server.script({})
    assert everything(memory) == before
    assert contents(memory.recall(FACT)) == [FACT]
    assert_sound(memory)
