"""Servers that are wrong about what they are asked: scenarios, bodies, limits, echoes, formats, content."""

import json

from antiphon.compliance.checks import echoes, limits
from tests.compliance.broken import Answer, Asked, Fault, Json
from tests.compliance.faults.ways import (
    COMPACT,
    GOOD,
    alter,
    both,
    crash,
    drop,
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
    rewrite,
    socket_alters,
    socket_forgives,
    socket_refuses,
)
from tests.compliance.two_tenants import KEYS

FAULTS: dict[str, Fault] = {}

# --- official -----------------------------------------------------------------------------------------------


def _odd_phase(response: Json) -> None:
    for item in response["output"]:
        item["phase"] = "thinking"


def _rename_calls(response: Json) -> None:
    for item in response["output"]:
        if item["type"] == "function_call":
            item["name"] = "other"


FAULTS |= {
    "basic-response": crash(has("exactly 3 words")),
    "assistant-phase": crash(has("two steps")),
    "response-output-phase-schema": alter(has("Bye.", "phase"), _odd_phase, "keys.value"),
    "streaming-response": crash(has("Count from 1 to 5")),
    "websocket-response": socket_refuses(has("Count from 1 to 3")),
    "websocket-sequential-responses": socket_alters(has("Reply with exactly"), put(id="resp_same")),
    "websocket-continuation": socket_alters(previous_known, put(previous_response_id=None)),
    "websocket-reconnect-store-false-recovery": socket_forgives(
        lambda asked: b"Go on after all" in asked.raw, drop("previous_response_id")
    ),
    "websocket-previous-response-not-found": socket_forgives(
        lambda asked: b"This must fail" in asked.raw, drop("previous_response_id")
    ),
    "websocket-failed-continuation-evicts-cache": socket_forgives(
        lambda asked: b"Go on all the same" in asked.raw, drop("previous_response_id")
    ),
    "websocket-compact-new-chain": socket_alters(has("compaction"), put(previous_response_id="resp_1")),
    "system-prompt": crash(has("Always talk like one")),
    "tool-calling": alter(has("San Francisco"), _rename_calls),
    "image-input": crash(has("What do you see in this image")),
    "multi-turn": crash(has("My name is Alice")),
    "compact-response": crash(has("Tuesday"), path=COMPACT),
    "compact-missing-model": forgive(lambda body: "model" not in body, put(model="model"), path=COMPACT),
}

# --- bodies and keys ----------------------------------------------------------------------------------------


def _post(asked: Asked) -> bool:
    return asked.method == "POST" and asked.path == "/v1/responses"


def _good(asked: Asked) -> bytes:
    return json.dumps(GOOD).encode()


def _key(needed: bool) -> Fault:
    def before(asked: Asked) -> None:
        given = asked.headers.get("authorization", "")
        if ("no-such-key" in given) if needed else not given:
            asked.headers["authorization"] = f"Bearer {KEYS['alice']}"

    return Fault(before)


def _unnamed(asked: Asked) -> Answer | None:
    return Answer.error(400) if fits(asked, is_("temperature", "hot")) else None


def _charset(asked: Asked) -> Answer | None:
    return Answer.error(415) if "charset" in asked.headers.get("content-type", "") else None


def _everything_is_fine(method: str, *also: str) -> Fault:
    def before(asked: Asked) -> Answer | None:
        wrong = asked.method == method and not asked.path.endswith("/models")
        return Answer.of(200, {}) if wrong else None

    return Fault(before, also=frozenset(also))


def _mark(response: Json) -> None:
    if "mark" in response["metadata"]:
        response["metadata"] = {"mark": "mark-0"}


FAULTS |= {
    "body.not_json": rewrite(lambda asked: asked.raw.endswith(b'"input": '), _good),
    "body.not_object": rewrite(lambda asked: isinstance(asked.body, list), _good),
    "body.empty": rewrite(lambda asked: _post(asked) and not asked.raw, _good),
    "body.not_utf8": rewrite(lambda asked: b"\xe9" in asked.raw, _good),
    "body.media_type": rewrite(lambda asked: asked.headers.get("content-type") == "image/png", _good),
    "body.charset": Fault(_charset),
    "body.unknown_model": forgive(is_("model", "no-such-model-anywhere"), drop("model")),
    "body.unknown_field": refuse(lambda body: "acme:note" in body),
    "body.nulls": refuse(lambda body: None in body.values()),
    "error.names_param": Fault(_unnamed),
    "error.in_stream": forgive(both(is_streamed, is_("input", 7)), put(input="Hello.")),
    "path.unknown": _everything_is_fine("GET", "tenant.get"),
    "path.method": _everything_is_fine("PUT"),
    "key.required": _key(needed=False),
    "key.wrong": _key(needed=True),
    "body.many": alter(both(has("mark"), no(is_streamed)), _mark),
}

