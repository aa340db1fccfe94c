"""Chains of responses: what `previous_response_id` brings along, and what `store: false` forgets.

Whether the context is there is seen first in the count of input tokens, which needs no clever model, and else
in what the model knows. Each is only believed after a control: the same history sent in full.
"""

from typing import Any

from antiphon.compliance.catalog import check
from antiphon.compliance.checks.inputs import ENOUGH, assistant, user
from antiphon.compliance.checks.tools import required_call
from antiphon.compliance.http_exchange import Json, answers, text_of
from antiphon.compliance.probe import (
    Failed,
    NotOffered,
    Probe,
    Skipped,
    TooWeak,
    describe_answer,
    expect,
    refusal,
    respond,
)

_PREVIOUS = "previous_response_id"
_SECRET = "The secret word is heron, and this sentence goes on so that it is not short. Reply with OK."
_QUESTION = "What is the secret word? Reply with that word only."


def _tokens(response: Json) -> int | None:
    count = (response.get("usage") or {}).get("input_tokens")
    return count if isinstance(count, int) else None


async def _create_stored(probe: Probe, **body: Any) -> Json:
    """A stored response, or a skip where the server keeps none."""
    exchange = await probe.ask(store=True, **body)
    response = respond(exchange)
    if response.get("store") is False:
        raise Skipped("capability absent: the server says that it stores nothing")
    return response


async def _continue(probe: Probe, first: Json, words: str) -> Json:
    """The next response of a chain; that there are no chains at all is the matter of `state.previous`."""
    exchange = await probe.ask(input=words, previous_response_id=first["id"], max_output_tokens=ENOUGH)
    if exchange.status is not None and 400 <= exchange.status < 500 and exchange.error is not None:
        raise NotOffered(f"no response can be continued ({describe_answer(exchange)})")
    return respond(exchange)


async def _expect_history(probe: Probe, chained: Json, history: list[Json]) -> None:
    """`chained` answered the question after `history`, of which it was sent only the last."""
    full = await probe.create(input=history, max_output_tokens=ENOUGH)
    alone = await probe.create(input=history[-1:], max_output_tokens=ENOUGH)
    counts = [_tokens(response) for response in (chained, full, alone)]
    if None not in counts:
        ours, wanted, bare = (count or 0 for count in counts)
        if wanted > bare + 10:
            # The model's own words may be counted a little differently when they are sent back.
            expect(
                ours > bare + (wanted - bare) // 2,
                f"the chained request had {ours} input tokens; the whole history has {wanted}, "
                f"the last message alone {bare}",
            )
            return
    if not answers(full, "heron"):
        raise TooWeak("token counts tell nothing, and the model does not know the word from a full history")
    expect(answers(chained, "heron"), "the model does not know what was said before")


@check("state.previous", "MUST", _PREVIOUS, model=True)
async def previous(probe: Probe) -> None:
    """The previous input and output come before the new input."""
    first = await _create_stored(probe, input=_SECRET, max_output_tokens=ENOUGH)
    second = await probe.create(input=_QUESTION, previous_response_id=first["id"], max_output_tokens=ENOUGH)
    expect(second.get("previous_response_id") == first["id"], "the response does not name the previous one")
    history = [user(_SECRET), assistant(text_of(first) or "OK"), user(_QUESTION)]
    await _expect_history(probe, second, history)


@check("state.depth", "MUST", _PREVIOUS, model=True)
async def depth(probe: Probe) -> None:
    """The chain is followed to its beginning."""
    first = await _create_stored(probe, input=_SECRET, max_output_tokens=ENOUGH)
    second = await _continue(probe, first, "Say yes.")
    last = await probe.create(input="Say no.", previous_response_id=second["id"], max_output_tokens=ENOUGH)
    history: list[Json] = []
    for words, response in ((_SECRET, first), ("Say yes.", second), ("Say no.", last)):
        history += [user(words), assistant(text_of(response) or "OK")]
    chained = await probe.create(input=_QUESTION, previous_response_id=last["id"], max_output_tokens=ENOUGH)
    await _expect_history(probe, chained, [*history, user(_QUESTION)])


