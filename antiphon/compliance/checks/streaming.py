"""Streams: what they hold besides the Auditor's rules, how they end, what happens when a reader leaves."""

import asyncio

from antiphon.compliance.catalog import check
from antiphon.compliance.checks.inputs import ENOUGH, user
from antiphon.compliance.http_exchange import Json, text_of
from antiphon.compliance.probe import Failed, Probe, Skipped, TooWeak, expect, require_answer, respond

_STREAM = "Streaming HTTP Responses"
_LONG = "Write a story of a thousand words about a heron."
_SHORT = 16


@check("stream.text", "MUST", _STREAM, "sse", drives=True)
async def text(probe: Probe) -> None:
    """A text comes in deltas, and the whole at the end is what they add up to."""
    exchange = await probe.stream(input=[user("Count from one to five in words.")])
    deltas = [
        event.get("delta") for event in exchange.events if event.get("type") == "response.output_text.delta"
    ]
    expect(deltas, "the stream has no text delta")
    told = "".join(str(delta) for delta in deltas)
    expect(told == text_of(exchange.response or {}), "the deltas are not the text of the final response")


@check("stream.usage", "SHOULD", "Schema of ResponseResource", "sse")
async def usage(probe: Probe) -> None:
    """The terminal response of a stream has its usage."""
    exchange = await probe.stream(input="Say hello.", max_output_tokens=ENOUGH)
    expect(isinstance((exchange.response or {}).get("usage"), dict), "usage is null")


@check("stream.cut_off", "MUST", "Items are state machines", "sse", model=True, drives=True)
async def cut_off(probe: Probe) -> None:
    """An answer that reaches `max_output_tokens` ends as incomplete, with that reason."""
    exchange = await probe.stream(input=_LONG, max_output_tokens=_SHORT)
    response = exchange.response or {}
    _reached_the_limit(response)
    expect(response.get("status") == "incomplete", f"the response is {response.get('status')!r}")
    reason = (response.get("incomplete_details") or {}).get("reason")
    expect(reason == "max_output_tokens", f"the reason is {reason!r}")


@check("response.cut_off", "MUST", "Items are state machines", "json", model=True)
async def cut_off_whole(probe: Probe) -> None:
    """The same without a stream."""
    response = await probe.create(input=_LONG, max_output_tokens=_SHORT)
    _reached_the_limit(response)
    reason = (response.get("incomplete_details") or {}).get("reason")
    expect(
        reason == "max_output_tokens", f"the response is {response.get('status')!r}, the reason {reason!r}"
    )


def _reached_the_limit(response: Json) -> None:
    if response.get("status") == "completed":
        if _used(response) == _SHORT:
            raise Failed(f"all {_SHORT} tokens were used, and the response says that it is completed")
        raise TooWeak("the model stopped by itself before the limit")


def _used(response: Json) -> int | None:
    used = (response.get("usage") or {}).get("output_tokens")
    return used if isinstance(used, int) else None


@check("stream.obeys_limit", "MUST", "Schema of CreateResponseBody", "sse")
async def obeys_limit(probe: Probe) -> None:
    """No more tokens come than `max_output_tokens` allows."""
    exchange = await probe.stream(input=_LONG, max_output_tokens=_SHORT)
    used = _used(exchange.response or {})
    expect(used is None or used <= _SHORT, f"{used} tokens came, {_SHORT} were allowed")


@check("stream.obfuscation", "MAY", "Schema of StreamOptionsParam", "sse")
async def obfuscation(probe: Probe) -> None:
    """`stream_options.include_obfuscation` is taken."""
    exchange = await probe.stream(
        input="Say hello.", max_output_tokens=ENOUGH, stream_options={"include_obfuscation": True}
    )
    deltas = [event for event in exchange.events if event.get("type") == "response.output_text.delta"]
    expect(any("obfuscation" in delta for delta in deltas), "no delta has an obfuscation")


@check("stream.left", "SHOULD", "Our requirement", "sse")
async def leave_early(probe: Probe) -> None:
    """A reader that goes away does not harm the server."""
    body = b'{"model": "%b", "input": "%b", "stream": true, "max_output_tokens": %d}'
    content = body % (probe.model.encode(), _LONG.encode(), 4 * ENOUGH)
    exchange = await probe.send("POST", "/responses", content, leave_after=3)
    require_answer(exchange)
    respond(await probe.ask(input="Say hello.", max_output_tokens=ENOUGH))


@check("stream.many", "SHOULD", "Our requirement", "sse")
async def many(probe: Probe) -> None:
    """Streams at the same time are not mixed up."""
    exchanges = await asyncio.gather(
        *(
            probe.stream(input="Say hello.", metadata={"mark": str(n)}, max_output_tokens=ENOUGH)
            for n in range(4)
        )
    )
    marks = [((exchange.response or {}).get("metadata") or {}).get("mark") for exchange in exchanges]
    if not any(marks):
        raise Skipped("the server does not repeat the metadata, which would tell the streams apart")
    expect(marks == ["0", "1", "2", "3"], f"the streams belong to {marks}")
    ids = {(exchange.response or {}).get("id") for exchange in exchanges}
    expect(len(ids) == len(exchanges), "two streams have one response id")


@check("stream.same", "SHOULD", "Schema of ResponseResource", "sse")
async def same(probe: Probe) -> None:
    """A stream ends with the keys that the whole response has."""
    whole = await probe.create(input="Say hello.", max_output_tokens=ENOUGH)
    exchange = await probe.stream(input="Say hello.", max_output_tokens=ENOUGH)
    missing = set(whole) - set(exchange.response or {})
    expect(not missing, f"the streamed response lacks {sorted(missing)}")
