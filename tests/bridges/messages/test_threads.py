"""`thread` on `/v1/messages`, as Anthropic's own SDK for Python uses it, unmodified, with every upstream."""

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import beta_async_tool

from tests.bridges.messages.scenes import Json
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import gateway, slug
from tests.providers.conformance.said import Called, Fake, Script, Text, Thought
from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.servers import DEADLINE, Client, Serving, configure
from tests.server.upstream import Upstream

PATH = "/v1/messages"


def calls(id: str = "call_0") -> Script:
    call = Called("get_weather", '{"city": "Paris"}', id)
    return Script((Thought("Paris?", "c2ln"), Text("Let me look."), call), "tool_calls")


CREATE: Json = {"type": "create"}
HELLO: Json = {"model": "model", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}


@beta_async_tool
async def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Where.
    """
    return f"18 °C in {city}"


class Threads:
    """The SDK, a gateway with one wire behind it, and the fake at the end of it."""

    def __init__(self, url: str, wire: str, fake: Fake) -> None:
        self.sdk = anthropic.AsyncAnthropic(base_url=url, api_key="sk-any", max_retries=0, timeout=DEADLINE)
        self.model = slug(wire)
        self.fake = fake
        self.url = url

    def upstream(self) -> list[str]:
        """Every body that the upstream was sent."""
        return [json.dumps(one.body, ensure_ascii=False) for one in self.fake.requests]

    def check(self) -> None:
        """Every request was one of this wire, and none has an id or a word of the gateway's threads."""
        for one in self.fake.requests:
            assert self.fake.mistakes(one) == []
        for body in self.upstream():
            assert "previous_message_id" not in body
            assert '"thread"' not in body


@pytest.fixture(params=FAKES)
async def threads(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Threads]:
    async with gateway(tmp_path, request.param) as made:
        one = Threads(made.url, request.param, made.fakes[request.param])
        yield one
        await one.sdk.close()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_the_tool_runner_of_the_sdk_ends_with_the_answer(threads: Threads, stream: bool) -> None:
    """It sends the result of the tool alone, and the model sees the question and its call as well."""
    # Servers that count their calls from zero say the same id again; those of AWS never do.
    again = calls("call_1" if threads.model == "bedrock" else "call_0")
    threads.fake.plays(calls(), again, Script((Text("18 °C."),)))
    runner: Any = threads.sdk.beta.messages.tool_runner(
        model=threads.model,
        max_tokens=4096,
        system="Be brief.",
        tools=[get_weather],
        messages=[{"role": "user", "content": "Weather in Paris?"}],
        stream=stream,
    )
    last: Any = None
    async for turn in runner:
        last = await turn.get_final_message() if stream else turn
    assert last.content[-1].text == "18 °C."
    first, _, third = threads.upstream()
    assert "Be brief." in first
    for said in ("Be brief.", "Weather in Paris?", "Let me look.", "The weather of a city."):
        assert said in third
    assert third.count("18 °C in Paris") == 2
    threads.check()


async def test_a_thread_sends_only_what_is_new_and_the_model_sees_it_all(threads: Threads) -> None:
    threads.fake.plays(*(Script((Text(said),)) for said in ("Hello, Ann.", "Ann.", "You are welcome.")))
    thread = threads.sdk.beta.messages.thread(model=threads.model, max_tokens=4096, system="Be brief.")
    first = await thread.send({"role": "user", "content": "I am Ann."})
    assert thread.previous_message_id == first.id
    await thread.send({"role": "user", "content": "Who am I?"})
    async with thread.stream({"role": "user", "content": "Thanks."}) as told:
        last = await told.get_final_message()
    assert last.content[0].text == "You are welcome."  # type: ignore[union-attr]
    third = threads.upstream()[-1]
    for said in ("Be brief.", "I am Ann.", "Hello, Ann.", "Who am I?", "Ann.", "Thanks."):
        assert third.count(f'"{said}"') == 1, said
    threads.check()


# --- what the SDK recovers from ---------------------------------------------------------------------------


async def test_the_sdk_sends_everything_again_when_a_message_of_its_thread_is_deleted(tmp_path: Path) -> None:
    async with gateway(tmp_path, "chat") as made:
        threads = Threads(made.url, "chat", made.fakes["chat"])
        threads.fake.plays(Script((Text("Hello."),)), Script((Text("Ann."),)), Script((Text("Bye."),)))
        thread = threads.sdk.beta.messages.thread(model="chat", max_tokens=99)
        first = await thread.send({"role": "user", "content": "I am Ann."})
        with Client(made.url) as client:
            path = f"/v1/responses/resp_{first.id.removeprefix('msg_')}"
            await asyncio.to_thread(client.ok, "DELETE", path)
        second = await thread.send({"role": "user", "content": "Who am I?"})
        assert second.content[0].text == "Ann."  # type: ignore[union-attr]
        assert "I am Ann." in threads.upstream()[-1]
        assert thread.previous_message_id == second.id
        await thread.send({"role": "user", "content": "Bye."})
        assert "I am Ann." in threads.upstream()[-1]
        await threads.sdk.close()


