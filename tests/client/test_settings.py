"""Where a client calls and with which key: arguments first, then pairs of environment variables."""

import logging
import traceback
from base64 import b64encode

import pytest

from antiphon.client import AsyncClient, Client, StatusError, UsageError
from antiphon.client.settings import DEFAULT_URL, SecretKey, ServerAddress, resolve
from tests.client.scripted_server import Player, error, whole

OURS, OPEN, OPENAI = (
    {"ANTIPHON_BASE_URL": "http://a.test/v1", "ANTIPHON_API_KEY": "key-a"},
    {"OPENRESPONSES_BASE_URL": "http://r.test/v1", "OPENRESPONSES_API_KEY": "key-r"},
    {"OPENAI_BASE_URL": "http://o.test/v1", "OPENAI_API_KEY": "key-o"},
)


def told(address: ServerAddress) -> tuple[str, str | None]:
    return address.url, address.key.reveal() if address.key else None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (DEFAULT_URL, None)),
        (OURS | OPEN | OPENAI, ("http://a.test/v1", "key-a")),
        (OPEN | OPENAI, ("http://r.test/v1", "key-r")),
        (OPENAI, ("http://o.test/v1", "key-o")),
        ({"ANTIPHON_API_KEY": "key-a", "OPENAI_API_KEY": "key-o"}, (DEFAULT_URL, "key-a")),
        ({"ANTIPHON_BASE_URL": " ", **OPENAI}, ("http://o.test/v1", "key-o")),
    ],
)
def test_the_first_family_with_an_address_is_taken_whole(
    environ: dict[str, str], expected: tuple[str, str | None]
) -> None:
    assert told(resolve(None, None, environ)) == expected


@pytest.mark.parametrize(
    ("url", "environ", "key"),
    [
        ("http://r.test/v1/", OURS | OPEN | OPENAI, "key-r"),
        ("http://elsewhere.test/v1", OURS | OPEN | OPENAI, None),
        ("http://elsewhere.test/v1", {"OPENAI_API_KEY": "key-o"}, None),
        ("https://api.openai.com/v1", {"OPENAI_API_KEY": "key-o", "ANTIPHON_API_KEY": "key-a"}, "key-o"),
        ("https://api.openai.com/v1", OPENAI, None),
        ("http://elsewhere.test/v1", {"ANTIPHON_API_KEY": "key-a"}, "key-a"),
        ("http://127.0.0.1:8080/v1", {"OPENAI_API_KEY": "key-o"}, None),
    ],
)
def test_a_key_of_one_family_is_not_sent_to_an_address_of_another(
    url: str, environ: dict[str, str], key: str | None
) -> None:
    assert told(resolve(url, None, environ))[1] == key


def test_what_is_given_wins() -> None:
    assert told(resolve("http://given.test/v1", "mine", OURS)) == ("http://given.test/v1", "mine")
    assert told(resolve("http://a.test/v1", "", OURS))[1] is None


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x/v1", "http://", "http://x:99999/v1", "nonsense"])
def test_an_address_that_is_none_is_told_at_once(url: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        AsyncClient(url)


def test_a_key_that_no_header_can_carry_is_told_without_showing_it() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(None, "geh\neim", {})
    assert "eim" not in str(caught.value)


def test_the_line_break_at_the_end_of_a_key_file_does_no_harm() -> None:
    assert told(resolve(None, "mine\n", {}))[1] == "mine"


def test_neither_key_nor_password_is_shown() -> None:
    assert "secret" not in repr(SecretKey("secret")) + repr(resolve(None, "secret"))
    with Client("http://user:secret@x.test/v1", "secret") as client:
        assert repr(client) == "Client('http://x.test/v1')"
        assert "secret" not in repr(vars(client._inner._http))


async def test_a_query_in_the_address_goes_with_every_request() -> None:
    async with (
        Player(whole("hi")) as server,
        AsyncClient(f"{server.base_url}/?api-version=7", trust_env=False) as client,
    ):
        await client.responses.create("x")
        await client.responses.retrieve("a/b")
    assert [(one.path, one.query) for one in server.requests] == [
        ("/v1/responses", "api-version=7"),
        ("/v1/responses/a%2Fb", "api-version=7"),
    ]


async def test_a_password_in_the_address_is_sent_and_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Player(whole("hi")) as server:
        url = server.base_url.replace("http://", "http://ada:s%20ecret@")
        async with AsyncClient(url, trust_env=False) as client:
            await client.responses.create("x")
    assert server.requests[0].headers["authorization"] == f"Basic {b64encode(b'ada:s ecret').decode()}"
    assert "ecret" not in caplog.text


async def test_a_key_that_the_server_repeats_is_not_in_the_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    refused = error(401, "authentication_error", "wrong key: sk-secret", code="sk-secret")
    async with Player(refused) as server, server.client("sk-secret") as client:
        with pytest.raises(StatusError) as caught:
            await client.responses.create("x")
        session = client.session()
        with pytest.raises(StatusError):
            await session.create("x")
    assert server.requests[0].headers["authorization"] == "Bearer sk-secret"
    assert caught.value.status == 401
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value)) + caplog.text
    assert "***" in str(caught.value)


@pytest.mark.parametrize("url", ["http://a.test/v1/responses", "http://a.test/v1/responses/"])
def test_the_address_of_the_endpoint_is_not_its_base_url(url: str) -> None:
    with pytest.raises(UsageError, match=r"the base URL ends before `/responses`: 'http://a\.test/v1'"):
        AsyncClient(url)
