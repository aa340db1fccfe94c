"""The chat wire has one reader: what the gateway makes of an answer, the client makes of it too."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.client.chat_fallback import ChatAnswer, whole_answer
from antiphon.providers.chat.stream import ChatStream
from antiphon.spec.decode import decode_request
from antiphon.spec.response import Response
from tests.providers.chat import wire
from tests.providers.chat.reading import response
from tests.providers.compose import compose, plain, told

REQUEST = decode_request(b'{"model": "m", "input": "Hi"}')
CALL = {"name": "f", "arguments": {"a": 1}}
COUNTS = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "prompt_cache_hit_tokens": 5,
    "completion_tokens_details": {"reasoning_tokens": 2},
}
SAID: dict[str, list[dict[str, Any]]] = {
    "words": [{"content": "One "}, {"content": "two "}, {"content": "three."}],
    "reasoning under other names": [{"reasoning": "hm"}, {"reasoning_content": " so"}, {"content": "Yes."}],
    "reasoning in details": [
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"content": "Yes."},
    ],
    "content in parts": [
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
        {"content": [{"type": "text", "text": "Yes."}]},
    ],
    "a refusal": [{"refusal": "I will not."}],
    "calls without an index": [
        {"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
        {"tool_calls": [{"id": "c2", "function": {"name": "g", "arguments": '{"b"'}}]},
        {"tool_calls": [{"function": {"arguments": ":2}"}}]},
    ],
    "arguments as an object": [{"tool_calls": [{"index": 0, "id": "c1", "function": CALL}]}],
    "an old function call": [{"function_call": {"name": "f", "arguments": "{}"}}],
    "an image": [{"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}],
}


def streamed(deltas: list[dict[str, Any]], reason: str = "stop") -> bytes:
    return b"".join([*map(wire.chunk, deltas), wire.chunk({}, reason, usage=COUNTS), b"data: [DONE]\n\n"])


def by_client(body: bytes, size: int = 0) -> Response:
    answer = ChatAnswer(REQUEST)
    for n in range(0, len(body), size or len(body)):
        answer.feed(body[n : n + (size or len(body))])
    answer.end()
    while answer.take() is not None:
        pass
    return answer.response


def essence(answer: Response) -> list[Any]:
    """What was said, without ids that are made up."""
    fields = plain(answer)
    said: list[Any] = []
    for one in told(answer):
        match one:
            case (name, arguments, str(id)):
                said.append((name, arguments, id if id in ("c1", "c2") else "made up"))
            case dict():
                said.append({**one, "id": "made up"})
            case _:
                said.append(one)
    return [said, fields["status"], fields["incomplete_details"], fields["usage"]]


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("reason", ["stop", "max_tokens", "safety"])
def test_the_client_reads_a_chat_stream_as_the_gateway_does(name: str, reason: str) -> None:
    body = streamed(SAID[name], reason)
    assert essence(by_client(body)) == essence(response(body))


@given(st.sampled_from(sorted(SAID)), st.integers(1, 400))
def test_any_cut_of_a_stream_gives_the_client_the_same_answer(name: str, size: int) -> None:
    body = streamed(SAID[name])
    assert essence(by_client(body, size)) == essence(by_client(body))


@pytest.mark.parametrize("name", SAID)
def test_the_client_reads_a_whole_chat_answer_as_the_gateway_does(name: str) -> None:
    choice = {"index": 0, "message": SAID[name][0], "finish_reason": "stop"}
    body = json.dumps({"choices": [choice], "usage": COUNTS}, indent=1).encode()
    assert essence(whole_answer(REQUEST, body)) == essence(compose([ChatStream().whole(body)]))
