"""The search in files with an embedding model besides the words."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from antiphon.server.app import App
from tests.server.conftest import Serve
from tests.server.servers import configure
from tests.server.test_file_search import CATS, DOGS, SHIPS, filled, names, searching
from tests.server.test_files import ECHO, sdk
from tests.server.test_hosted_functions import call, script


class Embeddings:
    """An embeddings server with a little sense: it knows animals from ships."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.asked += body["input"]
                data = [
                    {"object": "embedding", "index": n, "embedding": server.vector(text)}
                    for n, text in enumerate(body["input"])
                ]
                answer = json.dumps({"object": "list", "data": data, "model": "e", "usage": {}}).encode()
                self.send_response(500 if server.fails else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def vector(self, text: str) -> list[float]:
        words = text.lower()
        return [
            1.0 * any(word in words for word in ("cat", "dog", "pet")),
            1.0 * any(word in words for word in ("ship", "harbour", "boat")),
            0.1,
        ]

    def __enter__(self) -> "Embeddings":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def embeddings() -> Iterator[Embeddings]:
    with Embeddings() as server:
        yield server


def hybrid(url: str) -> str:
    provider = f'[providers.e]\ntype = "chat"\nbase_url = "{url}"\n'
    return f'{ECHO}{provider}[tools.file_search]\nembeddings = "e/e"\n'


def test_a_hybrid_search_finds_what_has_none_of_the_words(serve: Serve, embeddings: Embeddings) -> None:
    with sdk(serve(hybrid(embeddings.url))) as client:
        store = filled(client, cats=CATS, dogs=DOGS, ships=SHIPS)
        assert embeddings.asked == [CATS, DOGS, SHIPS]
        found = client.vector_stores.search(store.id, query="boats at six")
        assert names(found)[0] == "ships.txt"
        found = client.vector_stores.search(store.id, query="pets", max_num_results=2)
        assert set(names(found)) == {"cats.txt", "dogs.txt"}
        assert all(0 < one.score <= 0.5 for one in found.data)  # first in one of the two rankings at most
        only_words: Any = {"hybrid_search": {"embedding_weight": 0, "text_weight": 1}}
        assert names(client.vector_stores.search(store.id, query="pets", ranking_options=only_words)) == []
        filters: Any = {"type": "eq", "key": "about", "value": "cats"}
        assert names(client.vector_stores.search(store.id, query="pets", filters=filters)) == ["cats.txt"]


def test_an_embedding_model_that_fails_is_told(serve: Serve, embeddings: Embeddings) -> None:
    server = serve(hybrid(embeddings.url))
    with sdk(server) as client:
        store = filled(client, cats=CATS)
        embeddings.fails = True
        file = client.files.create(file=("x.txt", b"cat"), purpose="assistants")
        failed = client.vector_stores.files.create(store.id, file_id=file.id)
        assert failed.last_error is not None
        assert failed.last_error.code == "server_error"
        path = f"/v1/vector_stores/{store.id}/search"
        error = server.client().refused(502, "POST", path, json={"query": "cat"})
        assert error["code"] == "embeddings_failed"
        said = script([call("file_search", query="cat")], [{"text": "No luck."}])
        response = client.responses.create(model="s/m", input=said, tools=[searching(store.id)])
        assert response.output[0].status == "failed"  # type: ignore[union-attr]
        assert response.output_text == "No luck."


@pytest.mark.parametrize(("model", "words"), [("nobody/e", "does not exist"), ("s/m", "has no embeddings")])
async def test_a_model_without_embeddings_is_a_mistake_in_the_configuration(
    tmp_path: Path, model: str, words: str
) -> None:
    config = configure(tmp_path, f'{ECHO}[tools.file_search]\nembeddings = "{model}"\n')
    app = App(config)
    assert not await app.open()
    assert words in str(app.failure)
    assert "embeddings" in str(app.failure)
