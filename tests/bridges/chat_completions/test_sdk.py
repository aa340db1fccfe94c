"""The unmodified `openai` package, chat completions plain and streamed, over the fake of every provider."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.lib.streaming._deltas import accumulate_delta
from openai.types.chat import ChatCompletion
from pydantic import BaseModel

from tests.providers.conformance import scenarios
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import Gateway, gateway, slug
from tests.providers.conformance.own_answers import OWN, PAGE
from tests.providers.conformance.said import Called, Counted, Redacted, Refused, Saying, Script, Text, Thought
from tests.server.servers import DEADLINE

Json = dict[str, Any]
LACKS = {wire: make().lacks for wire, make in FAKES.items()}
PROVING = [wire for wire in FAKES if "signed reasoning" not in LACKS[wire]]
ASKED = {"role": "user", "content": "What is the weather?"}
WEATHER = {
    "type": "function",
    "function": {key: scenarios.WEATHER[key] for key in ("name", "description", "parameters")},
}
SQL = {
    "type": "custom",
    "custom": {
        "name": "run_sql",
        "description": "Runs a query.",
        "format": {
            "type": "grammar",
            "grammar": {"syntax": "lark", "definition": 'start: "SELECT" /.+/'},
        },
    },
}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
EVERY = pytest.mark.parametrize("wire", FAKES)


class Asking:
    """The package, pointed at a gateway in front of one fake."""

    def __init__(self, asked: Gateway, wire: str, client: AsyncOpenAI) -> None:
        self.fake = asked.fakes[wire]
        self.wire = wire
        self.client = client

    async def ask(self, stream: bool, **request: Any) -> ChatCompletion:
        """The answer, put together by the package where it comes in chunks."""
        request = {"model": slug(self.wire), "messages": [ASKED], **request}
        if not stream:
            answer: ChatCompletion = await self.client.chat.completions.create(**request)
        else:
            answer = await self._listen(request)
        assert self.fake.mistakes(self.fake.requests[-1]) == []
        assert (len(answer.choices), answer.choices[0].index) == (1, 0)
        assert answer.choices[0].message.role == "assistant"
        return answer

    async def _listen(self, request: Json) -> ChatCompletion:
        options = {"include_usage": True}
        whole: Json = {}
        message: dict[object, object] = {}
        finish = None
        client: Any = self.client  # whose overloads know no dictionary of parameters
        async with await client.chat.completions.create(
            **request, stream=True, stream_options=options
        ) as chunks:
            async for chunk in chunks:
                whole = {**chunk.to_dict(), "object": "chat.completion"}
                for choice in chunk.choices:
                    assert finish is None
                    message = accumulate_delta(message, choice.delta.to_dict())
                    finish = choice.finish_reason
        assert not whole["usage"] or whole["choices"] == [], "the last chunk has the usage alone"
        whole["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
        return ChatCompletion.model_validate(whole)

    def sent(self) -> str:
        return json.dumps(self.fake.requests[-1].body, ensure_ascii=False)


@asynccontextmanager
async def asking(folder: Path, wire: str) -> AsyncIterator[Asking]:
    async with (
        gateway(folder, wire) as asked,
        AsyncOpenAI(
            base_url=f"{asked.url}/v1",
            api_key="any",
            max_retries=0,
            timeout=DEADLINE,
            default_headers={"X-Antiphon-Receipts": "1"},
        ) as client,
    ):
        yield Asking(asked, wire, client)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def back(answer: ChatCompletion) -> Json:
    """The message as a program appends it."""
    return answer.choices[0].message.model_dump(exclude_unset=True)


@EVERY
@BOTH
async def test_what_a_model_says(wire: str, stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, wire) as client:
        fake, lacks = client.fake, LACKS[wire]
        fake.plays(Script((Text("Grüße, 世界 🎼"),), usage=Counted(cached=3)))
        answer = await client.ask(stream, max_tokens=100, temperature=0.5)
        choice = answer.choices[0]
        assert (choice.message.content, choice.finish_reason) == ("Grüße, 世界 🎼", "stop")
        assert (answer.model, answer.id[:5]) == (slug(wire), "resp_")
        assert answer.usage is not None
        assert answer.usage.total_tokens == 29
        assert answer.usage.prompt_tokens_details is not None
        assert answer.usage.prompt_tokens_details.cached_tokens == (0 if "cached tokens" in lacks else 3)
        if "length" not in lacks:
            fake.plays(Script((Text("Once upon a time"),), "length"))
            cut = (await client.ask(stream)).choices[0]
            assert (cut.message.content, cut.finish_reason) == ("Once upon a time", "length")
        if "filter" not in lacks:
            fake.plays(Script((Text("Once upon a time"),), "content_filter"))
            assert (await client.ask(stream)).choices[0].finish_reason == "content_filter"
        if "refusal" not in lacks:
            fake.plays(Script((Refused("I cannot help with that."),)))
            refused = (await client.ask(stream)).choices[0].message
            assert "I cannot help" in (refused.refusal or refused.content or "")
        if "reasoning" not in lacks:
            fake.plays(Script((Thought("Let me think."), Text("Done."))))
            thought = (await client.ask(stream, reasoning_effort="low")).choices[0].message
            assert (getattr(thought, "reasoning_content", None), thought.content) == (
                "Let me think.",
                "Done.",
            )


@EVERY
@BOTH
async def test_tool_loops(wire: str, stream: bool, tmp_path: Path) -> None:
    """Parallel calls of both kinds, results, and the proofs that models want back with them."""
    async with asking(tmp_path, wire) as client:
        signed = Thought("Where?", scenarios_signature()) if wire in PROVING else None
        calls = (
            Called("get_weather", scenarios.PARIS, "call_a"),
            Called("run_sql", json.dumps({"input": "SELECT 1"}), "call_b"),
        )
        said: tuple[Saying, ...] = calls if signed is None else (signed, *calls)
        client.fake.plays(Script(said, "tool_calls"), Script((Text("It rains."),)))
        more: Json = {"tools": [WEATHER, SQL], "reasoning_effort": "low"}
        first = await client.ask(stream, **more)
        choice = first.choices[0]
        assert choice.finish_reason == "tool_calls"
        found = choice.message.tool_calls or []
        one, other = found
        assert one.type == "function"
        assert (one.function.name, json.loads(one.function.arguments)) == ("get_weather", {"city": "Paris"})
        assert other.type == "custom"
        assert (other.custom.name, other.custom.input) == ("run_sql", "SELECT 1")
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": f"Result {n}."}
            for n, call in enumerate(found)
        ]
        second = await client.ask(stream, messages=[ASKED, back(first), *results], **more)
        assert second.choices[0].message.content == "It rains."
        body = client.sent()
        assert all(word in body for word in ("Result 0.", "Result 1.", "SELECT 1", "Paris"))
        if signed is not None:
            assert body.count(signed.signature) == 1
            assert signed.signature not in first.model_dump_json(), "the client sees only a seal"


def scenarios_signature() -> str:
    proof = scenarios.PROOFS["signed reasoning"]
    assert isinstance(proof, Thought)
    return proof.signature


@pytest.mark.parametrize("wire", [wire for wire in PROVING if "redacted reasoning" not in LACKS[wire]])
async def test_redacted_reasoning_goes_back(wire: str, tmp_path: Path) -> None:
    proof = scenarios.PROOFS["redacted reasoning"]
    assert isinstance(proof, Redacted)
    async with asking(tmp_path, wire) as client:
        called = Called("get_weather", scenarios.PARIS, "call_a")
        client.fake.plays(Script((proof, called), "tool_calls"), Script((Text("It rains."),)))
        more: Json = {"tools": [WEATHER], "reasoning_effort": "low"}
        first = await client.ask(True, **more)
        result = {"role": "tool", "tool_call_id": "call_a", "content": "Rain."}
        calls = first.choices[0].message.tool_calls or []
        result["tool_call_id"] = calls[0].id
        await client.ask(False, messages=[ASKED, back(first), result], **more)
        assert client.sent().count(proof.data) == 1


class Capital(BaseModel):
    capital: str


@EVERY
async def test_what_is_asked_reaches_the_model(wire: str, tmp_path: Path) -> None:
    """Every role, pictures, a schema, and the older functions."""
    async with asking(tmp_path, wire) as client:
        client.fake.plays(Script((Text('{"capital": "Paris"}'),)), Script((Text("Yes."),)))
        parsed = await client.client.chat.completions.parse(
            model=slug(wire), messages=[{"role": "user", "content": "The capital?"}], response_format=Capital
        )
        assert parsed.choices[0].message.parsed == Capital(capital="Paris")
        assert "capital" in client.sent()
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{scenarios.PNG}"}}
        await client.ask(
            False,
            messages=[
                {"role": "system", "content": "You are a test."},
                {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
                {"role": "user", "name": "alice", "content": [{"type": "text", "text": "One."}, picture]},
                {"role": "assistant", "content": "Two."},
                {"role": "assistant", "function_call": {"name": "get_weather", "arguments": scenarios.PARIS}},
                {"role": "function", "name": "get_weather", "content": "Rain."},
                {"role": "user", "content": "Three."},
            ],
            functions=[WEATHER["function"]],
            function_call="auto",
            stop=["END"],
            seed=7,
            user="user-1",
            n=1,
        )
        body = client.sent()
        for words in (
            "You are a test.",
            "Be brief.",
            "One.",
            "Two.",
            "Paris",
            "Rain.",
            "Three.",
            scenarios.PNG,
        ):
            assert words in body, words


@EVERY
@BOTH
async def test_the_older_functions(wire: str, stream: bool, tmp_path: Path) -> None:
    async with asking(tmp_path, wire) as client:
        client.fake.plays(Script((Called("get_weather", scenarios.PARIS, "call_a"),), "tool_calls"))
        answer = await client.ask(stream, functions=[WEATHER["function"]])
        choice = answer.choices[0]
        assert (choice.finish_reason, choice.message.tool_calls) == ("function_call", None)
        assert choice.message.function_call is not None
        assert choice.message.function_call.name == "get_weather"
        assert json.loads(choice.message.function_call.arguments) == {"city": "Paris"}


@pytest.mark.parametrize("wire", ["chat", "gemini"])
async def test_citations(wire: str, tmp_path: Path) -> None:
    async with asking(tmp_path, wire) as client:
        fake: Any = client.fake
        fake.says(OWN[wire][0].answer)
        message = (await client.ask(True)).choices[0].message
        assert message.content == "So."
        assert message.annotations is not None
        assert message.annotations[0].url_citation.url == PAGE["url"]


@pytest.mark.parametrize("wire", ["anthropic", "chat", "responses"])
async def test_a_limit_that_only_this_api_has(wire: str, tmp_path: Path) -> None:
    """Clients try a connection with a few tokens, and a responses server takes no fewer than 16."""
    async with asking(tmp_path, wire) as client:
        client.fake.plays(Script((Text("Hi"),), "length"))
        answer = await client.ask(False, max_tokens=5)
        body = client.fake.requests[-1].body
        names = ("max_output_tokens", "max_completion_tokens", "max_tokens")
        assert [body[name] for name in names if name in body] == [16 if wire == "responses" else 5]
        receipts = [one["param"] for one in answer.to_dict()["antiphon:receipts"]]  # type: ignore[attr-defined]
        assert ("max_tokens" in receipts) == (wire == "responses")


@EVERY
async def test_errors(wire: str, tmp_path: Path) -> None:
    async with asking(tmp_path, wire) as client:
        with pytest.raises(openai.BadRequestError) as bad:
            await client.ask(False, messages=[{"role": "tool", "tool_call_id": "nobody", "content": "x"}])
        assert (bad.value.param, bad.value.code) == ("messages[0].tool_call_id", "missing_tool_call")
        assert bad.value.type == "invalid_request_error"
        audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
        said = [{"role": "user", "content": [{"type": "text", "text": "Hear."}, audio]}]
        if wire not in ("gemini", "vertex", "responses", "responses websocket"):
            with pytest.raises(openai.BadRequestError) as deaf:
                await client.ask(True, messages=said)
            assert deaf.value.param == "messages[0].content[1]"
        if "error in the stream" not in LACKS[wire]:
            client.fake.plays(Script((Text("Once upon a time"),), "error"))
            with pytest.raises(openai.APIError) as broken:
                await client.ask(True)
            assert broken.value.type is not None
            assert not isinstance(broken.value, openai.APIStatusError)
