"""Good streams, written by hand from the specification: what the Auditor must find nothing wrong with."""

from typing import Any

Payload = dict[str, Any]

CITATION = {
    "type": "url_citation",
    "url": "https://example.org/bees",
    "title": "Bees",
    "start_index": 0,
    "end_index": 4,
}
TOOL = {
    "type": "function",
    "name": "weather",
    "description": None,
    "parameters": {"type": "object", "properties": {}},
    "strict": True,
}
USAGE = {
    "input_tokens": 12,
    "output_tokens": 7,
    "total_tokens": 19,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 3},
}


def response(status: str, output: list[Payload] | None = None, **changes: Any) -> Payload:
    ended = status in ("completed", "failed", "incomplete")
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_777_000_000,
        "completed_at": 1_777_000_009 if ended else None,
        "status": status,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "model": "a-model",
        "previous_response_id": None,
        "instructions": None,
        "output": output or [],
        "error": {"code": "server_error", "message": "It broke."} if status == "failed" else None,
        "tools": [TOOL],
        "tool_choice": "auto",
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "temperature": 1.0,
        "reasoning": {"effort": "low", "summary": None},
        "usage": USAGE if ended else None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "store": False,
        "background": False,
        "service_tier": "default",
        "metadata": {},
        "safety_identifier": None,
        "prompt_cache_key": None,
        **changes,
    }


def event(event_type: str, **fields: Any) -> Payload:
    return {"type": event_type, "sequence_number": 0, **fields}


def lifecycle(status: str, output: list[Payload] | None = None, **changes: Any) -> Payload:
    return event(f"response.{status}", response=response(status, output, **changes))


def output_text(text: str, *annotations: Payload) -> Payload:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


def message(item_id: str, *parts: Payload, status: str = "completed") -> Payload:
    return {
        "type": "message",
        "id": item_id,
        "status": status,
        "role": "assistant",
        "content": list(parts),
    }


def reasoning(item_id: str, content: list[Payload], summary: list[Payload]) -> Payload:
    return {"type": "reasoning", "id": item_id, "summary": summary, "content": content}


def call(item_id: str, arguments: str, status: str = "completed", name: str = "weather") -> Payload:
    return {
        "type": "function_call",
        "id": item_id,
        "call_id": f"call_{item_id}",
        "name": name,
        "arguments": arguments,
        "status": status,
    }


def item(index: int, added: Payload, done: Payload, *inside: Payload) -> list[Payload]:
    return [
        event("response.output_item.added", output_index=index, item=added),
        *inside,
        event("response.output_item.done", output_index=index, item=done),
    ]


def part(where: Payload, kind: str, whole: Payload, *deltas: str, key: str = "text") -> list[Payload]:
    """A content part of text: added empty, grown by deltas, done."""
    empty = {k: [] if k == "annotations" else "" for k in whole if k != "type"}
    notes = [
        event("response.output_text.annotation.added", **where, annotation_index=n, annotation=note)
        for n, note in enumerate(whole.get("annotations", ()))
    ]
    return [
        event("response.content_part.added", **where, part={"type": whole["type"], **empty}),
        *(event(f"response.{kind}.delta", **where, delta=delta) for delta in deltas),
        *notes,
        event(f"response.{kind}.done", **where, **{key: whole[key]}),
        event("response.content_part.done", **where, part=whole),
    ]


def at(item_id: str, output_index: int, content_index: int = 0) -> Payload:
    return {"item_id": item_id, "output_index": output_index, "content_index": content_index}


def text_item(index: int, *deltas: str, status: str = "completed") -> tuple[list[Payload], Payload]:
    item_id, whole = f"msg_{index}", output_text("".join(deltas))
    done = message(item_id, whole, status=status)
    inside = part(at(item_id, index), "output_text", whole, *deltas)
    return item(index, message(item_id, status="in_progress"), done, *inside), done


def arguments(item_id: str, index: int, *deltas: str) -> list[Payload]:
    where = {"item_id": item_id, "output_index": index}
    return [
        *(event("response.function_call_arguments.delta", **where, delta=delta) for delta in deltas),
        event("response.function_call_arguments.done", **where, arguments="".join(deltas)),
    ]


def call_item(index: int, *deltas: str, status: str = "completed") -> tuple[list[Payload], Payload]:
    item_id = f"fc_{index}"
    done = call(item_id, "".join(deltas), status)
    return item(index, call(item_id, "", "in_progress"), done, *arguments(item_id, index, *deltas)), done


def numbered(*events: Payload) -> list[Payload]:
    return [payload | {"sequence_number": n} for n, payload in enumerate(events)]


def begin() -> list[Payload]:
    return [event("response.created", response=response("in_progress")), lifecycle("in_progress")]


def text() -> list[Payload]:
    events, done = text_item(0, "Hel", "lo, ", "wörld")
    return numbered(*begin(), *events, lifecycle("completed", [done]))


