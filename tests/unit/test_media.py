"""Images: their base64, and what they cost by their headers. Every file here is built by hand."""

from __future__ import annotations

import base64
import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from velesdb_memory.context.media import decode, image_tokens

MIMES = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"


def segment(marker: int, payload: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload


def frame(width: int, height: int, marker: int = 0xC0) -> bytes:
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return segment(marker, b"\x08" + size + b"\x03" + bytes.fromhex("011100 021101 031101"))


def jpeg(*segments: bytes) -> bytes:
    return b"\xff\xd8" + segment(0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0") + b"".join(segments)


def gif(width: int, height: int, version: bytes = b"GIF89a") -> bytes:
    return version + width.to_bytes(2, "little") + height.to_bytes(2, "little") + b"\0\0\0;"


def riff(chunk: bytes, payload: bytes) -> bytes:
    body = b"WEBP" + chunk + len(payload).to_bytes(4, "little") + payload
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def webp_lossy(width: int, height: int, *, tag: bytes = b"\x10\x02\0", scale: int = 0) -> bytes:
    sizes = b"".join((side | scale << 14).to_bytes(2, "little") for side in (width, height))
    return riff(b"VP8 ", tag + b"\x9d\x01\x2a" + sizes + bytes(6))


def webp_lossless(width: int, height: int) -> bytes:
    return riff(b"VP8L", b"\x2f" + (width - 1 | height - 1 << 14 | 1 << 28).to_bytes(4, "little") + bytes(3))


def webp_extended(width: int, height: int) -> bytes:
    return riff(b"VP8X", b"\x10\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


# -- base64 ---------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_what_was_encoded_comes_back(data: bytes) -> None:
    assert decode(base64.b64encode(data).decode()) == data


def test_every_short_text_is_taken_or_refused_as_the_contract_says() -> None:
    accepted = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
    texts = ["".join(letters) for size in range(6) for letters in itertools.product("Az+/=- ", repeat=size)]
    texts += [a + b for a in ("AAAA", "AAA=", "AA==", "====") for b in ("AAAA", "AAA=", "AA==", "A===", "====", "\n")]
    for text in texts:
        if accepted.fullmatch(text):
            assert len(decode(text)) == len(text) // 4 * 3 - text.count("=")
        else:
            with pytest.raises(ValueError):
                decode(text)


@given(st.text(max_size=24))
def test_a_text_that_is_no_base64_is_a_value_error_and_nothing_else(text: str) -> None:
    try:
        decode(text)
    except ValueError:
        assert not re.fullmatch(r"(?:[A-Za-z0-9+/]{4})+", text)


def test_nothing_is_base64_of_nothing() -> None:
    assert decode("") == b""


def test_bits_to_spare_may_be_anything() -> None:
    assert decode("AB==") == decode("AA==") == b"\0"
    assert decode("AAB=") == decode("AAA=") == b"\0\0"


@pytest.mark.parametrize(
    "text", ["AA\n==", " AAAA", "AA-_", "AAA", "A===", "=AAA", "AA=A", "AA==AAAA", "AAAA=", "ÄÄÄÄ", "AAA\0"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        decode(text)


# -- sizes ----------------------------------------------------------------------------------------------------------

FORMATS = [
    ("image/png", png),
    ("image/jpeg", lambda width, height: jpeg(frame(width, height))),
    ("image/gif", gif),
    ("image/webp", webp_lossy),
    ("image/webp", webp_lossless),
    ("image/webp", webp_extended),
]
IDS = ["png", "jpeg", "gif", "webp-lossy", "webp-lossless", "webp-extended"]


@pytest.mark.parametrize(("mime", "build"), FORMATS, ids=IDS)
@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(800, 600, 640), (1, 1, 1), (750, 1, 1), (751, 1, 2), (1, 751, 2), (300, 200, 80), (1023, 517, 706)],
)
def test_an_image_costs_a_750th_of_its_pixels_rounded_up(
    mime: str, build: object, width: int, height: int, tokens: int
) -> None:
    assert image_tokens(mime, build(width, height)) == tokens  # type: ignore[operator]


@pytest.mark.parametrize(("mime", "build"), FORMATS, ids=IDS)
def test_a_header_that_is_cut_short_anywhere_is_unreadable_and_nothing_worse(mime: str, build: object) -> None:
    whole = build(640, 480)  # type: ignore[operator]
    tokens = [image_tokens(mime, whole[:size]) for size in range(len(whole) + 1)]
    first = tokens.index(410)
    assert first > 8
    assert set(tokens[:first]) == {None}
    assert set(tokens[first:]) == {410}


def test_the_type_is_matched_in_any_case_and_decides_what_is_read() -> None:
    assert image_tokens("IMAGE/PNG", png(800, 600)) == 640
    assert image_tokens("Image/Jpg", jpeg(frame(800, 600))) == 640
    assert image_tokens("image/jpeg", png(800, 600)) is None
    assert image_tokens("image/avif", png(800, 600)) is None
    assert image_tokens("", png(800, 600)) is None


@pytest.mark.parametrize(("width", "height"), [(0, 600), (800, 0), (0, 0)])
def test_a_side_of_zero_is_unreadable(width: int, height: int) -> None:
    for mime, data in (
        ("image/png", png(width, height)),
        ("image/jpeg", jpeg(frame(width, height))),
        ("image/gif", gif(width, height)),
        ("image/webp", webp_lossy(width, height)),
    ):
        assert image_tokens(mime, data) is None, mime


def test_the_largest_sides_are_computed_exactly() -> None:
    assert image_tokens("image/png", png(2**32 - 1, 2**32 - 1)) == -(-((2**32 - 1) ** 2) // 750)
    assert image_tokens("image/gif", gif(65_535, 65_535)) == 5_726_449
    assert image_tokens("image/webp", webp_extended(2**24, 2**24)) == -(-(2**48) // 750)
    assert image_tokens("image/webp", webp_lossless(16_384, 16_384)) == 357_914
    assert image_tokens("image/webp", webp_lossy(16_383, 16_383, scale=3)) == 357_871


@pytest.mark.parametrize("marker", [*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)])
def test_every_kind_of_jpeg_frame_is_read(marker: int) -> None:
    assert image_tokens("image/jpeg", jpeg(frame(800, 600, marker))) == 640


@pytest.mark.parametrize("marker", [0xC4, 0xC8, 0xCC])
def test_tables_in_the_range_of_frames_are_passed_over(marker: int) -> None:
    assert image_tokens("image/jpeg", jpeg(frame(1, 1, marker), frame(800, 600))) == 640


def test_jpeg_fill_bytes_and_markers_without_length_are_passed_over() -> None:
    assert image_tokens("image/jpeg", jpeg(b"\xff\xff\xff\xd0\xff\x01\xff\xff", frame(800, 600))) == 640


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"\xff",
        b"\xff" * 100_000,
        b"\x00" + frame(800, 600),
        b"\xff\xe1\x00\x00" + frame(800, 600),
        b"\xff\xe1\x00\x01" + frame(800, 600),
        b"\xff\xe1\xff\xff" + frame(800, 600),
        b"\xff\xd9" + frame(800, 600),
        segment(0xDA, b"\x01") + frame(800, 600),
        b"\xff\xc0\x00\x06\x08\x02\x58\x03\x20",
        b"\xff\xe0\x00\x02" * 5_000 + frame(800, 600),
    ],
    ids=["end", "half", "fill", "gap", "length-0", "length-1", "overlong", "over", "scan", "short-frame", "segments"],
)
def test_a_jpeg_without_a_readable_frame_header_is_unreadable(tail: bytes) -> None:
    assert image_tokens("image/jpeg", jpeg(tail)) is None


def test_what_only_looks_like_the_format_is_unreadable() -> None:
    assert image_tokens("image/png", png(800, 600).replace(b"IHDR", b"CgBI")) is None
    assert image_tokens("image/png", png(800, 600)[:16]) is None
    assert image_tokens("image/gif", gif(800, 600, b"GIF90a")) is None
    assert image_tokens("image/gif", gif(800, 600, b"GIF87a")) == 640
    assert image_tokens("image/webp", webp_extended(800, 600).replace(b"WEBP", b"WAVE")) is None
    assert image_tokens("image/webp", riff(b"ALPH", bytes(20))) is None
    # a frame that builds on another one is no still picture
    assert image_tokens("image/webp", webp_lossy(800, 600, tag=b"\x11\x02\0")) is None
    assert image_tokens("image/webp", webp_lossy(800, 600).replace(b"\x9d\x01\x2a", b"\x9d\x01\x2b")) is None
    assert image_tokens("image/webp", webp_lossless(800, 600).replace(b"\x2f", b"\x2e")) is None


@given(st.sampled_from(MIMES), st.binary(max_size=64))
def test_any_bytes_are_counted_or_unreadable(mime: str, data: bytes) -> None:
    assert image_tokens(mime, data) is None or len(data) >= 10


STARTS = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\xff\xd8", b"GIF89a", *(b"RIFFxxxxWEBP" + c for c in (b"VP8 ", b"VP8L"))]


@given(st.sampled_from(MIMES), st.sampled_from([*STARTS, b"RIFFxxxxWEBPVP8X"]), st.binary(max_size=64))
def test_any_bytes_after_a_right_beginning_are_counted_or_unreadable(mime: str, start: bytes, data: bytes) -> None:
    tokens = image_tokens(mime, start + data)
    assert tokens is None or tokens > 0


@given(st.lists(st.sampled_from([b"\xff", b"\xc0", b"\xda", b"\xe0", b"\0", b"\x02", b"\x08"]), max_size=80))
def test_any_jpeg_of_markers_and_lengths_is_counted_or_unreadable(parts: list[bytes]) -> None:
    tokens = image_tokens("image/jpeg", b"\xff\xd8" + b"".join(parts))
    assert tokens is None or tokens > 0


def test_the_images_of_the_contract_cost_what_it_says() -> None:
    recorded = Path(__file__).parents[1] / "golden" / "cases" / "11_media.json"
    fragments = json.loads(recorded.read_text(encoding="utf-8"))["request"]["fragments"]
    images = [fragment["media"] for fragment in fragments if "media" in fragment]
    costs = [image_tokens(image["mime"], decode(image["bytes_b64"])) for image in images]
    assert costs == [80, 80, 80, 720, None]
