"""Every kind of item and content part that may be sent."""

from typing import Any

from antiphon.compliance.catalog import check
from antiphon.compliance.checks.inputs import (
    ENOUGH,
    WEATHER,
    assistant,
    call,
    message,
    output,
    red_square,
    text,
    text_file,
    user,
)
from antiphon.compliance.http_exchange import answers
from antiphon.compliance.probe import (
    Failed,
    Probe,
    Skipped,
    TooWeak,
    describe_answer,
    expect,
    require_contact,
    respond,
)

_INPUT = "Schema of ItemParam"


async def _send_items(probe: Probe, *items: Any, **more: Any) -> None:
    await probe.create(input=list(items), max_output_tokens=ENOUGH, **more)


@check("content.string", "MUST", _INPUT)
async def string(probe: Probe) -> None:
    """The input may be a plain text."""
    response = await probe.create(input="Say hello to me.", max_output_tokens=ENOUGH)
    expect(response.get("output"), "the response has no output")


@check("content.parts", "MUST", _INPUT)
async def parts(probe: Probe) -> None:
    """The content of a message may be a list of `input_text` parts."""
    await _send_items(probe, user([text("Say "), text("hello.")]))


@check("content.no_type", "SHOULD", "allowed_tools")
async def no_type(probe: Probe) -> None:
    """An item with a `role` and no `type` is a message."""
    await _send_items(probe, {"role": "user", "content": "Say hello."})


@check("content.roles", "MUST", _INPUT)
async def roles(probe: Probe) -> None:
    """Messages may be of the roles user, assistant, system and developer."""
    await _send_items(
        probe,
        message("system", "Be brief."),
        message("developer", "Be kind."),
        user("Hello."),
        assistant("Hello!"),
        user("Say goodbye."),
    )


@check("content.assistant_parts", "MUST", _INPUT)
async def assistant_parts(probe: Probe) -> None:
    """Assistant messages may hold `output_text` and `refusal` parts."""
    said_before = {"type": "output_text", "text": "Hello!", "annotations": []}
    refused = {"type": "refusal", "refusal": "I would rather not."}
    await _send_items(
        probe, user("Hello."), assistant([said_before]), user("Sing."), assistant([refused]), user("Bye.")
    )


@check("content.own_output", "MUST", _INPUT)
async def own_output(probe: Probe) -> None:
    """The items of a response may be sent back as they came."""
    first = await probe.create(input="Say hello.", max_output_tokens=ENOUGH)
    items = [item for item in first["output"] if isinstance(item, dict)]
    await _send_items(probe, user("Say hello."), *items, user("Say goodbye."))


@check("content.calls", "MUST", _INPUT)
async def calls(probe: Probe) -> None:
    """Calls and their outputs may be sent as history."""
    await _send_items(
        probe,
        user("What is the weather in Paris?"),
        call("call_1"),
        output("call_1"),
        user("Thank you. Say goodbye."),
        tools=[WEATHER],
        tool_choice="none",
    )


@check("content.output_parts", "MUST", _INPUT)
async def output_parts(probe: Probe) -> None:
    """The output of a call may be a list of parts."""
    told = [text("Sunny, "), text("21 degrees.")]
    await _send_items(
        probe, user("Weather in Paris?"), call("call_1"), output("call_1", told), tools=[WEATHER]
    )


@check("content.reasoning", "MUST", _INPUT)
async def reasoning(probe: Probe) -> None:
    """Reasoning items may be sent as history."""
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "They greeted me."}]}
    await _send_items(probe, user("Hello."), thought, assistant("Hello!"), user("Say goodbye."))


@check("content.image", "MUST", _INPUT)
async def image(probe: Probe) -> None:
    """An `input_image` with a data URL is taken, where the model sees."""
    picture = {"type": "input_image", "image_url": red_square(), "detail": "low"}
    await probe.create_if_supported(
        "images", input=[user([text("Which colour?"), picture])], max_output_tokens=ENOUGH
    )


@check("content.broken_image", "MAY", _INPUT)
async def broken_image(probe: Probe) -> None:
    """A picture that is none is an error of the client."""
    picture = {"type": "input_image", "image_url": "data:image/png;base64,@@@@"}
    exchange = await probe.ask(input=[user([text("Which colour?"), picture])], max_output_tokens=ENOUGH)
    require_contact(exchange)
    if exchange.status == 200:
        raise Failed("the request was carried out, as if there were a picture")
    expect(
        400 <= (exchange.status or 0) < 500, f"a broken picture was answered with {describe_answer(exchange)}"
    )


