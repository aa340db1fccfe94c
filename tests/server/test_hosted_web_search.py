"""`web_search` over real sockets: a search engine and pages on loopback, and what comes of them."""

import json
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Serve
from tests.server.curl import Shell
from tests.server.servers import Client
from tests.server.test_hosted_functions import call, script
from tests.tools.search_servers import Web, answer, answer_json, endless, redirect, web_of_pages

SCRIPTED = 'default_model = "s/m"\n[providers.s]\ntype = "script"\nfrom_requests = true\n'
TOOL: dict[str, Any] = {"type": "web_search"}
BOTH = ["web_search_call.results", "web_search_call.action.sources"]


@pytest.fixture
def web() -> Iterator[Web]:
    with web_of_pages() as web:
        yield web


@pytest.fixture
def client(serve: Serve, web: Web) -> Client:
    """A gateway that may open pages on loopback."""
    return serve(configured(web, 'allow = ["127.0.0.1"]')).client()


def configured(web: Web, more: str = "") -> str:
    return f'{SCRIPTED}[tools.web_search]\nsearxng = "{web.url}"\n{more}\n'


def searching(*turns: dict[str, Any], last: str | None = None) -> str:
    """The model makes these calls, a turn each, and then says something: by default the last result."""
    end = [{"echo": True}] if last is None else [{"text": last}]
    return script(*([turn] for turn in turns), end)


def said(response: dict[str, Any]) -> str:
    text: str = response["output"][-1]["content"][0]["text"]
    return text


def search(query: str = "bridge") -> dict[str, Any]:
    return call("web_search", query=query)


def test_a_search_is_an_item_and_its_results_are_the_models(client: Client, web: Web) -> None:
    url = web.find("/bridge", "The <b>old</b> bridge", "It is 244 metres long &amp; has two towers.")
    response = client.create(input=searching(search("how long?")), tools=[TOOL])
    item, _ = response["output"]
    assert (item["type"], item["status"]) == ("web_search_call", "completed")
    assert item["action"] == {"type": "search", "query": "how long?", "queries": ["how long?"]}
    assert "results" not in item
    assert web.asked[0][1] == {"q": ["how long?"], "format": ["json"]}
    told = said(response)
    assert "The old bridge\n" + url in told
    assert "It is 244 metres long & has two towers." in told


@pytest.mark.parametrize("include", [[], BOTH[:1], BOTH[1:], BOTH])
def test_results_and_sources_are_shown_where_they_are_asked_for(
    client: Client, web: Web, include: list[str]
) -> None:
    url = web.find("/bridge", "The bridge", "Words.")
    item = client.create(input=searching(search()), tools=[TOOL], include=include)["output"][0]
    shown = {"type": "text", "url": url, "title": "The bridge", "text": "Words.", "date": None}
    assert item.get("results") == ([shown] if BOTH[0] in include else None)
    assert item["action"].get("sources") == ([{"type": "url", "url": url}] if BOTH[1] in include else None)


def test_a_mark_becomes_an_annotation_at_its_place(client: Client, web: Web) -> None:
    url = web.find("/bridge", "The bridge")
    web.find("/other_(x)", "Another")
    request = {"input": searching(search(), last="It is long【1】, and old【2】【9】."), "tools": [TOOL]}
    response = client.create(**request)
    text, notes = said(response), response["output"][-1]["content"][0]["annotations"]
    other = f"{web.url}/other_%28x%29"
    assert text == f"It is long ([127.0.0.1]({url})), and old ([127.0.0.1]({other}))【9】."
    assert [(note["type"], note["url"], note["title"]) for note in notes] == [
        ("url_citation", url, "The bridge"),
        ("url_citation", f"{web.url}/other_(x)", "Another"),
    ]
    assert [text[note["start_index"] : note["end_index"]] for note in notes] == [
        f"([127.0.0.1]({url}))",
        f"([127.0.0.1]({other}))",
    ]
    with client.listen("/v1/responses", stream=True, **request) as stream:
        added = [e["annotation"] for e in stream if e["type"] == "response.output_text.annotation.added"]
    assert added == notes


def test_a_stream_has_its_events_in_order(client: Client, web: Web) -> None:
    web.find("/bridge")
    with client.listen("/v1/responses", input=searching(search()), tools=[TOOL], stream=True) as stream:
        events = [event for event in stream if event.get("output_index") == 0]
    assert [event["type"] for event in events] == [
        "response.output_item.added",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.output_item.done",
    ]
    assert events[0]["item"]["status"] == "in_progress"


def test_half_a_character_in_a_query_is_told_to_the_model(client: Client) -> None:
    turn = {"call": "web_search", "arguments": '{"query": "bridge \\ud800"}'}
    response = client.create(input=searching(turn), tools=[TOOL])
    assert response["output"][0]["status"] == "failed"
    assert "the arguments must be a JSON object" in said(response)


