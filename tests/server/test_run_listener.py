"""A listener hears of each attempt once when it begins and once when it ends, whichever way a request takes.

What the attempts of a run took together is what the upstreams have counted.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from antiphon.engine.engine import Engine
from antiphon.wires.run_listener import AttemptInfo, RunInfo, Spent, ToolInfo
from tests.server.conftest import Serve
from tests.server.counted_upstream import INPUT, OUTPUT, CountedUpstream
from tests.server.endings import dial, turn
from tests.server.servers import Serving, until
from tests.tools.search_servers import Web, web_of_pages


class Hearing:
    """A listener that keeps what it hears, and checks the order."""

    def __init__(self) -> None:
        self.runs: list[RunInfo] = []
        self.attempts: list[tuple[AttemptInfo, Spent]] = []
        self.tools: list[ToolInfo] = []
        self.ended: list[Spent] = []
        self._open: set[int] = set()

    def run_began(self, run: RunInfo) -> None:
        self.runs.append(run)

    def attempt_began(self, run: RunInfo, attempt: AttemptInfo) -> None:
        assert id(attempt) not in self._open
        self._open.add(id(attempt))

    def attempt_ended(self, run: RunInfo, attempt: AttemptInfo, spent: Spent) -> None:
        self._open.remove(id(attempt))
        self.attempts.append((attempt, spent))

    def tool_ended(self, run: RunInfo, call: ToolInfo) -> None:
        self.tools.append(call)

    def run_ended(self, run: RunInfo, spent: Spent) -> None:
        assert not self._open
        self.ended.append(spent)

    @property
    def outcomes(self) -> list[str]:
        return [spent.outcome for attempt, spent in self.attempts if attempt.kind != "service"]


class Raising:
    """A listener that fails whatever it is told."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def fail(*_: object) -> None:
            raise ArithmeticError(name)

        return fail


@pytest.fixture
def hearing(monkeypatch: pytest.MonkeyPatch) -> Hearing:
    """Listens to every engine of the test from its beginning, beside a listener that raises."""
    hearing, made = Hearing(), Engine.__init__

    def make(engine: Engine, *args: Any, **options: Any) -> None:
        made(engine, *args, **options)
        engine.listen(Raising())
        engine.listen(hearing)

    monkeypatch.setattr(Engine, "__init__", make)
    return hearing


@pytest.fixture
def upstream() -> Iterator[CountedUpstream]:
    with CountedUpstream() as upstream:
        yield upstream


@pytest.fixture
def web() -> Iterator[Web]:
    with web_of_pages() as web:
        yield web


@pytest.fixture
def server(serve: Serve, hearing: Hearing, upstream: CountedUpstream, web: Web) -> Serving:
    return serve(toml(upstream, web))


def toml(upstream: CountedUpstream, web: Web) -> str:
    return f"""
default_model = "one"
[providers.up]
type = "chat"
base_url = "{upstream.url}/v1"
[providers.counts]
type = "anthropic"
base_url = "{upstream.url}"
api_key_env = "HOME"
[models]
one = "up/well"
failover = ["up/away", "up/well"]
continued = ["up/cut", "up/well"]
hosted = "up/searches"
hosted-route = ["up/away", "up/searches"]
slow = "up/slow"
slow-failover = ["up/away", "up/slow"]
slow-continued = ["up/cut", "up/slow"]
slow-hosted = "up/slow-searches"
counted = "counts/any"
counted-route = ["counts/any", "up/well"]
[routes.continued]
on_cut = "continue"
[routes.slow-continued]
on_cut = "continue"
[tools.web_search]
searxng = "{web.url}"
[tools.file_search]
embeddings = "up/well"
"""


SEARCH = [{"type": "web_search"}]
USER = [{"role": "user", "content": "hi"}]


def over_json(server: Serving, model: str, tools: Any) -> None:
    assert server.client().create(model=model, input="hi", tools=tools)["status"] == "completed"


def over_sse(server: Serving, model: str, tools: Any) -> None:
    with server.client().listen("/v1/responses", model=model, input="hi", tools=tools, stream=True) as stream:
        assert list(stream)[-1]["type"] == "response.completed"


def over_websocket(server: Serving, model: str, tools: Any) -> None:
    with dial(server) as connection:
        assert turn(connection, model=model, input="hi", tools=tools)[-1]["type"] == "response.completed"


def in_background(server: Serving, model: str, tools: Any) -> None:
    client = server.client()
    made = client.create(model=model, input="hi", tools=tools, background=True)
    assert client.ended(made["id"])["status"] == "completed"


