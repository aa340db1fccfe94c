"""Tools that the server runs itself: a run is an item of its kind, and one that cannot run ends no turn."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from antiphon.compliance.catalog import check
from antiphon.compliance.checks.inputs import ROOM, user
from antiphon.compliance.http_exchange import Json, RecordedExchange, calls_of
from antiphon.compliance.probe import (
    Failed,
    Probe,
    Skipped,
    TooWeak,
    describe_answer,
    expect,
    require_contact,
)

_SOURCE: Final = "The Agentic loop"
_ASKS: Final = "Run Python code that prints 1234 * 5678, and tell me what it printed."
_CODE: Final = {"type": "code_interpreter", "container": {"type": "auto"}}
_CALL: Final = "code_interpreter_call"
_WEB: Final = "Search the web for the length of Tower Bridge, and tell me what you found."
_FILES: Final = "Search the files for the opening hours, and tell me what you found."
_ACTIONS: Final = ("search", "open_page", "find_in_page")
_ENDS: Final = ("completed", "failed", "incomplete")
# Nobody answers there: the name is reserved for that.
_NOWHERE: Final = {
    "type": "mcp",
    "server_label": "nowhere",
    "server_url": "https://mcp.invalid/mcp",
    "require_approval": "never",
}


def _alive(exchange: RecordedExchange, tool: str) -> Json:
    """The response to a request with a hosted tool. A refusal says that the server has none."""
    require_contact(exchange)
    response = exchange.response
    if exchange.status is not None and 400 <= exchange.status < 500 and exchange.error is not None:
        raise Skipped(f"capability absent: `{tool}` ({describe_answer(exchange)})")
    if exchange.error is not None and exchange.error.get("type") == "model_error":
        raise TooWeak(f"the model did not use the tool, and the server said so: {describe_answer(exchange)}")
    if response is None or response.get("status") not in ("completed", "incomplete"):
        raise Failed(f"a request with `{tool}` came to no good end: {describe_answer(exchange)}")
    if calls_of(response):
        raise Failed(f"the client got a call of a function that it never declared, in place of `{tool}`")
    return response


def _runs(response: Json, type: str = _CALL, what: str = "no code was run") -> list[Json]:
    """The items of a tool in a response; that there are none may be the model's doing, or the server's."""
    found = [item for item in response["output"] if item.get("type") == type]
    if not found:
        raise TooWeak(f"{what}: the server leaves the tool out, or the model did not use it")
    return found


def _check_events(exchange: RecordedExchange, run: Json, middle: str) -> None:
    """A run of a tool begins, is at work and ends, in this order."""
    kind = run["type"]
    told = [
        str(event.get("type")).removeprefix("response.")
        for event in exchange.events
        if event.get("item_id") == run.get("id") or (event.get("item") or {}).get("id") == run.get("id")
    ]
    wanted = ["output_item.added", f"{kind}.in_progress"]
    if run.get("status") == "completed":
        wanted += [f"{kind}.{middle}", f"{kind}.completed"]
    wanted.append("output_item.done")
    expect([one for one in told if one in wanted] == wanted, f"the events of the run are {', '.join(told)}")


@check("code_interpreter.item", "MUST", _SOURCE, model=True)
async def code(probe: Probe) -> None:
    """`code_interpreter` is refused or left out, or a run is an item with its status and container."""
    exchange = await probe.ask(
        input=[user(_ASKS)], tools=[_CODE], tool_choice="required", max_output_tokens=ROOM
    )
    for run in _runs(_alive(exchange, "code_interpreter")):
        expect(run.get("status") in _ENDS, f"the run of code has the status {run.get('status')!r}")
        expect(isinstance(run.get("container_id"), str), "the run of code names no container")
        expect(isinstance(run.get("code"), str | None), "the code of the run is no text")


@check("code_interpreter.streamed", "MUST", _SOURCE, "sse", model=True)
async def code_streamed(probe: Probe) -> None:
    """In a stream, a run of code begins, is interpreted and ends, in this order."""
    exchange = await probe.ask(
        input=[user(_ASKS)], tools=[_CODE], tool_choice="required", max_output_tokens=ROOM, stream=True
    )
    run = _runs(_alive(exchange, "code_interpreter"))[0]
    _check_events(exchange, run, "interpreting")


@check("web_search.item", "MUST", _SOURCE, model=True)
async def web_search(probe: Probe) -> None:
    """`web_search` is refused or left out, or a search is an item with its status and action."""
    for run in _searches(await _search_the_web(probe)):
        expect(run.get("status") in _ENDS, f"the search has the status {run.get('status')!r}")
        action = run.get("action")
        kind = action.get("type") if isinstance(action, dict) else None
        expect(kind in _ACTIONS, f"the action of the search is of the type {kind!r}")


@check("web_search.streamed", "MUST", _SOURCE, "sse", model=True)
async def web_search_streamed(probe: Probe) -> None:
    """In a stream, a search of the web begins, searches and ends, in this order."""
    exchange = await _search_the_web(probe, stream=True)
    _check_events(exchange, _searches(exchange)[0], "searching")


async def _search_the_web(probe: Probe, **more: Any) -> RecordedExchange:
    tools = [{"type": "web_search"}]
    return await probe.ask(
        input=[user(_WEB)], tools=tools, tool_choice="required", max_output_tokens=ROOM, **more
    )


def _searches(exchange: RecordedExchange) -> list[Json]:
    return _runs(_alive(exchange, "web_search"), "web_search_call", "the web was not searched")


@check("file_search.item", "MUST", _SOURCE, model=True)
async def file_search(probe: Probe) -> None:
    """`file_search` is refused or left out, or a search is an item with its status and queries."""
    async with _vector_store(probe) as store:
        exchange = await _search_the_files(probe, store)
    for run in _looks(exchange):
        expect(run.get("status") in _ENDS, f"the search has the status {run.get('status')!r}")
        queries = run.get("queries")
        are_texts = isinstance(queries, list) and all(isinstance(one, str) for one in queries)
        expect(are_texts, "the queries of the search are no list of texts")


@check("file_search.streamed", "MUST", _SOURCE, "sse", model=True)
async def file_search_streamed(probe: Probe) -> None:
    """In a stream, a search of files begins, searches and ends, in this order."""
    async with _vector_store(probe) as store:
        exchange = await _search_the_files(probe, store, stream=True)
    _check_events(exchange, _looks(exchange)[0], "searching")


@asynccontextmanager
async def _vector_store(probe: Probe) -> AsyncIterator[str]:
    """An empty one, which is removed again. A server that has none has no such tool."""
    made = await probe.post("/vector_stores", {"name": "compliance"})
    require_contact(made)
    id = made.json.get("id") if isinstance(made.json, dict) else None
    if made.status != 200 or not isinstance(id, str):
        raise Skipped(f"capability absent: `/vector_stores` (HTTP {made.status})")
    try:
        yield id
    finally:
        await probe.send("DELETE", f"/vector_stores/{id}", content_type=None)


async def _search_the_files(probe: Probe, store: str, **more: Any) -> RecordedExchange:
    tools = [{"type": "file_search", "vector_store_ids": [store]}]
    return await probe.ask(
        input=[user(_FILES)], tools=tools, tool_choice="required", max_output_tokens=ROOM, **more
    )


def _looks(exchange: RecordedExchange) -> list[Json]:
    return _runs(_alive(exchange, "file_search"), "file_search_call", "no file was searched")


@check("mcp.unreachable", "MUST", _SOURCE)
async def unreachable(probe: Probe) -> None:
    """An unreachable MCP server is an error of the request, or of an item in a response that ends."""
    exchange = await probe.ask(input=[user("Say hello.")], tools=[_NOWHERE], max_output_tokens=ROOM)
    _told_of_the_server(_alive(exchange, "mcp"))


@check("mcp.unreachable_streamed", "MUST", _SOURCE, "sse")
async def unreachable_streamed(probe: Probe) -> None:
    """The same in a stream."""
    exchange = await probe.ask(
        input=[user("Say hello.")], tools=[_NOWHERE], max_output_tokens=ROOM, stream=True
    )
    _told_of_the_server(_alive(exchange, "mcp"))


def _told_of_the_server(response: Json) -> None:
    for item in response["output"]:
        if item.get("type") == "mcp_list_tools":
            expect(item.get("error") and not item.get("tools"), "the list of no server has no error")
