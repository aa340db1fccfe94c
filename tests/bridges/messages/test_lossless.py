"""Where the upstream speaks the Messages API itself, nothing is lost between it and the client."""

import json
from pathlib import Path
from typing import Any

import anthropic
import pytest
from hypothesis import given, settings

from antiphon.bridges.messages.request import read_messages
from antiphon.engine.context import input_items
from antiphon.providers.anthropic.request import AnthropicOptions, prepare
from antiphon.providers.base import Turn
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_stored_items
from antiphon.wires.messages.vendor import without
from tests.bridges.messages.bodies import Json, bodies, normal
from tests.providers.anthropic import wire
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.conformance.gateway import gateway


def sent(body: Json, betas: str = "", **options: Any) -> tuple[Json, tuple[str, ...], Turn]:
    """What the provider makes of a body that came to our door; its items take the way through the store."""
    request = read_messages(json.dumps(body).encode(), betas=betas).request
    items = decode_stored_items(b"[" + b",".join(map(encode, input_items(request.input))) + b"]")
    turn = Turn(request.model or "", request, items, request.tools, stream=request.stream)
    prepared = prepare(turn, AnthropicOptions(cache=False, **options))
    return json.loads(encode(prepared.body)), prepared.betas, turn


@settings(max_examples=150, deadline=None)
@given(bodies())
def test_a_body_goes_through_unchanged(body: Json) -> None:
    made, _, turn = sent(body)
    assert normal(made) == normal(body)
    assert [receipt for receipt in turn.receipts if receipt.action != "suppressed"] == []


def test_sampling_is_kept_for_servers_that_have_it() -> None:
    body = {
        "model": "some-model",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
        "temperature": 0.5,
        "top_p": 0.25,
        "top_k": 7,
    }
    made, _, _ = sent(body, version="2023-06-01")
    assert {name: made[name] for name in ("temperature", "top_p", "top_k")} == {
        "temperature": 0.5,
        "top_p": 0.25,
        "top_k": 7,
    }


def test_betas_are_passed_on() -> None:
    body = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    assert sent(body, betas="one-2025-01-01, two-2026-01-01")[1] == ("one-2025-01-01", "two-2026-01-01")


def test_a_system_message_stays_where_it_was_said() -> None:
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "More"},
        ],
    }
    assert normal(sent(body)[0]) == normal(body)


def test_marks_of_the_client_are_the_only_ones() -> None:
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": "Hi"}],
    }
    request = read_messages(json.dumps(body).encode()).request
    for marked in (body, {**body, "system": "S"}):
        request = read_messages(json.dumps(marked).encode()).request
        turn = Turn("claude-opus-4-8", request, input_items(request.input), request.tools, stream=False)
        made = encode(prepare(turn, AnthropicOptions(cache=True)).body)
        assert made.count(b"cache_control") == (1 if marked is body else 2)


# --- out --------------------------------------------------------------------------------------------------

SEARCH: list[Json] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "title": "T",
                "url": "https://a.example",
                "encrypted_content": "e",
                "page_age": None,
            }
        ],
    },
]
SEARCH_TOOL: list[Json] = [{"type": "web_search_20250305", "name": "web_search"}]
CITED: Json = {
    "type": "web_search_result_location",
    "cited_text": "So",
    "encrypted_index": "i",
    "title": "T",
    "url": "https://a.example",
}
PAGE: Json = {
    "type": "page_location",
    "cited_text": "So",
    "document_index": 0,
    "document_title": "D",
    "start_page_number": 1,
    "end_page_number": 2,
}
CONTENT: list[Json] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "cmVk"},
    *SEARCH,
    {"type": "text", "text": "So it is.", "citations": [CITED, PAGE]},
    {"type": "text", "text": "And more."},
    {"type": "tool_use", "id": "toolu_01", "name": "f", "input": {"a": [1, 2.5, None]}},
]
USAGE: Json = {
    "input_tokens": 16,
    "cache_creation_input_tokens": 5,
    "cache_read_input_tokens": 3,
    "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 10,
    "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
    "service_tier": "priority",
}
ENDS: dict[str, Json] = {
    "tool_use": {},
    "max_tokens": {},
    "pause_turn": {},
    "compaction": {},
    "model_context_window_exceeded": {},
    "stop_sequence": {"stop_sequence": "END"},
    "refusal": {"stop_details": {"type": "refusal", "category": "cyber", "explanation": "No."}},
}


