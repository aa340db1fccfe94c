"""Who may come in, and what those who are sent away are told."""

import json
import re
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve, Spawn
from tests.server.http_calls import dial, key_table, raw, turn
from tests.server.servers import Serving

ORIGIN = "https://app.example.com"
KEYS = key_table("alice") + key_table("bob") + key_table("laptop", tenant="alice")


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    """A server without keys."""
    return serve_all(talking.toml)


@pytest.fixture(scope="module")
def guarded(serve_all: Serve, talking: Voice) -> Serving:
    """A server with keys, which pages of one other origin may call."""
    return serve_all(talking.toml + KEYS, SERVER__ORIGINS=ORIGIN)


def turned_away(server: Serving, status: int, **options: Any) -> tuple[dict[str, str], httpx.Headers]:
    """The error of a WebSocket handshake that is answered with plain HTTP, and the headers beside it."""
    with pytest.raises(InvalidStatus) as refused:
        dial(server, **options)
    answer = refused.value.response
    assert answer.status_code == status
    error = json.loads(answer.body or b"")["error"]
    assert all(isinstance(error[name], str) for name in ("type", "message", "code", "param"))
    return error, httpx.Headers(list(answer.headers.raw_items()))


# --- keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer wrong", "Bearer", "sk-alice", "Basic sk-alice", "Bearer sk-alice sk-alice"],
)
def test_a_wrong_or_missing_key_is_401(guarded: Serving, voice: Voice, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    client = guarded.client()
    for method, path in [
        ("POST", "/v1/responses"),
        ("POST", "/v1/responses/compact"),
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/models"),
        ("POST", "/v1/conversations"),
        ("GET", "/no/such/path"),
    ]:
        error = client.refused(401, method, path, headers=headers, content=b"{")
        assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
        assert "Authorization: Bearer" in error["message"]
    assert client.get("/v1/models", headers=headers).headers["www-authenticate"] == "Bearer"
    error, _ = turned_away(guarded, 401, additional_headers=headers)
    assert error["code"] == "invalid_api_key"
    assert voice.heard == []


@pytest.mark.parametrize("authorization", ["Bearer sk-alice", "bearer sk-bob", "BEARER  sk-laptop"])
def test_a_right_key_opens(guarded: Serving, authorization: str) -> None:
    headers = {"Authorization": authorization}
    assert guarded.client().ok("POST", "/v1/responses", headers=headers, json={"input": "hi"})
    with dial(guarded, additional_headers=headers) as socket:
        assert turn(socket, input="hi")["type"] == "response.completed"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_a_load_balancer_needs_no_key(guarded: Serving, path: str) -> None:
    assert guarded.client().get(path).status_code == 200


@pytest.mark.parametrize("authorization", ["Bearer whatever", "Basic dTpw", "nonsense", ""])
def test_without_keys_any_authorization_is_accepted(server: Serving, authorization: str) -> None:
    headers = {"Authorization": authorization}
    assert server.client().ok("POST", "/v1/responses", headers=headers, json={"input": "hi"})
    with dial(server, additional_headers=headers) as socket:
        assert turn(socket, input="hi")["type"] == "response.completed"


def test_no_key_and_no_word_of_a_prompt_is_logged(spawn: Spawn, voice: Voice) -> None:
    server = spawn(voice.toml + KEYS, LOG__LEVEL="debug", PROVIDERS__UP__API_KEY="sk-upstream-secret")
    alice = server.client("sk-alice")
    voice.say("unspoken", "answer")
    made = alice.create(input="unspoken prompt", instructions="unspoken rule")
    alice.create(input="unspoken again", previous_response_id=made["id"])
    with alice.listen("/v1/responses", input="unspoken stream", stream=True) as stream:
        stream.until("response.completed")
    alice.refused(400, "POST", "/v1/responses", json={"input": "unspoken", "top_logprobs": "unspoken"})
    alice.refused(404, "POST", "/v1/responses", json={"input": "unspoken", "model": "nobody"})
    server.client("sk-unspoken").refused(401, "POST", "/v1/responses", json={"input": "unspoken"})
    headers = {"Authorization": "Bearer sk-alice"}
    with dial(server, additional_headers=headers) as socket:
        assert turn(socket, input="unspoken over a socket")["type"] == "response.completed"
        assert turn(socket, input=[{"type": "message", "role": "unspoken"}])["type"] == "error"
    voice.refuse(500, "unspoken failure with sk-upstream-secret")
    assert "sk-upstream" not in alice.post("/v1/responses", json={"input": "unspoken"}).text
    voice.says = lambda call: call.say("unspoken", "beginning")
    with alice.listen("/v1/responses", input="unspoken stream", stream=True) as stream:
        stream.until("response.output_text.delta")
    server.stop()
    log = server.log()
    assert "the client went away" in log
    assert not re.search(r"(?i)unspoken|sk-|bearer (?!KEY)", log), log


# --- tenants -----------------------------------------------------------------------------------------------


def test_another_tenants_id_is_not_found_anywhere(guarded: Serving) -> None:
    alice, bob = guarded.client("sk-alice"), guarded.client("sk-bob")
    made = alice.create(input="mine", background=True)
    item = alice.ok("GET", f"/v1/responses/{made['id']}/input_items")["data"][0]["id"]
    talk = alice.ok("POST", "/v1/conversations", json={"items": [{"role": "user", "content": "mine"}]})
    response, conversation = f"/v1/responses/{made['id']}", f"/v1/conversations/{talk['id']}"
    paths = [
        ("GET", response),
        ("GET", f"{response}?stream=true&starting_after=0"),
        ("GET", f"{response}/input_items"),
        ("POST", f"{response}/cancel"),
        ("DELETE", response),
        ("GET", conversation),
        ("GET", f"{conversation}/items"),
        ("DELETE", conversation),
    ]
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("previous_response_id", {"previous_response_id": made["id"], "input": "x"}),
        ("conversation", {"conversation": talk["id"], "input": "x"}),
        ("input[0].id", {"input": [{"type": "item_reference", "id": item}]}),
    ]

    def never_was(path: str) -> str:
        return path.replace(made["id"], "resp_never").replace(talk["id"], "conv_never")

    for method, path in paths:
        error = bob.refused(404, method, path)
        # What belongs to somebody else looks like what does not exist.
        unknown = bob.refused(404, method, never_was(path))
        assert error == {**unknown, "message": error["message"]}
    for param, body in bodies:
        for endpoint in ("/v1/responses", "/v1/responses/input_tokens"):
            error = bob.refused(404, "POST", endpoint, json=body)
            assert error["param"] == param
        with dial(guarded, additional_headers={"Authorization": "Bearer sk-bob"}) as socket:
            envelope = turn(socket, **body)
            assert (envelope["status"], envelope["error"]["param"]) == (404, param)
    for param, body in (bodies[0], bodies[2]):
        error = bob.refused(404, "POST", "/v1/responses/compact", json={"model": "model", **body})
        assert error["param"] == param
    assert alice.ok("GET", response)["id"] == made["id"]
    assert alice.ok("GET", conversation)["id"] == talk["id"]


