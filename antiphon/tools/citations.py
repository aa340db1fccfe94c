"""Citations: the model writes the mark of a source, and the client gets an annotation in its place.

A tool registers each source that it shows to the model, and shows it with its mark, such as `【3】`. Whatever
the model writes is looked through here: a mark is replaced by the text that its source stands for, and an
annotation says where that text is. A mark may come in pieces, so what could be the beginning of one waits.

Later responses of a conversation show the model the same results with the same marks. So the sources are kept
with the result (`KeptSource`), and the numbers of new ones go on after theirs.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Raw, Struct
from msgspec.structs import replace

from antiphon.providers.base import Sink, WrappingSink
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import Annotation, ContentPart, OutputText, UrlCitation, text_of
from antiphon.spec.decode import decode_stored_items
from antiphon.spec.items import Item, Message
from antiphon.stream.deltas import AnnotationDelta, AnyDelta, TextDelta, UsageDelta, VendorDelta

_MARK = re.compile(r"【(\d{1,6})】")
_PLACES = ("index", "start_index", "end_index")
_WITHIN = (AnnotationDelta, UsageDelta, VendorDelta)
_BEGINNING = re.compile(r"【\d{0,6}\Z")


def without_marks(text: str) -> str:
    """Replace the brackets of marks in a foreign text, so that it cannot forge a mark."""
    return text.replace("【", "[").replace("】", "]")


class Source(Struct):
    """Something to be cited: what stands in the text for its mark, and the annotation on it.

    `annotation` is given where that text begins and ends, in characters of the text of its part.
    """

    annotation: Callable[[int, int], Annotation]
    text: str = ""


class KeptSource(Struct, array_like=True, frozen=True):
    """A source as it is kept with the result that shows its mark."""

    number: int
    cited: Raw
    """A message of the text alone, with the annotation on it."""

    @classmethod
    def of(cls, number: int, source: Source) -> "KeptSource":
        part = OutputText(source.text, annotations=[source.annotation(0, len(source.text))])
        return cls(number, Raw(encode(Message(role="assistant", content=[part]))))

    def source(self) -> Source:
        (message,) = decode_stored_items(b"[" + bytes(self.cited) + b"]")
        assert isinstance(message, Message)
        part = message.content[0]
        assert isinstance(part, OutputText)
        note = part.annotations[0]
        return Source(lambda start, _: _shift(note, start), part.text)


def _shift(note: Annotation, by: int) -> Annotation:
    if isinstance(note, UrlCitation):
        return replace(note, start_index=note.start_index + by, end_index=note.end_index + by)
    places = {name: note.fields[name] + by for name in _PLACES if isinstance(note.fields.get(name), int)}
    return Opaque.make(**{**note.fields, **places})


class Citations:
    """The sources of one response, and the sources that earlier results of the conversation show."""

    def __init__(self) -> None:
        self._sources: dict[int, Source] = {}
        self._last = 0

    def add_earlier(self, kept: Iterable[KeptSource]) -> None:
        """Add the sources that earlier results show, with the numbers that they have there."""
        self._sources |= {one.number: one.source() for one in kept}
        self._last = max(self._sources, default=0)

    def add(self, source: Source) -> str:
        """The mark of a source."""
        self._last += 1
        self._sources[self._last] = source
        return f"【{self._last}】"

    def find(self, number: int) -> Source | None:
        return self._sources.get(number)

    def shown_in(self, output: str | list[ContentPart]) -> list[KeptSource]:
        """The sources whose marks a result shows."""
        numbers = {int(mark[1]) for mark in _MARK.finditer(text_of(output))}
        return [KeptSource.of(n, self._sources[n]) for n in sorted(numbers & self._sources.keys())]

    def __len__(self) -> int:
        return len(self._sources)


def _open_length(said: Sequence[Item]) -> int:
    """How long the text is that goes on, if there is one."""
    last = said[-1] if said else None
    if not isinstance(last, Message) or last.status != "in_progress" or not last.content:
        return 0
    part = last.content[-1]
    return len(part.text) if isinstance(part, OutputText) else 0


class CitingSink(WrappingSink):
    """Replaces marks in the text that passes. A mark without a source stays as it is."""

    def __init__(self, sink: Sink, citations: Citations, said: Sequence[Item] = ()) -> None:
        """`said` is what the response has already, where another process began it."""
        super().__init__(sink)
        self._citations = citations
        self._held = ""
        self._length = _open_length(said)  # of the text of the open part

    def put(self, deltas: list[AnyDelta]) -> bool:
        if not self._citations and not self._held:
            return self._sink.put(self._track(deltas))
        passed: list[AnyDelta] = []
        for delta in deltas:
            if type(delta) is TextDelta and delta.logprobs is None:
                passed += self._text(self._held + delta.text)
            else:
                passed += self._release()
                passed += self._track([delta])
        return self._sink.put(passed) if passed else True

    def _track(self, deltas: list[AnyDelta]) -> list[AnyDelta]:
        for delta in deltas:
            if type(delta) is TextDelta:
                self._length += len(delta.text)
            elif type(delta) not in _WITHIN:
                self._length = 0  # something else begins, and the next text is another part
        return deltas

    def _release(self) -> list[AnyDelta]:
        held, self._held = self._held, ""
        return self._track([TextDelta(held)]) if held else []

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
        return self._track([TextDelta(text)]) if text else []
