"""The events of a response as the text of server-sent events, for programs that pass them on."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager

from msgspec.structs import replace

from antiphon.client.agent.run import ModelStream
from antiphon.client.errors import AntiphonError, ResponseFailed
from antiphon.spec import ids
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import ErrorEvent, ResponseFailedEvent
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.dialects import Dialect
from antiphon.stream.framing import frames
from antiphon.stream.resume_state import SentEvents
from antiphon.stream.sse import DONE


async def event_text(
    opened: AbstractAsyncContextManager[ModelStream],
    dialect: Dialect,
    model: str,
    failure: Callable[[AntiphonError], ErrorPayload],
    *,
    retells: bool = False,
) -> AsyncGenerator[str, None]:
    """Each event as it comes, then `[DONE]`. What breaks on the way ends the stream with `failure` of it.

    With `retells`, so does a response that the server itself says has failed.
    """
    sent, stream, ended = SentEvents(next_number=dialect.first_sequence_number), None, False
    try:
        async with opened as stream:
            async for event in stream:
                if retells and isinstance(event, ErrorEvent):
                    continue
                if retells and isinstance(event, ResponseFailedEvent):
                    raise ResponseFailed(event.response)
                sent.add(event)
                sent.next_number, ended = event.sequence_number + 1, event.is_terminal
                yield frames([event], dialect).decode()
    except AntiphonError as error:
        if not ended:
            # What was read already has the error that broke it off; nobody was told of that yet.
            begun = replace(stream.response, error=None) if stream else _unanswered(model)
            composer = Composer(begun, clock=time.time)
            composer.resume(sent)
            yield frames(composer.fail(failure(error)), dialect).decode()
    yield DONE.decode()


def _unanswered(model: str) -> Response:
    return Response.new(ids.new_id(ids.RESPONSE), model, now=int(time.time()))
