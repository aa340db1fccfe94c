"""Tells raw reasoning as a summary too, for clients that show nothing but summaries.

Where no upstream that is asked makes summaries of its own, the words of both come together. Elsewhere the
summary follows once the reasoning is over, if there was none until then.
"""

from collections.abc import Iterator

from antiphon.stream.deltas import AnyDelta, PartEnd, ReasoningDelta, SignatureDelta, SummaryDelta, UsageDelta
from antiphon.stream.sinks import Sink, WrappingSink

_WITHIN = (PartEnd, SignatureDelta, SummaryDelta, UsageDelta)
"""What may come in the middle of reasoning."""


class RetoldReasoning(WrappingSink):
    def __init__(self, sink: Sink, *, at_once: bool) -> None:
        super().__init__(sink)
        self._at_once = at_once
        self._words: list[str] = []
        """What was said and not yet retold."""
        self._has_summary = False
        """Has the upstream made a summary of this reasoning?"""

    def put(self, deltas: list[AnyDelta]) -> bool:
        if not self._words and not any(isinstance(one, ReasoningDelta) for one in deltas):
            self._has_summary = self._has_summary or any(isinstance(one, SummaryDelta) for one in deltas)
            return self._sink.put(deltas)
        return self._sink.put([*self._retold(deltas)])

    def _retold(self, deltas: list[AnyDelta]) -> Iterator[AnyDelta]:
        for delta in deltas:
            if isinstance(delta, ReasoningDelta):
                yield delta
                self._words.append(delta.text)
                if self._at_once:
                    yield from self._summary()
                continue
            if isinstance(delta, SummaryDelta):
                self._has_summary = True
            elif not isinstance(delta, _WITHIN):
                yield from self._summary()
                self._has_summary = False
            yield delta

    def _summary(self) -> Iterator[AnyDelta]:
        words, self._words = "".join(self._words), []
        if words and not self._has_summary:
            yield SummaryDelta(words)
