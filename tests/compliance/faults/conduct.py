"""Servers that are wrong in what they do: tools, state, streams, tenants, sockets, compaction, framing."""

import json
from collections.abc import Callable
from typing import Any

from antiphon.compliance.checks import limits
from tests.compliance.broken import Answer, Asked, Fault, Json
from tests.compliance.faults.ways import (
    COMPACT,
    NEVER,
    ONLY_TIME,
    Is,
    alter,
    both,
    crash,
    drop,
    errors,
    fits,
    forgive,
    has,
    has_type,
    input_is,
    is_,
    is_streamed,
    no,
    previous_known,
    put,
    refuse,
    socket_alters,
    socket_forgives,
    socket_refuses,
    streamed,
    without,
)
from tests.compliance.two_tenants import KEYS

FAULTS: dict[str, Fault] = {}

# --- tools --------------------------------------------------------------------------------------------------


def _same_call_ids(response: Json) -> None:
    for item in response["output"]:
        if item["type"] == "function_call":
            item["call_id"] = "call_x"


def _encode_twice(response: Json) -> None:
    for item in response["output"]:
        if item["type"] == "function_call":
            item["arguments"] = json.dumps(item["arguments"])


FAULTS |= {
    "tools.required": forgive(both(is_("tool_choice", "required"), no(is_streamed)), put(tool_choice="none")),
    "tools.required_streamed": forgive(
        both(is_("tool_choice", "required"), is_streamed), put(tool_choice="none")
    ),
    "tools.none": forgive(both(is_("tool_choice", "none"), has("You must call")), put(tool_choice="auto")),
    "tools.named": forgive(
        is_("tool_choice", {"type": "function", "name": "get_weather"}),
        put(tool_choice={"type": "function", "name": "get_time"}),
    ),
    # One gives way to the last temptation only, the other to the second.
    "tools.allowed": forgive(
        both(is_("tool_choice", ONLY_TIME), no(is_streamed), has("as you did")), put(tool_choice="auto")
    ),
    "tools.allowed_streamed": forgive(
        both(is_("tool_choice", ONLY_TIME), is_streamed, has("Forget every")), put(tool_choice="auto")
    ),
    "tools.allowed_required": forgive(
        has('"mode": "required"'), put(tool_choice={"type": "function", "name": "get_time"})
    ),
    "tools.allowed_unknown": forgive(has("get_lost", "allowed_tools"), put(tool_choice="auto")),
    "tools.unknown": forgive(both(has("get_lost"), no(has("allowed_tools"))), put(tool_choice="auto")),
    "tools.one_at_a_time": forgive(
        both(is_("parallel_tool_calls", False), has("Tokyo")), put(parallel_tool_calls=True)
    ),
    "tools.max_calls": forgive(is_("max_tool_calls", 1), drop("max_tool_calls")),
    "tools.parallel": alter(
        both(has("Tokyo"), no(has("max_tool_calls")), no(has("parallel_tool_calls"))), _same_call_ids
    ),
    "tools.arguments": alter(both(is_("tool_choice", "required"), no(is_streamed)), _encode_twice),
    "tools.result": crash(
        both(is_("tool_choice", "none"), input_is("message", "function_call", "function_call_output"))
    ),
    "tools.strict_null": refuse(has('"name": "ping"')),
}

# --- tools that the server runs -----------------------------------------------------------------------------


def _lost_container(response: Json) -> None:
    for item in response["output"]:
        if item["type"] == "code_interpreter_call":
            item["container_id"] = None


def _lost_search(response: Json) -> None:
    for item in response["output"]:
        if item["type"] == "web_search_call":
            item["action"] = {"type": "guess"}
        if item["type"] == "file_search_call":
            item["queries"] = "bridge"


def _silent(tool: str) -> Fault:
    """Tells of a run of the tool only by its item."""

    def after(asked: Asked, answer: Answer) -> None:
        if fits(asked, both(has(f'"{tool}"'), is_streamed)) and answer.is_stream:
            kept = [event for event in answer.events if f".{tool}_call" not in event["type"]]
            answer.events = [{**event, "sequence_number": n} for n, event in enumerate(kept)]

    return Fault(after=after)


