"""What the Messages API has beside a message: the count of its tokens."""

from antiphon.bridges.messages.body import MessagesBody
from antiphon.bridges.messages.door import MESSAGES
from antiphon.engine import token_counts
from antiphon.engine.capabilities import estimated_tokens
from antiphon.engine.token_counts import turn_to_count
from antiphon.providers.base import Turn, UpstreamError
from antiphon.server.api.messages import MessageEvent, MessageObject, MessageTokens
from antiphon.server.doors import door_endpoint
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.spec.content import InputFile, InputImage
from antiphon.spec.items import parts_of

_OF_A_PICTURE = 1_600
"""How many tokens a picture or a file is taken for where nobody counts them."""


async def count_tokens(gateway: Gateway, exchange: Exchange) -> MessageTokens:
    """Nothing is generated. Where the provider cannot count, the number is an estimate: a token for four
    characters, and 1,600 for each picture or file.
    """
    read = MESSAGES.reader_to_count(exchange.head.headers)
    asked = await exchange.decode_body(read, gateway.config.server.body_limit)
    exchange.param = asked.param
    run = exchange.new_run(gateway, "input_tokens", MESSAGES.context(asked, exchange.context))
    turn = await turn_to_count(gateway.engine, asked.request, run)
    try:
        count = await token_counts.count_tokens(run, turn)
    except UpstreamError:
        count = None
    return MessageTokens(input_tokens=_estimate(turn) if count is None else count)


def _estimate(turn: Turn) -> int:
    parts = [part for item in turn.items for part in parts_of(item)[1]]
    pictures = sum(isinstance(part, InputImage | InputFile) for part in parts)
    return estimated_tokens(turn) + _OF_A_PICTURE * pictures


ENDPOINTS = (
    door_endpoint(
        MESSAGES,
        "createMessage",
        "Create a message",
        "The body and the answer are those of the Messages API, plain or streamed. The run is stored: with "
        "`resp_` in the place of `msg_` the message's id is that of a response, which `POST /v1/responses` "
        "can continue, and `thread` continues it here. Fields and betas that are not known are carried to "
        "providers of the same API.",
        body=MessagesBody,
        narrows={"required": ["max_tokens"], "properties": {"max_tokens": {"type": "integer"}}},
        answer=MessageObject,
        streams=True,
        stream=MessageEvent,
        errors=(402, 529),
    ),
    Endpoint(
        "POST /v1/messages/count_tokens",
        count_tokens,
        "countMessageTokens",
        "Count the tokens of a message",
        body=MessagesBody,
        door=MESSAGES,
        errors=(404, 502, 504),
    ),
)
