"""The bridges stand behind the gate of `/v1/responses`: what is refused there is refused here, in JSON."""

import json

import pytest

from tests.bridges.scripts import ENDLESS, TOML, Json, said
from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.servers import Client, Serving, until
from tests.wires.hashbrown.frame_reader import unframed

ROUTES = {
    "/api/v1/chat": "user",
    "/api/v1/chat?protocol=data-v1": "user",
    "/api/v1/chat?protocol=open-responses": "user",
    "/api/hashbrown": "user",
    "/api/hashbrown?dialect=open-responses": "user",
    "/api/vscode/chat": 1,
    "/v1/messages": "user",
}

JSON = {"Content-Type": "application/json"}

pytestmark = pytest.mark.parametrize("route", ROUTES)


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    keys = key_table("alice") + key_table("bob")
    return serve_all(TOML + keys, SERVER__BODY_LIMIT="2000", SERVER__ORIGINS="https://app.example")


@pytest.fixture
def client(server: Serving) -> Client:
    return server.client("sk-alice")


def body(route: str, text: str = "Hi") -> Json:
    asked = {"messages": [{"role": ROUTES[route], "content": text}]}
    return {**asked, "model": "demo", "max_tokens": 100, "stream": True} if "/v1/messages" in route else asked


def mistake(client: Client, route: str, content: bytes) -> Json:
    """The error of a body that is refused: with a status, or as the one frame of Hashbrown's route."""
    if "hashbrown" not in route:
        return client.refused(400, "POST", route, content=content)
    path = "/api/hashbrown?dialect=open-responses"
    (frame,) = unframed(client.post(path, content=content, headers=JSON).content)
    return dict(frame["error"])


def test_a_key_is_asked_for(server: Serving, route: str) -> None:
    for key in (None, "sk-mallory"):
        assert server.client(key).refused(401, "POST", route, json=body(route))["code"]
    assert server.client("sk-alice").post(route, json=body(route)).status_code == 200


def test_a_page_of_a_foreign_origin_is_turned_away(client: Client, route: str) -> None:
    foreign = {"Origin": "https://evil.example"}
    assert client.refused(403, "POST", route, json=body(route), headers=foreign)["code"] == "forbidden"
    answer = client.post(route, json=body(route), headers={"Origin": "https://app.example"})
    assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_a_body_that_is_none_is_refused(client: Client, route: str) -> None:
    for content, code in ((b"", "no_body"), (b"{", "invalid_json"), (b"[]", "invalid_value")):
        assert mistake(client, route, content)["code"] == code
    assert client.refused(413, "POST", route, json=body(route, "x" * 2000))["code"]
    text = {"Content-Type": "text/plain"}
    assert client.refused(415, "POST", route, content=b"{}", headers=text)["code"] == "unsupported_media_type"


def test_half_a_character_is_refused_with_its_place(client: Client, route: str) -> None:
    content = json.dumps(body(route)).replace("Hi", r"\ud83d")
    error = mistake(client, route, content.encode())
    assert (error["code"], error["param"]) == ("invalid_utf8", "messages[0].content")


def test_a_client_that_goes_away_ends_the_run(server: Serving, client: Client, route: str) -> None:
    with client.stream("POST", route, json=body(route, said(ENDLESS))) as answer:
        chunks = answer.iter_raw()  # let go of, it would close the connection
        assert any(b"word" in chunk for chunk in chunks)
        assert server.gateway._runs
    until(lambda: not server.gateway._runs)