def test_keys_of_one_tenant_share_what_they_stored(guarded: Serving) -> None:
    made = guarded.client("sk-alice").create(input="from my desk")
    laptop = guarded.client("sk-laptop")
    assert laptop.ok("GET", f"/v1/responses/{made['id']}") == made
    assert laptop.create(input="from my sofa", previous_response_id=made["id"])


def test_a_sealed_summary_opens_only_for_its_tenant(guarded: Serving) -> None:
    alice, bob = guarded.client("sk-alice"), guarded.client("sk-bob")
    compacted = alice.ok("POST", "/v1/responses/compact", json={"model": "model", "input": "long talk"})
    request = {"input": [*compacted["output"], {"role": "user", "content": "go on"}]}
    assert alice.create(**request)
    error = bob.refused(400, "POST", "/v1/responses", json=request)
    assert (error["code"], error["param"]) == ("invalid_encrypted_content", "input[0].encrypted_content")


# --- hosts and origins -------------------------------------------------------------------------------------

FOREIGN_HOSTS = ["evil.example.com", "evil.example.com:8080", "localhost.example.com", "127.0.0.1.nip.io", ""]
FOREIGN_ORIGINS = [
    "https://evil.example.com",
    "null",
    "http://localhost:1",
    "http://[",
    "file://",
    "https://app.example.com.evil.com",
]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_forbidden(server: Serving, host: str) -> None:
    for path in ("/v1/models", "/healthz", "/docs"):
        error = server.client().refused(403, "GET", path, headers={"Host": host})
        assert (error["type"], error["code"]) == ("permission_denied", "forbidden")
        assert "[server] hosts" in error["message"]
    # The host of a handshake is made from its address, so this one is written by hand.
    assert b" 403 " in shake_hands(server, f"Host: {host}").split(b"\r\n")[0]


def shake_hands(server: Serving, *headers: str) -> bytes:
    upgrade = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    )
    return raw(server, "GET /v1/responses HTTP/1.1", *headers, *upgrade)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1", "[::1]:8080", "192.168.1.20"])
def test_names_of_this_machine_and_addresses_are_no_foreign_hosts(server: Serving, host: str) -> None:
    assert server.client().get("/healthz", headers={"Host": host}).status_code == 200


def test_a_listed_host_is_served(serve: Serve, voice: Voice) -> None:
    client = serve(voice.toml, SERVER__HOSTS="Gateway.example.com").client()
    assert client.get("/healthz", headers={"Host": "gateway.example.COM:443"}).status_code == 200
    client.refused(403, "GET", "/healthz", headers={"Host": "other.example.com"})
    anywhere = serve(voice.toml, SERVER__HOSTS="*").client()
    assert anywhere.get("/healthz", headers={"Host": "other.example.com"}).status_code == 200


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_foreign_origin_is_forbidden(guarded: Serving, voice: Voice, origin: str) -> None:
    headers = {"Origin": origin, "Authorization": "Bearer sk-alice"}
    for method, path in [("POST", "/v1/responses"), ("GET", "/healthz"), ("OPTIONS", "/v1/responses")]:
        answer = guarded.client().request(method, path, headers=headers, content=b"{}")
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "forbidden"
        assert "access-control-allow-origin" not in answer.headers
    error, _ = turned_away(guarded, 403, additional_headers=headers)
    assert "[server] origins" in error["message"]
    assert voice.heard == []


