"""The web app's files as they are served: cached, packed, and closed to everything from elsewhere."""

import gzip
import re
from pathlib import Path

import pytest

from antiphon.server.routes import web
from tests.server.conftest import Serve
from tests.server.servers import Client, Serving

ECHO = 'default_model = "demo/echo"\n[providers.demo]\ntype = "script"\n'
BUILT = pytest.mark.skipif(
    not (web.FOLDER / "index.html").exists(), reason="the web app is not built: make web"
)


@pytest.fixture
def server(serve: Serve) -> Serving:
    return serve(ECHO)


def assets(client: Client) -> list[str]:
    return re.findall(r'(?:src|href)="(/assets/[^"]+)"', client.get("/").text)


@BUILT
def test_the_page_is_asked_for_again_and_its_files_never(server: Serving) -> None:
    client = server.client()
    page = client.get("/")
    assert page.headers["cache-control"] == "no-cache"
    again = client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    found = assets(client)
    assert found
    for name in found:
        assert client.get(name).headers["cache-control"] == "public, max-age=31536000, immutable"
    assert client.get("/c/chat_any").text == page.text


@BUILT
def test_files_are_packed_for_those_who_can_unpack_them(server: Serving) -> None:
    client = server.client()
    (script,) = [name for name in assets(client) if name.startswith("/assets/index") and name.endswith(".js")]
    plain = client.get(script, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with client.stream("GET", script, headers={"Accept-Encoding": "gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(packed.iter_raw())) == plain.content
    with client.stream("GET", script, headers={"Accept-Encoding": "gzip, br"}) as packed:
        assert packed.headers["content-encoding"] == "br"
        assert packed.headers["vary"] == "accept-encoding"


@BUILT
def test_the_page_runs_and_loads_nothing_but_its_own(server: Serving) -> None:
    client = server.client()
    for path in ("/", "/c/chat_any", *assets(client)):
        headers = client.get(path).headers
        policy = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert "http" not in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", client.get("/").text)


def test_a_file_that_was_not_built_is_not_there(server: Serving) -> None:
    client = server.client()
    for name in ("/assets/none.js", "/assets/..%2f..%2fapp.py", "/assets/..%2fdocs.html", "/assets/%00"):
        assert client.refused(404, "GET", name)["message"]


def test_without_a_build_the_page_is_that_of_the_api(
    server: Serving, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(web, "FOLDER", tmp_path / "none")
    web._names.cache_clear()
    try:
        client = server.client()
        assert client.get("/").text == client.get("/docs").text
        assert client.get("/docs").headers["content-type"].startswith("text/html")
    finally:
        monkeypatch.undo()
        web._names.cache_clear()


@BUILT
def test_it_is_as_small_as_it_promises() -> None:
    """In bytes, gzipped: to the first paint, to the first answer, and in the wheel."""

    def packed(path: Path) -> int:
        return len(gzip.compress(path.read_bytes(), 9))

    page = web.FOLDER / "index.html"
    first = [page, *(web.FOLDER / name[1:] for name in re.findall(r'"(/assets/[^"]+)"', page.read_text()))]
    answer = [*first, *(web.FOLDER / "assets").glob("markdown-*.js")]
    assert len(answer) > len(first) > 2
    assert sum(map(packed, first)) <= 150_000
    assert sum(map(packed, answer)) <= 250_000
    assert sum(path.stat().st_size for path in web.FOLDER.rglob("*") if path.is_file()) <= 3_000_000