@check("content.file", "MUST", _INPUT)
async def file(probe: Probe) -> None:
    """An `input_file` with data is taken, where the model reads files."""
    parts_ = [text("What does the file say?"), text_file("The password is heron.")]
    await probe.create_if_supported("files", input=[user(parts_)], max_output_tokens=ENOUGH)


@check("content.file_read", "SHOULD", _INPUT, model=True)
async def file_read(probe: Probe) -> None:
    """The model is given what the file says."""
    question = "Which animal does the file name? Reply with one word."
    note = "The only animal here is the heron."
    inline = await probe.create(input=[user([text(question), text(note)])], max_output_tokens=ENOUGH)
    if not answers(inline, "heron"):
        raise TooWeak("the model cannot tell it from plain text either")
    response = await probe.create_if_supported("files", input=[user([text(question), text_file(note)])])
    expect(answers(response, "heron"), "the answer does not know what the file says")


@check("content.reference", "SHOULD", _INPUT)
async def reference(probe: Probe) -> None:
    """An `item_reference` stands for an item of a stored response."""
    first = await probe.create(input="Say hello.", max_output_tokens=ENOUGH, store=True)
    known = {"type": "item_reference", "id": first["output"][0]["id"]}
    exchange = await probe.ask(input=[user("Hello."), known, user("Say goodbye.")], max_output_tokens=ENOUGH)
    if exchange.status in (400, 404, 422) and exchange.error is not None:
        raise Skipped(f"capability absent: references to items ({describe_answer(exchange)})")
    respond(exchange)


@check("content.unknown_reference", "SHOULD", _INPUT)
async def unknown_reference(probe: Probe) -> None:
    """A reference to an item that does not exist is refused."""
    await probe.require_refusal(
        input=[{"type": "item_reference", "id": "msg_that_never_was"}, user("Hello.")]
    )


@check("content.vendor_item", "SHOULD", "Extending Items")
async def vendor_item(probe: Probe) -> None:
    """An item of a vendor's own type is taken, or refused as an error of the client."""
    item = {"type": "acme:note", "id": "note_1", "status": "completed", "data": {"any": ["thing"]}}
    await _taken_or_refused(probe, item, user("Say hello."))


@check("content.unknown_item", "MUST", "Schema of ItemParam; Errors")
async def unknown_item(probe: Probe) -> None:
    """An item of a type that the schema does not name never breaks the server."""
    await _taken_or_refused(probe, {"type": "telepathy", "thought": "Hello."}, user("Say hello."))


@check("content.unknown_part", "MUST", "Schema of ItemParam; Errors")
async def unknown_part(probe: Probe) -> None:
    """A content part of a type that the schema does not name never breaks the server."""
    await _taken_or_refused(probe, user([text("Say hello."), {"type": "smell", "data": "x"}]))


async def _taken_or_refused(probe: Probe, *items: Any) -> None:
    exchange = await probe.ask(input=list(items), max_output_tokens=ENOUGH)
    require_contact(exchange)
    if exchange.status == 200:
        respond(exchange)
    else:
        expect(400 <= (exchange.status or 0) < 500, f"it was answered with {describe_answer(exchange)}")


@check("content.orphan_output", "SHOULD", "Schema of FunctionCallOutputItemParam")
async def orphan_output(probe: Probe) -> None:
    """The output of a call that the model did not make is refused."""
    await probe.require_refusal(input=[user("Hello."), output("call_of_nobody")], tools=[WEATHER])


@check("content.unicode", "MUST", "RFC 8259")
async def unicode(probe: Probe) -> None:
    """Text of every script comes through unharmed."""
    mark = "Grüße, 世界, שלום, 🎼\u2028end"
    response = await probe.create(input=[user("Say hello.")], instructions=mark, max_output_tokens=ENOUGH)
    if response.get("instructions") is None:
        raise Skipped("the server does not repeat the instructions, so their text cannot be compared")
    expect(response["instructions"] == mark, "the text came back changed")
