"""The ways to break a server."""

import json
from collections.abc import Callable
from typing import Any

from tests.compliance.broken import Answer, Asked, Fault, Json

Is = Callable[[Json], bool]


def has(*words: str) -> Is:
    """Does the body hold all of these words?"""
    return lambda body: all(word in json.dumps(body) for word in words)


def fits(asked: Asked, when: Is) -> bool:
    return asked.method == "POST" and isinstance(asked.body, dict) and when(asked.body)


def refuse(when: Is, status: int = 400, kind: str = "invalid_request", *also: str, path: str = "") -> Fault:
    def before(asked: Asked) -> Answer | None:
        return Answer.error(status, kind) if asked.path.endswith(path) and fits(asked, when) else None

    return Fault(before, also=frozenset(also))


def crash(when: Is, *also: str, path: str = "") -> Fault:
    return refuse(when, 500, "server_error", *also, path=path)


def forgive(when: Is, change: Callable[[Json], Any], *also: str, path: str = "") -> Fault:
    """A server that carries out something else than it was asked."""

    def before(asked: Asked) -> None:
        if asked.path.endswith(path) and fits(asked, when):
            body = asked.body
            change(body)
            asked.body = body

    return Fault(before, also=frozenset(also))


def alter(when: Is, change: Callable[[Json], Any], *also: str) -> Fault:
    """A server that says something else of its response."""

    def after(asked: Asked, answer: Answer) -> None:
        if fits(asked, when) and answer.status == 200:
            answer.each_response(change)

    return Fault(after=after, also=frozenset(also))


def rewrite(when: Callable[[Asked], bool], raw: Callable[[Asked], bytes]) -> Fault:
    def before(asked: Asked) -> None:
        if when(asked):
            asked.raw = raw(asked)
            asked.headers["content-type"] = "application/json"

    return Fault(before)


def socket_refuses(when: Is, *also: str) -> Fault:
    def message(asked: Asked) -> list[Json] | None:
        if not isinstance(asked.body, dict) or not when(asked.body):
            return None
        return [{"type": "error", "status": 400, "error": {"code": "broken", "message": "it is broken"}}]

    return Fault(message=message, also=frozenset(also))


def socket_forgives(when: Callable[[Asked], bool], change: Callable[[Json], Any], *also: str) -> Fault:
    def message(asked: Asked) -> None:
        if when(asked):
            body = asked.body if isinstance(asked.body, dict) else dict(GOOD, type="response.create")
            change(body)
            asked.body = body

    return Fault(message=message, also=frozenset(also))


def socket_alters(when: Is, change: Callable[[Json], Any], *also: str) -> Fault:
    def event(asked: Json, told: Json) -> list[Any]:
        if when(asked) and "response" in told:
            change(told["response"])
        return [told]

    return Fault(event=event, also=frozenset(also))


def streamed(change: Callable[[bytes], bytes], *also: str) -> Fault:
    """A server that frames its streams in another way."""

    def after(asked: Asked, answer: Answer) -> None:
        if answer.is_stream:
            answer.raw = change(answer.raw)

    return Fault(after=after, also=frozenset(also))


def errors(change: Callable[[Json], Json], *also: str) -> Fault:
    def after(asked: Asked, answer: Answer) -> None:
        if answer.status >= 400:
            answer.body = change(answer.body)

    return Fault(after=after, also=frozenset(also))


def put(**values: Any) -> Callable[[Json], None]:
    return lambda body: body.update(values)


def drop(*names: str) -> Callable[[Json], None]:
    def change(body: Json) -> None:
        for name in names:
            body.pop(name, None)

    return change


def without(kind: str) -> Callable[[Json], None]:
    """Leaves out the items of this type."""

    def change(body: Json) -> None:
        body["input"] = [item for item in body["input"] if item.get("type") != kind]

    return change


def both(*tests: Is) -> Is:
    return lambda body: all(test(body) for test in tests)


def no(test: Is) -> Is:
    return lambda body: not test(body)


def is_streamed(body: Json) -> bool:
    return body.get("stream") is True


def is_(name: str, value: Any) -> Is:
    return lambda body: bool(body.get(name) == value)


def previous_known(body: Json) -> bool:
    return body.get("previous_response_id") not in (None, NEVER)


GOOD = {"model": "model", "input": "Say hello."}
NEVER = "resp_that_never_was"
COMPACT = "/compact"
ONLY_TIME = {"type": "allowed_tools", "tools": [{"type": "function", "name": "get_time"}]}


def input_is(*types: str) -> Is:
    """Do the items of the input have exactly these types?"""
    return lambda body: (
        isinstance(items := body.get("input"), list)
        and [isinstance(item, dict) and item.get("type") for item in items] == list(types)
    )


def has_type(kind: str) -> Is:
    return lambda body: (
        isinstance(body.get("input"), list)
        and any(isinstance(i, dict) and i.get("type") == kind for i in body["input"])
    )
