"""A fake Ollama: `/api/chat` in lines of JSON, `/api/tags`, and errors as its documentation shows them."""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from jsonschema import Draft202012Validator, SchemaError
from ollama import _types as types
from pydantic import BaseModel, ValidationError

from antiphon.providers.base import Provider
from antiphon.providers.http import UpstreamClient
from antiphon.providers.ollama import Ollama
from tests.providers.build import build
from tests.providers.chat.scripts import cut
from tests.providers.conformance import asked
from tests.providers.conformance.said import Called, Mind, Redacted, Refused, Saying, Script, Text, Thought
from tests.providers.fake_server import FakeServer, Piece, Received, Step, Wire, refusal

MODEL = "qwen3:latest"
CRASH = "an error was encountered while running the model"
_ROLES = ("system", "user", "assistant", "tool")
_WHOLE_CALLS = "a call comes whole, its arguments are an object"
_NO_PROOFS = "thinking has no proof on this wire"
_NO_DETAILS = "tokens are counted without details"


class FakeOllama(FakeServer):
    """Queue scripts with `plays`, or exact bytes with `says`; else its mind answers."""

    mind: Mind | None = None
    lacks: ClassVar[Mapping[str, str]] = {
        "call ids": "its calls have no ids, only names",
        "interleaved arguments": _WHOLE_CALLS,
        "length in arguments": _WHOLE_CALLS,
        "cut in a call": _WHOLE_CALLS,
        "refusal": "a refusal is text like any other here",
        "filter": "it filters nothing, so no reason says so",
        "cached tokens": _NO_DETAILS,
        "reasoning tokens": _NO_DETAILS,
        "signed reasoning": _NO_PROOFS,
        "redacted reasoning": _NO_PROOFS,
    }

    def __init__(self) -> None:
        super().__init__()
        self._replies: deque[Script | Wire] = deque()

    def plays(self, *scripts: Script) -> None:
        self._replies.extend(scripts)

    def says(self, *replies: Wire) -> None:
        self._replies.extend(replies)

    def provider(self, http: UpstreamClient) -> Provider:
        return build(Ollama, "ollama", http, self.base_url)

    def mistakes(self, received: Received) -> list[str]:
        return mistakes(received.body)

    def reply(self, received: Received) -> Wire:
        if received.path == "/api/tags":
            listed = [
                {"name": MODEL, "model": MODEL, "size": 1, "digest": "d", "details": {"family": "qwen3"}}
            ]
            return refusal(200, json.dumps({"models": listed}).encode())
        if received.path != "/api/chat":
            return refusal(404, b"404 page not found")
        if wrong := self.mistakes(received):
            return refusal(400, error("; ".join(wrong)))
        chosen: Script | Wire
        if self._replies:
            chosen = self._replies.popleft()
        else:
            chosen = self.mind(asked.ollama(received.body)) if self.mind else Script((Text("Hello."),))
        if isinstance(chosen, Wire):
            return chosen
        if received.body.get("stream") is False:
            return Wire([line(whole(chosen))], headers={"content-type": "application/json; charset=utf-8"})
        return Wire(streamed(chosen), headers={"content-type": "application/x-ndjson"})


# --- the wire ---------------------------------------------------------------------------------------------


def line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def error(message: str) -> bytes:
    return line({"error": message})


