"""The keys and JSON types of every event and object of the specification, as tables, and a check of them.

A value is written `str`, `int`, `num`, `bool`, `obj` or `any`; `=a|b` is one of these words; another name
is a table below; `[x]` is a list of x. A `?` after the value means null too, after the key that it may lack.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeGuard

from antiphon.stream import lifecycle as lc

_ITEM = {"output_index": "int", "item": "item?"}
_PART = {"item_id": "str", "output_index": "int", "content_index": "int"}
_SUMMARY = {"item_id": "str", "output_index": "int", "summary_index": "int"}
_CALL = {"item_id": "str", "output_index": "int"}

# Besides `type`, which the Auditor has read already, and `sequence_number`.
_EVENTS: Mapping[str, dict[str, str]] = {
    **{event: {"response": "response"} for event in lc.LIFECYCLE},
    lc.ERROR: {"error": "error_payload"},
    lc.ITEM_ADDED: _ITEM,
    lc.ITEM_DONE: _ITEM,
    lc.PART_ADDED: _PART | {"part": "part"},
    lc.PART_DONE: _PART | {"part": "part"},
    lc.TEXT_DELTA: _PART | {"delta": "str", "logprobs?": "[logprob]", "obfuscation?": "str"},
    lc.TEXT_DONE: _PART | {"text": "str", "logprobs?": "[logprob]"},
    lc.ANNOTATION_ADDED: _PART | {"annotation_index": "int", "annotation": "annotation?"},
    lc.REFUSAL_DELTA: _PART | {"delta": "str"},
    lc.REFUSAL_DONE: _PART | {"refusal": "str"},
    lc.REASONING_DELTA: _PART | {"delta": "str", "obfuscation?": "str"},
    lc.REASONING_DONE: _PART | {"text": "str"},
    lc.SUMMARY_PART_ADDED: _SUMMARY | {"part": "part"},
    lc.SUMMARY_PART_DONE: _SUMMARY | {"part": "part"},
    lc.SUMMARY_DELTA: _SUMMARY | {"delta": "str", "obfuscation?": "str"},
    lc.SUMMARY_DONE: _SUMMARY | {"text": "str"},
    lc.ARGUMENTS_DELTA: _CALL | {"delta": "str", "obfuscation?": "str"},
    lc.ARGUMENTS_DONE: _CALL | {"arguments": "str"},
    lc.CUSTOM_INPUT_DELTA: _CALL | {"delta": "str"},
    lc.CUSTOM_INPUT_DONE: _CALL | {"input": "str"},
}

_STATUS = "=in_progress|completed|incomplete"

_OBJECTS: Mapping[str, Mapping[str, str]] = {
    "response": {
        "id": "str",
        "object": "=response",
        "created_at": "int",
        "completed_at": "int?",
        "status": "str",
        "incomplete_details": "incomplete_details?",
        "model": "str",
        "previous_response_id": "str?",
        "instructions": "str?",
        "output": "[item]",
        "error": "error?",
        "tools": "[tool]",
        "tool_choice": "tool_choice",
        "truncation": "=auto|disabled",
        "parallel_tool_calls": "bool",
        "text": "text",
        "top_p": "num",
        "presence_penalty": "num",
        "frequency_penalty": "num",
        "top_logprobs": "int",
        "temperature": "num",
        "reasoning": "reasoning_settings?",
        "usage": "usage?",
        "max_output_tokens": "int?",
        "max_tool_calls": "int?",
        "store": "bool",
        "background": "bool",
        "service_tier": "str",
        "metadata": "any",
        "safety_identifier": "str?",
        "prompt_cache_key": "str?",
    },
    "compaction_resource": {
        "id": "str",
        "object": "=response.compaction",
        "output": "[item]",
        "created_at": "int",
        "usage": "usage",
    },
    "incomplete_details": {"reason": "str"},
    "error": {"code": "str", "message": "str"},
    "error_payload": {"type": "str", "code": "str?", "message": "str", "param": "str?", "headers?": "obj"},
    "websocket_error": {"code": "str", "message": "str", "param?": "str?", "type?": "str"},
    "reasoning_settings": {"effort": "=none|low|medium|high|xhigh?", "summary": "=concise|detailed|auto?"},
    "usage": {
        "input_tokens": "int",
        "output_tokens": "int",
        "total_tokens": "int",
        "input_tokens_details": "input_tokens_details",
        "output_tokens_details": "output_tokens_details",
    },
    "input_tokens_details": {"cached_tokens": "int"},
    "output_tokens_details": {"reasoning_tokens": "int"},
    "text": {"format": "format", "verbosity?": "=low|medium|high"},
    "logprob": {"token": "str", "logprob": "num", "bytes": "[int]", "top_logprobs": "[top_logprob]"},
    "top_logprob": {"token": "str", "logprob": "num", "bytes": "[int]"},
}

_GIVEN: Mapping[str, Mapping[str, str]] = {
    "input_text": {"text": "str"},
    "input_image": {"image_url": "str?", "detail": "=low|high|auto"},
    "input_file": {"filename?": "str", "file_url?": "str"},
}

# Objects told apart by their `type`. The status of a done item is a matter of state, not of keys.
_UNIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "item": {
        "message": {
            "id": "str",
            "status": _STATUS,
            "role": "=user|assistant|system|developer",
            "content": "[part]",
            "phase?": "=commentary|final_answer",
        },
        "function_call": {
            "id": "str",
            "call_id": "str",
            "name": "str",
            "arguments": "str",
            "status": _STATUS,
        },
        "function_call_output": {"id": "str", "call_id": "str", "output": "output", "status": _STATUS},
        "reasoning": {"id": "str", "summary": "[part]", "content?": "[part]", "encrypted_content?": "str"},
        "compaction": {"id": "str", "encrypted_content": "str", "created_by?": "str"},
    },
    "part": {
        "output_text": {"text": "str", "annotations": "[annotation]", "logprobs?": "[logprob]"},
        "refusal": {"refusal": "str"},
        "reasoning_text": {"text": "str"},
        "summary_text": {"text": "str"},
        "text": {"text": "str"},
        "input_video": {"video_url": "str"},
        **_GIVEN,
    },
    "result_part": _GIVEN,
    "annotation": {"url_citation": {"url": "str", "title": "str", "start_index": "int", "end_index": "int"}},
    "tool": {"function": {"name": "str", "description": "str?", "parameters": "obj?", "strict": "bool?"}},
    "tool_choice": {
        "function": {"name?": "str"},
        "allowed_tools": {"tools": "[tool_reference]", "mode": "=none|auto|required"},
    },
    "tool_reference": {"function": {"name?": "str"}},
    "format": {
        "text": {},
        "json_object": {},
        "json_schema": {"name": "str", "description": "str?", "schema": "any", "strict": "bool"},
    },
}

# A response only repeats these from the request, so a client that brought more than functions sees more.
_CLIENTS_OWN = frozenset({"tool", "tool_choice", "tool_reference"})

# Items outside the specification that a client asked for, where we know their keys.
_SOLICITED = {
    "custom_tool_call": {"id": "str", "call_id": "str", "name": "str", "input": "str", "status": _STATUS}
}


class Judge(Protocol):
    """Receives violations, and decides which types outside the specification are allowed.

    What may be content is put into a message by `quote` alone.
    """

    def report(self, rule: str, message: str) -> None: ...

    def quote(self, value: object) -> str: ...

    def admits(self, type_name: str) -> bool: ...

    def admits_tools(self) -> bool: ...


_Check = Callable[[object, str, Judge], None]


def show(value: object) -> str:
    """A value in a sentence, short whatever it is."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return repr(value) if len(value) <= 40 else f"{value[:40]!r}…"
        case int() | float():
            return str(value) if abs(value) < 1e15 else "a huge number"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def outline(value: object) -> str:
    """The kind of a value, without its content."""
    match value:
        case str():
            return "a string"
        case int() | float() if not isinstance(value, bool):
            return "a number"
        case _:
            return show(value)


