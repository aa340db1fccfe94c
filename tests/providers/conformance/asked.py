"""What a model is asked, in words that every wire can tell, and how each wire tells it.

The other side of `said`: a fake reads a request of its own wire into a `Question`, and a mind answers that.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]
Role = Literal["system", "user", "assistant", "tool"]
_ROLES: dict[str, Role] = {"developer": "system", "model": "assistant"}


@dataclass(frozen=True)
class Turn:
    role: Role
    text: str
    pictures: int = 0


@dataclass(frozen=True)
class Question:
    turns: tuple[Turn, ...]
    tools: tuple[str, ...] = ()
    choice: str = "auto"
    """`auto`, `none`, `required`, or the name of the function that must be called."""
    schema: Json | None = None
    """What the answer has to fit."""
    limit: int | None = None
    """How many tokens it may have."""

    @property
    def everything(self) -> str:
        return "\n".join(turn.text for turn in self.turns)

    @property
    def last(self) -> Turn:
        """The last that was said, by whoever is not the system."""
        return next((turn for turn in reversed(self.turns) if turn.role != "system"), self.turns[-1])


def chat(body: Json) -> Question:
    choice = body.get("tool_choice") or "auto"
    if isinstance(choice, dict):
        choice = choice.get("value", choice)  # as Writer has it
    if isinstance(choice, dict):
        choice = choice["function"]["name"]
    form = body.get("response_format") or {}
    return Question(
        _turns(
            (one["role"], _chat_parts(one.get("content") or one.get("refusal"))) for one in body["messages"]
        ),
        tuple(tool["function"]["name"] for tool in body.get("tools") or ()),
        choice,
        form.get("json_schema", {}).get("schema"),
        body.get("max_completion_tokens") or body.get("max_tokens"),
    )


def _chat_parts(content: Any) -> Iterator[str | None]:
    for part in [content] if isinstance(content, str) else content or ():
        match part:
            case str(text) | {"type": "text", "text": str(text)}:
                yield text
            case {"type": "image_url"}:
                yield None
            case {"type": "file", "file": {"file_data": str(data)}}:
                yield _text_in(data.partition("base64,")[2])


def responses(body: Json) -> Question:
    items = body["input"]
    turns = [{"role": "user", "content": items}] if isinstance(items, str) else items
    if body.get("instructions"):
        turns = [{"role": "system", "content": body["instructions"]}, *turns]
    choice = body.get("tool_choice") or "auto"
    if isinstance(choice, dict):
        choice = choice["mode"] if choice["type"] == "allowed_tools" else choice["name"]
    return Question(
        _turns((_item_role(one), _item_parts(one.get("content", one.get("output")))) for one in turns),
        tuple(tool.get("name") or tool["type"] for tool in body.get("tools") or ()),
        choice,
        body.get("text", {}).get("format", {}).get("schema"),
        body.get("max_output_tokens"),
    )


def _item_role(item: Json) -> str:
    kind = str(item.get("type", "message"))
    return str(item["role"]) if kind == "message" else "tool" if kind.endswith("_output") else "assistant"


def _item_parts(content: Any) -> Iterator[str | None]:
    for part in [content] if isinstance(content, str) else content or ():
        match part:
            case str(text) | {"text": str(text)} | {"refusal": str(text)}:
                yield text
            case {"type": "input_image"}:
                yield None
            case {"type": "input_file", "file_data": str(data)}:
                yield _text_in(data.partition("base64,")[2])


def anthropic(body: Json) -> Question:
    choice = body.get("tool_choice") or {}
    kind = choice.get("type", "auto")
    return Question(
        _turns(
            [
                *(("system", iter([block["text"]])) for block in body.get("system", ())),
                *((_message_role(one), _message_parts(one["content"])) for one in body["messages"]),
            ]
        ),
        tuple(tool.get("name") or tool["type"] for tool in body.get("tools") or ()),
        choice.get("name") or {"any": "required"}.get(kind, kind),
        body.get("output_config", {}).get("format", {}).get("schema"),
        body["max_tokens"],
    )


def _message_role(message: Json) -> str:
    is_result = message["content"][0]["type"] == "tool_result"
    return "tool" if is_result else str(message["role"])


def _message_parts(content: Any) -> Iterator[str | None]:
    for block in [content] if isinstance(content, str) else content or ():
        match block:
            case str(text) | {"type": "text", "text": str(text)}:
                yield text
            case {"type": "image"}:
                yield None
            case {"type": "document", "source": {"type": "text", "data": str(text)}}:
                yield text
            case {"type": "tool_result", "content": told}:
                yield from _message_parts(told)


def bedrock(body: Json) -> Question:
    config = body.get("toolConfig") or {}
    choice = config.get("toolChoice") or {}
    form = body.get("outputConfig", {}).get("textFormat", {}).get("structure", {}).get("jsonSchema", {})
    return Question(
        _turns(
            [
                *(("system", iter([block["text"]])) for block in body.get("system", ()) if "text" in block),
                *((_converse_role(one), _converse_parts(one["content"])) for one in body["messages"]),
            ]
        ),
        tuple(tool["toolSpec"]["name"] for tool in config.get("tools", ()) if "toolSpec" in tool),
        choice.get("tool", {}).get("name") or ("required" if "any" in choice else "auto"),
        json.loads(form["schema"]) if form else None,
        body.get("inferenceConfig", {}).get("maxTokens"),
    )


def _converse_role(message: Json) -> str:
    return "tool" if any("toolResult" in block for block in message["content"]) else str(message["role"])


def _converse_parts(content: Iterable[Json]) -> Iterator[str | None]:
    for block in content:
        match block:
            case {"text": str(text)}:
                yield text
            case {"image": _}:
                yield None
            case {"document": {"source": {"bytes": str(data)}}}:
                yield _text_in(data)
            case {"toolResult": {"content": told}}:
                yield from _converse_parts(told)


def gemini(body: Json) -> Question:
    settings = body.get("generationConfig", {})
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    mode = {"ANY": "required", "NONE": "none"}.get(calling.get("mode", ""), "auto")
    allowed = calling.get("allowedFunctionNames", ())
    functions = [one for tool in body.get("tools", ()) for one in tool.get("functionDeclarations", ())]
    return Question(
        _turns(
            [
                *(
                    ("system", iter([part["text"]]))
                    for part in body.get("systemInstruction", {}).get("parts", ())
                ),
                *((_content_role(one), _content_parts(one["parts"])) for one in body["contents"]),
            ]
        ),
        tuple(function["name"] for function in functions),
        allowed[0] if mode == "required" and len(allowed) == 1 else mode,
        settings.get("responseJsonSchema") or settings.get("responseSchema"),
        settings.get("maxOutputTokens"),
    )


def _content_role(content: Json) -> str:
    return "tool" if "functionResponse" in content["parts"][0] else str(content["role"])


def _content_parts(parts: Iterable[Json]) -> Iterator[str | None]:
    for part in parts:
        match part:
            case {"text": str(text)}:
                yield text
            case {"inlineData": {"mimeType": str(kind), "data": str(data)}}:
                yield None if kind.startswith("image/") else _text_in(data)
            case {"functionResponse": {"response": {"output": str(text)}}}:
                yield text


def ollama(body: Json) -> Question:
    form = body.get("format")
    return Question(
        _turns(
            (one["role"], iter([one["content"], *(None for _ in one.get("images", ()))]))
            for one in body["messages"]
        ),
        tuple(tool["function"]["name"] for tool in body.get("tools") or ()),
        schema=form if isinstance(form, dict) else None,
        limit=body.get("options", {}).get("num_predict"),
    )


def _turns(told: Iterable[tuple[str, Iterable[str | None]]]) -> tuple[Turn, ...]:
    """Of the parts of each turn, the words, and how many pictures there are."""
    made = []
    for role, parts in told:
        seen = list(parts)
        text = " ".join(part for part in seen if part is not None)
        made.append(Turn(_ROLES.get(role) or _known(role), text, seen.count(None)))
    return tuple(made)


def _known(role: str) -> Role:
    match role:
        case "system" | "user" | "assistant" | "tool":
            return role
    raise ValueError(f"{role!r} is no role")


def _text_in(data: str) -> str:
    return base64.b64decode(data).decode(errors="replace")
