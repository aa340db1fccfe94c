"""Makes responses of answers: of a finished answer at once, of a running one as a stream."""

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from antiphon.producer.builder import ResponseBuilder
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import FunctionCall
from antiphon.spec.request import Request
from antiphon.spec.response import SUPPRESSED, UNMET, Response, Usage
from antiphon.stream.deltas import AnyDelta, Delta, Failure, Finish, TextDelta
from antiphon.stream.framing import frames
from antiphon.stream.policy import POLICY, PolicySink, restricts
from antiphon.stream.sinks import Sink
from antiphon.stream.sse import DONE
from antiphon.wires.schema.check import SchemaCheck, needs_check
from antiphon.wires.schema.pool import SchemaPool

log = logging.getLogger("antiphon.producer")

Said: TypeAlias = str | AnyDelta | Iterable[AnyDelta]
"""What an answer may yield: words, a delta, or several."""

FAILED = ErrorPayload("model_error", "the answer could not be finished", code="generation_failed")


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


class _BuilderSink:
    """The last sink: it feeds the deltas to the builder."""

    def __init__(self, builder: ResponseBuilder) -> None:
        self._builder = builder
        self._events: list[AnyEvent] = []

    def accepted(self) -> None:
        """Does nothing: the answer begins with its first deltas."""

    queued = accepted

    def put(self, deltas: list[AnyDelta]) -> bool:
        builder = self._builder
        if deltas and isinstance(deltas[-1], Finish):
            self._events += builder.feed(deltas[:-1]) + builder.estimate_usage()
            deltas = deltas[-1:]
        self._events += builder.feed(deltas)
        return True

    async def ready(self) -> None:
        """Returns at once: `produce` takes the events before it puts more."""

    def take(self) -> list[AnyEvent]:
        taken, self._events = self._events, []
        return taken


async def produce(
    builder: ResponseBuilder,
    answering: Callable[[Request], AsyncIterator[Said]],
    request: Request,
    schemas: SchemaPool,
) -> AsyncGenerator[list[AnyEvent], None]:
    """The events of an answer in batches; however the answer ends, the last batch ends the response.

    The answer is held to the `tool_choice` and the `text.format` of the request, as the gateway does.
    """
    answer: AsyncIterator[Said] | None = None
    built = _BuilderSink(builder)
    sink: Sink = built
    schema: SchemaCheck | None = None
    if needs_check(request):
        unmet = partial(builder.add_receipt, action=UNMET, provider=POLICY)
        sink = schema = SchemaCheck(sink, request, lambda: builder.response, unmet, schemas)
    if request.tools and restricts(request):
        sink = PolicySink(sink, request, partial(builder.add_receipt, action=SUPPRESSED, provider=POLICY))
    try:
        answer = answering(request)
        async for said in answer:
            deltas = list(_deltas(said))
            sink.put(deltas)
            if builder.finished or (deltas and isinstance(deltas[-1], Finish | Failure)):
                break
            if events := built.take():
                yield events
        else:
            sink.put([Finish()])
        if schema is not None:
            await schema.finish()
    except SpecError as error:
        built.put([Failure(error.payload)])
    except Exception as error:
        log.error("an answer failed with %s", type(error).__name__, exc_info=True)
        built.put([Failure(FAILED)])
    finally:
        close = getattr(answer, "aclose", None)
        if close is not None:
            await close()
    yield built.take()


async def stream_open_responses(
    answer: AsyncIterator[Said], *, model: str, request: Request | None = None
) -> AsyncIterator[str]:
    """An answer as the text of server-sent events, from `response.created` to `[DONE]`."""
    builder = ResponseBuilder(model, request=request)
    schemas = SchemaPool()
    yield frames(builder.start()).decode()
    try:
        async for events in produce(builder, lambda _: answer, request or Request(), schemas):
            yield frames(events).decode()
    finally:
        await schemas.close()
    yield DONE.decode()


def _deltas(said: Said) -> Iterable[AnyDelta]:
    if isinstance(said, str):
        return [TextDelta(said)]
    return [said] if isinstance(said, Delta) else said
