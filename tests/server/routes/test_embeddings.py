"""`POST /v1/embeddings` through a route, over real connections: its targets are used as its settings say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.engine.routing import dispatch
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.said import Fake
from tests.providers.embedding_wires import vector_of
from tests.providers.fake_server import FakeServer, Received, Step, Wire, refusal
from tests.server.servers import DEADLINE, Serving, configure

Json = dict[str, Any]
BUSY = refusal(503, b'{"error": {"message": "busy"}}')
LIMITED = refusal(429, b'{"error": {"message": "slow"}}', retry_after="20")
AT_ONCE = refusal(429, b'{"error": {"message": "slow"}}', retry_after="0")
VECTORS = refusal(200, b'{"data": [{"embedding": [0.5], "index": 0}]}')


class Failing(FakeServer):
    """It gives these answers, the last one again and again."""

    prefix = "/failing"  # where the other fakes would give vectors

    def __init__(self, *answers: Wire) -> None:
        super().__init__()
        self.answers = answers

    def reply(self, received: Received) -> Wire:
        return self.answers[min(len(self.requests), len(self.answers)) - 1]


class Routed:
    """A gateway whose name `e` has the targets `a/m`, which fails, and `b/m`, which has embeddings."""

    def __init__(self, http: httpx.AsyncClient, first: Failing, second: Fake) -> None:
        self.http = http
        self.first = first
        self.second = second

    async def embed(self, model: str | None = "e", input: Any = "red", **hint: Any) -> httpx.Response:
        named = {} if model is None else {"model": model}
        said = {"antiphon:route": hint} if hint else {}
        return await self.http.post("/v1/embeddings", json={"input": input, **named, **said})

    async def target(self, name: str, route: str = "e") -> Json:
        """The state of a target."""
        listed = (await self.http.get("/v1/antiphon/routes")).json()["data"]
        targets = [one for found in listed if found["name"] == route for one in found["targets"]]
        return next(one for one in targets if one["target"] == name)


@asynccontextmanager
async def routed(
    folder: Path, *answers: Wire, settings: str = "", models: str = 'e = ["a/m", "b/m"]', more: str = ""
) -> AsyncIterator[Routed]:
    async with Failing(*answers) as first, FAKES["chat"]() as second:
        toml = (
            f'default_model = "e"\n[providers.a]\ntype = "chat"\nbase_url = "{first.base_url}"\n'
            f'[providers.b]\ntype = "chat"\nbase_url = "{second.base_url}"\n'
            f'[providers.talk]\ntype = "script"\n[models]\n{models}\n[routes.e]\n{settings}\n{more}'
        )
        with Serving(configure(folder, toml)) as serving:
            async with httpx.AsyncClient(base_url=serving.url, trust_env=False, timeout=DEADLINE) as http:
                yield Routed(http, first, second)


async def test_the_answer_names_the_target_whose_vectors_it_has(tmp_path: Path) -> None:
    async with routed(tmp_path, BUSY, models='e = ["a/m", "b/m"]\nalias = "b/m"') as asked:
        for model, told in (("e", "b/m"), (None, "b/m"), ("alias", "alias"), ("b/m", "b/m")):
            answer = await asked.embed(model)
            assert answer.status_code == 200
            assert (answer.json()["model"], answer.json()["data"][0]["embedding"]) == (told, vector_of("red"))
            assert answer.headers.get("x-antiphon-target") == ("b/m" if model in ("e", None) else None)


async def test_only_the_kinds_that_are_listed_lead_on(tmp_path: Path) -> None:
    async with routed(tmp_path, BUSY, settings="retries = 0\nfallback_on = []") as asked:
        answer = await asked.embed()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model_overloaded")
        assert (len(asked.first.requests), asked.second.requests) == (1, [])


async def test_retries_bound_the_attempts(tmp_path: Path) -> None:
    async with routed(tmp_path, BUSY, settings="retries = 0") as asked:
        assert (await asked.embed()).status_code == 503
        assert (len(asked.first.requests), asked.second.requests) == (1, [])


async def test_what_is_asked_is_counted_and_opens_the_breaker(tmp_path: Path) -> None:
    async with routed(tmp_path, BUSY, settings='failures = 2\ncooldown = "1 h"') as asked:
        for _ in range(3):
            assert (await asked.embed()).json()["model"] == "b/m"
        assert len(asked.first.requests) == 2
        failing, well = await asked.target("a/m"), await asked.target("b/m")
        assert (failing["state"], failing["requests"], failing["errors"]) == ("open", 2, 2)
        assert (well["state"], well["requests"], well["errors"]) == ("closed", 3, 0)
        assert well["time_to_first_token"] > 0


async def test_a_target_is_asked_again_within_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "FIRST_WAIT", 0.0)
    async with routed(tmp_path, BUSY, VECTORS, models='e = "a/m"') as asked:
        answer = await asked.embed()
        assert (answer.status_code, answer.json()["model"]) == (200, "a/m")
        told = await asked.target("a/m")
        assert (told["requests"], told["errors"], told["retries_left"]) == (2, 1, 9)


async def test_when_all_rest_the_client_is_told_for_how_long(tmp_path: Path) -> None:
    async with routed(tmp_path, LIMITED, models='e = ["talk/any", "a/m"]') as asked:
        assert (await asked.embed()).status_code == 429
        answer = await asked.embed()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "targets_unavailable")
        assert 18 <= int(answer.headers["retry-after"]) <= 20
        assert len(asked.first.requests) == 1


async def test_a_request_says_who_is_not_to_be_asked(tmp_path: Path) -> None:
    async with routed(tmp_path, BUSY) as asked:
        answer = await asked.embed(without=["a"])
        assert (answer.json()["model"], asked.first.requests) == ("b/m", [])
        assert "x-antiphon-receipts" not in answer.headers
        answer = await asked.embed(without=["a", "b"])
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "antiphon:route.without")
        answer = await asked.embed(without="a")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "antiphon:route.without")


async def test_the_strategy_orders_the_targets(tmp_path: Path) -> None:
    priced = '[catalogue."{}/m"]\nprices = {{ input = {}, output = 0 }}\n'
    more = priced.format("a", 2) + priced.format("b", 1)
    async with routed(tmp_path, VECTORS, settings='strategy = "cheapest"', more=more) as asked:
        for input in ("red", [1, 2, 3]):
            assert (await asked.embed(input=input)).json()["model"] == "b/m"
    async with routed(tmp_path, VECTORS, settings='strategy = "tiers"') as asked:
        for complexity, model in (("simple", "a/m"), ("critical", "b/m")):
            answer = await asked.http.post(
                "/v1/embeddings",
                json={"model": "e", "input": "red"},
                headers={"X-Antiphon-Route": f"complexity={complexity}"},
            )
            assert answer.json()["model"] == model


async def test_a_text_that_is_known_not_to_fit_is_not_sent(tmp_path: Path) -> None:
    """Each text is a vector by itself, so it is the longest that has to fit."""
    small = '[catalogue."a/m"]\ncontext_window = 10\n'
    async with routed(tmp_path, VECTORS, more=small) as asked:
        assert (await asked.embed(input="word " * 50)).json()["model"] == "b/m"
        assert (await asked.embed(input=[[1] * 50])).json()["model"] == "b/m"
        assert asked.first.requests == []
        assert (await asked.embed()).json()["model"] == "a/m"
    spare = 'context_window_fallback = "talk/any"'
    async with routed(tmp_path, VECTORS, models='e = ["a/m", "talk/m"]', settings=spare, more=small) as asked:
        answer = await asked.embed(input="word " * 50)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_a_context_that_is_too_long_goes_to_a_fallback_that_gives_embeddings(tmp_path: Path) -> None:
    long = refusal(400, b'{"error": {"message": "no", "code": "context_length_exceeded"}}')
    spare = 'context_window_fallback = "{}"'
    async with routed(tmp_path, long, models='e = "a/m"', settings=spare.format("b/m")) as asked:
        assert (await asked.embed()).json()["model"] == "b/m"
    async with routed(tmp_path, long, models='e = "a/m"', settings=spare.format("talk/any")) as asked:
        answer = await asked.embed()
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


async def test_what_a_target_cannot_embed_is_asked_of_the_next(tmp_path: Path) -> None:
    async with FAKES["ollama"]() as other:
        more = f'[providers.texts]\ntype = "ollama"\nbase_url = "{other.base_url}"\n'
        models = 'e = ["texts/m", "b/m"]'
        async with routed(tmp_path, BUSY, models=models, settings="retries = 0", more=more) as asked:
            assert (await asked.embed(input=[[1, 2]])).json()["model"] == "b/m"
            assert (await asked.embed()).json()["model"] == "texts/m"
            assert len(other.requests) == 1


@pytest.mark.parametrize(
    ("lacking", "status"),
    [
        (refusal(403, b'{"error": {"message": "not allowed to generate embeddings"}}'), 502),
        (refusal(404, b'{"error": {"message": "no such model", "code": "model_not_found"}}'), 404),
        (refusal(404, b"<html>Not Found</html>"), 502),
    ],
)
async def test_a_model_that_only_talks_is_none_the_worse_for_it(
    tmp_path: Path, lacking: Wire, status: int
) -> None:
    async with routed(tmp_path, lacking, settings="failures = 1\nretries = 0") as asked:
        for _ in range(2):
            assert (await asked.embed()).json()["model"] == "b/m"
        assert (await asked.target("a/m"))["state"] == "closed"
    async with routed(tmp_path, lacking, settings='fallback_on = ["connection"]') as asked:
        assert (await asked.embed()).status_code == status
        assert asked.second.requests == []


async def test_a_client_that_leaves_ends_its_probe(tmp_path: Path) -> None:
    hanging = Wire([Step.HANG])
    async with routed(tmp_path, AT_ONCE, hanging, models='e = "a/m"', settings="retries = 0") as asked:
        assert (await asked.embed()).status_code == 429
        asked.first.asked.clear()
        asking = asyncio.create_task(asked.embed())
        await asked.first.asked.wait()
        assert (await asked.target("a/m"))["probing"]
        asking.cancel()
        async with asyncio.timeout(DEADLINE):
            await asked.first.gone.wait()
            while (await asked.target("a/m"))["probing"]:
                pass


async def test_the_cheapest_is_found_by_the_price_of_the_input_alone(tmp_path: Path) -> None:
    prices = '[catalogue."a/m"]\nprices = { input = 10.0 }\n[catalogue."b/m"]\nprices = { input = 0.02 }\n'
    async with routed(tmp_path, VECTORS, settings='strategy = "cheapest"', more=prices) as asked:
        assert (await asked.embed()).json()["model"] == "b/m"
        assert asked.first.requests == []


async def test_who_is_not_to_be_asked_holds_for_one_target(tmp_path: Path) -> None:
    async with routed(tmp_path, VECTORS, models='e = "a/m"') as asked:
        assert (await asked.embed(without=["a"])).status_code == 400
        assert asked.first.requests == []
