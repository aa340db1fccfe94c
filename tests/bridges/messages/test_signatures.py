"""What becomes of thinking that its provider does not sign, as most chat servers do not."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.bridges.messages.scenes import Json
from tests.server.conftest import Serve
from tests.server.servers import Client
from tests.server.upstream import Upstream

PATH = "/v1/messages"
OMITTED: Json = {"type": "adaptive", "display": "omitted"}
TALK: list[Json] = [{"role": "user", "content": "Hi"}]


def exchanged(client: Client, upstream: Upstream, **more: Any) -> tuple[Json, Json]:
    """What the upstream, which thinks and answers, is asked, and the message."""
    body = {"model": "model", "max_tokens": 99, "messages": TALK, **more}
    with ThreadPoolExecutor(1) as apart:
        answer = apart.submit(client.ok, "POST", PATH, json=body)
        call = upstream.next()
        call.think("Hm.")
        call.finish("Hello.")
        return call.body, answer.result()


def test_the_signature_of_a_generic_server_is_its_words_which_go_back_sealed(
    serve: Serve, upstream: Upstream
) -> None:
    client = serve(upstream.toml).client()
    _, message = exchanged(client, upstream, thinking=OMITTED)
    thought = message["content"][0]
    assert (thought["type"], thought["thinking"]) == ("thinking", "")
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}
    again = [
        *TALK,
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [result]},
    ]
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    asked, _ = exchanged(client, upstream, messages=again, tools=tools)
    assert [one.get("reasoning_content") for one in asked["messages"]] == [None, "Hm.", None]


def test_the_signature_of_a_server_that_takes_no_thinking_back_is_empty(
    serve: Serve, upstream: Upstream
) -> None:
    client = serve(upstream.toml.replace('type = "chat"', 'type = "chat"\nprofile = "openai"')).client()
    _, message = exchanged(client, upstream)
    assert message["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": ""}
    again = [*TALK, {"role": "assistant", "content": message["content"]}, *TALK]
    asked, omitted = exchanged(client, upstream, messages=again, thinking=OMITTED)
    assert "Hm." not in str(asked)
    assert [block["type"] for block in omitted["content"]] == ["text"]
