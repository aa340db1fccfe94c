"""Provider, router and client of Vértice, over a real gateway and over servers that fail."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from antiphon.client import Client, ResponseFailed, Retries, UsageError
from antiphon.stream.auditor import audit, audit_sse
from antiphon.vertice import (
    LLMClient,
    LLMClientWithOpenResponsesProtocol,
    OpenResponsesEvent,
    SpeedRequirement,
    TaskComplexity,
    VertexAIProvider,
    VerticeRouter,
)
from tests.client.scripted_server import PATIENT, Player, composed, error, events, say
from tests.client.test_gateway import script
from tests.providers.fake_server import Received
from tests.server.servers import Serving, configure

HELLO = [{"role": "user", "content": "Say hello."}]
FAILS = [
    {"role": "user", "content": script([{"text": "so far"}, {"error": {"message": "no", "status": 500}}])}
]


@pytest.fixture
def provider(sync_client: Client) -> VertexAIProvider:
    return VertexAIProvider("demo", client=sync_client)


async def told(stream: AsyncIterator[str]) -> list[str]:
    return [text async for text in stream]


def data(text: str) -> dict[str, Any]:
    """The last event in a text of several."""
    lines = [line for line in text.splitlines() if line.startswith("data: ")]
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("data: "))
    return found


async def test_a_provider_streams_from_created_to_done(provider: VertexAIProvider) -> None:
    assert isinstance(provider, LLMClientWithOpenResponsesProtocol)
    events = await told(provider.stream_open_responses(HELLO))
    assert any("response.created" in text for text in events)
    assert any("response.output_text.delta" in text for text in events)
    assert any("response.completed" in text for text in events)
    assert events[-1] == "data: [DONE]\n\n"
    assert audit_sse("".join(events).encode()) == []


async def test_the_id_is_the_servers_so_a_response_can_be_continued(
    provider: VertexAIProvider, sync_client: Client
) -> None:
    events = await told(provider.stream_open_responses(HELLO, "Be brief.", max_tokens=99, temperature=0.1))
    response = data(events[-2])["response"]
    assert sync_client.responses.retrieve(response["id"]).output_text == "Say hello."
    assert (response["instructions"], response["max_output_tokens"]) == ("Be brief.", 99)
    assert response["temperature"] == 0.1
    more = await told(provider.stream_open_responses(HELLO, previous_response_id=response["id"]))
    assert data(more[-2])["response"]["previous_response_id"] == response["id"]


async def test_words_alone(provider: VertexAIProvider) -> None:
    assert await provider.generate("one two") == "one two"
    assert "".join([words async for words in provider.stream("one two")]) == "one two"
    assert "".join([words async for words in provider.stream_chat(HELLO)]) == "Say hello."
    assert provider.get_model_info() == {"model": "demo"}
    with pytest.raises(ResponseFailed, match="no"):
        await told(provider.stream_chat(FAILS))


async def test_a_failure_of_the_model_is_the_servers_own(provider: VertexAIProvider) -> None:
    events = await told(provider.stream_open_responses(FAILS))
    assert audit_sse("".join(events).encode()) == []
    failed = data(events[-2])
    assert failed["type"] == "response.failed"
    assert failed["error"] == failed["response"]["error"]


async def failing(*replies: Any) -> list[str]:
    async with Player(*replies) as server:
        retries = Retries(times=0)
        with Client(server.base_url, "", timeouts=PATIENT, retries=retries, trust_env=False) as client:
            return await told(VertexAIProvider("m", client=client).stream_open_responses(HELLO))


async def test_a_server_that_refuses_ends_the_stream_with_a_failed_response() -> None:
    events = await failing(error(400, "invalid_request", "there is no model m"))
    assert audit_sse("".join(events).encode()) == []
    failed = data(events[-2])
    assert failed["response"]["error"]["code"] == "generation_failed"
    assert "there is no model m" in failed["response"]["error"]["message"]
    assert events[-1] == "data: [DONE]\n\n"


@pytest.mark.parametrize("sent", range(1, 7))
async def test_a_stream_that_breaks_is_closed_where_it_stands(sent: int) -> None:
    """After any number of events: what is open ends, the numbers go on, and the id stays the server's."""
    response, pieces = composed(say("Hel", "lo"))

    def broken(_: Received) -> Any:
        return events([b"".join(pieces[:sent])])

    text = "".join(await failing(broken))
    assert audit_sse(text.encode()) == []
    assert f'"id":"{response.id}"' in text
    assert text.count("event: response.created") == 1
    assert data(text.removesuffix("data: [DONE]\n\n"))["response"]["error"]["code"] == "generation_failed"


