"""The embedded model as a provider: the real model, small answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import LlamaProvider, Local, Timeouts
from antiphon.embedded.process import available
from antiphon.providers.base import Environment, Turn
from antiphon.providers.errors import unsupported
from antiphon.providers.http import UpstreamClient
from antiphon.providers.llama import Llama, make
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.items import FunctionCall, Message
from antiphon.spec.opaque import encode
from antiphon.spec.response import Response
from antiphon.stream.auditor import audit
from antiphon.stream.composer import Composer

pytestmark = pytest.mark.embedded

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}
CLOCK = {"type": "function", "name": "get_time", "description": "Get the current time in a time zone"}
PICTURE = "data:image/gif;base64,R0lGODlhAQABAAAAACw="


@asynccontextmanager
async def llama(folder: Path, **settings: Any) -> AsyncIterator[Llama]:
    http = UpstreamClient()
    environment = Environment(http=http, timeouts=Timeouts(), local=Local(**settings), folder=folder)
    provider = make("local", LlamaProvider(type="llama"), environment)
    yield provider
    await provider.close()
    await http.close()


@pytest.fixture(scope="module")
def loop() -> AsyncIterator[asyncio.AbstractEventLoop]:  # type: ignore[misc]
    loop = asyncio.new_event_loop()
    yield loop  # type: ignore[misc]
    loop.close()
