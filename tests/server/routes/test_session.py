"""Sessions of browsers: what the cookie is, where it counts, and who tries in vain to use it."""

import hashlib
import sqlite3
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from antiphon.store.sqlite.opening import FILE
from tests.server.conftest import Serve
from tests.server.servers import Client, Serving

PATH = "/v1/antiphon/session"


def sha(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def toml(second: str = "key-two", **server: str) -> str:
    settings = "".join(f"{name} = {value}\n" for name, value in server.items())
    return (
        'default_model = "demo/echo"\n[providers.demo]\ntype = "script"\n'
        f"[server]\n{settings}"
        f'[keys.one]\nkey_sha256 = "{sha("key-one")}"\ntenant = "acme"\n'
        f'[keys.two]\nkey_sha256 = "{sha(second)}"\n'
    )


@pytest.fixture
def server(serve: Serve) -> Serving:
    return serve(toml(origins='["https://friend.example"]'))


def begin(server: Serving, key: str = "key-one", **headers: str) -> httpx.Response:
    return server.client(key, Sec_Fetch_Site="same-origin", **headers).post(PATH)


def cookie_of(answer: httpx.Response) -> str:
    found = SimpleCookie(answer.headers["set-cookie"])
    return f"antiphon_session={found['antiphon_session'].value}"


def asking(server: Serving, cookie: str, **headers: str) -> httpx.Response:
    return server.client(Cookie=cookie, **headers).get("/v1/models")


def test_a_key_becomes_a_cookie_that_no_script_can_read(server: Serving) -> None:
    answer = begin(server)
    assert answer.status_code == 200
    assert answer.json()["key"] == "one"
    line = answer.headers["set-cookie"]
    for attribute in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"):
        assert attribute in line
    assert "Secure" not in line
    assert "key-one" not in line
    assert answer.headers["cache-control"] == "no-store"
    behind_tls = begin(server, X_Forwarded_Proto="https")
    assert behind_tls.headers["set-cookie"].endswith("; Secure")


def test_the_store_has_a_digest_and_the_name_of_the_key(server: Serving, tmp_path: Path) -> None:
    id = cookie_of(begin(server)).partition("=")[2]
    (file,) = (tmp_path / "server" / "data").glob(FILE)
    with sqlite3.connect(file) as db:
        ((digest, name),) = db.execute("SELECT digest, key_name FROM sessions").fetchall()
    db.close()
    assert (digest, name) == (sha(id), "one")


@pytest.mark.parametrize(
    ("headers", "is_in"),
    [
        ({"Sec_Fetch_Site": "same-origin"}, True),
        ({"Sec_Fetch_Site": "same-site"}, False),
        ({"Sec_Fetch_Site": "cross-site"}, False),
        ({"Sec_Fetch_Site": "none"}, False),
        ({}, False),
        ({"Origin": "http://HOST"}, True),
        ({"Origin": "https://HOST"}, False),
        ({"Origin": "https://HOST", "X_Forwarded_Proto": "https"}, True),
        ({"Origin": "https://friend.example"}, False),
        ({"Origin": "https://friend.example", "Sec_Fetch_Site": "cross-site"}, False),
    ],
)
def test_it_counts_for_our_own_page_alone(server: Serving, headers: dict[str, str], is_in: bool) -> None:
    cookie = cookie_of(begin(server))
    host = httpx.URL(server.url).netloc.decode()
    sent = {name: value.replace("HOST", host) for name, value in headers.items()}
    answer = asking(server, cookie, **sent)
    assert (answer.status_code == 200) == is_in, answer.text
    assert is_in or answer.status_code == 401


def test_a_page_from_elsewhere_cannot_spend_it(server: Serving) -> None:
    """The form of another page, which a browser sends with its cookies where they are not strict."""
    cookie = cookie_of(begin(server))
    forged = server.client(Cookie=cookie, Sec_Fetch_Site="cross-site", Content_Type="text/plain")
    assert forged.post("/v1/responses", content='{"input": "spend"}').status_code == 401
    listed = server.client(Cookie=cookie, Sec_Fetch_Site="cross-site", Origin="https://friend.example")
    assert listed.post("/v1/responses", json={"input": "spend"}).status_code == 401
    foreign = server.client(Cookie=cookie, Origin="https://evil.example")
    assert foreign.post("/v1/responses", json={"input": "spend"}).status_code == 403


def test_a_name_that_is_rebound_to_us_is_refused(server: Serving) -> None:
    cookie = cookie_of(begin(server))
    rebound = server.client(Cookie=cookie, Host="evil.example", Sec_Fetch_Site="same-origin")
    for path in ("/", "/v1/models", PATH):
        assert rebound.get(path).status_code == 403


def test_a_cookie_begins_no_session_and_a_key_only_on_our_page(server: Serving) -> None:
    cookie = cookie_of(begin(server))
    mine = server.client(Cookie=cookie, Sec_Fetch_Site="same-origin")
    assert mine.get(PATH).json()["key"] == "one"
    assert mine.refused(401, "POST", PATH)["code"] == "invalid_api_key"
    assert server.client("key-one").refused(403, "POST", PATH)["code"] == "forbidden"
    assert begin(server, "wrong").status_code == 401


def test_a_wrong_key_is_not_helped_by_a_cookie(server: Serving) -> None:
    cookie = cookie_of(begin(server))
    assert asking(server, cookie, Sec_Fetch_Site="same-origin", Authorization="Bearer no").status_code == 401


def test_it_is_gone_when_the_browser_signs_out(server: Serving) -> None:
    cookie = cookie_of(begin(server))
    mine = server.client(Cookie=cookie, Sec_Fetch_Site="same-origin")
    gone = mine.delete(PATH)
    assert gone.json()["deleted"]
    assert "Max-Age=0" in gone.headers["set-cookie"]
    assert mine.get("/v1/models").status_code == 401


def test_it_is_gone_with_its_key_and_when_it_expires(serve: Serve, tmp_path: Path) -> None:
    first = serve(toml())
    own = {"Sec_Fetch_Site": "same-origin"}
    one, two = cookie_of(begin(first)), cookie_of(begin(first, "key-two"))
    first.stop()
    again = serve(toml(second="another"))  # the same name, another key
    assert asking(again, one, **own).status_code == 200
    assert asking(again, two, **own).status_code == 401
    (file,) = (tmp_path / "server" / "data").glob(FILE)
    with sqlite3.connect(file) as db:
        db.execute("UPDATE sessions SET expires_at = 1")
    db.close()
    assert asking(again, one, **own).status_code == 401


def test_tenants_see_only_what_is_theirs(server: Serving) -> None:
    own = {"Sec_Fetch_Site": "same-origin"}
    one = server.client(Cookie=cookie_of(begin(server)), **own)
    two = server.client(Cookie=cookie_of(begin(server, "key-two")), **own)
    chat = one.ok("POST", "/v1/antiphon/chats", json={})["id"]
    assert [found["id"] for found in one.ok("GET", "/v1/antiphon/chats")["data"]] == [chat]
    assert two.ok("GET", "/v1/antiphon/chats")["data"] == []
    assert two.get(f"/v1/antiphon/chats/{chat}").status_code == 404


def test_on_the_websocket_it_counts_in_the_same_way(server: Serving) -> None:
    cookie, url = cookie_of(begin(server)), server.url.replace("http", "ws") + "/v1/responses"
    ours = server.url
    with connect(url, additional_headers={"Cookie": cookie, "Origin": ours}, proxy=None):
        pass
    refused = [
        ({"Origin": "https://friend.example"}, 401),
        ({"Sec-Fetch-Site": "cross-site", "Origin": ours}, 401),
        ({}, 401),
    ]
    for headers, status in refused:
        with (
            pytest.raises(InvalidStatus) as caught,
            connect(url, additional_headers={"Cookie": cookie, **headers}, proxy=None),
        ):
            pass
        assert caught.value.response.status_code == status


def test_without_keys_there_is_nothing_to_remember(serve: Serve) -> None:
    server = serve('default_model = "demo/echo"\n[providers.demo]\ntype = "script"\n')
    client = server.client()
    assert client.ok("GET", PATH) == client.ok("POST", PATH)
    assert "set-cookie" not in client.post(PATH).headers


def test_it_says_which_protocol_the_flags_choose(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def protocol(**flags: str) -> object:
        with monkeypatch.context() as patch:
            for name, value in flags.items():
                patch.setenv(name, value)
            client: Client = serve(
                'default_model = "demo/echo"\n[providers.demo]\ntype = "script"\n'
            ).client()
            return client.ok("GET", PATH)["protocol"]

    assert protocol() == "ui"
    assert protocol(VERTICE_USE_OPEN_RESPONSES="TRUE") == "open-responses"
    assert protocol(OPEN_RESPONSES_DEFAULT="true") == "open-responses"
    assert protocol(VERTICE_USE_OPEN_RESPONSES="no") == "ui"