def test_the_user_is_somewhere(client: Client, web: Web) -> None:
    place = {"type": "approximate", "country": "de", "city": "Bonn"}
    client.create(input=searching(search()), tools=[{**TOOL, "user_location": place}])
    assert web.asked[0][1]["language"] == ["de-DE"]


def test_a_larger_context_has_more_results(client: Client, web: Web) -> None:
    for n in range(30):
        web.find(f"/{n}", content="word " * 1000)
    counts = []
    for size in ("low", "medium", "high"):
        tool = {**TOOL, "search_context_size": size}
        response = client.create(input=searching(search()), tools=[tool], include=BOTH)
        results = response["output"][0]["results"]
        counts.append((len(results), len(results[0]["text"])))
    assert counts == [(5, 300), (8, 800), (15, 2000)]


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("filters", "a.example", "tools[0].filters"),
        ("filters", {"allowed_domains": "a.example"}, "tools[0].filters.allowed_domains"),
        (
            "filters",
            {"allowed_domains": ["ok.example", "https://a.example"]},
            "tools[0].filters.allowed_domains[1]",
        ),
        ("filters", {"blocked_domains": [7]}, "tools[0].filters.blocked_domains[0]"),
        ("search_context_size", "huge", "tools[0].search_context_size"),
        ("search_context_size", ["low"], "tools[0].search_context_size"),
        ("user_location", {"type": "exact"}, "tools[0].user_location.type"),
        ("user_location", {"country": "Germany"}, "tools[0].user_location.country"),
        ("user_location", {"city": 7}, "tools[0].user_location.city"),
        ("external_web_access", "no", "tools[0].external_web_access"),
    ],
)
def test_a_wrong_declaration_is_refused_at_its_place(
    client: Client, field: str, value: Any, param: str
) -> None:
    request = {"input": searching(search()), "tools": [{**TOOL, field: value}]}
    error = client.refused(400, "POST", "/v1/responses", json=request)
    assert error["param"] == param


@pytest.mark.parametrize(
    "type", ["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"]
)
def test_every_name_of_the_tool(client: Client, web: Web, type: str) -> None:
    response = client.create(input=searching(search()), tools=[{"type": type}], tool_choice={"type": type})
    assert response["output"][0]["type"] == "web_search_call"


def test_codex_declares_its_search(client: Client, web: Web) -> None:
    """Without access to the web, pages stay closed; the search engine's own index is searched."""
    url = web.find("/bridge")
    for access, status in ((True, "completed"), (False, None)):
        tool = {"type": "web_search", "external_web_access": access}
        turns = [search(), call("open_page", url=url)] if access else [search()]
        response = client.create(input=searching(*turns), tools=[tool])
        assert response["output"][0]["status"] == "completed"
        assert status is None or response["output"][1]["status"] == status


def test_without_a_search_engine_strict_refuses_it(serve: Serve) -> None:
    request = {"input": script([{"text": "No."}]), "tools": [TOOL]}
    client = serve(SCRIPTED, SERVER__STRICT="true").client()
    error = client.refused(400, "POST", "/v1/responses", json=request)
    assert (error["code"], error["param"]) == ("unsupported_parameter", "tools[0]")


def test_without_a_search_engine_it_is_dropped(serve: Serve) -> None:
    server = serve(SCRIPTED)
    request = {"input": script([{"text": "No."}]), "tools": [TOOL]}
    response = server.client(X_Antiphon_Receipts="1").create(**request)
    assert said(response) == "No."
    (receipt,) = response["antiphon:receipts"]
    assert (receipt["param"], receipt["action"]) == ("tools[0]", "dropped")
    assert "no search engine is configured" in receipt["reason"]


def test_brave_gets_its_key_and_the_country(
    serve: Serve, web: Web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = web.find("/bridge", content="From Brave.")
    toml = f'{SCRIPTED}[tools.web_search]\nbrave_key = "sk-brave"\nbrave_url = "{web.url}/res"\n'
    tool = {**TOOL, "user_location": {"country": "FR"}}
    response = serve(toml).client().create(input=searching(search("pont")), tools=[tool])
    path, query, headers = web.asked[0]
    assert (path, query["q"], query["country"]) == ("/res/web/search", ["pont"], ["FR"])
    assert headers["x-subscription-token"] == "sk-brave"
    assert f"{url}\nFrom Brave." in said(response)
    assert "sk-brave" not in caplog.text


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (answer(b"<html>no</html>"), "no readable answer"),
        (answer_json({"results": 7}), "no readable answer"),
        (answer_json([]), "no readable answer"),
        (answer(b"no", status=403), "HTTP 403"),
        (answer(b"no", status=429), "too many searches"),
        (redirect("http://127.0.0.1:1/"), "HTTP 302"),
        (endless, "more than can be read"),
        (
            answer_json({"results": [7, {}, {"url": 7}, {"url": "ftp://a"}, {"url": "http://["}]}),
            "Nothing was found",
        ),
    ],
    ids=range(8),
)
def test_a_search_engine_that_fails_does_not_end_the_response(
    client: Client, web: Web, fault: Any, why: str
) -> None:
    web.routes["/search"] = fault
    response = client.create(input=searching(search()), tools=[TOOL])
    assert response["status"] == "completed"
    assert why in said(response)


