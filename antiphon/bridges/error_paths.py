"""Errors at the place that the client of a bridge knows: it has sent messages, and never heard of items."""

import re
from collections.abc import Sequence

from antiphon.spec.errors import ErrorPayload

_ITEM = re.compile(r"input\[(\d+)\](.*)")


def at_its_place(error: ErrorPayload, places: Sequence[str], call_id: str) -> ErrorPayload:
    """The same error; `places` has for each item where it was said, `call_id` is what the client calls that.

    >>> wrong = ErrorPayload("invalid_request", "there is no such call", param="input[1].call_id")
    >>> at_its_place(wrong, ["messages[0]", "messages[1]"], "toolCallId").param
    'messages[1].toolCallId'
    """
    found = _ITEM.fullmatch(error.param or "")
    place = places[int(found[1])] if found and int(found[1]) < len(places) else ""
    if found is None or not place:
        return error
    return error.with_param(f"{place}.{call_id}" if found[2] == ".call_id" else place)