# --- limits: a server that forgives each wrong value, and one that refuses what is right -------------------


def _forgives_limit(wrong: Json) -> Fault:
    asked = {"input": "Say hello.", **wrong}

    def is_wrong(body: Json) -> bool:
        said = {name: body.get(name) for name in body.keys() - {"model", "max_output_tokens"} | asked.keys()}
        return said == asked

    def change(body: Json) -> None:
        for name in wrong:
            body.pop(name)
        body.setdefault("input", "Say hello.")

    return forgive(is_wrong, change)


def _refuses_limit(right: Json) -> Fault:
    asked = {"input": "Say hello.", **right}
    return refuse(lambda body: all(body.get(name) == value for name, value in asked.items()))


FAULTS |= {name: _forgives_limit(make()) for name, (_, _, make) in limits._WRONG.items()}
FAULTS |= {name: _refuses_limit(make()) for name, (_, make) in limits._RIGHT.items()}

# --- echoes -------------------------------------------------------------------------------------------------

_OTHER: Json = {
    "instructions": None,
    "metadata": {},
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "store": True,
    "truncation": "disabled",
    "prompt_cache_key": None,
    "safety_identifier": None,
    "text": {"format": {"type": "json_object"}},
}
FAULTS |= {
    f"echo.{name}": alter(both(is_(name, value), no(is_streamed)), put(**{name: _OTHER[name]}))
    for name, value in echoes._ECHOES.items()
}
FAULTS |= {
    "echo.tools": alter(both(has("get_weather"), no(is_streamed)), put(tools=[])),
    "echo.tool_choice": alter(has("allowed_tools"), put(tool_choice="auto")),
    "echo.format": alter(has("shape"), put(text={"format": {"type": "text"}})),
    "echo.stream": alter(both(is_streamed, has("topic")), put(metadata={})),
}

# --- structured output --------------------------------------------------------------------------------------

FAULTS |= {
    "format.strict": forgive(both(has("21 degrees"), no(is_streamed)), drop("text")),
    "format.streamed": forgive(both(has("21 degrees"), is_streamed), drop("text")),
    "format.bad_schema": forgive(has("nonsense"), drop("text")),
    "format.no_name": refuse(
        lambda body: (body.get("text") or {}).get("format", {}).keys() == {"type", "schema"}
    ),
    "format.text": crash(is_("text", {"format": {"type": "text"}}), "echo.text"),
}

# --- content ------------------------------------------------------------------------------------------------


FAULTS |= {
    "content.string": crash(is_("input", "Say hello to me.")),
    "content.parts": crash(has('{"type": "input_text", "text": "Say "}')),
    "content.no_type": refuse(input_is(None)),  # type: ignore[arg-type]
    "content.roles": crash(has("Be kind.")),
    "content.assistant_parts": refuse(has("I would rather not")),
    "content.own_output": refuse(
        both(has("output_text", "Say goodbye."), no(has("rather not"))), 400, "invalid_request", "state.ids"
    ),
    "content.calls": crash(has("Thank you. Say goodbye.", "function_call_output")),
    "content.output_parts": crash(has("Sunny, ", "input_text")),
    "content.reasoning": refuse(has_type("reasoning")),
    "content.image": crash(has("input_image", "low")),
    "content.broken_image": forgive(has("@@@@"), put(input="Say hello.")),
    "content.file": crash(has("What does the file say?")),
    "content.file_read": forgive(has("Which animal", "input_file"), put(input="Say hello.")),
    "content.reference": crash(both(has_type("item_reference"), has("Say goodbye."))),
    "content.unknown_reference": forgive(has("msg_that_never_was"), put(input="Say hello.")),
    "content.vendor_item": crash(has_type("acme:note")),
    "content.unknown_item": crash(has_type("telepathy")),
    "content.unknown_part": crash(has("smell")),
    "content.orphan_output": forgive(has("call_of_nobody"), put(input="Say hello.")),
    "content.unicode": alter(has("Gr"), lambda response: response.update(instructions="Gr??e")),
}
