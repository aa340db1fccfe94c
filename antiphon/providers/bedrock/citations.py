"""Citations of Converse as annotations of the text, and the way back for those of documents."""

import re
from typing import Any

from antiphon.spec.codec import Opaque
from antiphon.spec.content import Annotation, OutputText, UrlCitation
from antiphon.spec.extensions import is_valid_extension_type

VENDOR = "bedrock:"
"""How the types of items and annotations begin that only Bedrock knows."""


def annotation(citation: dict[str, Any], length: int) -> Annotation:
    """What a citation says of a text of this length.

    What stands on the web is a `url_citation`; a place in a document is kept as it came.
    """
    location = citation.get("location")
    place = location if isinstance(location, dict) else {}
    web = place.get("web")
    address = web.get("url") if isinstance(web, dict) else citation.get("source")
    title = citation.get("title")
    title = title if isinstance(title, str) else ""
    if isinstance(address, str) and address.startswith(("https://", "http://")):
        return UrlCitation(address, title, 0, length)
    kind = VENDOR + re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", next(iter(place), "citation"))
    return Opaque.make(
        type=kind if is_valid_extension_type(kind) else f"{VENDOR}citation",
        title=title,
        start_index=0,
        end_index=length,
        citation=citation,
    )


def build_citations_block(part: OutputText) -> dict[str, Any] | None:
    """The block that a text with citations of documents once was; None if there are none."""
    found = [
        note.fields["citation"]
        for note in part.annotations
        if isinstance(note, Opaque) and note.type.startswith(VENDOR) and "citation" in note.fields
    ]
    return {"citationsContent": {"content": [{"text": part.text}], "citations": found}} if found else None