def is_int(value: object) -> TypeGuard[int | float]:
    """Is this an integer to JSON Schema, to which 1.0 is one?"""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )


_SCALARS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "str": ("a string", lambda v: isinstance(v, str)),
    "int": ("an integer", is_int),
    "num": ("a number", lambda v: isinstance(v, int | float) and not isinstance(v, bool)),
    "bool": ("true or false", lambda v: isinstance(v, bool)),
    "obj": ("an object", lambda v: isinstance(v, dict)),
    "any": ("a value", lambda v: True),
}


def _check_scalar(
    wanted: str, accepts: Callable[[object], bool], value: object, path: str, judge: Judge
) -> None:
    if not accepts(value):
        judge.report("keys.type", f"{path} must be {wanted}, not {judge.quote(value)}")


def _check_word(words: frozenset[str], value: object, path: str, judge: Judge) -> None:
    if not isinstance(value, str):
        judge.report("keys.type", f"{path} must be a string, not {judge.quote(value)}")
    elif value not in words:
        judge.report("keys.value", f"{path} is {judge.quote(value)}; known are {', '.join(sorted(words))}")


def _check_nullable(check: _Check, value: object, path: str, judge: Judge) -> None:
    if value is not None:
        check(value, path, judge)


def _check_list(check: _Check, value: object, path: str, judge: Judge) -> None:
    if not isinstance(value, list):
        judge.report("keys.type", f"{path} must be a list, not {judge.quote(value)}")
        return
    for n, member in enumerate(value):
        check(member, f"{path}[{n}]", judge)


