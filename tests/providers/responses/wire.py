"""The wire of OpenAI's `/responses`, from its documentation: scripts as events, streamed and whole."""

import json
from collections.abc import Iterator
from itertools import count, zip_longest
from typing import Any

from tests.providers.conformance.said import (
    Called,
    Counted,
    Redacted,
    Refused,
    Saying,
    Script,
    Text,
    Thought,
)

Json = dict[str, Any]
MODEL = "gpt-5.4"
DONE = b"data: [DONE]\n\n"
_CUTS = {"length": "max_output_tokens", "content_filter": "content_filter"}
CRASH: Json = {"code": "server_error", "message": "The model crashed."}


def sse(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def error(message: str, kind: str = "invalid_request_error", code: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


def usage(counted: Counted) -> Json:
    return {
        "input_tokens": counted.input,
        "input_tokens_details": {"cached_tokens": counted.cached},
        "output_tokens": counted.output,
        "output_tokens_details": {"reasoning_tokens": counted.reasoning},
        "total_tokens": counted.input + counted.output,
    }


def response(request: Json, status: str | None, **more: Any) -> Json:
    """The resource, with what it repeats of the request."""
    made: Json = {
        "id": "resp_upstream",
        "object": "response",
        "created_at": 1_800_000_000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "max_tool_calls": None,
        "model": MODEL,
        "output": [],
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": request.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "metadata": {},
        **more,
    }
    return {key: value for key, value in made.items() if key != "status" or value is not None}


def events(script: Script, request: Json) -> Iterator[Json]:
    """The answer event by event, list_pages; a cut leaves it without an end."""
    numbers = count()
    for event in _events(script, request):
        yield {**event, "sequence_number": next(numbers)}


def whole(script: Script, request: Json) -> Json:
    cut = _CUTS.get(script.ending)
    output = [_item(one, n, request) for n, one in enumerate(script.said)]
    if cut and output and "status" in output[-1]:
        output[-1]["status"] = "incomplete"
    status = None if script.ending == "none" else "incomplete" if cut else "completed"
    more: Json = {"output": output, "incomplete_details": {"reason": cut} if cut else None}
    if script.usage is not None:
        more["usage"] = usage(script.usage)
    return response(request, status, **more)


def _events(script: Script, request: Json) -> Iterator[Json]:
    yield {"type": "response.created", "response": response(request, "in_progress")}
    yield {"type": "response.in_progress", "response": response(request, "in_progress")}
    runs = [_run(one, n, script, request) for n, one in enumerate(script.said)]
    if script.interleaved:
        yield from (event for told in zip_longest(*runs) for event in told if event)
    else:
        for run in runs:
            yield from run
    if script.ending == "cut":
        return
    if script.ending == "error":
        yield {"type": "error", "code": CRASH["code"], "message": CRASH["message"], "param": None}
        yield {"type": "response.failed", "response": response(request, "failed", error=CRASH)}
        return
    final = whole(script, request)
    yield {"type": f"response.{final.get('status', 'completed')}", "response": final}


def _run(one: Saying, n: int, script: Script, request: Json) -> Iterator[Json]:
    """Everything that is said of one item."""
    is_last = n == len(script.said) - 1
    final = _item(one, n, request)
    where = {"item_id": final["id"], "output_index": n}
    started = final | {"status": "in_progress"} if "status" in final else dict(final)
    for name, empty in (("content", []), ("summary", []), ("arguments", ""), ("input", "")):
        if name in final:
            started[name] = empty
    yield {"type": "response.output_item.added", "output_index": n, "item": started}
    yield from _words(one, final, where, script, is_open=is_last and script.ending in ("cut", "error"))
    if is_last and script.ending in ("cut", "error"):
        return
    if is_last and script.ending in _CUTS and "status" in final:
        final = final | {"status": "incomplete"}
    yield {"type": "response.output_item.done", "output_index": n, "item": final}


def _words(one: Saying, final: Json, where: Json, script: Script, *, is_open: bool) -> Iterator[Json]:
    match final["type"]:
        case "message":
            [part] = final["content"]
            kind, field = ("refusal", "refusal") if isinstance(one, Refused) else ("output_text", "text")
            place = {**where, "content_index": 0}
            logprobs: Json = {"logprobs": []} if kind == "output_text" else {}
            yield {"type": "response.content_part.added", **place, "part": part | {field: ""}}
            for piece in cut(part[field], script.size):
                yield {"type": f"response.{kind}.delta", **place, "delta": piece, **logprobs}
            if not is_open:
                yield {"type": f"response.{kind}.done", **place, field: part[field], **logprobs}
                yield {"type": "response.content_part.done", **place, "part": part}
        case "reasoning":
            for part in final["summary"]:
                place = {**where, "summary_index": 0}
                kind = "response.reasoning_summary"
                yield {"type": f"{kind}_part.added", **place, "part": part | {"text": ""}}
                for piece in cut(part["text"], script.size):
                    yield {"type": f"{kind}_text.delta", **place, "delta": piece}
                yield {"type": f"{kind}_text.done", **place, "text": part["text"]}
                yield {"type": f"{kind}_part.done", **place, "part": part}
            for part in final.get("content", []):
                place = {**where, "content_index": 0}
                for piece in cut(part["text"], script.size):
                    yield {"type": "response.reasoning_text.delta", **place, "delta": piece}
                yield {"type": "response.reasoning_text.done", **place, "text": part["text"]}
        case kind:
            field = "arguments" if kind == "function_call" else "input"
            name = "function_call_arguments" if kind == "function_call" else "custom_tool_call_input"
            for piece in cut(final[field], script.size):
                yield {"type": f"response.{name}.delta", **where, "delta": piece}
            if not is_open:
                yield {"type": f"response.{name}.done", **where, field: final[field]}


def _item(one: Saying, n: int, request: Json) -> Json:
    match one:
        case Text(text):
            part: Json = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            return _message(n, part)
        case Refused(text):
            return _message(n, {"type": "refusal", "refusal": text})
        case Thought(text, ""):
            content = [{"type": "reasoning_text", "text": text}]
            return {"type": "reasoning", "id": f"rs_up_{n}", "summary": [], "content": content}
        case Thought(text, signature):
            summary = [{"type": "summary_text", "text": text}]
            return {
                "type": "reasoning",
                "id": f"rs_up_{n}",
                "summary": summary,
                "encrypted_content": signature,
            }
        case Redacted(data):
            return {"type": "reasoning", "id": f"rs_up_{n}", "summary": [], "encrypted_content": data}
        case Called():
            return _call(one, n, request)


def _message(n: int, part: Json) -> Json:
    return {
        "type": "message",
        "id": f"msg_up_{n}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _call(call: Called, n: int, request: Json) -> Json:
    """The call as this wire has it: custom tools and namespaces are its own."""
    made: Json = {"type": "function_call", "id": f"fc_up_{n}", "status": "completed", "name": call.name}
    if call.id is not None:
        made["call_id"] = call.id
    for tool in request.get("tools", []):
        if tool["type"] == "custom" and tool["name"] == call.name:
            del made["status"]
            return made | {"type": "custom_tool_call", "input": json.loads(call.arguments)["input"]}
        if tool["type"] == "namespace" and call.name.startswith(f"{tool['name']}__"):
            made |= {"namespace": tool["name"], "name": call.name.removeprefix(f"{tool['name']}__")}
    return made | {"arguments": call.arguments}


def cut(text: str, size: int) -> list[str]:
    return [text[n : n + size] for n in range(0, len(text), size)]


def unpaired(items: object) -> list[str]:
    """Every call has its output, every output its call, something stands after reasoning, and only what
    this server has sealed, which is no compaction, can be opened here."""
    found = []
    waiting: set[str] = set()
    given = items if isinstance(items, list) else []
    for n, item in enumerate(given):
        kind, call_id = str(item.get("type", "message")), item.get("call_id")
        if kind in ("function_call", "custom_tool_call"):
            waiting.add(call_id)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if call_id not in waiting:
                found.append(f"$.input[{n}]: no tool call found for the output {call_id!r}")
            waiting.discard(call_id)
        elif kind == "reasoning" and n + 1 == len(given):
            found.append(f"$.input[{n}]: a reasoning item without the item that must follow it")
        elif kind == "compaction":
            found.append(f"$.input[{n}]: the encrypted content could not be verified")
    return found + [f"$.input: no tool output found for the call {one!r}" for one in sorted(waiting)]
