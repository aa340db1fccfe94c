"""The Auditor's look at hosted tools: their items have what their kind needs, and their events fit them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from antiphon.stream import lifecycle as lc
from antiphon.stream.audit_state import Payload

# What an item of each kind cannot lack, and of which JSON type it is.
KEYS: Mapping[str, Mapping[str, type]] = {
    "mcp_call": {"name": str, "arguments": str, "server_label": str},
    "mcp_list_tools": {"server_label": str, "tools": list},
    "mcp_approval_request": {"name": str, "arguments": str, "server_label": str},
    "web_search_call": {},
    "file_search_call": {"queries": list},
    "code_interpreter_call": {"container_id": str},
    "image_generation_call": {},
}
# A text that grows by deltas: the beginning of its events, and its key in the done event and in the item.
TEXTS: Mapping[str, tuple[str, str]] = {
    "mcp_call": ("response.mcp_call_arguments", "arguments"),
    "code_interpreter_call": ("response.code_interpreter_call_code", "code"),
}
_ENDS = frozenset({"completed", "failed"})
_BEGINS = "in_progress"


class _Open(NamedTuple):
    kind: str
    id: object
    told: list[str]
    """The events of its progress, by their last word."""
    pieces: list[str]
    whole: list[str]


class AuditedTools:
    """Takes the events of hosted tools, in order, and reports violations."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._open: dict[int, _Open] = {}
        self._astray: set[str] = set()
        """Kinds of which an event came in a wrong place: no wonder that it is missing in the right one."""

    def take(self, event_type: str, payload: Payload) -> None:
        item, index = payload.get("item"), payload.get("output_index")
        if not isinstance(index, int):  # which was reported as a key that is wrong
            return
        if event_type in lc.ITEM_EVENTS:
            if isinstance(item, dict) and isinstance(kind := item.get("type"), str) and kind in KEYS:
                self._item(event_type, index, kind, item)
            return
        named, text = _kind_of(event_type)
        if named is None:
            return
        found = self._open.get(index)
        if found is None or found.kind != named or found.id != payload.get("item_id"):
            self._astray.add(named)
            self._report("hosted.event_place", f"there is no open {named} at index {index} with this id")
        elif text:
            self._text(found, event_type, payload)
        else:
            self._progress(found, event_type.rpartition(".")[2])

    def _item(self, event_type: str, index: int, kind: str, item: Payload) -> None:
        for key, wanted in KEYS[kind].items():
            if not isinstance(item.get(key), wanted):
                self._report("hosted.item_keys", f"{kind}.{key} is no {wanted.__name__}")
        if event_type == lc.ITEM_ADDED:
            self._open[index] = _Open(kind, item.get("id"), [], [], [])
            return
        found = self._open.pop(index, None)
        if found is None or found.kind != kind:
            return
        status = str(item.get("status"))
        end = next((word for word in found.told if word in _ENDS), None)
        if end is not None and status in _ENDS and end != status:
            self._report("hosted.event_end", f"the item is {status}, and its events said {end}")
        elif end is None and _BEGINS in found.told and status == "completed" and kind not in self._astray:
            self._report(
                "hosted.event_end", f"the item is {status}, and its events ended with {found.told[-1]}"
            )
        if kind in TEXTS and found.whole and item.get(TEXTS[kind][1]) != found.whole[0]:
            self._report("hosted.text", f"the {TEXTS[kind][1]} of the item are not those of the done event")

    def _progress(self, found: _Open, word: str) -> None:
        told = found.told
        if any(one in _ENDS for one in told):
            self._report("hosted.event_order", f"{word} comes after the end")
        elif word == _BEGINS and told:
            self._report("hosted.event_order", f"{word} comes after {told[-1]}")
        told.append(word)

    def _text(self, found: _Open, event_type: str, payload: Payload) -> None:
        if found.whole:
            self._report("hosted.text", "a text goes on after it was done")
        elif event_type.endswith(".delta"):
            found.pieces.append(str(payload.get("delta")))
        else:
            whole = str(payload.get(TEXTS[found.kind][1]))
            found.whole.append(whole)
            if found.pieces and "".join(found.pieces) != whole:
                self._report("hosted.text", "the deltas are not the text of the done event")


def _kind_of(event_type: str) -> tuple[str | None, bool]:
    """The kind of item that an event belongs to, and whether it tells of its text."""
    for kind, (beginning, _) in TEXTS.items():
        if event_type in (f"{beginning}.delta", f"{beginning}.done"):
            return kind, True
    first, _, rest = event_type.partition(".")
    kind = rest.partition(".")[0]
    return (kind, False) if first == "response" and kind in KEYS else (None, False)
