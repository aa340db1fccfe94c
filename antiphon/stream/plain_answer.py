"""A plain answer, composed at once: one text with its usage, for a client that wants the response whole.

This is here for speed alone. `Composer.feed` opens a message and a part, and closes them, so that there can
be an event for each step; a client that wants the response whole gets no events, and most such answers are
one text.
Without this a plain request takes about a tenth more CPU time (`docs/decisions/measuring.md`). The states
are those of `lifecycle`, and a property test holds the response to what `feed` makes of the same deltas.
"""

from collections.abc import Sequence

from antiphon.spec import ids
from antiphon.spec.content import OutputText
from antiphon.spec.items import Message
from antiphon.stream import lifecycle
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import INCOMPLETE, AnyDelta, Finish, TextDelta, UsageDelta

_MOST_BYTES = 4
"""Of one character in UTF-8."""


def compose(composer: Composer, deltas: Sequence[AnyDelta]) -> bool:
    """Complete a response that has not begun, if these deltas are a plain answer; else do nothing."""
    if len(deltas) != 3 or composer.state is not lifecycle.ABSENT:
        return False
    said, counted, ended = deltas
    if type(said) is not TextDelta or said.logprobs is not None or not said.text:
        return False
    if len(said.text) * _MOST_BYTES > composer.room.bytes:
        return False
    if type(counted) is not UsageDelta or type(ended) is not Finish or ended.reason in INCOMPLETE:
        return False
    id, response = composer.new_id(ids.MESSAGE), composer.response
    text = OutputText(said.text)
    response.output = [Message(id=id, role="assistant", status="completed", content=[text])]
    response.usage = counted.usage.balanced()
    response.completed_at = int(composer.clock())
    composer.state = lifecycle.complete(response, composer.state)
    composer.ending = ended
    composer.finished = True
    return True
