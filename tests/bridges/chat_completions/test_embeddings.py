"""`POST /v1/embeddings` with the unmodified `openai` package, over the fake of every provider."""

from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import Gateway, gateway, slug
from tests.providers.embedding_wires import vector_of
from tests.providers.fake_server import refusing_address
from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Serving, configure

HAVE = ("azure", "azure v1", "bedrock", "chat", "chat openrouter", "gemini", "ollama", "vertex")
TOKENS = ("azure", "azure v1", "chat", "chat openrouter")
TEXTS = ["red", "green and blue"]
# The models of a fake are for talking, which matters to Bedrock alone.
MODELS = {"bedrock": "bedrock/amazon.titan-embed-text-v2:0"}


def client(asked: Gateway) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{asked.url}/v1", api_key="any", max_retries=0, timeout=DEADLINE)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.parametrize("wire", HAVE)
async def test_every_provider_that_has_embeddings(wire: str, tmp_path: Path) -> None:
    model = MODELS.get(wire, slug(wire))
    async with gateway(tmp_path, wire) as asked, client(asked) as openai_client:
        create: Any = openai_client.embeddings.create
        for form in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
            answer = await create(model=model, input=TEXTS, **form)
            assert (answer.object, answer.model, len(answer.data)) == ("list", model, 2)
            assert [one.index for one in answer.data] == [0, 1]
            if form.get("encoding_format") != "base64":  # which the package leaves as it is
                assert [one.embedding for one in answer.data] == [vector_of(text) for text in TEXTS]
            assert answer.usage.prompt_tokens == (0 if wire == "gemini" else 4)
        short = await create(model=model, input="red", dimensions=5)
        assert [one.embedding for one in short.data] == [vector_of("red", 5)]
        if wire in TOKENS:
            tokens = await create(model=model, input=[[1, 2], [3]], user="u")
            assert [one.embedding for one in tokens.data] == [vector_of([1, 2]), vector_of([3])]
            one = await create(model=model, input=[1, 2.0, 3])
            assert [found.embedding for found in one.data] == [vector_of([1, 2, 3])]
        else:
            with pytest.raises(openai.BadRequestError) as refused:
                await create(model=model, input=[[1, 2]])
            assert refused.value.param == "input"


@pytest.mark.parametrize("wire", [wire for wire in FAKES if wire not in HAVE])
async def test_the_others_say_so(wire: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, wire) as asked, client(asked) as openai_client:
        with pytest.raises(openai.NotFoundError) as refused:
            await openai_client.embeddings.create(model=slug(wire), input="red")
        assert (refused.value.code, refused.value.param) == ("unsupported_operation", "model")
        assert slug(wire) in refused.value.message
        assert asked.fakes[wire].requests == []


async def test_many_texts_at_cohere(tmp_path: Path) -> None:
    """More than one request holds are asked for in several, and come back in their order."""
    texts = ["x" * n for n in range(1, 201)]
    async with gateway(tmp_path, "bedrock") as asked, client(asked) as openai_client:
        answer = await openai_client.embeddings.create(
            model="bedrock/cohere.embed-english-v3", input=texts, encoding_format="float"
        )
        assert [one.embedding for one in answer.data] == [vector_of(text) for text in texts]
        assert sorted(len(one.body["texts"]) for one in asked.fakes["bedrock"].requests) == [8, 96, 96]


async def test_a_route_asks_the_next_target(tmp_path: Path) -> None:
    async with FAKES["chat"]() as fake:
        with refusing_address() as nowhere:
            toml = (
                f'[providers.down]\ntype = "chat"\nbase_url = "{nowhere}"\n'
                f'[providers.up]\ntype = "chat"\nbase_url = "{fake.base_url}"\n'
                '[providers.talk]\ntype = "script"\n'
                '[models]\nembedder = ["talk/any", "down/m", "up/m"]\n'
            )
            with Serving(configure(tmp_path, toml)) as serving:
                async with AsyncOpenAI(base_url=f"{serving.url}/v1", api_key="any", max_retries=0) as one:
                    raw = await one.embeddings.with_raw_response.create(model="embedder", input="red")
                assert raw.headers["x-antiphon-target"] == "up/m"
                assert raw.parse().data[0].embedding == vector_of("red")


def test_mistakes_and_unknown_fields(serve: Serve) -> None:
    http = serve(
        'default_model = "demo"\n[providers.demo]\ntype = "script"\n[models]\ndemo = "demo/any"'
    ).client()
    for body, param in (
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", 1]}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": [1.5]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ):
        error = http.refused(400, "POST", "/v1/embeddings", json=body)
        assert (error["type"], error["param"].partition("[")[0]) == ("invalid_request_error", param)
    assert http.refused(404, "POST", "/v1/embeddings", json={"input": "a"})["type"] == "not_found_error"


async def test_unknown_fields_leave_a_receipt(tmp_path: Path) -> None:
    async with gateway(tmp_path, "chat") as asked, client(asked) as openai_client:
        raw = await openai_client.embeddings.with_raw_response.create(
            model="chat", input="red", extra_body={"truncate": "END"}
        )
        assert raw.headers["x-antiphon-receipts"] == "1"
        assert "truncate" not in asked.fakes["chat"].requests[-1].body


async def test_an_upstream_that_answers_nonsense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: tuple[Any, ...] = ((200, {"data": []}), (200, {"no": "vectors"}))
    for n, told in enumerate(answers):

        def nonsense(path: str, body: object, answer: Any = told) -> Any:
            return answer

        monkeypatch.setattr("tests.providers.fake_server.embedded", nonsense)
        async with gateway(tmp_path / str(n), "chat") as asked, client(asked) as openai_client:
            with pytest.raises(openai.InternalServerError) as wrong:
                await openai_client.embeddings.create(model="chat", input="red")
            assert (wrong.value.status_code, wrong.value.code) == (502, "upstream_invalid")