def test_a_page_of_the_server_itself_may_call_it(server: Serving) -> None:
    answer = server.client().get("/v1/models", headers={"Origin": server.url})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers
    with dial(server, additional_headers={"Origin": server.url}) as socket:
        assert turn(socket, input="hi")["type"] == "response.completed"


def test_a_listed_origin_may_call_and_read(guarded: Serving) -> None:
    client = guarded.client("sk-alice", Origin=ORIGIN)
    for answer, status in [
        (client.post("/v1/responses", json={"input": "hi"}), 200),
        (client.post("/v1/responses", json={"input": "hi", "stream": True}), 200),
        (client.get("/v1/responses/resp_unknown"), 404),
        (client.get("/v1/models", headers={"Authorization": "Bearer wrong"}), 401),
    ]:
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert "x-request-id" in answer.headers["access-control-expose-headers"]
        assert answer.headers["vary"].lower() == "origin"
    with dial(guarded, additional_headers={"Authorization": "Bearer sk-alice", "Origin": ORIGIN}) as socket:
        assert turn(socket, input="hi")["type"] == "response.completed"


def test_all_origins_can_be_listed(serve: Serve, voice: Voice) -> None:
    answer = serve(voice.toml, SERVER__ORIGINS="*").client(Origin=ORIGIN).get("/healthz")
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)


def test_a_preflight_of_a_listed_origin_needs_no_key(guarded: Serving) -> None:
    wanted = "authorization,content-type,x-antiphon-dialect,x-stainless-lang"
    answer = guarded.client(
        Origin=ORIGIN, Access_Control_Request_Method="POST", Access_Control_Request_Headers=wanted
    ).options("/v1/responses")
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["access-control-allow-methods"].split(", "))
    allowed = {name.strip() for name in answer.headers["access-control-allow-headers"].split(",")}
    assert allowed >= set(wanted.split(","))
    assert int(answer.headers["access-control-max-age"]) > 0


# --- request ids -------------------------------------------------------------------------------------------


def test_every_answer_has_a_request_id(guarded: Serving) -> None:
    alice = guarded.client("sk-alice")
    requests: list[tuple[int, str, str, dict[str, Any]]] = [
        (200, "POST", "/v1/responses", {"json": {"input": "hi"}}),
        (200, "POST", "/v1/responses", {"json": {"input": "hi", "stream": True}}),
        (200, "GET", "/healthz", {}),
        (400, "POST", "/v1/responses", {"content": b"{", "headers": {"Content-Type": "application/json"}}),
        (401, "GET", "/v1/models", {"headers": {"Authorization": "Bearer wrong"}}),
        (403, "GET", "/v1/models", {"headers": {"Host": "evil.example.com"}}),
        (404, "GET", "/v1/nothing", {}),
        (405, "PUT", "/v1/responses", {}),
        (415, "POST", "/v1/responses", {"data": {"input": "hi"}}),
    ]
    made: set[str] = set()
    for status, method, path, options in requests:
        answer = alice.request(method, path, **options)
        assert answer.status_code == status
        made.add(answer.headers["x-request-id"])
        echoed = options.get("headers", {}) | {"X-Request-Id": "trace-1/a:b"}
        again = alice.request(method, path, **options | {"headers": echoed})
        assert (again.status_code, again.headers["x-request-id"]) == (status, "trace-1/a:b")
    assert len(made) == len(requests)
    assert all(id.startswith("req_") for id in made)


@pytest.mark.parametrize("given", ["", "two words", "x" * 129, "naïve".encode("latin-1")])
def test_an_unusable_request_id_is_replaced(server: Serving, given: str | bytes) -> None:
    answer = server.client().get("/healthz", headers=[(b"X-Request-Id", given)])  # type: ignore[arg-type]
    assert answer.headers["x-request-id"].startswith("req_")


def test_a_handshake_has_a_request_id_too(guarded: Serving) -> None:
    _, headers = turned_away(guarded, 401)
    assert headers["x-request-id"].startswith("req_")
    key = {"Authorization": "Bearer sk-alice"}
    _, headers = turned_away(
        guarded, 404, path="/v1/models", additional_headers=key | {"X-Request-Id": "mine"}
    )
    assert headers["x-request-id"] == "mine"
    with dial(guarded, additional_headers=key | {"X-Request-Id": "mine"}) as socket:
        assert socket.response is not None
        assert socket.response.headers["x-request-id"] == "mine"
