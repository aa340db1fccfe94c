"""What is told of a picture in place of the picture."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.image_info import describe, kind_of, pixels

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 12, 34)
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10" + bytes(14) + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 20, 30) + bytes(10)
)
WEBP_LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 99 | 49 << 14)
WEBP_EXTENDED = (
    b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + (1919).to_bytes(3, "little") + (1079).to_bytes(3, "little")
)
WEBP_LOSSY = b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 176, 144)


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        (PNG, (640, 480)),
        (GIF, (12, 34)),
        (JPEG, (30, 20)),
        (WEBP_LOSSLESS, (100, 50)),
        (WEBP_EXTENDED, (1920, 1080)),
        (WEBP_LOSSY, (176, 144)),
        (b"not a picture", None),
        (PNG[:18], None),
        (b"RIFF\0\0\0\0WEBPXXXX", None),
    ],
)
def test_the_size_is_read_from_the_header(raw: bytes, size: tuple[int, int] | None) -> None:
    assert pixels(raw) == size


def test_the_kind_is_read_from_the_first_bytes() -> None:
    found = [kind_of(raw[:32]) for raw in (PNG, GIF, JPEG, WEBP_LOSSY, b"<svg/>", b"")]
    assert found == ["image/png", "image/gif", "image/jpeg", "image/webp", None, None]


def test_a_data_url_is_told_by_kind_and_size() -> None:
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert describe(url) == f"[an image of type image/png, 640 by 480 pixels, {len(PNG)} bytes]"


def test_an_address_is_told_and_not_fetched() -> None:
    assert describe("https://example.com/cat.png") == "[an image at https://example.com/cat.png]"


@given(st.binary(max_size=60), st.text(max_size=40))
def test_nothing_makes_it_fail(raw: bytes, url: str) -> None:
    pixels(raw)
    pixels(JPEG[:2] + raw)
    assert describe(url).startswith("[an image")
    assert describe("data:" + url).startswith("[an image")