def empty_text() -> list[Payload]:
    events, done = text_item(0)
    return numbered(*begin(), *events, lifecycle("completed", [done]))


def no_output() -> list[Payload]:
    return numbered(*begin(), lifecycle("completed"))


def annotations() -> list[Payload]:
    first = output_text("Bees sing.", CITATION, CITATION | {"start_index": 5})
    second = output_text("So do we.")
    done = message("msg_0", first, second)
    inside = [
        *part(at("msg_0", 0, 0), "output_text", first, "Bees ", "sing."),
        *part(at("msg_0", 0, 1), "output_text", second, "So do we."),
    ]
    return numbered(
        *begin(),
        *item(0, message("msg_0", status="in_progress"), done, *inside),
        lifecycle("completed", [done]),
    )


def refusal() -> list[Payload]:
    whole = {"type": "refusal", "refusal": "I will not."}
    done = message("msg_0", whole)
    inside = part(at("msg_0", 0), "refusal", whole, "I will", " not.", key="refusal")
    return numbered(
        *begin(),
        *item(0, message("msg_0", status="in_progress"), done, *inside),
        lifecycle("completed", [done]),
    )


def thinking() -> list[Payload]:
    raw, said = {"type": "reasoning_text", "text": "2+2=4"}, {"type": "summary_text", "text": "Adds."}
    done = reasoning("rs_0", [raw], [said]) | {"encrypted_content": "sealed"}
    where = {"item_id": "rs_0", "output_index": 0, "summary_index": 0}
    inside = [
        *part(at("rs_0", 0), "reasoning", raw, "2+2", "=4"),
        event("response.reasoning_summary_part.added", **where, part=said | {"text": ""}),
        event("response.reasoning_summary_text.delta", **where, delta="Adds."),
        event("response.reasoning_summary_text.done", **where, text="Adds."),
        event("response.reasoning_summary_part.done", **where, part=said),
    ]
    words, answer = text_item(1, "4")
    return numbered(
        *begin(),
        *item(0, reasoning("rs_0", [], []), done, *inside),
        *words,
        lifecycle("completed", [done, answer]),
    )


def whole_summary() -> list[Payload]:
    """A summary that was not streamed stands in the done item all the same."""
    done = reasoning("rs_0", [], [{"type": "summary_text", "text": "Adds."}])
    return numbered(*begin(), *item(0, reasoning("rs_0", [], []), done), lifecycle("completed", [done]))


def calls() -> list[Payload]:
    """Two calls at once, their arguments truly interleaved."""
    one, one_done = call_item(0, '{"city":', '"Paris"}')
    two, two_done = call_item(1, '{"city":', '"Tokyo"}')
    return numbered(
        *begin(),
        one[0],
        two[0],
        one[1],
        two[1],
        one[2],
        two[2],
        *one[3:],
        *two[3:],
        lifecycle("completed", [one_done, two_done]),
    )


def hosted() -> list[Payload]:
    """A tool that the server runs itself: its output is an item without deltas."""
    asked, asked_done = call_item(0, "{}")
    output = {
        "type": "function_call_output",
        "id": "fco_1",
        "call_id": asked_done["call_id"],
        "output": [{"type": "input_text", "text": "rain"}],
        "status": "completed",
    }
    packed = {"type": "compaction", "id": "cmp_2", "encrypted_content": "sealed"}
    words, answer = text_item(3, "It rains.")
    return numbered(
        *begin(),
        *asked,
        *item(1, output, output),
        *item(2, packed, packed),
        *words,
        lifecycle("completed", [asked_done, output, packed, answer]),
    )


def ran_by_the_server(kind: str) -> list[Payload]:
    """One call of a tool that the server runs, with all events of its kind, and the answer after it."""
    about, steps = HOSTED[kind]
    begun: Payload = {"type": kind, "id": "hosted_0", **about, "status": "in_progress"}
    done = {**begun, "status": "completed"}
    here = {"item_id": "hosted_0", "output_index": 0}
    told = [event(f"response.{step}", **here, **more) for step, more in steps]
    words, answer = text_item(1, "It is x.")
    return numbered(
        *begin(),
        event("response.output_item.added", output_index=0, item=begun),
        *told,
        event("response.output_item.done", output_index=0, item=done),
        *words,
        lifecycle("completed", [done, answer]),
    )