@check("state.order", "MUST", _PREVIOUS, model=True)
async def order(probe: Probe) -> None:
    """What was said first comes first."""
    question = "Which animal did I name first? Reply with one word."
    history = [
        user("I name an animal: heron."),
        assistant("OK."),
        user("I name another: otter."),
        assistant("OK."),
    ]
    control = await probe.create(input=[*history, user(question)])
    if not answers(control, "heron"):
        raise TooWeak("the model does not know the order from a full history")
    first = await _create_stored(probe, input=history[:2])
    second = await probe.create(input=history[2:], previous_response_id=first["id"])
    third = await probe.create(input=question, previous_response_id=second["id"])
    expect(answers(third, "heron"), f"asked for what was said first, the model says {text_of(third)[:80]!r}")


@check("state.instructions", "SHOULD", "Schema of CreateResponseBody")
async def instructions(probe: Probe) -> None:
    """The instructions of the previous response are not carried over."""
    first = await _create_stored(
        probe, input="Hello.", instructions="Talk like a pirate.", max_output_tokens=ENOUGH
    )
    second = await probe.create(input="Hello.", previous_response_id=first["id"], max_output_tokens=ENOUGH)
    expect(second.get("instructions") is None, f"the instructions are {second.get('instructions')!r}")


@check("state.branches", "SHOULD", _PREVIOUS)
async def branches(probe: Probe) -> None:
    """A response can be continued more than once."""
    first = await _create_stored(probe, input="Hello.", max_output_tokens=ENOUGH)
    ids = {
        (await probe.create(input=words, previous_response_id=first["id"], max_output_tokens=ENOUGH))["id"]
        for words in ("Say yes.", "Say no.")
    }
    expect(len(ids) == 2, "the two continuations have one id")


@check("state.streamed", "MUST", _PREVIOUS, "sse")
async def continue_stream(probe: Probe) -> None:
    """A streamed response can be continued as soon as it has ended."""
    exchange = await probe.stream(input="Hello.", store=True, max_output_tokens=ENOUGH)
    first = exchange.response or {}
    if first.get("store") is False:
        raise Skipped("capability absent: the server says that it stores nothing")
    await _continue(probe, await _create_stored(probe, input="Hello.", max_output_tokens=ENOUGH), "Say yes.")
    await probe.create(input="Say more.", previous_response_id=first.get("id"), max_output_tokens=ENOUGH)


@check("state.unknown", "MUST", _PREVIOUS)
async def unknown(probe: Probe) -> None:
    """A previous response that does not exist is refused."""
    await probe.require_refusal(input="Hello.", previous_response_id="resp_that_never_was")


@check("state.unknown_code", "SHOULD", "Error Types")
async def unknown_code(probe: Probe) -> None:
    """It is HTTP 404 with the code `previous_response_not_found`."""
    exchange = await probe.ask(input="Hello.", previous_response_id="resp_that_never_was")
    error = refusal(exchange)
    expect(exchange.status == 404, f"the status is {exchange.status}")
    expect(error.get("code") == "previous_response_not_found", f"the code is {error.get('code')!r}")


@check("state.not_stored", "MUST", "Schema of CreateResponseBody")
async def not_stored(probe: Probe) -> None:
    """What was not stored cannot be continued over HTTP."""
    first = await probe.create(input="Hello.", store=False, max_output_tokens=ENOUGH)
    exchange = await probe.ask(input="Go on.", previous_response_id=first["id"], max_output_tokens=ENOUGH)
    if exchange.status == 200:
        raise Failed("a response with `store: false` was continued")
    refusal(exchange)


@check("state.ids", "MUST", "Required item fields")
async def ids(probe: Probe) -> None:
    """Every response has an id of its own, and so has every item.

    The id of an item must be its own within one history, so the second answer goes on from the first.
    """
    first = await probe.create(input="Say hello.", max_output_tokens=ENOUGH)
    history = [user("Say hello."), *first["output"], user("Say goodbye.")]
    second = await probe.create(input=history, max_output_tokens=ENOUGH)
    expect(first["id"] != second["id"], "two responses have the same id")
    items = [item.get("id") for response in (first, second) for item in response["output"]]
    expect(len(set(items)) == len(items), f"items of one history share an id: {items}")


@check("state.calls", "MUST", _PREVIOUS, model=True)
async def calls(probe: Probe) -> None:
    """The output of a call may come in the next request of the chain."""
    first, made = await required_call(probe)
    if first.get("store") is False:
        raise Skipped("capability absent: the server says that it stores nothing")
    outputs = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny."} for call in made
    ]
    exchange = await probe.ask(input=outputs, previous_response_id=first["id"], max_output_tokens=ENOUGH)
    if exchange.status != 200:
        raise Failed(f"the output was not taken: {describe_answer(exchange)}")
    respond(exchange)