def chunk(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    head = {"model": MODEL, "created_at": "2025-10-26T17:15:24.097767Z"}
    return {**head, "message": {"role": "assistant", "content": "", **message}, "done": False, **fields}


def streamed(script: Script) -> Iterator[Piece]:
    for one in script.said:
        yield from (line(chunk(message)) for message in _messages(one, script.size))
    if script.ending == "cut":
        yield Step.CLOSE
    elif script.ending == "error":
        yield error(CRASH)
    else:
        yield line(chunk({}, **_end(script)))


def whole(script: Script) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for one in script.said:
        for told in _messages(one, 1_000_000):
            calls = message.get("tool_calls", []) + told.pop("tool_calls", [])
            message |= told | ({"tool_calls": calls} if calls else {})
    return chunk(message, **_end(script))


def _messages(one: Saying, size: int) -> Iterator[dict[str, Any]]:
    match one:
        case Text(text):
            yield from ({"content": piece} for piece in cut(text, size))
        case Thought(text):
            yield from ({"thinking": piece} for piece in cut(text, size))
        case Called(name, arguments):
            function = {"name": name, "arguments": json.loads(arguments)}
            yield {"tool_calls": [{"function": function}]}
        case Refused() | Redacted():
            raise ValueError(f"this wire cannot say {one}")


def _end(script: Script) -> dict[str, Any]:
    reasons = {"tool_calls": "stop", "stop_sequence": "stop"}
    told: dict[str, Any] = {"done": True}
    if script.ending != "none":
        told["done_reason"] = reasons.get(script.ending, script.ending)
    if script.usage is not None:
        told |= {"prompt_eval_count": script.usage.input, "eval_count": script.usage.output}
        told |= {"total_duration": 1, "load_duration": 1, "prompt_eval_duration": 1, "eval_duration": 1}
    return told


# --- the official types, read strictly --------------------------------------------------------------------


def mistakes(body: dict[str, Any]) -> list[str]:
    """What Ollama's own package finds wrong, and every key that it would silently leave out."""
    rest = {key: value for key, value in body.items() if key not in ("messages", "tools", "options")}
    found = _strict(types.ChatRequest, rest, "$")
    for n, message in enumerate(body.get("messages", ())):
        found += _message(message, f"$.messages[{n}]")
    for n, tool in enumerate(body.get("tools", ())):
        found += _tool(tool, f"$.tools[{n}]")
    # The package knows no `min_p` yet, the server's documentation does.
    options = {key: value for key, value in body.get("options", {}).items() if key != "min_p"}
    return found + _strict(types.Options, options, "$.options")


def _message(message: Any, path: str) -> list[str]:
    if not isinstance(message, dict):
        return [f"{path}: expected a message"]
    found = [] if message.get("role") in _ROLES else [f"{path}: {message.get('role')!r} is no role"]
    images = message.get("images", [])
    for n, image in enumerate(images):
        try:
            types.Image(value=image).model_dump()
        except ValueError as problem:
            found.append(f"{path}.images[{n}]: {problem}")
    rest = {key: value for key, value in message.items() if key != "images"}
    return found + _strict(types.Message, rest, path)


def _tool(tool: Any, path: str) -> list[str]:
    """The package reads only the top of a schema, so that is checked as what it is."""
    function = dict(tool.get("function", {}))
    schema = function.pop("parameters", {"type": "object"})
    found = _strict(types.Tool, {**tool, "function": function}, path)
    if schema.get("type") != "object":
        found.append(f"{path}.function.parameters: not an object")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as problem:
        found.append(f"{path}.function.parameters: {problem.message}")
    return found


def _strict(model: type[BaseModel], value: dict[str, Any], path: str) -> list[str]:
    try:
        made = model.model_validate(value, strict=False)
    except ValidationError as problem:
        return [
            f"{path}.{'.'.join(map(str, one['loc']))}: {one['msg']}"
            for one in problem.errors()
            if one["loc"][:1] != ("model",) or "model" not in value
        ]
    return _lost(value, made.model_dump(by_alias=True, exclude_unset=True), path)


def _lost(value: Any, kept: Any, path: str) -> list[str]:
    if isinstance(value, dict) and isinstance(kept, dict):
        found = [f"{path}: unknown key {key!r}" for key in value if key not in kept]
        shared = [key for key in value if key in kept]
        return found + [one for key in shared for one in _lost(value[key], kept[key], f"{path}.{key}")]
    if isinstance(value, list) and isinstance(kept, list | tuple):
        pairs = enumerate(zip(value, kept, strict=True))
        return [one for n, (a, b) in pairs for one in _lost(a, b, f"{path}[{n}]")]
    same = type(value) is type(kept) or {type(value), type(kept)} == {int, float}
    return [] if value == kept and same else [f"{path}: {value!r} became {kept!r}"]