def over_chat_completions(server: Serving, model: str, tools: Any) -> None:
    more: dict[str, Any] = {"web_search_options": {}} if tools else {}
    body = {"model": model, "messages": USER, "stream": True, **more}
    answer = server.client().post("/v1/chat/completions", json=body)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert "error" not in answer.text


def over_messages(server: Serving, model: str, tools: Any) -> None:
    more: dict[str, Any] = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]} if tools else {}
    body = {"model": model, "messages": USER, "max_tokens": 1000, **more}
    answer = server.client().ok("POST", "/v1/messages", json=body)
    assert answer["stop_reason"] == "end_turn"


def over_streamed_messages(server: Serving, model: str, tools: Any) -> None:
    more: dict[str, Any] = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]} if tools else {}
    body = {"model": model, "messages": USER, "max_tokens": 1000, "stream": True, **more}
    answer = server.client().post("/v1/messages", json=body)
    assert answer.status_code == 200, answer.text
    assert '"type":"message_stop"' in answer.text


def over_ai_sdk(server: Serving, model: str, tools: Any) -> None:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    body = {"model": model, "messages": [message], **({"tools": tools} if tools else {})}
    answer = server.client().post("/api/v1/chat?protocol=ui", json=body)
    assert answer.status_code == 200, answer.text
    assert '"type":"finish"' in answer.text


def over_hashbrown(server: Serving, model: str, tools: Any) -> None:
    body = {"model": model, "messages": USER, "operation": "generate", "system": ""}
    answer = server.client().post("/api/hashbrown", json=body)
    assert answer.status_code == 200, answer.text


def over_vscode(server: Serving, model: str, tools: Any) -> None:
    said = [{"role": 1, "content": [{"value": "hi"}]}]
    answer = server.client().post("/api/vscode/chat", json={"model": model, "messages": said})
    assert answer.status_code == 200, answer.text


def compact(server: Serving, model: str, tools: Any) -> None:
    server.client().ok("POST", "/v1/responses/compact", json={"model": model, "input": "hi"})


def embed(server: Serving, model: str, tools: Any) -> None:
    answer = server.client().ok("POST", "/v1/embeddings", json={"model": model, "input": ["a", "b"]})
    assert len(answer["data"]) == 2


DOORS = [
    over_json,
    over_sse,
    over_websocket,
    in_background,
    over_chat_completions,
    over_messages,
    over_streamed_messages,
    over_ai_sdk,
    over_hashbrown,
    over_vscode,
]
STREAMED = [
    over_sse,
    over_websocket,
    in_background,
    over_chat_completions,
    over_streamed_messages,
    over_ai_sdk,
    over_hashbrown,
    over_vscode,
]
WHOLE = [over_json, over_messages, compact]
WITH_TOOLS = [
    over_json,
    over_sse,
    over_websocket,
    in_background,
    over_chat_completions,
    over_messages,
    over_streamed_messages,
    over_ai_sdk,
]
"""The doors through which a client can ask for a hosted tool."""
Door = Callable[[Serving, str, Any], None]


def check(hearing: Hearing, upstream: CountedUpstream, outcomes: list[str]) -> None:
    """One run, these attempts, and no token that the upstream has not counted."""
    until(lambda: hearing.ended)
    assert len(hearing.runs) == len(hearing.ended) == 1
    assert hearing.outcomes == outcomes
    assert len(upstream.asked) == len(outcomes)
    (spent,) = hearing.ended
    assert spent.attempts == len(hearing.attempts)
    usage = spent.usage
    told = (usage.input_tokens, usage.output_tokens) if usage is not None else (0, 0)
    assert told == (upstream.input_tokens, upstream.output_tokens)


@pytest.mark.parametrize("door", [*DOORS, compact, embed])
def test_one_target(server: Serving, hearing: Hearing, upstream: CountedUpstream, door: Door) -> None:
    door(server, "one", [])
    check(hearing, upstream, ["answered"])
    assert upstream.input_tokens == INPUT


@pytest.mark.parametrize("door", [*DOORS, compact, embed])
def test_failover(server: Serving, hearing: Hearing, upstream: CountedUpstream, door: Door) -> None:
    door(server, "failover", [])
    check(hearing, upstream, ["failed", "answered"])
    (_, failed), _ = hearing.attempts
    assert failed.http_status in (502, 503)
    assert [attempt.route for attempt, _ in hearing.attempts] == ["failover"] * 2


