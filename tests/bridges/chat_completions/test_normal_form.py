"""Property: what a chat upstream is sent of a chat completion is the documented normal form of what came."""

import json
from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.bridges.chat_completions import read_completion
from antiphon.engine.context import input_items
from antiphon.providers.base import Turn
from antiphon.providers.chat.profiles import PROFILES
from antiphon.providers.chat.request import prepare

Json = dict[str, Any]
PNG = "data:image/png;base64,iVBORw0KGgo="

TEXTS = st.text(min_size=1, max_size=8)
NAMES = st.sampled_from(["get_weather", "f", "g_2"])
TEXT_PARTS = st.builds(lambda text: {"type": "text", "text": text}, TEXTS)
IMAGES = st.builds(
    lambda url, detail: {"type": "image_url", "image_url": {"url": url, **detail}},
    st.sampled_from([PNG, "https://a.example/x.png"]),
    st.sampled_from([{}, {"detail": "low"}, {"detail": "auto"}]),
)
FILES = st.builds(
    lambda name: {
        "type": "file",
        "file": {"filename": name, "file_data": "data:application/pdf;base64,JVBERi0="},
    },
    TEXTS,
)
NAMED = st.one_of(st.just({}), st.builds(lambda name: {"name": name}, NAMES))
USERS = st.builds(
    lambda content, name: [{"role": "user", "content": content, **name}],
    st.one_of(TEXTS, st.lists(st.one_of(TEXT_PARTS, IMAGES, FILES), min_size=1, max_size=3)),
    NAMED,
)
SYSTEMS = st.builds(
    lambda role, content, name: [{"role": role, "content": content, **name}],
    st.sampled_from(["system", "developer"]),
    st.one_of(TEXTS, st.lists(TEXT_PARTS, min_size=1, max_size=2)),
    NAMED,
)


@st.composite
def turns(draw: st.DrawFn) -> list[Json]:
    """What the assistant said and called, the results in any order, and a user after it."""
    numbers = draw(st.lists(st.integers(0, 10**9), max_size=3, unique=True))
    calls, results = [], []
    for id in (f"call_{number}" for number in numbers):
        if draw(st.booleans()):
            function = {"name": draw(NAMES), "arguments": draw(st.sampled_from(['{"a":1}', "", "{"]))}
            calls.append({"id": id, "type": "function", "function": function})
        else:
            calls.append({"id": id, "type": "custom", "custom": {"name": draw(NAMES), "input": draw(TEXTS)}})
        content = draw(st.one_of(st.text(max_size=5), st.lists(TEXT_PARTS, min_size=1, max_size=2)))
        results.append({"role": "tool", "tool_call_id": id, "content": content})
    said: Json = {"role": "assistant", "content": draw(st.one_of(st.none() if calls else TEXTS, TEXTS))}
    said |= draw(NAMED) if said["content"] else {}
    if draw(st.booleans()):
        said["refusal"] = draw(TEXTS)
    if calls:
        said["tool_calls"] = calls
    return [said, *draw(st.permutations(results)), *draw(USERS)]


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=fields)


SCHEMAS = st.sampled_from([{"type": "object", "properties": {}}, {"type": "object", "properties": {"a": {}}}])
FUNCTIONS = st.builds(
    lambda name, about, schema, strict: {"name": name, **about, "parameters": schema, **strict},
    NAMES,
    st.sampled_from([{}, {"description": "Does it."}]),
    SCHEMAS,
    st.sampled_from([{}, {"strict": True}, {"strict": False}]),
)
TOOLS = st.lists(FUNCTIONS, min_size=1, max_size=3, unique_by=lambda one: str(one["name"]))


@st.composite
def tool_fields(draw: st.DrawFn) -> Json:
    functions = draw(TOOLS)
    names = [one["name"] for one in functions]
    is_older = draw(st.booleans())
    named = draw(st.sampled_from(names))
    if is_older:
        choice = draw(st.sampled_from([None, "none", "auto", {"name": named}]))
        return {"functions": functions} | ({} if choice is None else {"function_call": choice})
    one = {"type": "function", "function": {"name": named}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [one]}}
    choice = draw(st.sampled_from([None, "none", "auto", "required", one, allowed]))
    fields: Json = {"tools": [{"type": "function", "function": function} for function in functions]}
    fields |= {} if choice is None else {"tool_choice": choice}
    return fields | draw(optional(parallel_tool_calls=st.booleans()))