async def test_a_stream_that_breaks_after_its_end_has_one_end() -> None:
    _, pieces = composed(say("Hello"))
    text = "".join(await failing(events([b"".join(pieces)])))
    assert audit_sse(text.encode()) == []
    assert text.count("event: response.completed") == 1
    assert "response.failed" not in text


def test_what_is_available(provider: VertexAIProvider, sync_client: Client) -> None:
    assert provider.is_available()
    assert not VertexAIProvider("unheard-of", client=sync_client).is_available()
    router = VerticeRouter(client=sync_client)
    assert router.is_available()
    assert router.get_available_providers() == ["demo"]


def test_nothing_is_available_where_nobody_answers() -> None:
    with Client("http://127.0.0.1:9/v1", "", retries=Retries(times=0), trust_env=False) as client:
        assert not VertexAIProvider("demo", client=client).is_available()
        assert VerticeRouter(client=client).get_available_providers() == []


async def test_a_router_leaves_the_choice_to_the_server(sync_client: Client) -> None:
    events = await told(VerticeRouter(client=sync_client).stream_open_responses(HELLO))
    assert data(events[-2])["response"]["model"] == "demo"
    assert "[DONE]" in events[-1]


ROUTED = """
default_model = "any"
[providers.small]
type = "script"
[providers.large]
type = "script"
[models]
any = ["small/m", "large/m"]
[routes.any]
strategy = "tiers"
retries = 1
"""


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(configure(tmp_path_factory.mktemp("routed"), ROUTED)) as serving:
        yield serving


@pytest.fixture
def router(routed: Serving) -> Iterator[VerticeRouter]:
    with Client(f"{routed.url}/v1", timeouts=PATIENT, trust_env=False) as client:
        yield VerticeRouter(client=client)


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ((TaskComplexity.SIMPLE, SpeedRequirement.NORMAL), "small/m"),
        ((TaskComplexity.CRITICAL, SpeedRequirement.NORMAL), "large/m"),
        (("critical", "normal"), "large/m"),
        (("simple",), "small/m"),
        ((), "small/m"),
    ],
)
async def test_complexity_and_speed_choose_where_the_servers_model_is_a_route(
    router: VerticeRouter, task: tuple[Any, ...], model: str
) -> None:
    """In the order of that document: messages, system prompt, complexity, speed."""
    assert isinstance(router, LLMClientWithOpenResponsesProtocol)
    events = await told(router.stream_open_responses(HELLO, "Be brief.", *task, max_tokens=99))
    assert audit_sse("".join(events).encode()) == []
    response = data(events[-2])["response"]
    assert (response["model"], response["instructions"]) == (model, "Be brief.")
    assert response["max_output_tokens"] == 99


async def test_a_client_reads_a_router_as_it_reads_a_provider(router: VerticeRouter) -> None:
    found = [event async for event in LLMClient(router).stream_open_responses(HELLO, complexity="critical")]
    assert found[-1].data["response"]["model"] == "large/m"
    assert router.get_available_providers() == ["large", "small"]


async def test_a_word_for_a_task_that_is_none_is_refused(router: VerticeRouter) -> None:
    with pytest.raises(UsageError, match="there is no TaskComplexity 'hard'; there are 'simple', "):
        await told(router.stream_open_responses(HELLO, complexity="hard"))
    with pytest.raises(UsageError, match="there is no SpeedRequirement 'warp'"):
        await told(router.stream_open_responses(HELLO, speed="warp"))


