"""Where an answer has its words from: grounding and citations as annotations of the text."""

from collections.abc import Iterator

from msgspec import Struct

from antiphon.spec.content import UrlCitation


class Source(Struct, gc=False, rename="camel"):
    uri: str | None = None
    title: str | None = None


class GroundingChunk(Struct, gc=False, rename="camel"):
    web: Source | None = None
    retrieved_context: Source | None = None
    maps: Source | None = None


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


class Citation(Struct, gc=False, rename="camel"):
    start_index: int | None = None
    end_index: int | None = None
    uri: str | None = None
    title: str | None = None


class CitationMetadata(Struct, gc=False, rename="camel"):
    citation_sources: list[Citation] | None = None
    citations: list[Citation] | None = None


def grounded(metadata: GroundingMetadata, text: str) -> Iterator[UrlCitation]:
    """A note for every source of every segment of the text."""
    chunks = metadata.grounding_chunks or []
    place = _Places(text)
    for support in metadata.grounding_supports or ():
        start, end = place.of(support.segment or Segment())
        for n in support.grounding_chunk_indices or ():
            if 0 <= n < len(chunks):
                chunk = chunks[n]
                source = chunk.web or chunk.retrieved_context or chunk.maps
                if source is not None and source.uri:
                    yield UrlCitation(source.uri, source.title or "", start, end)


def cited(metadata: CitationMetadata, text: str) -> Iterator[UrlCitation]:
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
