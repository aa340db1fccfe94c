"""Bodies of the Messages API, made by hypothesis, and the normal form in which two of them are compared."""

import copy
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
MARKS = st.sampled_from([None, None, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
INPUTS = st.dictionaries(WORDS, VALUES, max_size=3)
PNG = "iVBORw0KGgo="


def block(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """A block with these fields; what is None is not there."""
    made = st.fixed_dictionaries(fields)
    return made.map(lambda one: {name: value for name, value in one.items() if value is not None})


def just(value: Any) -> st.SearchStrategy[Any]:
    return st.just(value)


TEXT = block(type=just("text"), text=WORDS, cache_control=MARKS)
IMAGE = block(
    type=just("image"),
    source=st.sampled_from(
        [
            {"type": "base64", "media_type": "image/png", "data": PNG},
            {"type": "url", "url": "https://pictures.example/1.png"},
            {"type": "file", "file_id": "file_1"},
        ]
    ),
    cache_control=MARKS,
)
DOCUMENT = block(
    type=just("document"),
    source=st.sampled_from(
        [
            {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            {"type": "text", "media_type": "text/plain", "data": "A text."},
            {"type": "url", "url": "https://files.example/1.pdf"},
            {"type": "content", "content": [{"type": "text", "text": "One."}]},
            {"type": "content", "content": "Two."},
            {"type": "file", "file_id": "file_2"},
        ]
    ),
    title=st.sampled_from([None, "Report"]),
    context=st.sampled_from([None, "From last year."]),
    citations=st.sampled_from([None, {"enabled": True}]),
    cache_control=MARKS,
)
FOUND = block(
    type=just("search_result"),
    source=WORDS,
    title=WORDS,
    content=st.lists(block(type=just("text"), text=WORDS), min_size=1, max_size=2),
    citations=st.sampled_from([None, {"enabled": True}]),
    cache_control=MARKS,
)
UPLOAD = block(type=just("container_upload"), file_id=just("file_3"), cache_control=MARKS)
REFERENCE = block(type=just("tool_reference"), tool_name=NAMES)
USER = st.one_of(TEXT, IMAGE, DOCUMENT, FOUND, UPLOAD)
CITATIONS = st.lists(
    st.sampled_from(
        [
            {
                "type": "char_location",
                "cited_text": "A",
                "document_index": 0,
                "document_title": None,
                "start_char_index": 0,
                "end_char_index": 1,
            },
            {
                "type": "web_search_result_location",
                "cited_text": "B",
                "encrypted_index": "e",
                "title": "T",
                "url": "https://a.example",
            },
            {
                "type": "search_result_location",
                "cited_text": "C",
                "source": "here",
                "title": None,
                "search_result_index": 0,
                "start_block_index": 0,
                "end_block_index": 1,
            },
        ]
    ),
    min_size=1,
    max_size=2,
)
SAID = block(type=just("text"), text=WORDS, citations=st.none() | CITATIONS, cache_control=MARKS)
SERVER: st.SearchStrategy[list[Json]] = st.sampled_from(
    [
        [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        ]
    ]
)
THOUGHTS = st.one_of(
    block(type=just("thinking"), thinking=st.text(max_size=9), signature=NAMES),
    block(type=just("redacted_thinking"), data=NAMES),
)


@st.composite
def turns(draw: st.DrawFn) -> list[Json]:
    """A conversation whose calls are answered, as this API wants them, and that begins with some words."""
    opening = WORDS.filter(str.strip) | st.lists(USER, min_size=1, max_size=3).filter(_said)
    messages: list[Json] = [{"role": "user", "content": draw(opening)}]
    for turn in range(draw(st.integers(0, 2))):
        calls: list[Json] = [
            {
                "type": "tool_use",
                "id": f"toolu_{turn}_{n}",
                "name": draw(NAMES),
                "input": draw(INPUTS),
                **({"cache_control": mark} if (mark := draw(MARKS)) else {}),
            }
            for n in range(draw(st.integers(0, 2)))
        ]
        said = [*draw(st.lists(THOUGHTS, max_size=2)), *draw(st.lists(SAID, min_size=1, max_size=2))]
        said += draw(SERVER) if draw(st.booleans()) else []
        results = [draw(_result(call["id"])) for call in calls]
        messages.append({"role": "assistant", "content": said + calls})
        more = draw(st.lists(USER, min_size=1, max_size=2))
        messages.append({"role": "user", "content": [*results, *more]})
    return messages


def _result(id: str) -> st.SearchStrategy[Json]:
    inner = st.lists(st.one_of(TEXT, IMAGE, FOUND, REFERENCE), min_size=1, max_size=2)
    return block(
        type=just("tool_result"),
        tool_use_id=just(id),
        content=WORDS | inner,
        is_error=st.sampled_from([None, True]),
        cache_control=MARKS,
    )


TOOL = block(
    name=NAMES,
    description=st.none() | WORDS,
    input_schema=INPUTS.map(lambda more: {**more, "type": "object", "properties": {"a": {"type": "string"}}}),
    type=st.sampled_from([None, "custom"]),
    defer_loading=st.sampled_from([None, True]),
    eager_input_streaming=st.sampled_from([None, True]),
    input_examples=st.sampled_from([None, [{"a": "b"}]]),
    cache_control=MARKS,
)
SERVER_TOOL: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
    ]
)


@st.composite
def bodies(draw: st.DrawFn) -> Json:
    messages = draw(turns())
    has_calls = any("tool_use" in str(message["content"]) for message in messages)
    some = st.lists(
        TOOL | SERVER_TOOL, min_size=int(has_calls), max_size=3, unique_by=lambda tool: tool["name"]
    )
    tools = draw(some)  # a history with calls needs some
    body: Json = {
        "model": "claude-opus-4-8",
        "max_tokens": draw(st.integers(1, 100_000)),
        "messages": messages,
        "system": draw(st.none() | WORDS | st.lists(TEXT, min_size=1, max_size=3)),
        "tools": tools or None,
        "thinking": draw(
            st.sampled_from(
                [
                    None,
                    {"type": "adaptive"},
                    {"type": "adaptive", "display": "omitted"},
                    {"type": "enabled", "budget_tokens": 2000},
                    {"type": "disabled"},
                ]
            )
        ),
        "output_config": draw(
            st.sampled_from(
                [None, {"effort": "low"}, {"effort": "max"}, {"task_budget": {"type": "tokens", "total": 9}}]
            )
        ),
        "metadata": draw(st.sampled_from([None, {"user_id": "u"}, {"user_id": "u" * 200}, {"other": 1}])),
        "service_tier": draw(st.sampled_from([None, "standard_only"])),
        "stop_sequences": draw(st.none() | st.lists(WORDS, min_size=1, max_size=2)),
        "context_management": draw(
            st.sampled_from([None, {"edits": [{"type": "clear_tool_uses_20250919"}]}])
        ),
        "container": draw(st.sampled_from([None, "container_1"])),
        "speed": draw(st.sampled_from([None, "fast"])),
        "stream": draw(st.sampled_from([None, True])),
    }
    if tools:
        names = [tool["name"] for tool in tools]
        kinds: list[Json] = [{"type": "auto"}, {"type": "any"}]
        kinds += [{"type": "tool", "name": name} for name in names]
        if draw(st.booleans()):
            alone = {"disable_parallel_tool_use": True} if draw(st.booleans()) else {}
            body["tool_choice"] = draw(st.sampled_from(kinds)) | alone
    return {name: value for name, value in body.items() if value is not None}


def normal(body: Json) -> Json:
    """The one form of a body among those that mean the same; `docs/bridges/messages.md` lists the rules."""
    body = copy.deepcopy(body)
    if isinstance(body.get("system"), str):
        body["system"] = [{"type": "text", "text": body["system"]}]
    body["system"] = _said(body.get("system", []))
    messages: list[Json] = []
    for message in body["messages"]:
        content = message["content"]
        blocks = _said([{"type": "text", "text": content}] if isinstance(content, str) else content)
        if blocks and messages and messages[-1]["role"] == message["role"]:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": message["role"], "content": blocks})
    body["messages"] = messages
    for tool in body.get("tools", ()):
        if tool.get("type") == "custom":
            del tool["type"]
        if not tool.get("description"):
            tool.pop("description", None)
    if body.get("stream") is False:
        del body["stream"]
    return {name: value for name, value in body.items() if value not in ([], None)}


def _said(blocks: list[Json]) -> list[Json]:
    """Blank texts are left out, and a result's as well."""
    for one in blocks:
        if one["type"] == "tool_result" and isinstance(one.get("content"), list):
            one["content"] = _said(one["content"])
        if one["type"] == "tool_result" and (not one.get("content") or _is_blank(one["content"])):
            one.pop("content", None)
    return [one for one in blocks if one["type"] != "text" or one["text"].strip()]


def _is_blank(content: Any) -> bool:
    return isinstance(content, str) and not content.strip()
