"""A producer's endpoint keeps every rule that a server must, and says what it cannot do."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.client.agent import Agent
from antiphon.client.tools import tool
from antiphon.compliance.catalog import select
from antiphon.producer import ResponsesApp
from antiphon.producer.conversations import Ability
from antiphon.spec.request import Request
from examples import producer_endpoint
from tests.compliance.run_tool import judge_rules, told
from tests.producer.serving import serving
from tests.server.servers import Serving, configure

MUSTS = select(level="MUST")
OPEN = "no --api-key was given, so the server is taken as open"
NO_IMAGES = "capability absent: `input_image` is declined (HTTP 400: this agent takes no images; send text)"
NO_FILES = "capability absent: `input_file` is declined (HTTP 400: this agent takes no files; send text)"
NO_STORE = "capability absent: the server says that it stores nothing"
NO_LIMIT = "the limit is 60 minutes; give --websocket-limit when the server's was made short"
NO_CALL = (
    "model too weak: the model made no call, and the server said so: HTTP 500: "
    "the model answered without the tool call that `tool_choice` requires (3 tries)"
)
STOPPED = "model too weak: the model stopped by itself before the limit (3 tries)"
UNORDERED = "model too weak: the model does not know the order from a full history (3 tries)"
UNSEEN = {
    "order.queued_silent": "nothing in this run had response.queued",
    "index.annotation": "nothing in this run had response.output_text.annotation.added",
    "annotation.kept": "nothing in this run had response.output_text.annotation.added",
}
NO_STORES = "capability absent: `/vector_stores` (HTTP 404)"
ALWAYS = UNSEEN | {
    "key.required": OPEN,
    "key.wrong": OPEN,
    "websocket.key": OPEN,
    "websocket.limit": NO_LIMIT,
    "file_search.item": NO_STORES,
    "file_search.streamed": NO_STORES,
    "state.order": UNORDERED,
    "stream.cut_off": STOPPED,
    "response.cut_off": STOPPED,
}
# The rules that cannot be judged without a tool of the request, or without compaction.
OF_TOOLS = {
    "tool-calling",
    "content.calls",
    "content.output_parts",
    "limit.tool_name_ok",
    "limit.call_id_ok",
    "tools.required",
    "tools.required_streamed",
    "tools.none",
    "tools.named",
    "tools.allowed",
    "tools.allowed_streamed",
    "tools.allowed_required",
    "tools.one_at_a_time",
    "tools.parallel",
    "tools.arguments",
    "tools.result",
    "tools.strict_null",
    "code_interpreter.item",
    "code_interpreter.streamed",
    "web_search.item",
    "web_search.streamed",
    "mcp.unreachable",
    "mcp.unreachable_streamed",
    "state.calls",
    "websocket.calls",
    "websocket.allowed_tools",
}
OF_COMPACTION = {
    "websocket-compact-new-chain",
    "compact-response",
    "compact-missing-model",
    "compact.round_trip",
    "compact.unknown_chain",
}
NO_CODE = (
    "model too weak: the model did not use the tool, and the server said so: HTTP 500: the model answered "
    "without the tool call that `tool_choice` requires (3 tries)"
)
UNCALLED = (
    "nothing in this run had response.function_call_arguments.delta or response.function_call_arguments.done"
)


def without_place(reasons: dict[str, str]) -> dict[str, str]:
    """The same sentence, over HTTP and over a WebSocket."""
    return {rule: reason.replace("(a message: ", "(HTTP 400: ") for rule, reason in reasons.items()}


def test_the_example_keeps_every_must_and_says_what_it_lacks() -> None:
    with serving(producer_endpoint.app) as url:
        report = judge_rules(url, MUSTS, "greeter")
    assert told(report, "fail") == {}
    assert told(report, "skip") == ALWAYS | {
        "image-input": NO_IMAGES,
        "content.image": NO_IMAGES,
        "content.file": NO_FILES,
        "code_interpreter.item": NO_CODE,
        "code_interpreter.streamed": NO_CODE.replace("HTTP 500", "HTTP 200"),
        "web_search.item": NO_CODE,
        "web_search.streamed": NO_CODE.replace("HTTP 500", "HTTP 200"),
        "tools.named": NO_CALL,
        "tools.allowed_required": NO_CALL,
        "tools.parallel": "model too weak: the model made 1 calls, not two (3 tries)",
    }


def test_an_agent_that_can_do_next_to_nothing_says_so_and_breaks_no_must() -> None:
    async def answer(request: Request) -> AsyncIterator[str]:
        yield "Hello."

    lacks: tuple[Ability, ...] = ("tools", "json_schema", "images", "files", "videos")
    with serving(ResponsesApp(answer, memory=0, without=lacks)) as url:
        report = judge_rules(url, MUSTS, "agent")
    assert told(report, "fail") == {}
    no_tools = "this agent does not call the tools of a request; leave them out"
    no_schema = "this agent does not answer by a JSON schema; leave it out"
    no_summary = (
        "this agent cannot compact a conversation: it has no `summarise`; send the conversation itself"
    )
    assert without_place(told(report, "skip")) == (
        ALWAYS
        | dict.fromkeys(OF_TOOLS, f"capability absent: `tools` is declined (HTTP 400: {no_tools})")
        | dict.fromkeys(
            OF_COMPACTION, f"capability absent: `/responses/compact` is declined (HTTP 404: {no_summary})"
        )
        | dict.fromkeys(
            ("format.strict", "format.streamed"),
            f"capability absent: `text.format` is declined (HTTP 400: {no_schema})",
        )
        | dict.fromkeys(("image-input", "content.image"), NO_IMAGES)
        | {"content.file": NO_FILES}
        | dict.fromkeys(("state.previous", "state.depth", "state.streamed", "websocket.stored"), NO_STORE)
        | {
            "id.call_unique": UNCALLED,
            "status.incomplete_last": "nothing in this run had response.incomplete or response.failed",
        }
    )


@tool
def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"18 degrees in {city}"


async def summarise(request: Request) -> str:
    return "They talked."


def test_an_agent_of_our_own_with_a_gateway_behind_it_breaks_no_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'default_model = "model"\n[providers.demo]\ntype = "script"\n[models]\nmodel = "demo/any"\n'
    with Serving(configure(tmp_path, script)) as gateway:
        monkeypatch.setenv("ANTIPHON_BASE_URL", f"{gateway.url}/v1")
        agent = Agent(model="model", tools=[get_weather])
        with serving(ResponsesApp(agent, summarise=summarise)) as url:
            report = judge_rules(url, MUSTS, "agent")
    assert told(report, "fail") == {}
    own = "this agent has its own tools and cannot use those of a request; leave them out"
    declined = {f"capability absent: `tools` is declined (HTTP 400: {own})"}
    skipped = without_place(told(report, "skip"))
    assert {skipped[rule] for rule in OF_TOOLS} == declined
    assert skipped.keys() - OF_TOOLS == ALWAYS.keys() | {"id.call_unique"}


def test_a_socket_of_an_agent_ends_at_its_limit() -> None:
    async def answer(request: Request) -> AsyncIterator[str]:
        yield "Hello."

    with serving(ResponsesApp(answer, websocket_limit=0.2)) as url:
        report = judge_rules(url, select(only=["websocket.limit"]), "agent", websocket_limit=0.2)
    assert told(report, "pass").keys() == {"websocket.limit"}


@pytest.mark.parametrize("rule", ["state.unknown", "state.not_stored"])
def test_what_is_refused_is_refused_also_by_an_agent_that_stores_nothing(rule: str) -> None:
    async def answer(request: Request) -> AsyncIterator[str]:
        yield "Hello."

    with serving(ResponsesApp(answer, memory=0)) as url:
        report = judge_rules(url, select(only=[rule]), "agent")
    assert told(report, "pass").keys() == {rule}
