"""Extractors against a model server in a process of its own: what they send, and how they fail."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.model_server import ModelServer
from velesdb_memory.backends import Variables
from velesdb_memory.errors import ExtractError
from velesdb_memory.extract.base import ExtractedAttribute, ExtractedFact, ExtractedRelation, Extraction
from velesdb_memory.extract.ollama import OllamaExtractor
from velesdb_memory.extract.openai import OpenAiExtractor, probe
from velesdb_memory.extract.prompt import REPLY_SCHEMA, REPLY_TOKENS
from velesdb_memory.extract.select import ExtractorSettings
from velesdb_memory.http import Endpoint

PASSAGE = "Nora Vinterberg lives in Oslo with her hypertension."
TOKEN = "sk-very-secret-0123456789"
REPLY = json.dumps(
    {
        "facts": [{"fact": "Nora lives in Oslo.", "entities": ["nora", "oslo"]}],
        "relations": [{"subject": "nora", "predicate": "lives in", "object": "oslo"}],
        "attributes": [{"entity": "nora", "key": "age", "value": 41}],
    }
)
FOUND = Extraction(
    [ExtractedFact("Nora lives in Oslo.", ["nora", "oslo"])],
    [ExtractedRelation("nora", "lives in", "oslo")],
    [ExtractedAttribute("nora", "age", 41)],
)


@pytest.fixture
def server(model: ModelServer) -> ModelServer:
    model.script({"text": REPLY})
    return model


@pytest.fixture(autouse=True)
def proxies_that_must_be_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)


def ollama(url: str, **options: Any) -> OllamaExtractor:
    return OllamaExtractor("tiny:latest", url, **{"deadline": 5.0, "waits": (0.0, 0.0), **options})


def openai(url: str, token: str | None = None, **options: Any) -> OpenAiExtractor:
    return OpenAiExtractor("tiny", url, token, **{"deadline": 5.0, "waits": (0.0, 0.0), **options})


BOTH = pytest.mark.parametrize("build", [ollama, openai])
Build = Callable[..., OllamaExtractor | OpenAiExtractor]


def failure(extractor: OllamaExtractor | OpenAiExtractor) -> str:
    with pytest.raises(ExtractError) as caught:
        extractor.extract(PASSAGE)
    message = str(caught.value)
    assert not any(word in message for word in ("Nora", "Oslo", "hypertension", TOKEN)), message
    assert caught.value.__cause__ is None
    return message


# --- what is sent


def test_ollama_is_sent_the_documented_request(server: ModelServer) -> None:
    assert ollama(server.url + "/").extract(PASSAGE) == FOUND
    (request,) = server.seen()
    body = request["body"]
    assert (request["method"], request["path"]) == ("POST", "/api/generate")
    assert PASSAGE in body.pop("prompt")
    assert body == {
        "model": "tiny:latest",
        "stream": False,
        "think": False,
        "keep_alive": -1,
        "format": REPLY_SCHEMA,
        "options": {"temperature": 0, "num_predict": REPLY_TOKENS, "num_ctx": 4096},
    }
    assert request["headers"]["content-type"] == "application/json"
    assert "authorization" not in request["headers"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [("-1", -1), (" 600 ", 600), (0, 0), ("10m", "10m"), ("1.5", "1.5"), ("1" * 30, "1" * 30)],
)
def test_keep_alive_is_sent_as_a_number_when_it_is_one(server: ModelServer, given: Any, sent: Any) -> None:
    ollama(server.url, keep_alive=given).extract(PASSAGE)
    assert server.seen()[0]["body"]["keep_alive"] == sent


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/", "/v1//"])
def test_openai_is_sent_the_documented_request_whatever_the_base_url_ends_in(
    server: ModelServer, suffix: str
) -> None:
    assert openai(server.url + suffix).extract(PASSAGE) == FOUND
    (request,) = server.seen()
    assert (request["method"], request["path"]) == ("POST", "/v1/chat/completions")
    (message,) = request["body"].pop("messages")
    assert message["role"] == "user"
    assert PASSAGE in message["content"]
    assert request["body"] == {"model": "tiny", "temperature": 0}
    assert "authorization" not in request["headers"]


def test_a_token_is_sent_as_bearer_and_shown_nowhere(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script({"status": 401, "body": json.dumps({"error": {"message": f"bad key {TOKEN}"}})})
    extractor = openai(server.url, f" {TOKEN}\n")
    message = failure(extractor)
    assert server.seen()[0]["headers"]["authorization"] == f"Bearer {TOKEN}"
    assert "VELESDB_MEMORY_EXTRACTOR_API_TOKEN" in message
    settings = ExtractorSettings("openai", server.url, "m", TOKEN)
    shown = f"{message} {extractor!r} {vars(extractor)} {settings!r} {settings} {settings.__rich_repr__()}"
    assert TOKEN not in shown + caplog.text
    assert "hypertension" not in caplog.text


def test_credentials_in_the_url_are_sent_as_basic_and_redacted(server: ModelServer) -> None:
    url = server.url.replace("//", "//user:p%40ss-word@")
    assert openai(url).extract(PASSAGE) == FOUND
    assert server.seen()[0]["headers"]["authorization"] == "Basic dXNlcjpwQHNzLXdvcmQ="
    server.script({"status": 400})
    message = failure(openai(url))
    assert f"http://***@127.0.0.1:{server.port}/v1/chat/completions" in message
    settings = ExtractorSettings("openai", url, "m")
    for text in (message, repr(openai(url)), repr(settings), probe(url, "m", timeout=5) or ""):
        assert "ss-word" not in text
    server.script({"text": REPLY})
    openai(url, TOKEN).extract(PASSAGE)
    assert server.seen()[0]["headers"]["authorization"] == f"Bearer {TOKEN}"


@BOTH
def test_one_connection_serves_several_requests(server: ModelServer, build: Build) -> None:
    extractor = build(server.url)
    for _ in range(3):
        extractor.extract(PASSAGE)
    assert len({request["connection"] for request in server.seen()}) == 1


@BOTH
def test_a_blank_passage_asks_nobody(server: ModelServer, build: Build) -> None:
    assert build(server.url).extract(" \n\u3000") == Extraction()
    assert server.seen() == []


@BOTH
def test_a_long_passage_is_read_in_pieces_and_merged_in_order_d33(server: ModelServer, build: Build) -> None:
    server.script({"text": '["one"]'}, {"text": '["two"]'}, {"text": '{"facts": ["three", 3]}'})
    found = build(server.url, passage_bytes=256).extract("\n\n".join(["x" * 200, "y" * 200, "z" * 200]))
    assert [fact.text for fact in found.facts] == ["one", "two", "three"]
    assert found.dropped == {"fact_not_text": 1}
    assert len(server.seen()) == 3


# --- what is understood


@BOTH
@pytest.mark.parametrize(
    "text", [REPLY, f"```json\n{REPLY}\n```", f"Here you are: {REPLY} Bye.", f"[{REPLY}]"]
)
def test_every_frame_of_a_reply_is_read_d32(server: ModelServer, build: Build, text: str) -> None:
    server.script({"text": text})
    assert build(server.url).extract(PASSAGE) == FOUND


@BOTH
def test_one_bad_item_is_dropped_and_counted_d32_c26(server: ModelServer, build: Build) -> None:
    server.script({"text": '{"facts": ["F.", {"id": "12"}], "relations": [["12", "r", "a"]]}'})
    found = build(server.url).extract(PASSAGE)
    assert found == Extraction([ExtractedFact("F.")], [], [], {"fact_not_text": 1, "unknown_reference": 1})


@BOTH
def test_a_reply_cut_at_the_limit_is_an_error_unless_it_can_be_read(
    server: ModelServer, build: Build
) -> None:
    server.script({"text": REPLY[:40], "finish": "length"})
    assert "output limit" in failure(build(server.url))
    server.script({"text": REPLY, "finish": "length"})
    assert build(server.url).extract(PASSAGE) == FOUND


@BOTH
def test_a_long_piece_with_a_cut_reply_is_asked_again_in_halves_d33(
    server: ModelServer, build: Build
) -> None:
    server.script({"text": '{"fa', "finish": "length"}, {"text": '["one"]'}, {"text": '["two"]'})
    found = build(server.url).extract("word " * 120)
    assert [fact.text for fact in found.facts] == ["one", "two"]


# --- what fails, and how often it is tried


@BOTH
@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_overloaded_server_is_asked_again(server: ModelServer, build: Build, status: int) -> None:
    server.script({"status": status}, {"status": status}, {"text": REPLY})
    assert build(server.url).extract(PASSAGE) == FOUND
    assert len(server.seen()) == 3


@BOTH
def test_three_attempts_are_the_most_and_the_error_says_everything_needed(
    server: ModelServer, build: Build
) -> None:
    server.script({"status": 500})
    extractor = build(server.url)
    message = failure(extractor)
    assert len(server.seen()) == 3
    for part in (
        "extractor",
        extractor.name,
        server.url,
        "tiny",
        "3 attempts",
        "HTTP 500",
        "VELESDB_MEMORY_EXTRACTOR_URL",
        "VELESDB_MEMORY_EXTRACTOR_MODEL",
    ):
        assert part in message
    assert "EMBEDDER" not in message


def test_the_waits_between_attempts_are_those_configured(server: ModelServer) -> None:
    server.script({"status": 500}, {"status": 500}, {"text": REPLY})
    started = time.monotonic()
    ollama(server.url, waits=(0.1, 0.2)).extract(PASSAGE)
    assert time.monotonic() - started >= 0.3


@BOTH
@pytest.mark.parametrize("fault", ["close", "truncate"])
def test_an_answer_that_ends_early_is_asked_for_again(server: ModelServer, build: Build, fault: str) -> None:
    server.script({"fault": fault}, {"text": REPLY})
    assert build(server.url).extract(PASSAGE) == FOUND
    server.script({"fault": fault})
    assert "before its answer was complete" in failure(build(server.url))
    assert len(server.seen()) == 3


@BOTH
def test_a_refused_connection_is_tried_three_times(build: Build) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        message = failure(build(f"http://127.0.0.1:{closed.getsockname()[1]}"))
    assert "3 attempts" in message
    assert "could not be reached" in message


@BOTH
@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413])
def test_other_statuses_are_final(server: ModelServer, build: Build, status: int) -> None:
    server.script({"status": status, "headers": {"Location": "/elsewhere"}})
    message = failure(build(server.url))
    assert f"HTTP {status}" in message
    assert "1 attempt:" in message
    assert len(server.seen()) == 1


def test_only_ollama_is_told_to_pull(server: ModelServer) -> None:
    server.script({"status": 404})
    assert "ollama pull tiny:latest" in failure(ollama(server.url))
    assert "ollama" not in failure(openai(server.url))


@BOTH
@pytest.mark.parametrize(
    "body",
    [
        "not json",
        "[]",
        "{}",
        '{"response": 1, "choices": [{"message": {"content": null}}]}',
        '{"choices": 3}',
    ],
)
def test_an_unusable_payload_is_final(server: ModelServer, build: Build, body: str) -> None:
    server.script({"body": body})
    assert "1 attempt:" in failure(build(server.url))
    assert len(server.seen()) == 1


@BOTH
@pytest.mark.parametrize("body", [{"error": {"message": "no such model"}}, {"error": "no such model"}])
def test_an_error_report_is_an_error_even_with_status_200(
    server: ModelServer, build: Build, body: Any
) -> None:
    server.script({"body": json.dumps(body)})
    assert "refused the request: no such model" in failure(build(server.url))


@BOTH
@pytest.mark.parametrize(
    "quote", [PASSAGE, PASSAGE.upper(), "nora   vinterberg", "N-o-r-a Vinterberg\nlives"]
)
def test_an_error_report_that_quotes_the_passage_is_withheld_d59(
    server: ModelServer, build: Build, quote: str
) -> None:
    server.script({"status": 400, "body": json.dumps({"error": {"message": f"cannot read: {quote}"}})})
    message = failure(build(server.url))
    assert "withheld" in message
    assert "vinterberg" not in message.lower()


@BOTH
def test_an_error_report_is_one_short_line(server: ModelServer, build: Build) -> None:
    server.script(
        {"status": 400, "body": json.dumps({"error": {"message": "a\n\x1b[31mb\ud800" + "c" * 5_000}})}
    )
    message = failure(build(server.url))
    assert len(message) < 600
    assert message.isprintable()


@BOTH
@pytest.mark.parametrize("fault", ["hang", "dribble", "dribble_body"])
def test_the_deadline_holds_against_every_kind_of_slowness_and_is_final(
    server: ModelServer, build: Build, fault: str
) -> None:
    server.script({"fault": fault, "text": "x" * 2_000})
    started = time.monotonic()
    message = failure(build(server.url, deadline=0.3))
    assert time.monotonic() - started < 1.5
    assert "within 0.3 s" in message
    assert "1 attempt:" in message
    assert len(server.seen()) == 1


def test_a_thread_left_behind_at_the_deadline_soon_ends(server: ModelServer) -> None:
    server.script({"fault": "dribble"})
    failure(ollama(server.url, deadline=0.2))
    for thread in threading.enumerate():
        if thread.name == "velesdb-memory-http":
            thread.join(5)
            assert not thread.is_alive()


def test_the_retries_share_the_deadline(server: ModelServer) -> None:
    server.script({"status": 500})
    started = time.monotonic()
    assert "HTTP 500" in failure(ollama(server.url, deadline=0.5, waits=(5.0, 5.0)))
    assert time.monotonic() - started < 1.5
    assert len(server.seen()) == 1


@pytest.mark.parametrize(
    "step",
    [{"fault": "flood"}, {"body": " " * 3_000}, {"headers": {"Content-Encoding": "gzip"}}],
)
def test_a_response_over_its_cap_or_compressed_is_refused(server: ModelServer, step: dict[str, Any]) -> None:
    server.script(step)
    endpoint = Endpoint(
        role="extractor",
        kind="openai",
        url=server.url,
        model="m",
        variables=Variables.of("EXTRACTOR"),
        failure=ExtractError,
        deadline=5,
        max_response_bytes=2_000,
    )
    with pytest.raises(ExtractError, match="1 attempt"):
        endpoint.post("/x", {})
    assert len(server.seen()) == 1


def test_many_threads_may_share_an_extractor(server: ModelServer) -> None:
    extractor = ollama(server.url)
    results: list[Extraction] = []
    threads = [threading.Thread(target=lambda: results.append(extractor.extract(PASSAGE))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [FOUND] * 8


# --- the probe at start


def models(*names: str) -> dict[str, Any]:
    return {"body": json.dumps({"object": "list", "data": [{"id": name} for name in names]})}


def test_the_probe_is_silent_when_the_model_is_listed(server: ModelServer) -> None:
    server.script(models("other", "tiny:latest"))
    assert probe(server.url + "/v1", "tiny", TOKEN) is None
    (request,) = server.seen()
    assert (request["method"], request["path"]) == ("GET", "/v1/models")
    assert request["headers"]["authorization"] == f"Bearer {TOKEN}"
    server.script(models("tiny"))
    assert probe(server.url, "tiny:latest") is None


@pytest.mark.parametrize("status", [401, 403])
def test_the_probe_is_certain_about_a_refused_credential(server: ModelServer, status: int) -> None:
    server.script({"status": status})
    warning = probe(server.url, "tiny", TOKEN) or ""
    assert "without enrichment" in warning
    assert "VELESDB_MEMORY_EXTRACTOR_API_TOKEN" in warning
    assert TOKEN not in warning


@pytest.mark.parametrize(
    "step",
    [
        models("other"),
        models(),
        {"status": 404},
        {"status": 405},
        {"status": 500},
        {"body": "nonsense"},
        {"body": "[]"},
        {"body": '{"data": [1, {"id": 2}]}'},
    ],
)
def test_the_probe_is_unsure_without_a_list_that_names_the_model(
    server: ModelServer, step: dict[str, Any]
) -> None:
    server.script(step)
    warning = probe(server.url, "tiny") or ""
    assert "could not be confirmed" in warning
    assert server.url in warning
    assert "tiny" in warning
    assert len(server.seen()) == 1


@pytest.mark.parametrize("fault", ["hang", "dribble", "close"])
def test_the_probe_reports_an_unreachable_server_in_time(server: ModelServer, fault: str) -> None:
    server.script({"fault": fault})
    started = time.monotonic()
    warning = probe(server.url, "tiny", timeout=0.3) or ""
    assert time.monotonic() - started < 1.5
    assert "without enrichment until it answers" in warning
    assert "\n" not in warning


@pytest.mark.parametrize(
    "url", ["", None, "ftp://x", "http://[", "http://user:secret@h:99999", "http://a b/"]
)
def test_the_probe_never_raises_for_settings_that_cannot_work(url: str | None) -> None:
    assert "secret" not in (probe(url, "m", "to ken") or "secret")
    assert probe("http://localhost", "", " ")
