"""Joins UTF-16 surrogate pairs that a server has split over two deltas.

JSON allows that, but no strict parser reads it, so such payloads take the way through here.
"""

import json
from collections.abc import Callable
from typing import Any

# What says which text a delta belongs to.
_PLACE = ("type", "item_id", "output_index", "content_index", "summary_index")
_UTF16 = "utf-16-le"
_LOST = "\ufffd"


class SurrogatePairs:
    """The first half that waits for its second."""

    def __init__(self, odd: Callable[[str], None]) -> None:
        self.waiting = ""
        self._place: tuple[Any, ...] = ()
        self._note_oddity = odd

    def join_halves(self, data: str) -> str:
        """Return the payload with whole characters; a half that stays alone becomes U+FFFD."""
        event = json.loads(data)
        if isinstance(event, dict):
            self._join(event)
        text = json.dumps(event, ensure_ascii=False)
        whole = text.encode(_UTF16, "surrogatepass").decode(_UTF16, "replace")
        if whole.count(_LOST) > text.count(_LOST):
            self._note_oddity("half of a character, without its other half")
        return whole

    def _join(self, event: dict[str, Any]) -> None:
        delta = event.get("delta")
        if not isinstance(delta, str):
            self.waiting = ""  # the text is over, or an event will have all of it
            return
        place = tuple(event.get(name) for name in _PLACE)
        if self.waiting and place == self._place:
            delta, self.waiting = self.waiting + delta, ""
        if "\ud800" <= delta[-1:] <= "\udbff":
            self._note_oddity("a delta that ends in the middle of a character")
            self.waiting, self._place = delta[-1], place
            delta = delta[:-1]
        event["delta"] = delta