FLOATS = st.floats(0, 2, allow_nan=False)
BODIES = st.builds(
    lambda beginning, middle, first, tools, more: {
        "messages": [*chain(*beginning), *first, *chain(*middle)],
        **tools,
        **more,
    },
    st.lists(SYSTEMS, max_size=2),
    st.lists(st.one_of(turns(), USERS, SYSTEMS), max_size=3),
    USERS,
    st.one_of(st.just({}), tool_fields()),
    optional(
        stream=st.booleans(),
        temperature=FLOATS,
        top_p=FLOATS,
        presence_penalty=FLOATS,
        frequency_penalty=FLOATS,
        max_tokens=st.integers(1, 10**6),
        logprobs=st.just(True),
        top_logprobs=st.integers(0, 20),
        stop=st.one_of(TEXTS, st.lists(TEXTS, min_size=1, max_size=4)),
        seed=st.integers(-(2**53) + 1, 2**53 - 1),
        logit_bias=st.dictionaries(st.sampled_from(["1", "50256"]), st.integers(-100, 100)),
        reasoning_effort=st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
        verbosity=st.sampled_from(["low", "medium", "high"]),
        service_tier=st.sampled_from(["auto", "default", "flex", "priority", "scale", "fast"]),
        prompt_cache_key=TEXTS,
        user=TEXTS,
        prediction=st.just({"type": "content", "content": "x"}),
        web_search_options=st.just({"search_context_size": "low"}),
        n=st.just(1),
        store=st.booleans(),
        metadata=st.just({"a": "b"}),
        response_format=st.sampled_from(
            [
                {"type": "text"},
                {"type": "json_object"},
                {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
                {"type": "json_schema", "json_schema": {"name": "x", "schema": {}, "strict": True}},
            ]
        ),
    ),
)


def normal(body: Json) -> Json:
    """The body as docs/bridges/chat-completions.md says that it reaches a chat upstream."""
    made = {**body, "model": "m", "messages": _normal_messages(body["messages"])}
    for name in ("n", "store", "metadata"):
        made.pop(name, None)
    if not made.pop("stream", False):
        made.pop("stream_options", None)
    else:
        made |= {"stream": True, "stream_options": {"include_usage": True}}
    if "max_tokens" in made:
        made["max_completion_tokens"] = made.pop("max_tokens")
    if "user" in made:
        made["safety_identifier"] = made.pop("user")
    if made.get("top_logprobs"):
        made["logprobs"] = True
    elif "top_logprobs" in made:
        del made["top_logprobs"]
    if effort := made.get("reasoning_effort"):
        made["reasoning_effort"] = "low" if effort == "minimal" else effort
    if made.get("response_format") == {"type": "text"}:
        del made["response_format"]
    functions = made.pop("functions", None)
    if functions is not None:
        made["tools"] = [{"type": "function", "function": one} for one in functions]
        made["parallel_tool_calls"] = False
        choice = made.pop("function_call", None)
        if choice is not None:
            named = isinstance(choice, dict)
            made["tool_choice"] = {"type": "function", "function": choice} if named else choice
    if isinstance(made.get("tool_choice"), dict) and "allowed_tools" in made["tool_choice"]:
        made["tool_choice"] = made["tool_choice"]["allowed_tools"]["mode"]
    made["tools"] = [
        {
            "type": "function",
            "function": {
                key: value for key, value in tool["function"].items() if key != "strict" or value is True
            },
        }
        for tool in made.get("tools", ())
    ]
    if not made["tools"]:
        del made["tools"]
    return made


def _normal_messages(messages: list[Json]) -> list[Json]:
    made: list[Json] = []
    order: list[str] = []
    for message in messages:
        one = {key: value for key, value in message.items() if value is not None}
        content = one.get("content")
        if message["role"] == "user" and isinstance(content, list):
            parts = [_normal_part(part) for part in content]
            is_text = len(parts) == 1 and parts[0]["type"] == "text"
            one["content"] = parts[0]["text"] if is_text else parts
        elif isinstance(content, list):
            joint = "\n" if message["role"] == "tool" else ""
            one["content"] = joint.join(part["text"] for part in content)
        if message["role"] == "assistant":
            one.setdefault("content", None)
            calls = [_normal_call(call) for call in message.get("tool_calls", ())]
            order = [call["id"] for call in calls]
            one |= {"tool_calls": calls} if calls else {}
        made.append(one)
        if message["role"] == "tool":
            count = len(order)
            begun = max(n for n, said in enumerate(made) if said["role"] == "assistant") + 1
            if len(made) - begun == count:
                made[begun:] = sorted(made[begun:], key=lambda said: order.index(said["tool_call_id"]))
    return made


def _normal_part(part: Json) -> Json:
    if part["type"] == "image_url" and part["image_url"].get("detail") == "auto":
        return {"type": "image_url", "image_url": {"url": part["image_url"]["url"]}}
    return part


def _normal_call(call: Json) -> Json:
    if call["type"] == "custom":
        arguments = json.dumps({"input": call["custom"]["input"]}, ensure_ascii=False)
        return {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["custom"]["name"], "arguments": arguments},
        }
    function = call["function"]
    return {**call, "function": {**function, "arguments": function["arguments"] or "{}"}}


@settings(max_examples=200, deadline=None)
@given(body=BODIES)
def test_a_chat_upstream_is_sent_the_normal_form_of_what_came(body: Json) -> None:
    request = read_completion(json.dumps(body).encode()).request
    given_items = input_items(request.input)
    turn = Turn("m", request, given_items, request.tools, stream=request.stream)
    sent, _ = prepare(turn, PROFILES["openai"], "chat")
    assert json.loads(json.dumps(sent)) == normal(body)
