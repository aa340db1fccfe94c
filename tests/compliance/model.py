"""A chat upstream that does what the checks ask of a model: it remembers, calls tools, and can be tempted."""

import asyncio
import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.providers.chat_wire import DONE, chunk
from tests.providers.fake_server import FakeServer, Received, Wire

Json = dict[str, Any]

KEYS = {"alice": "key-of-alice-0123456789", "bob": "key-of-bob-0123456789"}
_STORY = "once upon a time there was a heron and "


class Obedient(FakeServer):
    prefix = "/v1"

    def reply(self, received: Received) -> Wire:
        if received.method == "GET":
            listed = {"object": "list", "data": [{"id": "some-model", "object": "model"}]}
            return Wire([json.dumps(listed).encode()], headers={"content-type": "application/json"})
        body = received.body
        calls, text = _answer(body)
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 10_000
        words = re.findall(r"\S+\s*", text)
        reason = "tool_calls" if calls else "length" if len(words) > limit else "stop"
        words = words[:limit]
        usage = {"prompt_tokens": len(_all(body)) // 4 + 1, "completion_tokens": len(words) or 1}
        usage["total_tokens"] = sum(usage.values())
        made = [
            {
                "index": n,
                "id": f"call_{received_id(received)}_{n}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for n, (name, arguments) in enumerate(calls)
        ]
        if body.get("stream"):
            pieces = [chunk({"role": "assistant"}), *(chunk({"content": word}) for word in words)]
            pieces += (chunk({"tool_calls": [call]}) for call in made)
            pieces += [chunk({}, reason), chunk(usage=usage), DONE]
            return Wire([b"".join(pieces)])
        message = {"role": "assistant", "content": "".join(words) or None}
        if made:
            message["tool_calls"] = made  # type: ignore[assignment]
        whole = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": usage,
        }
        return Wire([json.dumps(whole).encode()], headers={"content-type": "application/json"})


def received_id(received: Received) -> str:
    return f"{id(received):x}"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    said = []
    for part in content or ():
        if part.get("type") == "file":
            data = part["file"].get("file_data", "").partition("base64,")[2]
            said.append(base64.b64decode(data).decode())
        else:
            said.append(part.get("text", ""))
    return " ".join(said)


def _all(body: Json) -> str:
    return "\n".join(_text(message.get("content")) for message in body["messages"])


def _answer(body: Json) -> tuple[list[tuple[str, str]], str]:
    messages = body["messages"]
    last = messages[-1]
    ask = _text(next((m["content"] for m in reversed(messages) if m["role"] == "user"), ""))
    tools = [tool["function"]["name"] for tool in body.get("tools") or ()]
    choice = body.get("tool_choice")
    if tools and last["role"] == "user":
        if isinstance(choice, dict) and choice.get("type") == "function":
            return [(choice["function"]["name"], '{"location": "Paris"}')], ""
        if "weather" in ask.lower() or choice == "required":
            name = "get_weather" if "get_weather" in tools else tools[0]
            cities = ["Paris", "Tokyo"] if "Tokyo" in ask else ["Paris"]
            return [(name, json.dumps({"location": city})) for city in cities], ""
    return [], _words(body, ask)


def _words(body: Json, ask: str) -> str:
    everything = _all(body)
    if body.get("response_format", {}).get("type") == "json_schema":
        name = body["response_format"]["json_schema"]["name"]
        return '{"city": "Paris", "degrees": 21}' if name == "weather" else "{}"
    if "thousand words" in ask:
        return _STORY * 10
    if "named first" in ask or "name first" in ask:
        found = re.findall(r"I name (?:an animal|another): (\w+)", everything)
        return found[0] if found else "none"
    if "What is the" in ask and "word" in ask:
        found = re.findall(r"(?:secret|code) word(?: is|:) (\w+)", everything)
        return found[-1] if found else "unknown"
    if "Which animal" in ask:
        return "heron" if "heron" in everything else "none"
    if "secret word" in everything:
        return "The secret word is heron."
    return "That is fine."


@contextmanager
def obedient() -> Iterator[str]:
    """Its base URL, while it runs in a thread of its own."""
    address: list[str] = []
    up, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with Obedient() as upstream:
            address.append(upstream.base_url)
            up.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="obedient-model", daemon=True)
    thread.start()
    assert up.wait(15)
    try:
        yield address[0]
    finally:
        over.set()
        thread.join(15)


def toml(url: str) -> str:
    """A gateway in front of it, with two tenants."""
    return (
        'default_model = "model"\n[models]\nmodel = "up/some-model"\n'
        f'[providers.up]\ntype = "chat"\nprofile = "openai"\nbase_url = "{url}"\n'
        + "".join(
            f'[keys.{name}]\nkey_sha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n'
            for name, key in KEYS.items()
        )
    )
