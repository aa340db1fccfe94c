"""`/v1/vector_stores` and `file_search` over real sockets, driven by the unmodified `openai` package."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError, OpenAI
from openai.types import responses as types
from pydantic import TypeAdapter

from antiphon.tools.child_answers import ask_child
from antiphon.tools.file_search import extraction
from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Serving
from tests.server.test_files import ECHO, KEYS, sdk
from tests.server.test_hosted_functions import call, script
from tests.server.upstream import Upstream
from tests.tools.file_search.documents import docx, pdf

ITEM: TypeAdapter[Any] = TypeAdapter(types.ResponseOutputItem)
EVENT: TypeAdapter[Any] = TypeAdapter(types.ResponseStreamEvent)
CATS = "Cats sleep for sixteen hours a day."
DOGS = "Dogs bark at the postman, and dogs fetch sticks."
SHIPS = "The harbour opens at six in the morning."


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(ECHO + KEYS)


@pytest.fixture
def alice(server: Serving) -> Iterator[OpenAI]:
    with sdk(server) as client:
        client = client.with_options(default_headers={"X-Antiphon-Dialect": "openai"})
        yield client


@pytest.fixture
def bob(server: Serving) -> Iterator[OpenAI]:
    with sdk(server, "bob") as client:
        yield client


def filled(client: OpenAI, **texts: str) -> Any:
    """A vector store with a file of each name."""
    store = client.vector_stores.create(name="Things", metadata={"team": "a"})
    for name, text in texts.items():
        made = client.files.create(file=(f"{name}.txt", text.encode()), purpose="assistants")
        client.vector_stores.files.create(store.id, file_id=made.id, attributes={"about": name, "n": 1})
    return store


def searching(*ids: str, **fields: Any) -> Any:
    return {"type": "file_search", "vector_store_ids": list(ids), **fields}


def names(found: Any) -> list[str]:
    return [one.filename for one in found.data]


# --- vector stores ----------------------------------------------------------------------------------------


def test_a_vector_store_is_made_listed_changed_and_deleted(alice: OpenAI) -> None:
    file = alice.files.create(file=("a.txt", CATS.encode()), purpose="assistants")
    store = alice.vector_stores.create(name="One", file_ids=[file.id], metadata={"k": "v"})
    assert (store.name, store.status, store.metadata) == ("One", "completed", {"k": "v"})
    assert (store.file_counts.completed, store.file_counts.total) == (1, 1)
    assert store.usage_bytes == len(CATS)
    second = alice.vector_stores.create()
    assert [one.id for one in alice.vector_stores.list(limit=1)][:2] == [second.id, store.id]
    changed = alice.vector_stores.update(store.id, name="Other")
    assert (changed.name, changed.metadata) == ("Other", {"k": "v"})
    assert alice.vector_stores.retrieve(store.id).name == "Other"
    assert alice.vector_stores.delete(store.id).deleted
    for gone in (alice.vector_stores.retrieve, alice.vector_stores.delete):
        with pytest.raises(NotFoundError) as refused:
            gone(store.id)
        assert refused.value.code == "vector_store_not_found"
    assert alice.files.retrieve(file.id) == file


def test_files_are_put_in_and_taken_out(alice: OpenAI) -> None:
    store = alice.vector_stores.create()
    found = alice.vector_stores.files.upload_and_poll(
        vector_store_id=store.id,
        file=("a.pdf", pdf(DOGS)),
        chunking_strategy={
            "type": "static",
            "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50},
        },
    )
    assert (found.status, found.last_error, found.vector_store_id) == ("completed", None, store.id)
    assert found.chunking_strategy is not None
    assert found.chunking_strategy.to_dict()["static"] == {
        "max_chunk_size_tokens": 100,
        "chunk_overlap_tokens": 50,
    }
    broken = alice.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("b.pdf", b"%PDF-1"))
    assert broken.status == "failed"
    assert broken.last_error is not None
    assert broken.last_error.code == "invalid_file"
    assert "b.pdf" in broken.last_error.message
    files = alice.vector_stores.files
    assert [one.id for one in files.list(store.id)] == [broken.id, found.id]
    assert [one.id for one in files.list(store.id, filter="failed")] == [broken.id]
    assert list(files.list(store.id, filter="in_progress")) == []
    assert files.retrieve(found.id, vector_store_id=store.id) == found
    assert alice.vector_stores.retrieve(store.id).file_counts.failed == 1
    assert names(alice.vector_stores.search(store.id, query="postman")) == ["a.pdf"]
    assert files.delete(found.id, vector_store_id=store.id).deleted
    with pytest.raises(NotFoundError):
        files.retrieve(found.id, vector_store_id=store.id)
    assert names(alice.vector_stores.search(store.id, query="postman")) == []
    assert alice.files.retrieve(found.id).filename == "a.pdf"


def test_a_search_finds_passages_by_their_words(alice: OpenAI) -> None:
    store = filled(alice, cats=CATS, dogs=DOGS, ships=SHIPS)
    file = alice.files.create(file=("t.docx", docx("Tables", ("tea", "3 euros"))), purpose="assistants")
    alice.vector_stores.files.create(store.id, file_id=file.id)
    page = alice.vector_stores.search(store.id, query="When does a dog bark?")
    assert names(page)[0] == "dogs.txt"
    best = page.data[0]
    assert (best.content[0].text, best.score, best.attributes) == (DOGS, 1.0, {"about": "dogs", "n": 1})
    assert [one.score for one in page.data] == sorted((one.score for one in page.data), reverse=True)
    assert names(alice.vector_stores.search(store.id, query="price of tea"))[0] == "t.docx"
    both = alice.vector_stores.search(store.id, query=["postman", "harbour"])
    assert set(names(both)) == {"dogs.txt", "ships.txt"}
    assert names(alice.vector_stores.search(store.id, query="zebra")) == []
    assert names(alice.vector_stores.search(store.id, query='"*:( OR')) == []
    filters: Any = {"type": "eq", "key": "about", "value": "ships"}
    assert names(alice.vector_stores.search(store.id, query="the dogs", filters=filters)) == ["ships.txt"]
    assert len(alice.vector_stores.search(store.id, query="the a at", max_num_results=1).data) == 1
    strictly: Any = {"score_threshold": 1.0}
    assert len(alice.vector_stores.search(store.id, query="a dog at", ranking_options=strictly).data) == 1


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"query": ""}, "query"),
        ({"query": []}, "query"),
        ({"query": "x", "max_num_results": 51}, "max_num_results"),
        ({"query": "x", "filters": {"type": "like"}}, "filters.type"),
        ({"query": "x", "ranking_options": {"score_threshold": 2}}, "ranking_options.score_threshold"),
        ({"query": "x", "ranking_options": {"score_threshold": False}}, "ranking_options.score_threshold"),
        ({"query": "x", "ranking_options": {"ranker": "best"}}, "ranking_options.ranker"),
    ],
)
def test_a_wrong_search_is_refused(server: Serving, alice: OpenAI, body: Any, param: str) -> None:
    store = alice.vector_stores.create()
    error = server.client("sk-alice").refused(400, "POST", f"/v1/vector_stores/{store.id}/search", json=body)
    assert error["param"] == param


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"file_id": "file-000000000000000000000000"}, 404, "file_id"),
        ({"attributes": {}}, 400, "file_id"),
        ({"attributes": {"a": "x" * 513}}, 400, "attributes.a"),
        ({"attributes": {str(n): n for n in range(17)}}, 400, "attributes"),
        ({"chunking_strategy": {"type": "semantic"}}, 400, "chunking_strategy.type"),
        (
            {
                "chunking_strategy": {
                    "type": "static",
                    "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 51},
                }
            },
            400,
            "chunking_strategy.static.chunk_overlap_tokens",
        ),
    ],
)
def test_a_wrong_file_is_refused(
    server: Serving, alice: OpenAI, body: dict[str, Any], status: int, param: str
) -> None:
    store = alice.vector_stores.create()
    file = alice.files.create(file=("a.txt", b"x"), purpose="assistants")
    if param != "file_id":
        body = {"file_id": file.id, **body}
    path = f"/v1/vector_stores/{store.id}/files"
    error = server.client("sk-alice").refused(status, "POST", path, json=body)
    assert error["param"] == param


def test_no_tenant_reaches_anothers_vector_store(server: Serving, alice: OpenAI, bob: OpenAI) -> None:
    store = filled(alice, secret="The password is swordfish.")
    (file,) = alice.vector_stores.files.list(store.id)
    mine = filled(bob, mine="Nothing of interest.")
    stores, files = bob.vector_stores, bob.vector_stores.files
    for attack in (
        lambda: stores.retrieve(store.id),
        lambda: stores.update(store.id, name="mine"),
        lambda: stores.delete(store.id),
        lambda: stores.search(store.id, query="password"),
        lambda: list(files.list(store.id)),
        lambda: files.retrieve(file.id, vector_store_id=store.id),
        lambda: files.delete(file.id, vector_store_id=store.id),
        lambda: files.create(store.id, file_id=file.id),
        lambda: files.create(mine.id, file_id=file.id),
        lambda: stores.create(file_ids=[file.id]),
        lambda: bob.responses.create(model="s/m", input="x", tools=[searching(store.id)]),
        lambda: bob.responses.create(model="s/m", input="x", tools=[searching(mine.id, store.id)]),
    ):
        with pytest.raises(NotFoundError):
            attack()
    assert store.id not in [one.id for one in stores.list()]
    assert names(stores.search(mine.id, query="password swordfish")) == []
    assert names(alice.vector_stores.search(store.id, query="password")) == ["secret.txt"]


def test_files_of_one_tenant_do_not_hold_up_those_of_another(
    alice: OpenAI, bob: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a file of the one takes as long as a file may take; she has six of them."""
    began, release = threading.Semaphore(0), threading.Event()

    async def slow(module: str, asked: Any, seconds: float, most: int) -> bytes:
        if asked["filename"] == "slow.pdf":
            began.release()
            await asyncio.to_thread(release.wait)
        return await ask_child(module, asked, seconds, most)

    monkeypatch.setattr(extraction, "ask_child", slow)
    store = alice.vector_stores.create()
    files = [alice.files.create(file=("slow.pdf", b"%d" % n), purpose="assistants") for n in range(6)]
    with ThreadPoolExecutor(6) as pool:
        reading = [pool.submit(alice.vector_stores.files.create, store.id, file_id=one.id) for one in files]
        try:
            for _ in range(2):
                assert began.acquire(timeout=DEADLINE)
            mine = filled(bob, one=CATS)
            assert names(bob.vector_stores.search(mine.id, query="cats")) == ["one.txt"]
            assert not began.acquire(blocking=False)
        finally:
            release.set()
        assert {one.result().status for one in reading} == {"failed"}