def test_a_search_engine_that_is_down(serve: Serve) -> None:
    toml = f'{SCRIPTED}[tools.web_search]\nsearxng = "http://127.0.0.1:1"\n'
    response = serve(toml).client().create(input=searching(search()), tools=[TOOL])
    assert response["output"][0]["status"] == "failed"
    assert "cannot be reached" in said(response)


def test_a_search_engine_and_a_page_that_are_too_slow(serve: Serve, web: Web) -> None:
    def hang(request: Any) -> None:
        web.closed.wait(60)

    web.routes["/slow"] = web.routes["/search"] = hang
    url = f"{web.url}/slow"
    client = serve(configured(web, 'allow = ["*"]\ntimeout = "0.3 s"')).client()
    for turn in (search(), call("open_page", url=url)):
        response = client.create(input=searching(turn), tools=[TOOL])
        assert (response["status"], response["output"][0]["status"]) == ("completed", "failed")


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": 7}, {"query": "x" * 1001}])
def test_arguments_that_are_none(client: Client, web: Web, arguments: dict[str, Any]) -> None:
    said = searching({"call": "web_search", "arguments": arguments})
    response = client.create(input=said, tools=[TOOL])
    assert response["output"][0]["status"] == "failed"
    assert web.asked == []


def test_a_key_needs_the_permission(serve: Serve, web: Web) -> None:
    import hashlib

    digest = hashlib.sha256(b"bob").hexdigest()
    client = serve(f'{configured(web)}[keys.bob]\nkey_sha256 = "{digest}"\n').client(
        "bob", X_Antiphon_Receipts="1"
    )
    response = client.create(input=script([{"text": "No."}]), tools=[TOOL])
    assert "may not use 'web_search'" in response["antiphon:receipts"][0]["reason"]


def test_a_follow_up_gives_the_model_its_results_again(client: Client, web: Web) -> None:
    web.find("/bridge", content="It is 244 metres long.")
    first = client.create(input=searching(search(), last="Long."), tools=[TOOL])
    again = "```script\n" + json.dumps({"turns": [{"steps": [{"text": "Yes."}]}]}) + "\n```"
    replayed = [*first["output"], {"role": "user", "content": again}]
    for request in ({"input": again, "previous_response_id": first["id"]}, {"input": replayed}):
        response = client.create(tools=[TOOL], **request)
        assert response["status"] == "completed"
    foreign = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    action = {"type": "search", "query": "x", "sources": [{"type": "url", "url": "https://a.example/"}]}
    for item in ({**foreign, "action": action}, foreign):
        response = client.create(input=[item, {"role": "user", "content": again}], tools=[TOOL])
        assert response["status"] == "completed"
        assert "antiphon:receipts" not in response


def test_the_example_of_the_page_runs(serve: Serve, web: Web) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools" / "web-search.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(toml|sh)\n(.*?)```", page, re.DOTALL))
    found = [web.find(url) for url in ("https://en.wikipedia.org/wiki/Tower_Bridge", "https://b.example/")]
    toml = SCRIPTED + blocks["toml"].replace("http://127.0.0.1:8888", web.url)
    said = json.dumps(searching(search("tower bridge")))[1:-1]
    asked = blocks["sh"].replace("Which bridge was opened in 1894? Search for it.", said)
    answer = Shell(serve(toml).client()).run(asked).json()
    assert answer["output"][0]["action"]["sources"] == [{"type": "url", "url": found[0]}]


def test_nothing_of_a_search_is_logged(client: Client, web: Web, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    web.find("/bridge", "Told in confidence", "Told in confidence")
    web.routes["/search"], kept = answer(b"Told in confidence", status=500), web.routes["/search"]
    client.create(input=searching(search("Told in confidence")), tools=[TOOL])
    web.routes["/search"] = kept
    url = f"{web.url}/bridge?in=confidence"
    client.create(input=searching(search("Told in confidence"), call("open_page", url=url)), tools=[TOOL])
    assert "web_search: the search engine answered with HTTP 500" in caplog.text
    told = [
        json.dumps(record.getMessage()) for record in caplog.records if record.name.startswith("antiphon")
    ]
    assert not [line for line in told if "confidence" in line or "244" in line]


def test_whoever_goes_away_ends_the_search(client: Client, web: Web) -> None:
    asked, left = threading.Event(), threading.Event()

    def hang(request: Any) -> None:
        asked.set()
        if request.connection.recv(1) == b"":
            left.set()

    web.routes["/search"] = hang
    with client.listen("/v1/responses", input=searching(search()), tools=[TOOL], stream=True) as stream:
        stream.until("response.web_search_call.searching")
        assert asked.wait(60)
    assert left.wait(60)


def test_models_say_that_they_can_search(client: Client) -> None:
    listed = client.ok("GET", "/v1/models")["data"]
    assert all("web_search" in model["antiphon:tools"] for model in listed)
