"""Answers to responses: a finished one at once, one that is still being said as a stream."""

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import TypeAlias

from antiphon.producer.builder import ResponseBuilder
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import FunctionCall
from antiphon.spec.request import Request
from antiphon.spec.response import Response, Usage
from antiphon.stream.deltas import AnyDelta, Delta, Finish, TextDelta
from antiphon.stream.framing import frames
from antiphon.stream.sse import DONE

log = logging.getLogger("antiphon.producer")

Said: TypeAlias = str | AnyDelta | Iterable[AnyDelta]
"""What an answer may yield: words, a delta, or several."""

_FAILED = ErrorPayload("model_error", "the answer could not be finished", code="generation_failed")


def response_of(
    model: str,
    text: str = "",
    *,
    reasoning: str = "",
    calls: Sequence[FunctionCall] = (),
    usage: Usage | None = None,
    request: Request | None = None,
    clock: Callable[[], float] = time.time,
) -> Response:
    """A finished answer of a plain model as a completed response."""
    builder = ResponseBuilder(model, request=request, clock=clock)
    builder.start()
    if reasoning:
        builder.end(builder.add_reasoning(reasoning))
    if text:
        builder.end(builder.add_message(text))
    for call in calls:
        builder.add_function_call(call.name, call.arguments, call.call_id)
    if usage is None:
        builder.estimate_usage()
    builder.complete(usage)
    return builder.response


async def produce(
    builder: ResponseBuilder, answering: Callable[[Request], AsyncIterator[Said]], request: Request
) -> AsyncGenerator[list[AnyEvent], None]:
    """The events of an answer in batches; however the answer ends, the last batch ends the response."""
    answer: AsyncIterator[Said] | None = None
    try:
        answer = answering(request)
        async for said in answer:
            deltas = list(_deltas(said))
            counted: list[AnyEvent] = []
            if deltas and isinstance(deltas[-1], Finish):
                counted = builder.feed(deltas[:-1]) + builder.estimate_usage()
                deltas = deltas[-1:]
            if events := counted + builder.feed(deltas):
                yield events
            if builder.finished:
                return
        counted = builder.estimate_usage()
    except SpecError as error:
        yield _failed(builder, error.payload)
    except Exception as error:
        log.error("an answer failed with %s", type(error).__name__, exc_info=True)
        yield _failed(builder, _FAILED)
    else:
        yield counted + _started(builder) + builder.complete()
    finally:
        close = getattr(answer, "aclose", None)
        if close is not None:
            await close()


async def stream_open_responses(
    answer: AsyncIterator[Said], *, model: str, request: Request | None = None
) -> AsyncIterator[str]:
    """An answer as the text of server-sent events, from `response.created` to `[DONE]`."""
    builder = ResponseBuilder(model, request=request)
    yield frames(builder.start()).decode()
    async for events in produce(builder, lambda _: answer, request or Request()):
        yield frames(events).decode()
    yield DONE.decode()


def _deltas(said: Said) -> Iterable[AnyDelta]:
    if isinstance(said, str):
        return [TextDelta(said)]
    return [said] if isinstance(said, Delta) else said


def _started(builder: ResponseBuilder) -> list[AnyEvent]:
    """An answer that says nothing at all still begins."""
    return builder.feed([])


def _failed(builder: ResponseBuilder, error: ErrorPayload) -> list[AnyEvent]:
    return _started(builder) + builder.fail(error)
