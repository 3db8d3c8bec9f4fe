"""The context compiler: what an agent could send, made to fit a budget, with a reason for everything.

No model, no store, no clock: the same request always compiles to the same context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..errors import FragmentIndexOutOfBounds, FragmentNotFound, IdCollision
from . import account, assemble, dedup, media, validation
from .classify import Classifier
from .handles import content_hash
from .item import Item
from .model import (
    CompiledContext,
    CompiledTranscript,
    CompilePolicy,
    CompileRequest,
    ContextFragment,
    Decision,
    Media,
    PulledMemory,
    Section,
    Segment,
    Segmentation,
    TranscriptRequest,
)
from .pack import Packer
from .relevance import Relevance, single, terms_of
from .tokens import DefaultEstimator, TokenEstimator
from .transcript import segment
from .validation import Admitted


class Original(NamedTuple):
    """What a handle gives back: the hash in the handle, the text, and the image when there is one."""

    hash: int
    content: str
    media: Media | None


class Compilation(NamedTuple):
    """A compiled context with the distinct originals behind its handles, in the order they came."""

    context: CompiledContext
    originals: list[Original]


class ContextCompiler:
    """Compiles fragments into a prompt context under a token budget.

    ``estimator`` counts tokens; the default one needs no vocabulary and never counts too few. An instance holds no
    state of a compilation and may be shared between threads.
    """

    def __init__(self, estimator: TokenEstimator | None = None) -> None:
        self.estimator = estimator or DefaultEstimator()

    def compile(self, request: CompileRequest) -> CompiledContext:
        """The context for ``request``, of its own fragments alone.

        Raises IngestDisabled for a fragment with a path, ContextOverLimit and MetadataTooLarge for what is too large,
        ContextBudget for a budget that leaves no room, QueryTooLarge, InvalidArgument, InvalidMetadata.
        """
        return slimmed(self.run(request).context, request.policy)

    def compile_transcript(self, request: TranscriptRequest) -> CompiledTranscript:
        """The context for a raw session, and how it was cut into fragments.

        Raises SegmentationError for an empty transcript or one that is not in the format asked for, and what
        :meth:`compile` raises.
        """
        compilation, segmentation = self.run_transcript(request)
        return CompiledTranscript(slimmed(compilation.context, request.policy), segmentation)

    def run_transcript(self, request: TranscriptRequest) -> tuple[Compilation, Segmentation]:
        """As :meth:`compile_transcript`, with the originals."""
        detected, cuts, merged = segment(request.transcript, request.segmentation)
        cut_up = CompileRequest(
            request.query,
            [cut.fragment for cut in cuts],
            request.token_budget,
            request.project,
            request.target_model,
            policy=request.policy,
        )
        # logs in a transcript are found by their time stamps, and so they are read past them
        compilation = self._run(validation.admit(cut_up), (), mask_timestamps=True)
        segments = [
            Segment(
                index,
                cut.turn,
                cut.kind,
                cut.byte_start,
                cut.byte_end,
                decision.fragment_id,
                msgspec.UNSET if cut.role is None else cut.role,
            )
            for index, (cut, decision) in enumerate(zip(cuts, compilation.context.decisions, strict=True))
        ]
        return compilation, Segmentation(detected, segments, merged)

    def run(self, request: CompileRequest, memories: Sequence[PulledMemory] = ()) -> Compilation:
        """As :meth:`compile`, with stored facts compiled in behind the fragments, and with the originals."""
        return self.run_admitted(validation.admit(request), memories)

    def run_admitted(self, admitted: Admitted, memories: Sequence[PulledMemory]) -> Compilation:
        """As :meth:`run`, of a request that has been checked already."""
        return self._run(admitted, memories, admitted.request.policy.normalize_log_timestamps)

    def _run(self, admitted: Admitted, memories: Sequence[PulledMemory], mask_timestamps: bool) -> Compilation:
        request, usable = admitted.request, admitted.usable
        relevance = Relevance(request.query)
        classifier = Classifier(request.policy.disabled_rules, mask_timestamps)
        items = self._items(admitted, memories, relevance, classifier)
        dedup.mark_superseded(items, request.policy.disabled_rules)
        dedup.mark_duplicates(items, request.policy.near_dup_dedup)
        packed = Packer(self.estimator, relevance, request.policy, usable).pack(items)
        content, sections, tokens_out = self._assemble(packed, usable)
        context = CompiledContext(
            content,
            sections,
            decisions := account.decisions(items, memories, len(request.fragments)),
            account.sources(items, decisions),
            account.retrieval_handles(items, decisions),
            account.insights(items, decisions, tokens_out, request),
            account.highest_risk(decisions),
            account.warnings(decisions),
        )
        return Compilation(context, _originals(items))

    def _items(
        self,
        admitted: Admitted,
        memories: Sequence[PulledMemory],
        relevance: Relevance,
        classifier: Classifier,
    ) -> list[Item]:
        own = admitted.request.fragments
        pulled = [ContextFragment(memory.content, kind="memory") for memory in memories]
        fragments = [*own, *pulled]
        texts = [*admitted.texts, *validation.encoded_texts(pulled, behind=len(own))]
        images = [*admitted.images, *(None for _ in memories)]
        tokens = self.estimator.count_many([fragment.content for fragment in fragments])
        items: list[Item] = []
        for index, (fragment, data, image, size) in enumerate(zip(fragments, texts, images, tokens, strict=True)):
            lowered = fragment.content.lower()
            terms = terms_of(lowered)
            lexical = relevance.of(terms)
            rule, collapsed = classifier.classify(fragment, lowered, terms)
            hashed = content_hash(data)
            cost = 0 if image is None or fragment.media is None else self._image_tokens(fragment.media, image)
            items.append(
                Item(
                    index,
                    fragment,
                    hashed,
                    hashed if image is None else content_hash(image),
                    image,
                    len(data),
                    cost,
                    size + cost,
                    lexical,
                    lexical,
                    rule,
                    collapsed,
                )
            )
        for item, memory in zip(items[len(own) :], memories, strict=True):
            # evidence that only links reached shares no word with the query, and is packed by what reached it
            item.relevance, item.rank = single(memory.relevance), max(item.rank, memory.relevance)
        return items

    def _image_tokens(self, given: Media, image: bytes) -> int:
        tokens = media.image_tokens(given.mime, image)
        return self.estimator.count(given.bytes_b64) if tokens is None else tokens

    def _assemble(self, packed: list[Item], usable: int) -> tuple[str, list[Section], int]:
        images = sum(item.image_tokens for item in packed if item.packed)
        while True:
            content, sections = assemble.assemble(packed)
            tokens = self.estimator.count(content) + images
            if tokens <= usable:
                return content, sections, tokens
            # the parts fit, and yet the whole does not: an exact tokenizer may merge across a seam
            item = packed[-1]
            images -= item.image_tokens if item.packed else 0
            _unpack(item)
            if item.packed or item.stub:
                item.spent = self.estimator.count("".join(item.blocks))
            else:
                packed.pop()


def _unpack(item: Item) -> None:
    """Take back the last piece that a fragment was given room for."""
    item.whole = False
    if item.stub:
        item.stub = ""
    elif len(item.blocks) > 1:
        item.blocks = item.blocks[:-1]
    else:
        item.blocks, item.packed, item.spent = (), False, 0


def _originals(items: Sequence[Item]) -> list[Original]:
    """What the handles lead back to. Raises IdCollision for two originals of one hash."""
    texts: dict[int, str] = {}
    images: dict[int, tuple[bytes, Media]] = {}
    for item in items:
        if item.image is None:
            if texts.setdefault(item.content_hash, item.text) != item.text:
                raise _collision(item)
        elif item.fragment.media is not None:
            image, _ = images.setdefault(item.original_hash, (item.image, item.fragment.media))
            if image != item.image:
                raise _collision(item)
    found: dict[int, Original] = {}
    for item in items:
        number = item.original_hash
        if item.image is None:
            found.setdefault(number, Original(number, item.text, images[number][1] if number in images else None))
        elif number not in found:
            # a text of the very bytes of the image shares its handle
            found[number] = Original(number, texts.get(number, item.text), item.fragment.media)
        if item.image is not None and item.text:
            # the store may hold the image with another caption already
            found.setdefault(item.content_hash, Original(item.content_hash, item.text, None))
    return list(found.values())


def _collision(item: Item) -> IdCollision:
    return IdCollision(
        f"fragments[{item.index}] hashes to the same 64 bits as another fragment that differs: neither could be told "
        "from the other by its handle",
        field=f"fragments[{item.index}]",
    )


def slimmed(context: CompiledContext, policy: CompilePolicy) -> CompiledContext:
    """``context`` without sections and decisions, if the policy says so."""
    return msgspec.structs.replace(context, sections=[], decisions=[]) if policy.slim_response else context


def decision_for(
    context: CompiledContext, request: CompileRequest, fragment_id: int, fragment_index: int | None
) -> Decision:
    """The decision on the fragment at ``fragment_index`` of the request or, without an index, the first on
    ``fragment_id``. Raises FragmentIndexOutOfBounds and FragmentNotFound."""
    if fragment_index is not None:
        if not 0 <= fragment_index < len(request.fragments):
            raise FragmentIndexOutOfBounds(
                f"fragment_index is {fragment_index}, but the request has {len(request.fragments)} fragments, "
                "counted from 0",
                field="fragment_index",
                limit=len(request.fragments),
            )
        return context.decisions[fragment_index]
    for decision in context.decisions:
        if decision.fragment_id == fragment_id:
            return decision
    raise FragmentNotFound(f"no fragment of the request has the id {fragment_id}", field="fragment_id")