def test_a_vector_store_expires_some_days_after_its_last_use(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(ECHO + KEYS)
    with sdk(server) as client:
        store = client.vector_stores.create(expires_after={"anchor": "last_active_at", "days": 1})
        assert store.expires_at == store.created_at + 86400
        monkeypatch.setattr(server.gateway.engine, "clock", lambda: store.created_at + 86000.0)
        client.vector_stores.search(store.id, query="x")
        used = client.vector_stores.retrieve(store.id)
        assert used.last_active_at == store.created_at + 86000
        assert used.expires_at == store.created_at + 86000 + 86400
        monkeypatch.setattr(server.gateway.engine, "clock", lambda: used.expires_at + 0.0)
        with pytest.raises(NotFoundError):
            client.vector_stores.retrieve(store.id)
        server.call(server.gateway.store.prune(used.expires_at + 0.0))
        assert list(client.vector_stores.list()) == []


# --- the tool ---------------------------------------------------------------------------------------------


def test_a_model_searches_and_cites(alice: OpenAI) -> None:
    store = filled(alice, cats=CATS, dogs=DOGS)
    said = script(
        [call("file_search", query="How long do cats sleep?")], [{"text": "For 16 hours【1】. Really."}]
    )
    response = alice.responses.create(
        model="s/m", input=said, tools=[searching(store.id)], include=["file_search_call.results"]
    )
    searched, message = [ITEM.validate_json(item.to_json()) for item in response.output]
    assert isinstance(searched, types.ResponseFileSearchToolCall)
    assert (searched.queries, searched.status) == (["How long do cats sleep?"], "completed")
    assert searched.results is not None
    best = searched.results[0]
    assert (best.filename, best.text, best.score) == ("cats.txt", CATS, 1.0)
    assert best.attributes == {"about": "cats", "n": 1}
    text = message.content[0]
    assert text.text == response.output_text == "For 16 hours. Really."
    (cited,) = text.annotations
    assert cited.to_dict() == {
        "type": "file_citation",
        "index": len("For 16 hours"),
        "file_id": best.file_id,
        "filename": "cats.txt",
    }


def test_a_stream_is_made_of_the_packages_types(alice: OpenAI) -> None:
    store = filled(alice, cats=CATS)
    said = script([call("file_search", query="cats")], [{"text": "Long【1】."}])
    stream = alice.responses.create(model="s/m", input=said, tools=[searching(store.id)], stream=True)
    events = [EVENT.validate_json(event.to_json()) for event in stream]
    kinds = [event.type for event in events]
    begun = kinds.index("response.file_search_call.in_progress")
    assert kinds[begun - 1] == "response.output_item.added"
    assert kinds[begun + 1 : begun + 4] == [
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.output_item.done",
    ]
    assert "response.output_text.annotation.added" in kinds
    done = events[begun + 3].item
    assert (done.type, done.queries, done.results) == ("file_search_call", ["cats"], None)
    assert events[-1].response.output_text == "Long."


def test_the_model_reads_what_was_found_and_a_follow_up_knows_it(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    client, answers = server.client(), []
    with sdk(server) as package:
        store = filled(package, cats=CATS, dogs=DOGS)

    def ask(**request: Any) -> threading.Thread:
        request["tools"] = [searching(store.id)]
        asking = threading.Thread(target=lambda: answers.append(client.create(**request)))
        asking.start()
        return asking

    asking = ask(input="Who barks?")
    first = upstream.next()
    first.begin_call("file_search", '{"query": "bark"}')
    first.finish(reason="tool_calls")
    second = upstream.next()
    second.finish("Dogs【1】.")
    asking.join()
    history = second.body["messages"]
    assert history[1]["tool_calls"][0]["function"] == {
        "name": "file_search",
        "arguments": '{"query": "bark"}',
    }
    assert history[2]["content"] == f"【1】 dogs.txt\n{DOGS}"
    searched = answers[0]["output"][0]
    assert searched["results"] is None  # nobody asked for them
    assert DOGS not in json.dumps(searched)

    replayed = [{"role": "user", "content": "Who barks?"}, *answers[0]["output"]]
    for request in (
        {"input": "Sure?", "previous_response_id": answers[0]["id"]},
        {"input": [*replayed, {"role": "user", "content": "Sure?"}]},
    ):
        asking = ask(**request)
        again = upstream.next()
        again.finish("Yes.")
        asking.join()
        assert again.body["messages"][:3] == history


def test_filters_and_numbers_of_the_request_bind_each_search(alice: OpenAI) -> None:
    store = filled(alice, cats=CATS, dogs=DOGS, ships=SHIPS)
    said = script([call("file_search", query="cats dogs harbour")], [{"text": "So."}])

    def found(**fields: Any) -> set[str]:
        response = alice.responses.create(
            model="s/m",
            input=said,
            tools=[searching(store.id, **fields)],
            include=["file_search_call.results"],
        )
        searched: Any = response.output[0]
        return {one.filename for one in searched.results}

    assert found() == {"cats.txt", "dogs.txt", "ships.txt"}
    assert found(filters={"type": "ne", "key": "about", "value": "dogs"}) == {"cats.txt", "ships.txt"}
    assert len(found(max_num_results=1)) == 1
    assert len(found(ranking_options={"ranker": "auto", "score_threshold": 1.0})) == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"vector_store_ids": []}, "vector_store_ids"),
        ({"vector_store_ids": "vs_1"}, "vector_store_ids"),
        ({"max_num_results": 0}, "max_num_results"),
        ({"max_num_results": True}, "max_num_results"),
        ({"filters": {"type": "eq", "key": "a"}}, "filters.value"),
        ({"ranking_options": []}, "ranking_options"),
        (
            {"ranking_options": {"hybrid_search": {"embedding_weight": 0, "text_weight": 0}}},
            "ranking_options.hybrid_search",
        ),
    ],
)
def test_a_wrong_declaration_is_refused(alice: OpenAI, fields: Any, param: str) -> None:
    store = alice.vector_stores.create()
    with pytest.raises(BadRequestError) as refused:
        alice.responses.create(model="s/m", input="x", tools=[searching(store.id) | fields])
    assert refused.value.param == f"tools[0].{param}"


def test_wrong_arguments_are_told_to_the_model(alice: OpenAI) -> None:
    store = filled(alice, cats=CATS)
    said = script([call("file_search", question="?")], [{"text": "Sorry."}])
    response = alice.responses.create(model="s/m", input=said, tools=[searching(store.id)])
    searched = ITEM.validate_json(response.output[0].to_json())
    assert (searched.status, searched.queries) == ("failed", [])
    assert response.output_text == "Sorry."


def test_the_example_on_the_page_works(
    server: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    page = (Path(__file__).parents[2] / "docs" / "tools" / "file-search.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    said = script([call("file_search", query="When does the harbour open?")], [{"text": "At six【1】."}])
    program = example.replace("http://127.0.0.1:8080", server.url).replace('"any"', '"sk-alice"')
    program = program.replace('"When does the harbour open?"', "SAID")
    names: dict[str, Any] = {"MODEL": "s/m", "SAID": said}
    exec(program, names)
    assert capsys.readouterr().out == "At six.\n"
    assert names["response"].output[0].results[0].filename == "harbour.txt"
    names["client"].close()
