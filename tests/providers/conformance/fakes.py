"""A fake upstream for every provider of ours; a type may have more than one, `chat openrouter`."""

from collections.abc import Callable
from functools import partial

from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.azure.fake import FakeAzure
from tests.providers.bedrock.fake import FakeBedrock
from tests.providers.chat.fake import FakeChat, FakeOpenRouter
from tests.providers.conformance.said import Fake
from tests.providers.gemini.fake import FakeGemini, FakeVertex
from tests.providers.ollama.fake import FakeOllama
from tests.providers.responses.fake import FakeResponses, FakeResponsesSocket
from tests.providers.writer.fake import FakeWriter

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