FAULTS |= {
    "code_interpreter.item": alter(both(has('"code_interpreter"'), no(is_streamed)), _lost_container),
    "code_interpreter.streamed": _silent("code_interpreter"),
    "web_search.item": alter(both(has('"web_search"'), no(is_streamed)), _lost_search),
    "web_search.streamed": _silent("web_search"),
    "file_search.item": alter(both(has('"file_search"'), no(is_streamed)), _lost_search),
    "file_search.streamed": _silent("file_search"),
    "mcp.unreachable": crash(both(has("mcp.invalid"), no(is_streamed))),
    "mcp.unreachable_streamed": crash(both(has("mcp.invalid"), is_streamed)),
}

# --- state --------------------------------------------------------------------------------------------------


def _forgets(when: Is, *also: str) -> Fault:
    """Says that it continues the previous response, and does not."""
    known: list[str] = []

    def before(asked: Asked) -> None:
        if fits(asked, both(when, previous_known)):
            body = asked.body
            known.append(body.pop("previous_response_id"))
            asked.headers["x-was"] = known[-1]
            asked.body = body

    def after(asked: Asked, answer: Answer) -> None:
        if was := asked.headers.get("x-was"):
            answer.each_response(put(previous_response_id=was))

    return Fault(before, after, also=frozenset(also))


def _another_code(asked: Asked, answer: Answer) -> Answer | None:
    return Answer.error(400) if fits(asked, has(NEVER)) else None


def _same_item_ids(response: Json) -> None:
    for item in response["output"]:
        item["id"] = "msg_same"


FAULTS |= {
    "state.previous": _forgets(has("What is the secret word"), "state.depth"),
    "state.depth": _forgets(is_("input", "Say no."), "state.branches"),
    "state.order": _forgets(has("name first")),
    "state.instructions": alter(previous_known, put(instructions="Talk like a pirate.")),
    "state.branches": refuse(
        both(is_("input", "Say no."), previous_known), 400, "invalid_request", "state.depth"
    ),
    "state.streamed": refuse(is_("input", "Say more.")),
    "state.unknown": forgive(has(NEVER), drop("previous_response_id"), "state.unknown_code"),
    "state.unknown_code": Fault(after=_another_code),
    "state.not_stored": forgive(is_("store", False), put(store=True), "echo.store"),
    "state.ids": alter(no(is_streamed), _same_item_ids),
    "state.calls": refuse(both(has_type("function_call_output"), previous_known)),
}
FAULTS["state.depth"] = _forgets(is_("input", "Say no."))

# --- streams ------------------------------------------------------------------------------------------------


def _lose_deltas(asked: Asked, answer: Answer) -> None:
    if fits(asked, has("one to five")):
        kept = [event for event in answer.events if event["type"] != "response.output_text.delta"]
        for n, event in enumerate(kept):
            event["sequence_number"] = n
        answer.events = kept


def _another_reason(response: Json) -> None:
    if response["incomplete_details"]:
        response["incomplete_details"] = {"reason": "length"}


def _used_too_much(response: Json) -> None:
    if response["usage"]:
        response["usage"].update(output_tokens=99, total_tokens=response["usage"]["input_tokens"] + 99)


FAULTS |= {
    "stream.text": Fault(after=_lose_deltas, also=frozenset({"text.deltas_equal_done"})),
    "stream.usage": alter(is_streamed, put(usage=None)),
    "stream.cut_off": alter(both(is_streamed, is_("max_output_tokens", 16)), _another_reason),
    "response.cut_off": alter(both(no(is_streamed), is_("max_output_tokens", 16)), _another_reason),
    "stream.obeys_limit": alter(is_("max_output_tokens", 16), _used_too_much),
    "stream.obfuscation": forgive(lambda body: "stream_options" in body, drop("stream_options")),
    "stream.left": crash(is_("max_output_tokens", 256)),
    "stream.many": alter(both(is_streamed, has("mark")), put(metadata={"mark": "0"})),
    "stream.same": alter(no(is_streamed), put(**{"acme:more": 1})),
}

