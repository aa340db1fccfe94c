"""Base64 in slices is base64."""

import base64
import binascii
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.wires import media
from antiphon.wires.media import decode_base64, encode_base64


def _strictly(text: str) -> bytes:
    return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)


def _read(decode: Callable[[str], bytes], text: str) -> bytes | None:
    try:
        return decode(text)
    except ValueError:
        return None


@given(st.binary(max_size=50), st.text("AQg=+/ -\né", max_size=30))
def test_base64_in_slices_is_base64(data: bytes, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(media, "_DIGITS", 8)
        patch.setattr(media, "_BYTES", 6)
        assert encode_base64(data) == base64.b64encode(data).decode()
        assert decode_base64(encode_base64(data)) == data
        assert _read(decode_base64, text) == _read(_strictly, text)
        safe = base64.urlsafe_b64encode(data).decode()
        assert decode_base64(safe, url_safe=True) == data
        assert (_read(decode_base64, safe) is None) == ("-" in safe or "_" in safe)
