"""Citations of the Messages API and annotations of the specification, in both directions.

A citation is about the whole block that it stands on, which is a part of ours.
"""

from typing import Any

from antiphon.spec.codec import Opaque
from antiphon.spec.content import Annotation, UrlCitation
from antiphon.spec.items import is_valid_extension_type
from antiphon.wires.messages.vendor import VENDOR, block_of, with_block

_INDEXES = ("start_index", "end_index")


def annotation(citation: Any, length: int) -> Annotation | None:
    """A citation on a text of this length; None if its kind cannot be expressed."""
    if not isinstance(citation, dict):
        return None
    kind = citation.get("type")
    url = citation.get("url") or citation.get("source")
    title = citation.get("title")
    if isinstance(url, str):
        found = UrlCitation(url, title if isinstance(title, str) else "", 0, length)
        return with_block(found, citation) if isinstance(kind, str) else found
    if not isinstance(kind, str) or not is_valid_extension_type(VENDOR + kind):
        return None
    return Opaque.make(**{**citation, "type": VENDOR + kind, "start_index": 0, "end_index": length})


def citation(annotation: Annotation | None, text: str) -> dict[str, Any] | None:
    """An annotation on a text as this API cites; None if it has no such thing."""
    if isinstance(annotation, UrlCitation):
        if (block := block_of(annotation)) is not None:
            return block
        quoted = text[annotation.start_index : annotation.end_index]
        return {
            "type": "web_search_result_location",
            "url": annotation.url,
            "title": annotation.title or None,
            "cited_text": quoted,
            "encrypted_index": "",
        }
    if isinstance(annotation, Opaque) and annotation.type.startswith(VENDOR):
        told = {name: value for name, value in annotation.fields.items() if name not in _INDEXES}
        return {**told, "type": annotation.type.removeprefix(VENDOR)}
    return None
