"""Random padding in each delta event, so that the size of a packet does not reveal the length of a word.

Delta and noise together fill whole blocks; the noise is random, so that compression does not undo it.
"""

from collections.abc import Iterable
from secrets import token_urlsafe
from typing import Any

from antiphon.spec import events as ev
from antiphon.spec.codec import encode
from antiphon.spec.request import Request
from antiphon.stream.lifecycle import CHANNELS

BLOCK = 32
_DELTAS = [ev.EVENTS[channel.delta] for channel in CHANNELS]
_PADDED: tuple[Any, ...] = tuple(cls for cls in _DELTAS if "obfuscation" in cls.__struct_fields__)


def is_wanted(request: Request) -> bool:
    return request.stream_options is not None and request.stream_options.include_obfuscation


def obfuscate(events: Iterable[ev.AnyEvent]) -> None:
    for event in events:
        if isinstance(event, _PADDED):
            event.obfuscation = token_urlsafe(BLOCK)[: BLOCK - len(encode(event.delta)) % BLOCK]
