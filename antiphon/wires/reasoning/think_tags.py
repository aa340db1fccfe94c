"""Models that write their reasoning into the text, between `<think>` and `</think>`."""

from antiphon.stream.deltas import AnyDelta, ReasoningDelta, TextDelta

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTags:
    """Tells reasoning from the answer, however the tags were cut; only the very start can open one."""

    def __init__(self) -> None:
        self.is_text = False
        """The reasoning is over, or there was none: everything else is the answer."""
        self._inside = False
        self._after = False
        self._begun = False
        self._held = ""

    def feed(self, text: str) -> list[AnyDelta]:
        if self.is_text:
            return [TextDelta(text)] if text else []
        text = self._held + text
        self._held = ""
        if self._inside:
            return self._reason(text)
        start = text.lstrip()
        if not self._after and start.startswith(_OPEN):
            self._inside = True
            return self._reason(start.removeprefix(_OPEN))
        if not start or (not self._after and _OPEN.startswith(start)):
            self._held = text
            return []
        self.is_text = True
        return [TextDelta(start if self._after else text)]

    def end(self) -> list[AnyDelta]:
        """What was held back, when nothing more will come, or something else begins."""
        held, self._held = self._held, ""
        if self._inside:
            return [ReasoningDelta(held)] if held else []
        self.is_text = True
        return [TextDelta(held)] if held.strip() else []

    def _reason(self, text: str) -> list[AnyDelta]:
        said, closed, rest = text.partition(_CLOSE)
        if closed:
            self._inside, self._after = False, True
            return self._thought(said) + self.feed(rest)
        keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)
        self._held = text[len(text) - keep :]
        return self._thought(text[: len(text) - keep])

    def _thought(self, text: str) -> list[AnyDelta]:
        if not self._begun:
            text = text.lstrip("\n")
        self._begun = self._begun or bool(text)
        return [ReasoningDelta(text)] if text else []
