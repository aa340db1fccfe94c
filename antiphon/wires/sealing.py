"""Opaque blobs that only their maker can open: AES-GCM, bound to a tenant and a purpose.

A blob is `v1.` and then base64url of key number, nonce and ciphertext. Opening tries the key that the
blob names; a blob with a changed bit, or from another tenant, raises `SealBroken`.
"""

import base64
import hashlib
from os import urandom

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.wires.media import decode_base64

_VERSION = "v1."
_NONCE = 12
_KEY_ID = 4


class SealBroken(ValueError):
    """This blob was not sealed here, for this tenant and this purpose."""


class Seal:
    def __init__(self, keys: list[bytes]) -> None:
        """The first key seals; all of them open."""
        self._ciphers = {hashlib.sha256(key).digest()[:_KEY_ID]: AESGCM(key) for key in keys}
        self._current = hashlib.sha256(keys[0]).digest()[:_KEY_ID]

    def seal(self, content: bytes, *, tenant: str, purpose: str) -> str:
        nonce = urandom(_NONCE)
        sealed = self._ciphers[self._current].encrypt(nonce, content, _associated_data(tenant, purpose))
        return _VERSION + base64.urlsafe_b64encode(self._current + nonce + sealed).decode()

    def open(self, blob: str, *, tenant: str, purpose: str) -> bytes:
        if not is_sealed(blob):
            raise SealBroken("it was not sealed here")
        try:
            raw = decode_base64(blob[len(_VERSION) :], url_safe=True)
        except ValueError:
            raise SealBroken("it is not a text that this gateway has sealed") from None
        if not blob.endswith(base64.urlsafe_b64encode(raw[-(len(raw) % 3 or 3) :]).decode()):
            # The last digit of base64 has spare bits, which must not be anybody's to change.
            raise SealBroken("it is not a text that this gateway has sealed")
        cipher = self._ciphers.get(raw[:_KEY_ID])
        if cipher is None:
            raise SealBroken("the key that sealed it is unknown to this gateway")
        nonce, sealed = raw[_KEY_ID : _KEY_ID + _NONCE], raw[_KEY_ID + _NONCE :]
        try:
            return cipher.decrypt(nonce, sealed, _associated_data(tenant, purpose))
        except (InvalidTag, ValueError):
            raise SealBroken("it was changed, or belongs to another tenant") from None


def is_sealed(blob: str) -> bool:
    """Does it look like a blob of ours? Only opening tells."""
    return blob.startswith(_VERSION)


def _associated_data(tenant: str, purpose: str) -> bytes:
    return f"{len(tenant)}:{tenant}:{purpose}".encode()