# --- tenants ------------------------------------------------------------------------------------------------


def _one_tenant(when: Is) -> Fault:
    def before(asked: Asked) -> None:
        if KEYS["bob"] in asked.headers.get("authorization", "") and (
            asked.method == "GET" or fits(asked, when)
        ):
            asked.headers["authorization"] = f"Bearer {KEYS['alice']}"

    return Fault(before)


def _bob_is_unknown(asked: Asked) -> Answer | None:
    unknown = KEYS["bob"] in asked.headers.get("authorization", "")
    return Answer.error(401, "authentication_error") if unknown else None


FAULTS |= {
    "tenant.second_key": Fault(_bob_is_unknown),
    "tenant.previous": _one_tenant(previous_known),
    "tenant.reference": _one_tenant(has_type("item_reference")),
    "tenant.compaction": _one_tenant(has_type("compaction")),
    "tenant.get": _one_tenant(lambda body: False),
}
for _name in ("tenant.previous", "tenant.reference", "tenant.compaction"):
    FAULTS[_name] = Fault(FAULTS[_name].before, also=frozenset({"tenant.get"}))

# --- WebSocket ----------------------------------------------------------------------------------------------


def _swap(response: Json) -> None:
    mark = response["metadata"].get("mark")
    response["metadata"] = {"mark": {"one": "two", "two": "one"}.get(mark, "")}


def _ends_without_a_response(asked: Asked) -> list[Json] | None:
    wrong = isinstance(asked.body, dict) and "stream" in asked.body
    return [{"type": "response.completed", "sequence_number": 0}] if wrong else None


def _a_turn(body: Json) -> bool:
    return body.get("input") == "Say hello." and not {"metadata", "stream"} & set(body)


FAULTS |= {
    "websocket.bad_json": socket_forgives(lambda asked: asked.body is None, put()),
    "websocket.unknown_type": socket_forgives(
        lambda asked: b"response.sing" in asked.raw, put(type="response.create", input="Hello.")
    ),
    "websocket.bad_request": socket_forgives(
        lambda asked: isinstance(asked.body, dict) and asked.body.get("input") == 7,
        put(input="Hello."),
        "websocket.after_error",
    ),
    "websocket.after_error": socket_refuses(_a_turn),
    "websocket.in_order": socket_alters(has("mark"), _swap),
    "websocket.stream_fields": Fault(
        message=_ends_without_a_response, also=frozenset({"keys.required", "order.created_first"})
    ),
    "websocket.local_memory": forgive(
        both(is_("input", "Go on."), lambda body: "max_output_tokens" not in body),
        drop("previous_response_id"),
    ),
    "websocket.stored": refuse(both(is_("input", "Go on."), lambda body: "max_output_tokens" in body)),
    "websocket.calls": socket_refuses(both(has_type("function_call_output"), no(has("call_of_nobody")))),
    "websocket.allowed_tools": socket_forgives(
        lambda asked: b"allowed_tools" in asked.raw, put(tool_choice="auto")
    ),
    "websocket.key": Fault(doors=KEYS["alice"]),
}

# --- compaction ---------------------------------------------------------------------------------------------


def _readable(asked: Asked, answer: Answer) -> None:
    if asked.path.endswith(COMPACT) and answer.status == 200:
        body = answer.body
        body["output"][0]["encrypted_content"] = "the secret word is heron"
        answer.body = body


def _compaction_with_id(has_id: bool) -> Is:
    return both(
        has_type("compaction"),
        lambda body: any("id" in item for item in body["input"] if item["type"] == "compaction") is has_id,
    )


