"""Names outside the specification: `slug:name`, each half letters, digits and underscores."""

import re
from typing import Any

from antiphon.spec.codec import Opaque

_EXTENSION = re.compile(r"[A-Za-z0-9_]+:[A-Za-z0-9_]+")


def is_valid_extension_type(name: str) -> bool:
    """Is this the type of a vendor's item or event: `slug:name`?"""
    return _EXTENSION.fullmatch(name) is not None


def vendor_item(slug: str, name: str, *, id: str, data: Any, status: str = "completed") -> Opaque:
    """An item of type `slug:name` with its payload under `data`."""
    kind = f"{slug}:{name}"
    if not is_valid_extension_type(kind):
        raise ValueError(f"{kind!r} is no extension type; expected `slug:name` of letters, digits and _")
    return Opaque.make(type=kind, id=id, status=status, data=data)