async def test_the_tool_runner_goes_on_without_a_thread_where_nothing_is_stored(tmp_path: Path) -> None:
    async with gateway(tmp_path, "chat") as made:
        threads = Threads(made.url, "chat", made.fakes["chat"])
        threads.fake.plays(calls(), Script((Text("18 °C."),)))
        runner = threads.sdk.beta.messages.tool_runner(
            model="chat",
            max_tokens=4096,
            tools=[get_weather],
            messages=[{"role": "user", "content": "Weather in Paris?"}],
            extra_body={"store": False},
        )
        last = await runner.until_done()
        assert last.content[-1].text == "18 °C."  # type: ignore[union-attr]
        assert "Weather in Paris?" in threads.upstream()[-1]
        with Client(made.url) as client:
            path = f"/v1/responses/resp_{last.id.removeprefix('msg_')}"
            await asyncio.to_thread(client.refused, 404, "GET", path)
        await threads.sdk.close()


# --- what is refused, and how -----------------------------------------------------------------------------


def details(client: Client, status: int, **body: Any) -> tuple[str, str, str]:
    """The `error_code` that clients act on, the type, and the parameter of a refusal."""
    answer = client.post(PATH, json={**HELLO, **body})
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    return error.get("details", {}).get("error_code", ""), error["type"], error["param"]


def test_a_message_that_is_not_there_is_no_thread(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml).client()
    for id in ("msg_nothing", "resp_nothing", "", "msg_", "x" * 5000):
        found = details(client, 404, thread={"type": "continue", "previous_message_id": id})
        assert found == ("thread_not_found", "not_found_error", "thread.previous_message_id"), id
    stream = details(client, 404, stream=True, thread={"type": "continue", "previous_message_id": "msg_0"})
    assert stream[0] == "thread_not_found"


def test_the_tokens_of_a_thread_that_is_not_there_are_not_counted(serve: Serve, upstream: Upstream) -> None:
    """The refusal named a response, of which clients of this API know nothing."""
    client = serve(upstream.toml).client()
    thread = {"type": "continue", "previous_message_id": "msg_nothing"}
    error = client.refused(404, "POST", f"{PATH}/count_tokens", json={**HELLO, "thread": thread})
    assert (error["details"]["error_code"], error["param"]) == (
        "thread_not_found",
        "thread.previous_message_id",
    )


def test_a_thread_of_another_tenant_is_not_found(serve: Serve, upstream: Upstream) -> None:
    serving = serve(f"{upstream.toml}\n{key_table('ann')}{key_table('bob')}")
    ann, bob = (serving.client(f"sk-{name}") for name in ("ann", "bob"))
    made = _answered(ann, upstream, "Hello.", **HELLO, thread=CREATE)
    asked = {"type": "continue", "previous_message_id": made["id"]}
    assert details(bob, 404, thread=asked)[0] == "thread_not_found"
    assert _answered(ann, upstream, "Yes.", **HELLO, thread=asked)["content"][0]["text"] == "Yes."


def test_a_thread_that_cannot_be_kept_is_refused_in_words_that_clients_act_on(
    serve: Serve, upstream: Upstream
) -> None:
    client = serve(upstream.toml).client()
    for thread in (CREATE, {"type": "continue", "previous_message_id": "msg_0"}):
        found = details(client, 400, thread=thread, store=False)
        assert found == ("thread_unsupported_request", "invalid_request_error", "thread")


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"thread": {"type": "fork"}}, "thread.type"),
        ({"thread": {}}, "thread.type"),
        ({"thread": 5}, "thread"),
        ({"thread": {"type": "continue"}}, "thread.previous_message_id"),
        ({"thread": {"type": "continue", "previous_message_id": 5}}, "thread.previous_message_id"),
        ({"thread": CREATE, "messages": []}, "messages"),
    ],
)
def test_a_thread_that_is_none_is_refused(serve: Serve, upstream: Upstream, more: Json, param: str) -> None:
    client = serve(upstream.toml).client()
    assert details(client, 400, **more) == ("", "invalid_request_error", param)


