"""A fake upstream for every provider of ours; a type may have more than one, `chat openrouter`."""

from collections.abc import Callable
from functools import partial

from tests.providers.conformance.said import Fake
from tests.providers.fake_anthropic import FakeAnthropic
from tests.providers.fake_azure import FakeAzure
from tests.providers.fake_bedrock import FakeBedrock
from tests.providers.fake_chat import FakeChat, FakeOpenRouter
from tests.providers.fake_gemini import FakeGemini, FakeVertex
from tests.providers.fake_ollama import FakeOllama
from tests.providers.fake_responses import FakeResponses, FakeResponsesSocket
from tests.providers.fake_writer import FakeWriter

FAKES: dict[str, Callable[[], Fake]] = {
    "bedrock": FakeBedrock,
    "azure": FakeAzure,
    "azure v1": partial(FakeAzure, api_version=None),
    "anthropic": FakeAnthropic,
    "chat": FakeChat,
    "chat openrouter": FakeOpenRouter,
    "ollama": FakeOllama,
    "writer": FakeWriter,
    "responses": FakeResponses,
    "responses websocket": FakeResponsesSocket,
    "gemini": FakeGemini,
    "vertex": FakeVertex,
}
