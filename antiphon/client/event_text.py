"""Writes the events of a response as the text of server-sent events, for programs that pass them on."""

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
    replaces_failures: bool = False,
) -> AsyncGenerator[str, None]:
    """Yields each event as it comes, then `[DONE]`. An error ends the stream with the event of `failure`.

    With `replaces_failures`, a response that the server itself reports as failed ends with `failure`, too.
    """
    sent, stream, ended = SentEvents(next_number=dialect.first_sequence_number), None, False
    try:
        async with opened as stream:
            async for event in stream:
                if replaces_failures and isinstance(event, ErrorEvent):
                    continue
                if replaces_failures and isinstance(event, ResponseFailedEvent):
                    raise ResponseFailed(event.response)
                sent.add(event)
                sent.next_number, ended = event.sequence_number + 1, event.is_terminal
                yield frames([event], dialect).decode()
    except AntiphonError as error:
        if not ended:
            # The response has the error that broke it off already, which no event has shown yet.
            begun = replace(stream.response, error=None) if stream else _empty_response(model)
            composer = Composer(begun, clock=time.time)
            composer.resume(sent)
            yield frames(composer.fail(failure(error)), dialect).decode()
    yield DONE.decode()


def _empty_response(model: str) -> Response:
    return Response.new(ids.new_id(ids.RESPONSE), model, now=int(time.time()))
