"""The sources of an answer: grounding and citations as annotations of the text."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from antiphon.providers.gemini.signatures import VENDOR
from antiphon.spec.codec import Opaque
from antiphon.spec.content import Annotation, UrlCitation
from antiphon.spec.items import is_valid_extension_type

GroundingChunk = dict[str, Any]
"""A source under its kind: `web`, `retrievedContext`, `maps`, and what Google will add to them."""


class Segment(Struct, gc=False, rename="camel"):
    start_index: int | None = None
    end_index: int | None = None
    text: str | None = None


class Support(Struct, gc=False, rename="camel"):
    segment: Segment | None = None
    grounding_chunk_indices: list[int] | None = None


class GroundingMetadata(Struct, gc=False, rename="camel"):
    grounding_chunks: list[GroundingChunk] | None = None
    grounding_supports: list[Support] | None = None
    web_search_queries: list[str] | None = None


class GeminiCitation(Struct, gc=False, rename="camel"):
    start_index: int | None = None
    end_index: int | None = None
    uri: str | None = None
    title: str | None = None


class CitationMetadata(Struct, gc=False, rename="camel"):
    citation_sources: list[GeminiCitation] | None = None
    citations: list[GeminiCitation] | None = None


def annotate_grounding(
    metadata: GroundingMetadata, text: str, *, whole: bool = False
) -> Iterator[Annotation]:
    """Make an annotation for every source of every segment of the text.

    `whole`: a source without a known segment is an annotation of the whole text.
    """
    chunks = metadata.grounding_chunks or []
    place = _Places(text)
    for support in metadata.grounding_supports or ():
        start, end = place.of(support.segment or Segment())
        for n in support.grounding_chunk_indices or ():
            if 0 <= n < len(chunks):
                yield from _sources(chunks[n], start, end)
    if whole and not metadata.grounding_supports:
        for chunk in chunks:
            yield from _sources(chunk, 0, len(text))


def _sources(chunk: GroundingChunk, start: int, end: int) -> Iterator[Annotation]:
    """What has an address is a `url_citation`; what has none, such as a text that was found, is kept."""
    sources = {kind: source for kind, source in chunk.items() if isinstance(source, dict)}
    for source in sources.values():
        if isinstance(uri := source.get("uri"), str) and uri:
            title = source.get("title")
            yield UrlCitation(uri, title if isinstance(title, str) else "", start, end)
            return
    for kind, source in sources.items():
        name = VENDOR + re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", kind)
        if is_valid_extension_type(name):
            yield Opaque.make(**{**source, "type": name, "start_index": start, "end_index": end})
            return


def annotate_citations(metadata: CitationMetadata, text: str) -> Iterator[UrlCitation]:
    place = _Places(text)
    for one in [*(metadata.citation_sources or ()), *(metadata.citations or ())]:
        if one.uri:
            start, end = place.of(Segment(one.start_index, one.end_index))
            yield UrlCitation(one.uri, one.title or "", start, end)


class _Places:
    """Google counts bytes, and from the beginning of a part; we count characters of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._raw = text.encode("utf-8", "replace")

    def of(self, segment: Segment) -> tuple[int, int]:
        start, end = self._characters(segment.start_index), self._characters(segment.end_index)
        said = segment.text
        if said and self._text[start:end] != said and (found := self._text.find(said)) >= 0:
            return found, found + len(said)
        return start, max(start, end)

    def _characters(self, index: int | None) -> int:
        return len(self._raw[: max(0, index or 0)].decode("utf-8", "ignore"))