def test_the_instructions_and_the_tools_of_a_thread_stay(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml).client()
    tool = {"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
    made = _answered(client, upstream, "Hello.", **HELLO, thread=CREATE, tools=[tool], system="Be brief.")
    thread = {"type": "continue", "previous_message_id": made["id"]}
    for name, value in {"system": "Be long.", "tools": [tool]}.items():
        found = details(client, 400, thread=thread, **{name: value})
        assert found == ("thread_fingerprint_mismatch", "invalid_request_error", name)
    unknown = details(client, 400, thread=thread, tool_choice={"type": "tool", "name": "g"})
    assert unknown == ("", "invalid_request_error", "tool_choice.name")
    asked = _asked(client, upstream, **HELLO, thread=thread, tool_choice={"type": "none"})
    assert [one["function"]["name"] for one in asked["tools"]] == ["f"]
    assert asked["tool_choice"] == "none"
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_thread_goes_on_without_a_new_message(serve: Serve, upstream: Upstream) -> None:
    """So a turn is resumed that the provider has paused."""
    client = serve(upstream.toml).client()
    made = _answered(client, upstream, "Hello.", **HELLO, thread=CREATE)
    thread = {"type": "continue", "previous_message_id": made["id"]}
    asked = _asked(client, upstream, **{**HELLO, "messages": []}, thread=thread)
    assert [one["role"] for one in asked["messages"]] == ["user", "assistant"]


def test_a_thread_that_is_sent_again_with_its_key_gets_the_same_message(
    serve: Serve, upstream: Upstream
) -> None:
    client = serve(upstream.toml).client()
    made = _answered(client, upstream, "Hello.", **HELLO, thread=CREATE)
    client.headers["Idempotency-Key"] = "once"
    thread = {"type": "continue", "previous_message_id": made["id"]}
    first = _answered(client, upstream, "Yes.", **HELLO, thread=thread)
    again = client.ok("POST", PATH, json={**HELLO, "thread": thread})
    assert again["id"] == first["id"]


def test_a_thread_lasts_as_long_as_what_is_stored(tmp_path: Path, upstream: Upstream) -> None:
    """A message that has expired, or was left in the middle, is no thread any more."""
    config = configure(tmp_path, upstream.toml, STORE__TTL="1h")
    with Serving(config) as serving:
        now = serving.gateway.engine.clock()
        client = serving.client()
        made = _answered(client, upstream, "Hello.", **HELLO, thread=CREATE)
        thread = {"type": "continue", "previous_message_id": made["id"]}
        assert _answered(client, upstream, "Yes.", **HELLO, thread=thread)["stop_reason"] == "end_turn"
        serving.call(serving.gateway.store.prune(now + 7200))
        assert details(client, 404, thread=thread)[0] == "thread_not_found"


def _asked(client: Client, upstream: Upstream, **body: Any) -> Json:
    """What the upstream is asked for this request, which it answers."""
    return _exchanged(client, upstream, "Fine.", body)[0]


def _answered(client: Client, upstream: Upstream, text: str, **body: Any) -> Json:
    return _exchanged(client, upstream, text, body)[1]


def _exchanged(client: Client, upstream: Upstream, text: str, body: Json) -> tuple[Json, Json]:
    with ThreadPoolExecutor(1) as apart:
        answer = apart.submit(client.ok, "POST", PATH, json=body)
        call = upstream.next()
        call.finish(text)
        return call.body, answer.result()


# --- the embedded model -----------------------------------------------------------------------------------


@pytest.mark.embedded
def test_the_tool_runner_and_a_thread_with_the_embedded_model(tmp_path: Path) -> None:
    config = configure(tmp_path, "", LOCAL__ENABLED="true")
    with Serving(config) as serving:
        sdk = anthropic.Anthropic(base_url=serving.url, api_key="sk-any", max_retries=0, timeout=120)
        asked: list[str] = []

        @anthropic.beta_tool
        def get_weather(city: str) -> str:
            """The weather of a city.

            Args:
                city: Where.
            """
            asked.append(city)
            return "18 degrees"

        runner = sdk.beta.messages.tool_runner(
            model="smollm2-135m-instruct",
            max_tokens=200,
            extra_body={"temperature": 0},
            tools=[get_weather],
            tool_choice={"type": "any"},
            messages=[{"role": "user", "content": "What's the weather like in Paris?"}],
            max_iterations=2,
        )
        turns = list(runner)
        assert [turn.stop_reason for turn in turns] == ["tool_use", "tool_use"]
        assert len(asked) >= 1
        thread = sdk.beta.messages.thread(model="smollm2-135m-instruct", max_tokens=16)
        first = thread.send({"role": "user", "content": "Say hello."})
        second = thread.send({"role": "user", "content": "Again."})
        assert second.usage.cache_read_input_tokens or second.usage.input_tokens > first.usage.input_tokens
        whole = sdk.beta.messages.count_tokens(
            model="smollm2-135m-instruct", messages=list(thread.messages)[:3]
        )
        seen = second.usage.input_tokens + (second.usage.cache_read_input_tokens or 0)
        assert seen == whole.input_tokens
        sdk.close()
