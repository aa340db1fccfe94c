"""Base64 slice by slice: one call for a file of many megabytes would keep the event loop waiting."""

import base64
import binascii

_DIGITS = 64 * 1024
_BYTES = _DIGITS // 4 * 3
_OTHER_ALPHABET = bytes.maketrans(b"-_+/", b"+/-_")
"""What belongs to the one alphabet is wrong in the other."""


def decode_base64(text: str, *, url_safe: bool = False) -> bytes:
    """The bytes; `binascii.Error` or another `ValueError` for whatever is not base64 with its padding."""
    pieces: list[bytes] = []
    for at in range(0, len(text), _DIGITS):
        piece = text[at : at + _DIGITS]
        if "=" in piece and at + _DIGITS < len(text):
            raise binascii.Error("Excess data after padding")
        digits = piece.encode("ascii")
        if url_safe:
            digits = digits.translate(_OTHER_ALPHABET)
        pieces.append(binascii.a2b_base64(digits, strict_mode=True))
    return b"".join(pieces)


def encode_base64(data: bytes) -> str:
    return "".join([base64.b64encode(data[at : at + _BYTES]).decode() for at in range(0, len(data), _BYTES)])
