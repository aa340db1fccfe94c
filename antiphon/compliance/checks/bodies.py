"""Requests that are wrong as a whole: bodies, content types, keys, paths, methods, models."""

import asyncio

from antiphon.compliance.catalog import check
from antiphon.compliance.checks.inputs import ENOUGH, user
from antiphon.compliance.probe import (
    Failed,
    Probe,
    Skipped,
    describe_answer,
    expect,
    refusal,
    require_contact,
    respond,
)

_ERRORS = "Errors"


@check("body.not_json", "MUST", _ERRORS)
async def not_json(probe: Probe) -> None:
    """A body that is not JSON is refused with HTTP 400."""
    exchange = await probe.send("POST", "/responses", b'{"model": "x", "input": ')
    refusal(exchange)
    expect(exchange.status in (400, 422), f"the status is {exchange.status}")


@check("body.not_object", "MUST", _ERRORS)
async def not_object(probe: Probe) -> None:
    """A body that is not a JSON object is refused."""
    refusal(await probe.post("/responses", [{"model": probe.model, "input": "Hello"}]))


@check("body.empty", "MUST", _ERRORS)
async def empty(probe: Probe) -> None:
    """A request without a body is refused."""
    refusal(await probe.send("POST", "/responses"))


@check("body.not_utf8", "SHOULD", "RFC 8259")
async def not_utf8(probe: Probe) -> None:
    """A body that is not UTF-8 is refused, not guessed."""
    body = b'{"model": "' + probe.model.encode() + b'", "input": "caf\xe9"}'
    refusal(await probe.send("POST", "/responses", body))


@check("body.media_type", "SHOULD", "HTTP Requests")
async def media_type(probe: Probe) -> None:
    """A body of another content type than the schema names is refused."""
    refusal(await probe.post("/responses", {"model": probe.model, "input": "Hi"}, content_type="image/png"))


@check("body.charset", "MUST", "HTTP Requests")
async def charset(probe: Probe) -> None:
    """`application/json; charset=utf-8` is JSON."""
    body = {"model": probe.model, "input": "Say hello.", "max_output_tokens": ENOUGH}
    respond(await probe.post("/responses", body, content_type="application/json; charset=utf-8"))


@check("body.unknown_model", "SHOULD", _ERRORS)
async def unknown_model(probe: Probe) -> None:
    """A model that does not exist is an error of the client."""
    refusal(await probe.post("/responses", {"model": "no-such-model-anywhere", "input": "Hello"}))


@check("body.unknown_field", "SHOULD", "Extending existing schemas")
async def unknown_field(probe: Probe) -> None:
    """A field that the server does not know does not make it fail."""
    body = {"model": probe.model, "input": "Say hello.", "max_output_tokens": ENOUGH}
    respond(await probe.post("/responses", body | {"acme:note": {"any": ["thing"]}}))


@check("body.nulls", "MUST", "Schema of CreateResponseBody")
async def nulls(probe: Probe) -> None:
    """Fields that the schema lets be null may be."""
    names = (
        "previous_response_id instructions tools tool_choice metadata text temperature top_p "
        "presence_penalty frequency_penalty parallel_tool_calls max_tool_calls reasoning "
        "safety_identifier prompt_cache_key top_logprobs stream_options"
    )
    await probe.create(input="Say hello.", max_output_tokens=ENOUGH, **dict.fromkeys(names.split()))


@check("error.names_param", "SHOULD", "Schema of ErrorPayload")
async def names_param(probe: Probe) -> None:
    """The error of a wrong parameter names it in `param`."""
    error = await probe.require_refusal(input="Hello", temperature="hot")
    expect("temperature" in str(error.get("param")), f"param is {error.get('param')!r}, not temperature")


@check("error.in_stream", "MUST", _ERRORS, "sse", drives=True)
async def in_stream(probe: Probe) -> None:
    """A wrong request with `stream: true` is refused as plain JSON, or with `error` and `response.failed`."""
    refusal(await probe.ask(input=7, stream=True))


@check("path.unknown", "SHOULD", "RFC 9110")
async def unknown_path(probe: Probe) -> None:
    """A path that does not exist is 404."""
    exchange = await probe.send("GET", "/no-such-path-here", content_type=None)
    require_contact(exchange)
    expect(exchange.status == 404, f"expected HTTP 404, got {describe_answer(exchange)}")


@check("path.method", "SHOULD", "RFC 9110")
async def method(probe: Probe) -> None:
    """A method that the path does not have is 404 or 405."""
    exchange = await probe.send("PUT", "/responses", b"{}")
    require_contact(exchange)
    expect(exchange.status in (404, 405), f"expected HTTP 405, got {describe_answer(exchange)}")


@check("key.required", "MUST", "HTTP Requests")
async def key_required(probe: Probe) -> None:
    """Without a key a protected server refuses."""
    await _expect_unauthorized(probe, None)


@check("key.wrong", "MUST", "HTTP Requests")
async def key_wrong(probe: Probe) -> None:
    """With a wrong key a protected server refuses."""
    await _expect_unauthorized(probe, "no-such-key-0123456789")


async def _expect_unauthorized(probe: Probe, key: str | None) -> None:
    if probe.target.api_key is None:
        raise Skipped("no --api-key was given, so the server is taken as open")
    exchange = await probe.post(
        "/responses", {"model": probe.model, "input": "Hello"}, key=key, anonymous=key is None
    )
    require_contact(exchange)
    if exchange.status == 200:
        raise Failed("the request was carried out")
    expect(400 <= (exchange.status or 0) < 500, f"expected HTTP 401, got {describe_answer(exchange)}")


@check("body.many", "SHOULD", "Our requirement", "json")
async def many(probe: Probe) -> None:
    """Requests at the same time do not disturb each other."""
    marks = [f"mark-{n}" for n in range(4)]
    responses = await asyncio.gather(
        *(
            probe.create(input=[user("Say hello.")], metadata={"mark": mark}, max_output_tokens=ENOUGH)
            for mark in marks
        )
    )
    found = [(response.get("metadata") or {}).get("mark") for response in responses]
    if not any(found):
        raise Skipped("the server does not repeat the metadata, which would tell the answers apart")
    expect(found == marks, f"the answers belong to {found}")
    expect(len({response["id"] for response in responses}) == len(marks), "two responses have one id")
