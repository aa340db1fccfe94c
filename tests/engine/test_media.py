"""Media by address, from a web server on a real socket; private addresses only where they are allowed."""

import asyncio
import base64
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import MediaSettings as Settings
from antiphon.config import Secret, load
from antiphon.engine.media import MediaFetcher
from antiphon.providers.base import Provider
from antiphon.providers.bedrock import Bedrock
from antiphon.providers.chat import ChatProvider
from antiphon.providers.http import UpstreamClient
from antiphon.spec.codec import encode, to_builtins
from antiphon.spec.errors import SpecError
from tests.providers.build import build
from tests.providers.compose import make_turn
from tests.providers.fake_server import FakeServer, Piece, Received, Step, Wire
from tests.providers.http.certificates import make as make_certificate
from tests.providers.http.raw import answering, serving, until

PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)
PNG_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
SETTINGS = Settings(allow=("127.0.0.1",))
Embed = Callable[..., Any]


class Web(FakeServer):
    """Pages by path; whatever else is asked for is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, Wire] = {}
        self.most = 0
        """So many were asked for at once."""
        self._open = 0

    def page(
        self, path: str, *pieces: Piece, kind: str = "image/png", status: int = 200, **headers: str
    ) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = Wire(pieces, status, ({"content-type": kind} if kind else {}) | named)
        return self.base_url + path

    def moved(self, path: str, to: str, status: int = 302) -> str:
        return self.page(path, b"", status=status, location=to)

    async def _answer(self, *given: Any) -> bool:
        self._open += 1
        self.most = max(self.most, self._open)
        try:
            return await super()._answer(*given)
        finally:
            self._open -= 1

    def reply(self, received: Received) -> Wire:
        return self.pages.get(received.path) or Wire([b"no"], 404, {"content-type": "text/html"})


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web() as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[UpstreamClient]:
    client = UpstreamClient()
    yield client
    await client.close()


def bytes_only(http: UpstreamClient) -> Provider:
    return build(Bedrock, "aws", http, "https://nowhere.example", api_key=Secret("k"))


@pytest.fixture
def embed(http: UpstreamClient) -> Embed:
    """The input items as a provider sees them that takes only bytes."""

    async def embedded(
        items: list[Any], settings: Settings = SETTINGS, provider: Provider | None = None
    ) -> list[Any]:
        turn = make_turn({"input": items})
        made = await MediaFetcher(settings, http).inline(provider or bytes_only(http), turn, turn.items)
        return [to_builtins(item) for item in made]

    return embedded


def image(url: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url}


def file(url: str, **more: Any) -> dict[str, Any]:
    return {"type": "input_file", "file_url": url, **more}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


async def refused(embed: Embed, *parts: dict[str, Any], settings: Settings = SETTINGS) -> SpecError:
    with pytest.raises(SpecError) as caught:
        await embed([user({"type": "input_text", "text": "?"}, *parts)], settings)
    assert caught.value.status == 400
    error: SpecError = caught.value
    return error


async def code(embed: Embed, url: str, settings: Settings = SETTINGS) -> str | None:
    return (await refused(embed, image(url), settings=settings)).payload.code


# --- what is fetched --------------------------------------------------------------------------------------


async def test_an_image_becomes_a_data_url(web: Web, embed: Embed) -> None:
    url = web.page("/dot.png", PNG)
    [item] = await embed([user({"type": "input_text", "text": "?"}, image(url))])
    assert item["content"][1] == {"type": "input_image", "image_url": PNG_URL, "detail": "auto"}
    assert web.requests[0].headers["accept"] == "image/*"


async def test_a_file_becomes_its_bytes_with_a_name(web: Web, embed: Embed) -> None:
    named = web.page("/a%20b.pdf", b"%PDF", kind="application/pdf; charset=binary")
    bare = web.page("/report", b"%PDF", kind="application/pdf")
    page = web.page("/page.html", b"<p>", kind="text/html")
    [item] = await embed(
        [user(file(f"{named}?token=1"), file(bare), file(bare, filename="mine.pdf"), file(page))]
    )
    data = f"data:application/pdf;base64,{base64.b64encode(b'%PDF').decode()}"
    assert item["content"][:3] == [
        {"type": "input_file", "filename": "a b.pdf", "file_data": data},
        {"type": "input_file", "filename": "report.pdf", "file_data": data},
        {"type": "input_file", "filename": "mine.pdf", "file_data": data},
    ]
    assert item["content"][3]["file_data"].startswith("data:text/html;base64,")


async def test_outputs_of_tools_too(web: Web, embed: Embed) -> None:
    url = web.page("/dot.png", PNG)
    calls = [
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": ""},
    ]
    outputs = [
        {"type": "function_call_output", "call_id": "a", "output": [image(url)]},
        {"type": "custom_tool_call_output", "call_id": "b", "output": [image(url)]},
    ]
    made = await embed([*calls, *outputs])
    assert [item["output"][0]["image_url"] for item in made[2:]] == [PNG_URL, PNG_URL]
    assert len(web.requests) == 1


async def test_what_needs_no_fetching_is_left_alone(web: Web, http: UpstreamClient) -> None:
    url = web.page("/dot.png", PNG)
    turn = make_turn(
        {
            "input": [
                user(image(PNG_URL), image("s3://bucket/a.png"), file(url, file_data="AAAA")),
                {"role": "user", "content": url},
                {"role": "assistant", "content": [{"type": "output_text", "text": url}]},
            ]
        }
    )
    media = MediaFetcher(SETTINGS, http)
    assert await media.inline(bytes_only(http), turn, turn.items) is turn.items
    takes_urls = build(ChatProvider, "chat", http, web.base_url, profile="openai", api_key=Secret("k"))
    pictured = make_turn({"input": [user(image(url))]})
    assert await media.inline(takes_urls, pictured, pictured.items) is pictured.items
    takes_none = build(ChatProvider, "chat", http, web.base_url, profile="deepseek")
    assert await media.inline(takes_none, pictured, pictured.items) is pictured.items
    assert web.requests == []


async def test_the_items_of_the_request_keep_their_addresses(web: Web, http: UpstreamClient) -> None:
    url = web.page("/dot.png", PNG)
    turn = make_turn({"input": [user(image(url)), user({"type": "input_text", "text": "Hi"})]})
    before = encode(turn.items)
    made = await MediaFetcher(SETTINGS, http).inline(bytes_only(http), turn, turn.items)
    assert encode(turn.items) == before
    assert encode(made) != before
    assert made[1] is turn.items[1]


async def test_a_picture_whose_server_says_nothing_about_it(web: Web, embed: Embed) -> None:
    for kind in ("", "application/octet-stream", "binary/octet-stream"):
        [item] = await embed([user(image(web.page("/dot", PNG, kind=kind)))])
        assert item["content"][0]["image_url"] == PNG_URL


async def test_each_address_once_and_a_few_at_once(web: Web, embed: Embed) -> None:
    gate = asyncio.Event()
    urls = [web.page(f"/{n}.png", gate, PNG) for n in range(6)]
    task = asyncio.create_task(embed([user(*map(image, urls * 2))]))
    await until(lambda: len(web.requests) == 4)
    gate.set()
    [item] = await task
    assert [part["image_url"] for part in item["content"]] == [PNG_URL] * 12
    assert len(web.requests) == 6
    assert web.most == 4


async def test_cancelling_closes_the_connections(web: Web, embed: Embed) -> None:
    url = web.page("/dot.png", PNG, Step.HANG)
    task = asyncio.create_task(embed([user(image(url))]))
    await asyncio.wait_for(web.asked.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(web.gone.wait(), 60)


# --- private addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::a00:1]",
        "[2002:7f00:1::]",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00::1]",
        "224.0.0.1",
        "255.255.255.255",
        "user:secret@127.0.0.1",
    ],
)
async def test_no_private_address(embed: Embed, host: str) -> None:
    error = await refused(embed, image(f"http://{host}/latest/meta-data?secret=1"), settings=Settings())
    assert error.payload.code == "media_address_forbidden"
    assert error.payload.param == "input[0].content[1].image_url"
    assert "secret" not in error.payload.message


async def test_a_redirect_is_checked_again(web: Web, embed: Embed) -> None:
    inside = web.page("/dot.png", PNG).replace("127.0.0.1", "localhost")
    assert await code(embed, web.moved("/a", inside)) == "media_address_forbidden"
    assert await code(embed, web.moved("/b", "//[::1]/dot.png")) == "media_address_forbidden"
    assert [one.path for one in web.requests] == ["/a", "/b"]
    both = Settings(allow=("127.0.0.1", "localhost"))
    [item] = await embed([user(image(f"{web.base_url}/a"))], both)
    assert item["content"][0]["image_url"] == PNG_URL


async def test_hosts_are_allowed_with_or_without_their_port(web: Web, embed: Embed) -> None:
    url = web.page("/dot.png", PNG)
    host = web.base_url.removeprefix("http://")
    for allow in ((host,), ("127.0.0.1",), ("*",)):
        assert await embed([user(image(url))], Settings(allow=allow))
    assert await code(embed, url, Settings(allow=("127.0.0.1:1",))) == "media_address_forbidden"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed(web: Web, embed: Embed, status: int) -> None:
    web.page("/deep/dot.png", PNG)
    web.moved("/deep/last", "dot.png", status)
    url = web.moved("/first", "/deep/last", status)
    [item] = await embed([user(image(url))])
    assert item["content"][0]["image_url"] == PNG_URL


async def test_redirects_come_to_an_end(web: Web, embed: Embed) -> None:
    for n in range(6):
        web.moved(f"/{n}", f"/{n + 1}")
    web.page("/6", PNG)
    assert await code(embed, f"{web.base_url}/0") == "media_fetch_failed"
    assert [one.path for one in web.requests] == ["/0", "/1", "/2", "/3", "/4", "/5"]
    assert await embed([user(image(f"{web.base_url}/1"))])


@pytest.mark.parametrize(
    "to", ["file:///etc/passwd", "ftp://example.com/a", "data:image/png;base64,AAAA", "gopher://a"]
)
async def test_redirects_stay_on_the_web(web: Web, embed: Embed, to: str) -> None:
    assert await code(embed, web.moved("/a", to)) == "media_address_forbidden"


async def test_https_does_not_lead_back_to_http(web: Web, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "127.0.0.1")
    plain = web.page("/dot.png", PNG)
    moved = answering(f"HTTP/1.1 302 Found\r\nlocation: {plain}\r\ncontent-length: 0\r\n\r\n".encode())
    client = UpstreamClient(certificate.client)
    async with serving(moved, tls=certificate.server) as server:
        turn = make_turn({"input": [user(image(server.url))]})
        with pytest.raises(SpecError) as caught:
            await MediaFetcher(SETTINGS, client).inline(bytes_only(client), turn, turn.items)
    await client.close()
    assert caught.value.payload.code == "media_address_forbidden"
    assert web.requests == []


# --- limits -----------------------------------------------------------------------------------------------


async def test_size(web: Web, embed: Embed) -> None:
    small = Settings(allow=("127.0.0.1",), limit=len(PNG))
    assert await embed([user(image(web.page("/dot.png", PNG)))], small)
    declared = web.page("/declared.png", Step.HANG, content_length=str(len(PNG) + 1))
    web.pages["/declared.png"] = Wire([Step.HANG], 200, web.pages["/declared.png"].headers, "close")
    assert await code(embed, declared, small) == "media_too_large"
    endless = web.page("/endless.png", PNG, PNG, Step.HANG)
    assert await code(embed, endless, small) == "media_too_large"


async def test_size_of_everything_together(web: Web, embed: Embed) -> None:
    small = Settings(allow=("127.0.0.1",), limit=len(PNG))
    urls = [web.page(f"/{n}.png", PNG) for n in range(5)]
    assert await embed([user(*map(image, urls[:4]))], small)
    error = await refused(embed, *map(image, urls), settings=small)
    assert error.payload.code == "media_too_large"


@pytest.mark.parametrize("pieces", [[Step.HANG], [PNG, Step.HANG]])
async def test_time(web: Web, embed: Embed, pieces: list[Piece]) -> None:
    short = Settings(allow=("127.0.0.1",), timeout=0.1)
    assert await code(embed, web.page("/slow.png", *pieces), short) == "media_fetch_failed"
    await asyncio.wait_for(web.gone.wait(), 60)


def test_the_example_of_the_docs_loads(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/security.md").read_text()
    [example] = [one for one in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[media]" in one]
    file = tmp_path / "antiphon.toml"
    file.write_text(example)
    assert load(file, environ={}, types=None).media == Settings(allow=("files.internal.example",))


# --- what goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "kind", "status"),
    [
        ([b"no"], "image/png", 404),
        ([b"no"], "image/png", 500),
        ([b"<html>"], "text/html", 200),
        ([b"text"], "", 200),
        ([b""], "image/png", 200),
        ([PNG[:10], Step.RESET], "image/png", 200),
        ([PNG], "image/png,x y", 200),
    ],
)
async def test_no_image(web: Web, embed: Embed, pieces: list[Piece], kind: str, status: int) -> None:
    url = web.page("/dot.png", *pieces, kind=kind, status=status)
    error = await refused(embed, image(f"{url}?sig=secret"))
    assert (error.payload.code, error.payload.param) == (
        "media_fetch_failed",
        "input[0].content[1].image_url",
    )
    assert "127.0.0.1" in error.payload.message
    assert "secret" not in error.payload.message


async def test_no_file(web: Web, embed: Embed) -> None:
    url = web.page("/report.pdf", b"<html>Sign in", kind="text/html; charset=utf-8")
    error = await refused(embed, file(url))
    assert (error.payload.code, error.payload.param) == ("media_fetch_failed", "input[0].content[1].file_url")


@pytest.mark.parametrize(
    "url", ["http://", "http://[bad", "https://a b/", f"http://127.0.0.1/{'x' * 10_000}"]
)
async def test_no_address(embed: Embed, url: str) -> None:
    assert await code(embed, url) == "media_fetch_failed"


async def test_fetching_can_be_switched_off(web: Web, embed: Embed) -> None:
    url = web.page("/dot.png", PNG)
    assert await code(embed, url, Settings(fetch=False)) == "unsupported_content"
    assert web.requests == []


async def test_where_it_went_wrong(web: Web, http: UpstreamClient) -> None:
    """Items from the store have no place in the request, and a hosted call may have become two items."""
    bad = user(image(f"{web.base_url}/none.png"))
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    called = [call, {"type": "function_call_output", "call_id": "c", "output": "1"}]
    media, provider = MediaFetcher(SETTINGS, http), bytes_only(http)
    hosted = {"type": "antiphon:function_call", "id": "f_1"}
    for before, given, param in (
        ([bad], [user()], "input"),
        ([user()], [user(), bad], "input[1].content[0].image_url"),
        ([], [user(), bad, hosted], "input[1].content[0].image_url"),
        ([user()], [bad, hosted, user()], "input[0].content[0].image_url"),
    ):
        turn = make_turn({"input": given})
        shown = [[item] for item in turn.items]
        if hosted in given:
            shown[given.index(hosted)] = make_turn({"input": called}).items
        turn.items = [*make_turn({"input": before}).items, *chain.from_iterable(shown)]
        with pytest.raises(SpecError) as caught:
            await media.inline(provider, turn, turn.items)
        assert caught.value.payload.param == param


async def test_nothing_of_an_address_is_logged(
    web: Web, embed: Embed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await embed([user(image(f"{web.page('/dot.png', PNG)}?sig=secret"))])
    await refused(embed, image(f"{web.base_url}/private-path?sig=secret"))
    assert "secret" not in caplog.text
    assert "private-path" not in caplog.text
    assert json.dumps([record.getMessage() for record in caplog.records]).count("dot.png") == 0