def streamed(content: list[Json], reason: str, more: Json) -> bytes:
    told = [wire.start(usage={**USAGE, "output_tokens": 1})]
    for n, block in enumerate(content):
        match block["type"]:
            case "text":
                told += [wire.begin(n, {"type": "text", "text": ""})]
                told += [wire.delta(n, "text_delta", text=piece) for piece in block["text"]]
                cited = block.get("citations", ())
                told += [wire.delta(n, "citations_delta", citation=one) for one in cited]
                told += [wire.end(n)]
            case "thinking":
                told.append(wire.thinking(n, block["thinking"], block["signature"]))
            case "tool_use":
                told.append(wire.tool_use(n, block["name"], json.dumps(block["input"]), id=block["id"]))
            case _:
                told += [wire.begin(n, block), wire.end(n)]
    end = {"stop_reason": reason, "stop_sequence": None, **more}
    told.append(wire.event("message_delta", delta=end, usage=USAGE))
    return b"".join(told) + wire.event("message_stop")


@pytest.mark.parametrize("reason", ENDS)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_an_answer_comes_through_unchanged(reason: str, stream: bool, tmp_path: Path) -> None:
    """All but proofs, which are sealed here and opened again on the way back, byte for byte."""
    more = ENDS[reason]
    content = CONTENT if reason == "tool_use" else CONTENT[:-1]
    async with gateway(tmp_path, "anthropic") as made:
        fake = made.fakes["anthropic"]
        assert isinstance(fake, FakeAnthropic)
        if stream:
            fake.says(streamed(content, reason, more))
        else:
            fake.answers(json.dumps(wire.message(content, reason, usage=USAGE, **more)).encode())
        async with anthropic.AsyncAnthropic(base_url=made.url, api_key="sk-any", max_retries=0) as sdk:
            asked: Json = {
                "model": "anthropic",
                "max_tokens": 9000,
                "tools": [{"name": "f", "input_schema": {"type": "object"}}, *SEARCH_TOOL],
                "messages": [{"role": "user", "content": "Hi"}],
            }
            if stream:
                async with sdk.messages.stream(**asked) as told:
                    events = [json.loads(event.to_json()) async for event in told]
                    answer = json.loads((await told.get_final_message()).to_json())
                # The SDK itself takes some counts from the beginning of a stream only.
                answer["usage"] = next(one for one in events if one["type"] == "message_delta")["usage"]
            else:
                answer = json.loads((await sdk.messages.create(**asked)).to_json())
            proved = [block.pop("signature", block.pop("data", "")) for block in answer["content"][:2]]
            assert all(proof.startswith("v1.") for proof in proved)
            expected = [without(block, "signature", "data") for block in content]
            assert answer["content"] == expected
            assert answer["stop_reason"] == reason
            assert answer["stop_sequence"] == more.get("stop_sequence")
            assert (answer.get("stop_details") or None) == more.get("stop_details")
            assert answer["usage"] == USAGE
            if reason != "tool_use":
                return
            # And back again: upstream gets the blocks that it said.
            answer["content"][0]["signature"], answer["content"][1]["data"] = proved
            result = {"type": "tool_result", "tool_use_id": "toolu_01", "content": "Done."}
            history = [
                {"role": "assistant", "content": answer["content"]},
                {"role": "user", "content": [result]},
            ]
            fake.says(wire.start() + wire.text(0, "Good.") + wire.finish()) if stream else fake.answers(
                json.dumps(wire.message([{"type": "text", "text": "Good."}], "end_turn")).encode()
            )
            again = {**asked, "messages": [*asked["messages"], *history]}
            if stream:
                async with sdk.messages.stream(**again) as told:
                    await told.get_final_message()
            else:
                await sdk.messages.create(**again)
            assert fake.requests[-1].body["messages"][1]["content"] == content
            assert fake.mistakes(fake.requests[-1]) == []


def test_an_id_of_the_gateway_is_never_sent_as_one_of_the_provider() -> None:
    body = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    asked = {
        **body,
        "diagnostics": {"previous_message_id": "msg_ours"},
        "thread": {"type": "continue", "previous_message_id": "msg_ours"},
    }
    made, betas, turn = sent(asked, betas="message-threads-2026-08-12, one-2025-01-01")
    assert "msg_ours" not in json.dumps(made)
    assert made.keys() == sent(body)[0].keys()
    assert betas == ("one-2025-01-01",)
    assert [receipt.param for receipt in turn.receipts] == ["diagnostics"]


def test_a_system_message_takes_what_it_says_of_its_answer_along() -> None:
    """It reached no provider."""
    late = {"role": "system", "content": "Be quick.", "output_config": {"effort": "low"}}
    asked: Json = {"model": "claude-opus-4-8", "max_tokens": 9}
    asked["messages"] = [{"role": "user", "content": "Hi"}, late]
    made, _, turn = sent(asked)
    assert made["messages"][1] == {**late, "content": [{"type": "text", "text": "Be quick."}]}
    assert turn.receipts == []
    first = [{**late, "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    made, _, turn = sent({**asked, "messages": first})
    assert [receipt.param for receipt in turn.receipts] == ["input[0].output_config"]
