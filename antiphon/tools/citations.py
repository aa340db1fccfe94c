"""Citations: the model writes the mark of a source, and the client gets an annotation in its place.

A tool registers each source that it shows to the model, and shows it with its mark, such as `【3】`. Whatever
the model writes is looked through here: a mark is replaced by the text that its source stands for, and an
annotation says where that text is. A mark may come in pieces, so what could be the beginning of one waits.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from antiphon.providers.base import Sink, WrappingSink
from antiphon.spec.content import Annotation
from antiphon.stream.deltas import AnnotationDelta, AnyDelta, TextDelta, UsageDelta, VendorDelta

_MARK = re.compile(r"【(\d{1,6})】")
_WITHIN = (AnnotationDelta, UsageDelta, VendorDelta)
_BEGINNING = re.compile(r"【\d{0,6}\Z")


class Source(Struct):
    """Something to be cited: what stands in the text for its mark, and the annotation on it.

    `annotation` is given where that text begins and ends, in characters of the text of its part.
    """

    annotation: Callable[[int, int], Annotation]
    text: str = ""


class Citations:
    """The sources of one response."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, source: Source) -> str:
        """The mark of a source."""
        self._sources.append(source)
        return f"【{len(self._sources)}】"

    def find(self, number: int) -> Source | None:
        return self._sources[number - 1] if 0 < number <= len(self._sources) else None

    def __len__(self) -> int:
        return len(self._sources)


class CitingSink(WrappingSink):
    """Replaces marks in the text that passes. A mark that nobody has given out is left as it is."""

    def __init__(self, sink: Sink, citations: Citations) -> None:
        super().__init__(sink)
        self._citations = citations
        self._held = ""
        self._length = 0  # of the text of the open part

    def put(self, deltas: list[AnyDelta]) -> bool:
        if not self._citations and not self._held:
            return self._sink.put(self._counted(deltas))
        passed: list[AnyDelta] = []
        for delta in deltas:
            if type(delta) is TextDelta and delta.logprobs is None:
                passed += self._text(self._held + delta.text)
            else:
                passed += self._release()
                passed += self._counted([delta])
        return self._sink.put(passed) if passed else True

    def _counted(self, deltas: list[AnyDelta]) -> list[AnyDelta]:
        for delta in deltas:
            if type(delta) is TextDelta:
                self._length += len(delta.text)
            elif type(delta) not in _WITHIN:
                self._length = 0  # something else begins, and the next text is another part
        return deltas

    def _release(self) -> list[AnyDelta]:
        held, self._held = self._held, ""
        return self._counted([TextDelta(held)]) if held else []

    def _text(self, text: str) -> list[AnyDelta]:
        beginning = _BEGINNING.search(text)
        end = beginning.start() if beginning else len(text)
        self._held, text = text[end:], text[:end]
        passed: list[AnyDelta] = []
        at = 0
        for mark in _MARK.finditer(text):
            source = self._citations.find(int(mark[1]))
            if source is None:
                continue
            passed += self._words(text[at : mark.start()])
            start = self._length
            passed += self._words(source.text)
            passed.append(AnnotationDelta(source.annotation(start, self._length)))
            at = mark.end()
        return passed + self._words(text[at:])

    def _words(self, text: str) -> list[AnyDelta]:
        return self._counted([TextDelta(text)]) if text else []
