"""Sources that a text names by their numbers, as in `[3]`: Perplexity lists them beside the text."""

import re
from collections.abc import Sequence

from antiphon.stream.deltas import AnyDelta, TextDelta

_NUMBER = re.compile(r"\[(\d{1,3})\]")


class SourceNumbers:
    """Gathers the text and the list, and finds where the one first names each entry of the other."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._sources: list[str] = []

    def add_text(self, deltas: Sequence[AnyDelta]) -> None:
        self._text += [one.text for one in deltas if isinstance(one, TextDelta)]

    def take_sources(self, sources: list[str]) -> None:
        """The addresses in the order of their numbers, the first of which is 1."""
        self._sources = sources

    def find_places(self) -> dict[str, tuple[int, int]]:
        """Where the number of each source stands in the text for the first time."""
        places: dict[str, tuple[int, int]] = {}
        for found in _NUMBER.finditer("".join(self._text)):
            number = int(found[1])
            if 0 < number <= len(self._sources):
                places.setdefault(self._sources[number - 1], found.span())
        return places
