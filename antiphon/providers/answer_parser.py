"""What the parsers of several wires share: the deltas so far, and how an answer ends."""

from collections.abc import Collection

from antiphon.providers import errors
from antiphon.spec.errors import ErrorPayload
from antiphon.stream.deltas import AnyDelta, Failure, Finish
from antiphon.wires.lines import LineSplitter, LineTooLong
from antiphon.wires.notes import Note
from antiphon.wires.tools.calls import Calls
from antiphon.wires.tools.names import ToolNames


class AnswerParser:
    """Gathers the deltas of one answer. Once it is `over`, it has nothing more to say."""

    def __init__(
        self, names: ToolNames | None, *, provider: str, note: Note, secrets: Collection[str]
    ) -> None:
        self.over = False
        self._tool_calls = Calls(names or ToolNames())
        self._provider = provider
        self._note = note
        self._secrets = secrets
        self._deltas: list[AnyDelta] = []

    def _flush(self) -> None:
        """Add what must stand before the end of the answer: pieces that were held back, and the usage."""

    def _close(self, last: Finish | Failure) -> None:
        self._flush()
        self._deltas.append(last)
        self.over = True

    def _fail(self, error: ErrorPayload) -> None:
        self._close(Failure(error))

    def _take(self) -> list[AnyDelta]:
        deltas, self._deltas = self._deltas, []
        return deltas


class LineParser(AnswerParser):
    """The same for a wire of lines."""

    def __init__(
        self, names: ToolNames | None, *, provider: str, note: Note, secrets: Collection[str], max_line: int
    ) -> None:
        super().__init__(names, provider=provider, note=note, secrets=secrets)
        self._lines = LineSplitter(max_line)

    def _split(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete; a line that is too long ends the answer."""
        try:
            return self._lines.feed(data)
        except LineTooLong as error:
            self._fail(errors.invalid(self._provider, str(error)).payload)
            return []
