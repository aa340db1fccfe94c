"""Errors and receipts at the place that the client of a bridge knows: it has sent no items, but messages."""

import re
from collections.abc import Callable, Mapping, Sequence

from antiphon.spec.errors import ErrorPayload

ParamNaming = Callable[[str], str]
"""Gives the name that the client has for a parameter of a request."""

_PART = re.compile(r"input\[(\d+)\]\.(?:content|output)\[(\d+)\](?:\.(.+))?")
_ITEM = re.compile(r"input\[(\d+)\](.*)")


def with_their_param(error: ErrorPayload, named: ParamNaming) -> ErrorPayload:
    """The same error, at the place that the client knows; the error itself if that is called the same."""
    theirs = named(error.param) if error.param else error.param
    return error if theirs is None or theirs == error.param else error.with_param(theirs)


def place_of(param: str, places: Sequence[str], call_id: str) -> str | None:
    """The client's place of the item that a parameter names; None if that is no item, or an earlier one.

    `places` has for each item the client's name for it, `call_id` is what the client calls the id of a call.

    >>> place_of("input[1].call_id", ["messages[0]", "messages[1]"], "toolCallId")
    'messages[1].toolCallId'
    """
    found = _ITEM.fullmatch(param)
    place = places[int(found[1])] if found and int(found[1]) < len(places) else ""
    if found is None or not place:
        return None
    return f"{place}.{call_id}" if found[2] == ".call_id" else place


def part_place(param: str, parts: Sequence[Sequence[str]], names: Mapping[str, str]) -> str | None:
    """Where the part was said that a parameter names, by the places of each item's parts, or None.

    `names` has what the client calls the fields of a part; one that it does not know is left out.

    >>> part_place("input[0].content[1].file_id", [["content[0]", "content[2]"]], {"file_id": "file"})
    'content[2].file'
    """
    found = _PART.fullmatch(param)
    places = parts[int(found[1])] if found and int(found[1]) < len(parts) else ()
    if found is None or int(found[2]) >= len(places):
        return None
    place, field = places[int(found[2])], names.get(found[3] or "")
    return f"{place}.{field}" if field else place


def rename_param(param: str, names: Mapping[str, str]) -> str:
    """A parameter under the name that the client has for it, or for what it stands in.

    >>> rename_param("text.format.schema", {"text.format": "response_format"})
    'response_format.schema'
    """
    for name, other in names.items():
        if param == name or param.startswith((f"{name}.", f"{name}[")):
            return other + param[len(name) :]
    return param
