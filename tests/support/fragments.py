"""Random things to compile: everything that a stage looks for, and much that none should stumble over."""

from __future__ import annotations

import base64
import struct
from typing import Any

from hypothesis import strategies as st

from velesdb_memory.context.model import (
    ChunkPolicy,
    CompilePolicy,
    CompileRequest,
    ContextFragment,
    Media,
)

SENTENCES = (
    "The checkout queue stalled because the broker ran out of file handles.",
    "the CHECKOUT queue  stalled because the broker\nran out of file handles.",
    "Never purge the dead-letter queue without asking.",
    "Il ne faut pas toucher au broker.",
    "Incident 4821 opened 2026-03-17 at 09:42, closed at 11:05.",
    "Dashboard: https://grafana.example.net/d/queue-health",
    "Mittagessen wie immer. Die Warteschlange läuft.",
    "注文キューが停止した。再起動する。",
    "очередь заказов остановилась 😀",
    "retry scheduled",
    "2026-05-02T08:00:00Z WARN pool exhausted",
    "2026-05-02T08:00:01Z WARN pool exhausted",
    "ERROR broker unreachable",
    "steps:\n  - run: build\n  - run: test",
    "steps:\n- run: build\n- run: test",
)
FENCES = (
    "```python\ndef drain(q):\n    while q:\n        q.pop()\n```",
    "~~~\nraw ``` inside\n~~~",
    "````\n```\nnested\n```\n````",
    "```\nnever closed\nnor ended",
    "inline ``` is none",
)
ODD = ("", " ", "\n\n\n", "\r\n", "\x00\x1b[31m", "\u2028\u2029", "\ufeffx", "a\u0301", "\x1c\x1f", "x" * 600)


def png(width: int, height: int, seed: int = 0) -> Media:
    """The smallest thing that has the header of such an image."""
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes([8, 2, 0, 0, 0, seed % 256])
    return Media("image/png", base64.b64encode(data).decode())


lines = st.sampled_from((*SENTENCES, *FENCES, *ODD)) | st.text(max_size=40)
logs = st.lists(st.sampled_from(SENTENCES[9:13]), min_size=8, max_size=20)
texts = (
    st.lists(lines, min_size=0, max_size=8).map("\n".join)
    | st.lists(lines, min_size=1, max_size=5).map("\n\n".join)
    | logs.map("\n".join)
)
metadata: st.SearchStrategy[dict[str, Any] | None] = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "verbatim": st.sampled_from([True, False, 1, "true"]),
        "cache": st.booleans(),
        "target": st.sampled_from(["login", "queue", None, 1, 1.0]),
    },
)
text_fragments = st.builds(
    ContextFragment,
    texts,
    id=st.none() | st.integers(0, 2**64 - 1),
    kind=st.sampled_from([None, None, "log", "code", "note", "LOG"]),
    priority=st.sampled_from([0, 0, 0, 1, 255]),
    metadata=metadata,
)
images = st.builds(
    ContextFragment,
    st.sampled_from(["", "login page", "queue page with 3 errors"]),
    kind=st.sampled_from([None, "screenshot", "screenshot"]),
    metadata=metadata,
    media=st.builds(png, st.sampled_from([1, 75, 300]), st.sampled_from([10, 200]), st.integers(0, 2)),
)
rules = st.lists(
    st.sampled_from(
        ["media.atomic", "preserve.code_fence", "abstract.log_dedup", "preserve.exact_values", "preserve.default", "?"]
    ),
    max_size=2,
)
policies = st.builds(
    CompilePolicy,
    response_reserve_tokens=st.sampled_from([0, 0, 5]),
    near_dup_dedup=st.booleans(),
    disabled_rules=rules,
    chunk=st.builds(
        ChunkPolicy,
        st.sampled_from([0, 256, 2048]),
        st.integers(0, 50),
        st.sampled_from(["paragraph", "sentence", "fixed"]),
    ),
    normalize_log_timestamps=st.booleans(),
    inline_handles=st.booleans(),
)
requests = st.builds(
    CompileRequest,
    st.sampled_from(["why did the checkout queue stall", "", "broker 2026", "再起動"]),
    st.lists(st.one_of(text_fragments, text_fragments, text_fragments, images), max_size=9),
    st.sampled_from([6, 20, 60, 150, 400, 5000]) | st.integers(6, 800),
    policy=policies,
)
