"""``compile-stdin``: compile a transcript from standard input, without a store and without settings.

Hooks call it on every large output, so it loads the compiler and nothing else.
"""

from __future__ import annotations

import sys

import msgspec

from ..context.compiler import ContextCompiler
from ..context.model import TranscriptRequest
from ..errors import ContextOverLimit, EmptyFact, InvalidInput
from ..limits import MAX_TRANSCRIPT_BYTES
from ..text import require_text, trim

_FIELD = "standard input"


def run(budget: int, query: str) -> int:
    """Print one line of JSON with the compiled content, its account and its risk; the exit code.

    Raises InvalidInput when the input is blank, too large or not UTF-8, or when nothing of it fits the budget: an
    empty answer in place of the original would be a loss.
    """
    require_text(query, "--query")
    text = _input()
    request = TranscriptRequest(query=query, transcript=text, token_budget=budget)
    context = ContextCompiler().compile_transcript(request).context
    account = context.insights
    if not trim(context.content):
        raise InvalidInput(
            f"nothing of the {account.tokens_in} tokens of {_FIELD} fits the budget of {budget}: keep the original, or "
            "raise --budget",
            field="--budget",
        )
    answer = {
        "content": context.content,
        "tokens_in": account.tokens_in,
        "tokens_out": account.tokens_out,
        "tokens_saved": account.tokens_saved,
        "risk": context.risk,
    }
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.flush()
    return 0


def _input() -> str:
    try:
        with open(0, "rb", closefd=False) as source:
            # a byte more than may be: what writes without end is refused, not read
            data = source.read(MAX_TRANSCRIPT_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{_FIELD} cannot be read: {error.strerror}", field=_FIELD) from error
    if len(data) > MAX_TRANSCRIPT_BYTES:
        raise ContextOverLimit(
            f"{_FIELD} is larger than {MAX_TRANSCRIPT_BYTES} bytes, the cap for a transcript",
            field=_FIELD,
            limit=MAX_TRANSCRIPT_BYTES,
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{_FIELD} is not UTF-8 text ({error.reason} at byte {error.start})", field=_FIELD
        ) from error
    if not trim(text):
        raise EmptyFact(_FIELD)
    return text