FAULTS |= {
    "compact.round_trip": refuse(both(has_type("compaction"), has("Say hello"))),
    "compact.remembers": forgive(
        both(has_type("compaction"), has("What is the secret")), without("compaction")
    ),
    "compact.forged": forgive(
        _compaction_with_id(True), without("compaction"), "compact.remembers", "tenant.compaction"
    ),
    "compact.invented": forgive(_compaction_with_id(False), without("compaction")),
    "compact.opaque": Fault(
        after=_readable,
        also=frozenset({"compact.round_trip", "compact.remembers", "websocket-compact-new-chain"}),
    ),
    "compact.chain": refuse(previous_known, path=COMPACT),
    "compact.unknown_chain": forgive(
        has(NEVER), lambda body: body.update(input="Hello.", previous_response_id=None), path=COMPACT
    ),
    "compact.unknown_model": forgive(
        is_("model", "no-such-model-anywhere"), put(model="model"), path=COMPACT
    ),
}

# --- what is observed in every exchange ---------------------------------------------------------------------


def _content_type(kind: str, *also: str, stream: bool) -> Fault:
    def after(asked: Asked, answer: Answer) -> None:
        if answer.status == 200 and answer.is_stream is stream:
            answer.headers["content-type"] = kind

    return Fault(after=after, also=frozenset(also))


def _error(change: Callable[[Json], Any]) -> Callable[[Json], Json]:
    def inner(body: Json) -> Json:
        change(body["error"])
        return body

    return inner


def _times(response: Json) -> None:
    response["created_at"] *= 1000
    response["completed_at"] = response["completed_at"] and response["completed_at"] * 1000


def _usage(response: Json) -> None:
    if response["usage"]:
        response["usage"]["total_tokens"] += 1


# Checks that need a stream, and those that need a refusal which can be read.
_STREAMED = (
    "streaming-response",
    "echo.stream",
    "format.streamed",
    "state.streamed",
    "stream.cut_off",
    "stream.many",
    "stream.obeys_limit",
    "stream.obfuscation",
    "stream.same",
    "stream.text",
    "stream.usage",
    "tools.allowed_streamed",
    "code_interpreter.streamed",
    "web_search.streamed",
    "file_search.streamed",
    "mcp.unreachable_streamed",
)
_REFUSING = (
    *(name for name in limits._WRONG if name != "limit.text"),
    "body.empty",
    "body.media_type",
    "body.not_json",
    "body.not_object",
    "body.not_utf8",
    "body.unknown_model",
    "compact-missing-model",
    "compact.forged",
    "compact.invented",
    "compact.unknown_chain",
    "compact.unknown_model",
    "content.orphan_output",
    "content.unknown_reference",
    "error.in_stream",
    "error.names_param",
    "format.bad_schema",
    "state.not_stored",
    "state.unknown",
    "state.unknown_code",
    "tenant.compaction",
    "tenant.previous",
    "tenant.reference",
    "tools.allowed_unknown",
    "tools.unknown",
    "websocket.local_memory",
)

FAULTS |= {
    "http.json_type": _content_type("text/plain", stream=False),
    "http.sse_type": _content_type("application/json", *_STREAMED, stream=True),
    "sse.no_id": streamed(lambda raw: raw.replace(b"event: ", b"id: 1\nevent: ")),
    "sse.utf8": streamed(lambda raw: b": \xff\n\n" + raw),
    "sse.one_data_line": streamed(lambda raw: raw.replace(b'data: {"', b'data: {\ndata: "')),
    "done.literal": streamed(lambda raw: raw.replace(b"data: [DONE]", b"event: done\ndata: [DONE]")),
    "error.object": errors(lambda body: {"detail": "no"}, *_REFUSING),
    "error.full": errors(_error(drop("code", "param")), "error.names_param", "state.unknown_code"),
    "error.type_and_status": errors(_error(put(type="oops"))),
    "error.no_internals": errors(_error(put(message='Traceback (most recent call last): File "/x.py"'))),
    "usage.adds_up": alter(lambda body: True, _usage),
    "response.times": alter(lambda body: True, _times),
    "response.consistent": alter(no(is_streamed), put(completed_at=None)),
}
