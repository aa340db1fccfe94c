"""The JSON body of a request, read into a Struct."""

from functools import partial
from typing import TypeVar

import msgspec

from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.spec.decode import decode_body
from antiphon.spec.errors import SpecError

B = TypeVar("B", bound=msgspec.Struct)


async def json_body(gateway: Gateway, exchange: Exchange, kind: type[B], *, optional: bool = False) -> B:
    """What was sent; where it is optional, nothing stands for a Struct of defaults."""
    try:
        return await exchange.decoded(partial(decode_body, kind), gateway.config.server.body_limit)
    except SpecError as error:
        if not optional or error.payload.code != "no_body":
            raise
        return kind()
