"""`POST /v1/alpha/search`: the searches that Codex makes beside its responses."""

from contextlib import suppress

from antiphon.engine.attempt import open_run
from antiphon.server.api.objects import StandaloneSearchAnswer
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.decode import decode_items
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item, Message
from antiphon.tools.web_search.standalone import StandaloneSearch, StandaloneSearchBody
from antiphon.tools.web_search.tool import WebSearch

_SEARCH = Opaque.make(type="web_search")


async def create(gateway: Gateway, exchange: Exchange, body: StandaloneSearchBody) -> StandaloneSearchAnswer:
    """Searches that Codex makes beside its responses, with `supports_standalone_web_search`. A failure
    is described in `output`, for the model.
    """
    exchange.watch()
    tool, context = gateway.engine.hosted.tools["web_search"], exchange.context
    assert isinstance(tool, WebSearch)
    if why := gateway.engine.hosted.refusal(tool, _SEARCH, "commands", context.key):
        output = f"The web cannot be searched here: {why}."
    else:
        async with open_run(exchange.new_run(gateway, "search")) as upstreams:
            output = await StandaloneSearch(tool, upstreams).answer(
                body, _read_conversation(body), context.tenant
            )
    return StandaloneSearchAnswer(output=output)


def _read_conversation(body: StandaloneSearchBody) -> list[Item]:
    """The conversation, as far as it was sent."""
    if isinstance(body.input, str):
        return [Message(role="user", content=body.input)]
    with suppress(SpecError):  # it only says which addresses were named
        return decode_items(encode(body.input or []))
    return []


ENDPOINTS = (Endpoint("POST /v1/alpha/search", create, "createSearch", "Create a web search of Codex"),)