@pytest.mark.parametrize("door", STREAMED)
def test_cut_and_continued(server: Serving, hearing: Hearing, upstream: CountedUpstream, door: Door) -> None:
    """The attempt that broke off counts, too."""
    door(server, "continued", [])
    check(hearing, upstream, ["failed", "answered"])
    assert upstream.output_tokens == 1 + OUTPUT


@pytest.mark.parametrize("door", WHOLE)
def test_cut_before_anything_was_heard(
    server: Serving, hearing: Hearing, upstream: CountedUpstream, door: Door
) -> None:
    """Where nothing is streamed there is nothing to go on with: the next target answers."""
    door(server, "continued", [])
    check(hearing, upstream, ["failed", "answered"])
    assert upstream.output_tokens == OUTPUT


@pytest.mark.parametrize("model", ["hosted", "hosted-route"])
@pytest.mark.parametrize("door", WITH_TOOLS)
def test_a_hosted_loop_of_three_turns(
    server: Serving, hearing: Hearing, upstream: CountedUpstream, door: Door, model: str
) -> None:
    door(server, model, SEARCH)
    turns = Counter(hearing.outcomes)
    assert turns["answered"] == 3
    check(hearing, upstream, hearing.outcomes)
    assert upstream.output_tokens == 3 * OUTPUT
    assert [(call.tool, call.failed) for call in hearing.tools] == [("web_search", False)] * 2
    assert sum(attempt.kind == "service" for attempt, _ in hearing.attempts) == 2


@pytest.mark.parametrize("model", ["counted", "counted-route"])
@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/messages/count_tokens"])
def test_a_count_of_tokens(
    server: Serving, hearing: Hearing, upstream: CountedUpstream, path: str, model: str
) -> None:
    body = {"input": "hi"} if path.endswith("input_tokens") else {"messages": USER}
    assert server.client().ok("POST", path, json={"model": model, **body})["input_tokens"] == 7
    check(hearing, upstream, ["answered"])
    assert [attempt.kind for attempt, _ in hearing.attempts] == ["count_tokens"]


def test_the_vectors_of_files_and_of_a_search(
    server: Serving, hearing: Hearing, upstream: CountedUpstream
) -> None:
    client = server.client()
    given = {"file": ("bridges.txt", b"A bridge of stone.")}
    file = client.ok("POST", "/v1/files", files=given, data={"purpose": "assistants"})
    made = client.ok("POST", "/v1/vector_stores", json={"file_ids": [file["id"]]})
    until(lambda: hearing.ended)
    client.ok("POST", f"/v1/vector_stores/{made['id']}/search", json={"query": "stone"})
    until(lambda: len(hearing.ended) == 2)
    assert [run.kind for run in hearing.runs] == ["indexing", "search"]
    assert [(attempt.kind, spent.outcome) for attempt, spent in hearing.attempts] == [
        ("embed", "answered")
    ] * 2
    counted = [spent.usage.input_tokens for spent in hearing.ended if spent.usage is not None]
    assert counted == [INPUT, INPUT]
    assert upstream.input_tokens == 2 * INPUT


@pytest.mark.parametrize(
    ("model", "before"),
    [
        ("slow", ["cancelled"]),
        ("slow-failover", ["failed", "cancelled"]),
        ("slow-continued", ["failed", "cancelled"]),
        ("slow-hosted", ["answered", "answered", "cancelled"]),
    ],
)
def test_a_response_that_another_process_goes_on_with_is_one_run(
    serve: Serve, hearing: Hearing, upstream: CountedUpstream, web: Web, model: str, before: list[str]
) -> None:
    """The attempts of the first process count with those of the second; the last of them was cancelled."""
    first = serve(toml(upstream, web))
    client = first.client()
    tools = SEARCH if model == "slow-hosted" else []
    made = client.create(model=model, input="hi", tools=tools, background=True)
    with client.listen(f"/v1/responses/{made['id']}?stream=true") as stream:
        while "Well then" not in "".join(event.get("delta", "") for event in stream.events):
            next(iter(stream))
    until(lambda: len(upstream.asked) == len(before))
    first.stop()
    assert hearing.outcomes == before
    assert hearing.ended == []
    upstream.go_on.set()
    response = serve(toml(upstream, web)).client().ended(made["id"])
    assert response["status"] == "completed", response
    check(hearing, upstream, hearing.outcomes)
    assert hearing.outcomes[: len(before)] == before
    assert hearing.outcomes[-1] == "answered"
    assert hearing.runs[0].id == made["id"]
