"""Every wire behind a real gateway: tool loops, chains that move, what is forged, what goes wrong."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from antiphon.providers import exchange
from antiphon.spec.codec import encode
from tests.providers.conformance import scenarios
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import (
    SETTINGS,
    TRANSPORTS,
    Gateway,
    Json,
    Refused,
    Transport,
    gateway,
    slug,
)
from tests.providers.conformance.said import Called, Script, Text, Thought

LACKS = {wire: make().lacks for wire, make in FAKES.items()}
PROVING = [wire for wire in FAKES if "signed reasoning" not in LACKS[wire]]
REASONING = [wire for wire in FAKES if "reasoning" not in LACKS[wire]]
ASKED = {"role": "user", "content": "What is the weather?"}
REQUEST: Json = {"tools": [scenarios.WEATHER, scenarios.SQL, scenarios.GIT], "reasoning": {"effort": "low"}}


def test_every_fake_is_configured() -> None:
    assert SETTINGS.keys() == FAKES.keys()


def signature(n: int) -> str:
    return f"c2lnbmF0dXJlLW51bWJlci{n}w"


def step(wire: str, n: int) -> Script:
    """A thought where the wire has them, and parallel calls of three kinds."""
    calls = (
        Called("get_weather", scenarios.PARIS, f"call_a{n}"),
        Called("run_sql", json.dumps({"input": f"SELECT {n}"}), f"call_b{n}"),
        Called("mcp__git__log", "{}", f"call_c{n}"),
    )
    thought = (Thought(f"Thought {n}.", signature(n)),) if wire in PROVING else ()
    if not thought and wire in REASONING:
        thought = (Thought(f"Thought {n}."),)
    return Script((*thought, *calls), "tool_calls")


def results(output: list[Json], n: int) -> list[Json]:
    kinds = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
    return [
        {"type": kinds[item["type"]], "call_id": item["call_id"], "output": f"Result {n}."}
        for item in output
        if item["type"] in kinds
    ]


def sent(asked: Gateway, wire: str) -> str:
    return json.dumps(asked.fakes[wire].requests[-1].body, ensure_ascii=False)


@pytest.mark.parametrize(
    ("way", "transport"), [("stored", "json"), ("replayed", "sse"), ("bare", "websocket")]
)
@pytest.mark.parametrize("wire", FAKES)
async def test_three_tool_turns(wire: str, way: str, transport: Transport, tmp_path: Path) -> None:
    """Stored by us, replayed by the client, or replayed by a client that drops the words of reasoning."""
    async with gateway(tmp_path, wire) as asked:
        fake = asked.fakes[wire]
        fake.plays(*(step(wire, n) for n in range(3)), Script((Text("It rains."),)))
        history: list[Json] = [ASKED]
        more: dict[str, Any] = {"input": history}
        for n in range(4):
            response = await asked.ask(wire, transport, **REQUEST, **more, store=way == "stored")
            assert response["status"] == "completed"
            body = sent(asked, wire)
            if wire in PROVING:
                assert [body.count(signature(k)) for k in range(3)] == [1] * n + [0] * (3 - n)
                assert signature(n) not in json.dumps(response), "the client sees only a seal"
            assert body.count("Result ") == 3 * n
            assert all(f"SELECT {k}" in body for k in range(n))
            if n == 3:
                break
            calls = [item for item in response["output"] if item["type"].endswith("_call")]
            assert [(one["type"], one["name"], one.get("namespace")) for one in calls] == [
                ("function_call", "get_weather", None),
                ("custom_tool_call", "run_sql", None),
                ("function_call", "log", "mcp__git"),
            ]
            assert calls[1]["input"] == f"SELECT {n}"
            answers = results(response["output"], n)
            if way == "stored":
                more = {"input": answers, "previous_response_id": response["id"]}
                continue
            output = response["output"]
            if way == "bare":
                output = [
                    item | {"summary": [], "content": None} if item["type"] == "reasoning" else item
                    for item in output
                ]
            history += [*output, *answers]
            more = {"input": history}
        assert response["output"][-1]["content"][0]["text"] == "It rains."


@pytest.mark.parametrize("wire", PROVING)
async def test_a_chain_moves_to_another_provider_and_back(wire: str, tmp_path: Path) -> None:
    """Its proofs stay behind with a receipt, and are there again when it comes back."""
    other = PROVING[PROVING.index(wire) - 1]
    async with gateway(tmp_path, wire, other) as asked:
        asked.fakes[wire].plays(step(wire, 0), Script((Text("Done."),)))
        asked.fakes[other].plays(step(other, 1))
        first = await asked.ask(wire, **REQUEST, input=[ASKED])
        more: Json = {"input": results(first["output"], 0), "previous_response_id": first["id"]}
        second = await asked.ask(other, "sse", **REQUEST, **more)
        assert signature(0) not in sent(asked, other)
        assert "SELECT 0" in sent(asked, other)
        assert any(one["action"] == "suppressed" for one in second["antiphon:receipts"])
        more = {"input": results(second["output"], 1), "previous_response_id": second["id"]}
        third = await asked.ask(wire, "websocket", **REQUEST, **more)
        body = sent(asked, wire)
        assert (body.count(signature(0)), body.count(signature(1))) == (1, 0)
        assert "SELECT 1" in body
        assert third["output"][-1]["content"][0]["text"] == "Done."


@pytest.mark.parametrize("wire", PROVING)
async def test_a_forged_proof_never_gets_upstream(wire: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, wire) as asked:
        asked.fakes[wire].plays(Script((Thought("Hm.", signature(0)), Text("Yes."))))
        output = (await asked.ask(wire, input=[ASKED], store=False))["output"]
        [n] = [n for n, item in enumerate(output) if item.get("encrypted_content")]
        output[n]["encrypted_content"] = output[n]["encrypted_content"][:-6] + "AAAAAA"
        for transport in TRANSPORTS:
            with pytest.raises(Refused) as caught:
                await asked.ask(wire, transport, input=[ASKED, *output, ASKED])
            assert (caught.value.status, caught.value.error["code"]) == (400, "invalid_encrypted_content")
            assert caught.value.error["param"] == f"input[{n + 1}].encrypted_content"
        assert len(asked.fakes[wire].requests) == 1


@pytest.mark.parametrize("wire", FAKES)
async def test_odd_words_come_through_whole(wire: str, tmp_path: Path) -> None:
    """Control characters, halves of emoji cut apart, lines that look like frames, and 200 kB of arguments."""
    odd = '\u0000\u2028\u2029\ufeff data: [DONE]\n\nevent: x\r\n👩\u200d👩\u200d👧 \\ "quoted" <think>'
    large = json.dumps({"city": odd + "x" * 200_000})
    async with gateway(tmp_path, wire) as asked:
        said = Script((Text(odd), Called("get_weather", large)), "tool_calls", size=3000)
        for transport in TRANSPORTS:
            asked.fakes[wire].plays(said)
            response = await asked.ask(wire, transport, input=odd, tools=[scenarios.WEATHER])
            message, call = response["output"]
            assert message["content"][0]["text"] == odd
            assert json.loads(call["arguments"]) == json.loads(large)
            assert json.dumps(odd, ensure_ascii=False)[1:-1] in sent(asked, wire)


@pytest.mark.parametrize("wire", FAKES)
async def test_a_large_request_is_encoded_apart_and_in_parts(
    wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []

    def noted(value: object) -> bytes:
        seen.append((threading.current_thread().name.partition("_")[0], len(made := encode(value))))
        return made

    monkeypatch.setattr(exchange, "encode", noted)
    asks = [{"role": "user" if n % 2 else "assistant", "content": f"{n} " + "x" * 2000} for n in range(200)]
    async with gateway(tmp_path, wire) as asked:
        asked.fakes[wire].plays(Script((Text("Hello"),)), Script((Text("Hello"),)))
        for transport in TRANSPORTS[:2]:
            response = await asked.ask(wire, transport, input=asks)
            assert response["output"][0]["content"][0]["text"] == "Hello"
        assert len(sent(asked, wire)) > 400_000
        if wire != "responses websocket":  # this fake can be asked nothing else
            body = {"model": slug(wire), "input": asks}
            counted = await asyncio.to_thread(asked.http.post, "/v1/responses/input_tokens", json=body)
            assert counted.status_code < 500
    assert {thread for thread, _ in seen} == {"antiphon-large"}
    assert max(size for _, size in seen) < 3000


@pytest.mark.parametrize("wire", FAKES)
async def test_strict_mode_refuses_what_would_be_dropped(wire: str, tmp_path: Path) -> None:
    """The same request gives receipts without it, and a 400 that names the parameter with it."""
    request: Json = {"input": "Hi", "presence_penalty": 0.5, "prompt_cache_key": "k", "logit_bias": {"1": 1}}
    async with gateway(tmp_path / "a", wire) as asked:
        told = await asked.ask(wire, **request)
    dropped = {one["param"] for one in told["antiphon:receipts"] if one["action"] == "dropped"}
    async with gateway(tmp_path / "b", wire, SERVER__STRICT="true") as asked:
        if not dropped:
            assert (await asked.ask(wire, **request))["status"] == "completed"
            return
        with pytest.raises(Refused) as caught:
            await asked.ask(wire, **request)
        assert caught.value.status == 400
        assert caught.value.error["param"] in dropped
        assert asked.fakes[wire].requests == []


@pytest.mark.parametrize("wire", FAKES)
async def test_a_client_that_goes_away_is_no_trouble(wire: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, wire) as asked:
        asked.fakes[wire].plays(Script((Text("word " * 20_000),), size=5), Script((Text("Yes."),)))
        await asked.leave(wire, input="Hi")
        assert (await asked.ask(wire, "sse", input="Hi"))["status"] == "completed"