def _check_object(name: str, value: object, path: str, judge: Judge) -> None:
    if not isinstance(value, dict):
        judge.report("keys.type", f"{path} must be an object, not {judge.quote(value)}")
    elif name in _UNIONS:
        _check_member(name, value, path, judge)
    else:
        _SHAPES[name].check(value, path, judge)


def _check_member(union: str, value: dict[str, Any], path: str, judge: Judge) -> None:
    kind = value.get("type")
    if "type" not in value:
        judge.report("keys.required", f"{path} has no type")
    elif not isinstance(kind, str):
        judge.report("keys.type", f"{path}.type must be a string, not {judge.quote(kind)}")
    elif (shape := _SHAPES.get(f"{union}/{kind}")) is not None:
        shape.check(value, path, judge)
    elif union in _CLIENTS_OWN and judge.admits_tools():
        return
    elif not judge.admits(kind):
        rule = "union.item" if union == "item" else "union.part"
        judge.report(rule, f"{path} has type {show(kind)}, which the specification does not have here")
    elif union == "item":
        fallback = _EXTENSION_ITEM if ":" in kind else _SOLICITED_ITEM
        _SHAPES.get(f"solicited/{kind}", fallback).check(value, path, judge)


def _check_tool_choice(value: object, path: str, judge: Judge) -> None:
    if isinstance(value, str):
        _check_word(frozenset({"none", "auto", "required"}), value, path, judge)
    else:
        _check_object("tool_choice", value, path, judge)


def _check_output(value: object, path: str, judge: Judge) -> None:
    if not isinstance(value, str):
        _check_list(partial(_check_object, "result_part"), value, path, judge)


def _compile(spec: str) -> _Check:
    if spec.endswith("?"):
        return partial(_check_nullable, _compile(spec[:-1]))
    if spec.startswith("["):
        return partial(_check_list, _compile(spec[1:-1]))
    if spec.startswith("="):
        return partial(_check_word, frozenset(spec[1:].split("|")))
    if spec in _SCALARS:
        return partial(_check_scalar, *_SCALARS[spec])
    return {"tool_choice": _check_tool_choice, "output": _check_output}.get(spec) or partial(
        _check_object, spec
    )


@dataclass(frozen=True, slots=True)
class JsonShape:
    """The fields of one object, ready to check."""

    fields: tuple[tuple[str, bool, _Check], ...]

    def check(self, value: Mapping[str, Any], path: str, judge: Judge) -> None:
        for key, required, inner in self.fields:
            if key in value:
                inner(value[key], f"{path}.{key}" if path else key, judge)
            elif required:
                judge.report("keys.required", f"{path or 'the event'} has no {key}")


def _shape(table: Mapping[str, str]) -> JsonShape:
    return JsonShape(tuple((k.removesuffix("?"), not k.endswith("?"), _compile(v)) for k, v in table.items()))


_SHAPES: Mapping[str, JsonShape] = {
    **{name: _shape(table) for name, table in _OBJECTS.items()},
    **{f"{union}/{kind}": _shape(t) for union, kinds in _UNIONS.items() for kind, t in kinds.items()},
    **{f"solicited/{kind}": _shape(table) for kind, table in _SOLICITED.items()},
}
# The prose asks these of every extension item; of what a client asked for, the client knows more than we.
_EXTENSION_ITEM = _shape({"id": "str", "status": "str"})
_SOLICITED_ITEM = _shape({"id": "str"})

# What an answer that is not a stream can be, by its `object`.
RESOURCES: Mapping[str, JsonShape] = {
    "response": _SHAPES["response"],
    "response.compaction": _SHAPES["compaction_resource"],
}
EVENT_SHAPES: Mapping[str, JsonShape] = {
    event: _shape({"sequence_number": "int"} | table) for event, table in _EVENTS.items()
}
VENDOR_EVENT = _shape({"sequence_number": "int"})
WEBSOCKET_ERROR = _shape({"status": "int", "error": "websocket_error"})