@pytest.mark.parametrize("steps", [[], [{"text": "so far"}]], ids=["before the first word", "after it"])
async def test_a_router_says_that_a_provider_failed(router: VerticeRouter, steps: list[Any]) -> None:
    fails = script([*steps, {"error": {"message": "out of order", "status": 500}}])
    events = await told(router.stream_open_responses([{"role": "user", "content": fails}]))
    assert audit_sse("".join(events).encode()) == []
    assert [text.count("event: response.created") for text in events].count(1) == 1
    error = data(events[-2])["response"]["error"]
    assert (error["code"], error["message"]) == ("provider_failed", "out of order")


# --- reading ----------------------------------------------------------------------------------------------


async def test_a_client_reads_events(provider: VertexAIProvider) -> None:
    found = [event async for event in LLMClient(provider).stream_open_responses(HELLO)]
    assert found[0].event_type == "response.created"
    assert "".join(event.delta_text for event in found if event.is_text_delta) == "Say hello."
    assert [event.is_done for event in found] == [False] * (len(found) - 1) + [True]
    assert audit([event.data for event in found]) == []
    numbers = [event.sequence_number for event in found]
    assert numbers == sorted(set(numbers))


def test_an_event_knows_what_it_is() -> None:
    delta = OpenResponsesEvent("response.output_text.delta", 3, {"delta": "x"})
    assert (delta.is_text_delta, delta.delta_text, delta.is_done) == (True, "x", False)
    done = OpenResponsesEvent("response.completed", 4, {"delta": "x"})
    assert (done.is_text_delta, done.delta_text, done.is_done) == (False, "", True)


class Lines(LLMClient):
    """A client that has its lines from elsewhere."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def _stream_raw_sse(self, messages: Any, **options: Any) -> AsyncIterator[str]:
        for line in self._text.split("\n"):
            yield line


SPELLINGS = (
    ": a comment\n"
    "event:response.created\n"
    'data:{"sequence_number":1}\n\n'
    "event: response.output_text.delta\r\n"
    'data: {"delta":\r\n'
    'data: "é"}\r\n\r\n'
    'data: {"type":"response.in_progress","sequence_number":"many"}\n\n'
    "data: not json\n\n"
    "data: [1]\n\n"
    "data: {}\n\n"
    "data: [DONE]\n\n"
    'data: {"type":"never"}\n\n'
)
READ = [
    OpenResponsesEvent("response.created", 1, {"sequence_number": 1}),
    OpenResponsesEvent("response.output_text.delta", 0, {"delta": "é"}),
    OpenResponsesEvent(
        "response.in_progress", 0, {"type": "response.in_progress", "sequence_number": "many"}
    ),
    OpenResponsesEvent("unknown", 0, {}),
]


async def test_lines_of_any_spelling_are_read() -> None:
    assert [event async for event in Lines(SPELLINGS).stream_open_responses([])] == READ


class Pieces:
    """A provider whose texts are cut anywhere."""

    def __init__(self, *pieces: str) -> None:
        self._pieces = pieces

    async def stream_open_responses(self, messages: Any, **options: Any) -> AsyncIterator[str]:
        for piece in self._pieces:
            yield piece


async def read(*pieces: str) -> list[OpenResponsesEvent]:
    provider: Any = Pieces(*pieces)
    return [event async for event in LLMClient(provider).stream_open_responses([])]


async def test_a_text_may_be_cut_at_every_place() -> None:
    for at in range(len(SPELLINGS) + 1):
        assert await read(SPELLINGS[:at], SPELLINGS[at:]) == READ, at
    assert await read(*SPELLINGS) == READ
    assert await read("".join(SPELLINGS.partition("data: [DONE]")[:1]), "data: [DONE]") == READ


async def test_a_server_may_send_byte_by_byte() -> None:
    """Every byte in a write of its own, those of one character too."""
    _, pieces = composed(say("Hé", "llo 👋"))
    stream = b"".join(pieces)
    async with Player(events([bytes([byte]) for byte in stream])) as server:
        with Client(server.base_url, "", timeouts=PATIENT, trust_env=False) as client:
            reading = LLMClient(VertexAIProvider("m", client=client)).stream_open_responses(HELLO)
            found = [event async for event in reading]
    assert "".join(event.delta_text for event in found) == "Héllo 👋"
    assert audit([event.data for event in found]) == []
    assert found[-1].is_done