# What the items of each kind hold, and their events in order.
HOSTED: dict[str, tuple[Payload, list[tuple[str, Payload]]]] = {
    "code_interpreter_call": (
        {"code": "1 + 1", "container_id": "cntr_1", "outputs": None},
        [
            ("code_interpreter_call.in_progress", {}),
            ("code_interpreter_call_code.delta", {"delta": "1 + "}),
            ("code_interpreter_call_code.delta", {"delta": "1"}),
            ("code_interpreter_call_code.done", {"code": "1 + 1"}),
            ("code_interpreter_call.interpreting", {}),
            ("code_interpreter_call.completed", {}),
        ],
    ),
    "web_search_call": (
        {"action": {"type": "search", "query": "x"}},
        [(f"web_search_call.{word}", {}) for word in ("in_progress", "searching", "completed")],
    ),
    "file_search_call": (
        {"queries": ["x"], "results": None},
        [(f"file_search_call.{word}", {}) for word in ("in_progress", "searching", "completed")],
    ),
    "image_generation_call": (
        {"result": None},
        [(f"image_generation_call.{word}", {}) for word in ("in_progress", "generating", "completed")],
    ),
}


def remote() -> list[Payload]:
    """The tools of an MCP server: its list, and a call."""
    listed: Payload = {
        "type": "mcp_list_tools",
        "id": "mcpl_0",
        "server_label": "w",
        "tools": [],
        "error": None,
    }
    named = {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": "w",
        "name": "find",
        "output": None,
        "error": None,
    }
    begun = {**named, "arguments": "", "status": "in_progress"}
    called = {**named, "arguments": '{"a":1}', "output": "x", "status": "completed"}
    words, answer = text_item(2, "It is x.")
    first, second = {"item_id": "mcpl_0", "output_index": 0}, {"item_id": "mcp_1", "output_index": 1}
    return numbered(
        *begin(),
        event("response.output_item.added", output_index=0, item=listed),
        event("response.mcp_list_tools.in_progress", **first),
        event("response.mcp_list_tools.completed", **first),
        event("response.output_item.done", output_index=0, item=listed),
        event("response.output_item.added", output_index=1, item=begun),
        event("response.mcp_call.in_progress", **second),
        event("response.mcp_call_arguments.delta", **second, delta='{"a"'),
        event("response.mcp_call_arguments.delta", **second, delta=":1}"),
        event("response.mcp_call_arguments.done", **second, arguments='{"a":1}'),
        event("response.mcp_call.completed", **second),
        event("response.output_item.done", output_index=1, item=called),
        *words,
        lifecycle("completed", [listed, called, answer]),
    )


def incomplete() -> list[Payload]:
    """The token budget ends inside a message, with a call open beside it."""
    words, cut = text_item(0, "Once upon a", status="incomplete")
    asked, asked_cut = call_item(1, '{"ci', status="incomplete")
    return numbered(*begin(), *words, *asked, lifecycle("incomplete", [cut, asked_cut]))


def failed() -> list[Payload]:
    words, cut = text_item(0, "Once", status="incomplete")
    error = {"type": "server_error", "code": None, "message": "It broke.", "param": None}
    return numbered(*begin(), *words, event("error", error=error), lifecycle("failed", [cut]))


def failed_closing_late() -> list[Payload]:
    """Open items may also be closed between the error and the failed response."""
    words, cut = text_item(0, "Once", status="incomplete")
    error = {"type": "model_error", "code": "overloaded", "message": "Busy.", "param": None}
    return numbered(*begin(), *words[:3], event("error", error=error), *words[3:], lifecycle("failed", [cut]))


def queued() -> list[Payload]:
    words, done = text_item(0, "Hi")
    return numbered(
        event("response.created", response=response("queued")),
        lifecycle("queued"),
        lifecycle("in_progress"),
        *words,
        lifecycle("completed", [done]),
    )


def vendor() -> list[Payload]:
    """Extension items and events, for a client that wants them."""
    done = {"type": "acme:search", "id": "as_0", "status": "failed", "query": "bees"}
    words, answer = text_item(1, "Hi")
    return numbered(
        *begin(),
        *item(0, done | {"status": "in_progress"}, done, event("acme:trace", latency_ms=3)),
        *words,
        lifecycle("completed", [done, answer]),
    )


def custom_call() -> list[Payload]:
    """What a client gets that brought a custom tool: an item and events outside the specification."""
    where = {"item_id": "ctc_0", "output_index": 0}
    done = {
        "type": "custom_tool_call",
        "id": "ctc_0",
        "call_id": "call_0",
        "name": "shell",
        "input": "ls -l",
        "status": "completed",
    }
    inside = [
        event("response.custom_tool_call_input.delta", **where, delta="ls -l"),
        event("response.custom_tool_call_input.done", **where, input="ls -l"),
    ]
    return numbered(
        *begin(),
        *item(0, done | {"input": "", "status": "in_progress"}, done, *inside),
        lifecycle("completed", [done]),
    )


STANDARD = {
    make.__name__: make
    for make in (
        text,
        empty_text,
        no_output,
        annotations,
        refusal,
        thinking,
        whole_summary,
        calls,
        hosted,
        incomplete,
        failed,
        failed_closing_late,
        queued,
    )
}
EXTENDED = {make.__name__: make for make in (vendor, custom_call)}
