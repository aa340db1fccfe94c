"""Client mode: real clients come through every play, and a clumsy client fails each rule."""

import asyncio
import codecs
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from antiphon.cli import main
from antiphon.compliance.client.scenario_server import ScenarioServer, Seen
from antiphon.compliance.client.scenarios import SCENARIOS
from antiphon.compliance.client.verdicts import RULES, Verdict, judge_scenarios
from antiphon.stream.auditor import audit_sse
from antiphon.stream.sse import Decoder

Json = dict[str, Any]
REQUEST = json.dumps({"model": "m", "input": "Begin.", "stream": True}).encode()
# Their bytes are not what a server of the specification sends; that is what they are for.
ODD = {"unknown-event", "two-data-lines"}


def failures(told: list[Verdict]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for verdict in told:
        if verdict.outcome == "fail":
            found.setdefault(verdict.rule.id, set()).add(verdict.scenario)
    return found


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - ODD))
def test_what_is_played_keeps_the_rules(name: str) -> None:
    _, pieces = SCENARIOS[name].compose(REQUEST)
    assert all(pieces)
    assert audit_sse(b"".join(pieces), extensions=True) == []


@pytest.mark.parametrize("client", ["openai", "antiphon"])
def test_a_real_client_comes_through(client: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["comply-client", "--with", client])
    told = capfd.readouterr().out
    assert code == 0, told
    assert "0 failed" in told


def test_without_a_client_there_is_no_verdict(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["comply-client", "--with", f"{sys.executable} -c pass"]) == 2
    assert "no client has asked" in capfd.readouterr().out
    assert main(["comply-client", "--with", f"{sys.executable} -c raise(SystemExit(3))"]) == 2
    assert main(["comply-client", "--with", "no-such-program-anywhere"]) == 2


def test_a_missing_sdk_is_told_in_a_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.cli.comply_client.find_spec", lambda name: None)
    assert main(["comply-client", "--with", "openai"]) == 2
    told = capfd.readouterr().err
    assert told == "antiphon: the OpenAI SDK is not installed; pip install openai\n"


def test_interrupting_shows_the_verdict() -> None:
    # Where the tests run in the background, SIGINT is ignored, and that is inherited.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code = f"{heard}import sys; from antiphon.cli import main; sys.exit(main(['comply-client']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split(" at ")[1].split(";")[0]
        with httpx.Client(trust_env=False) as http:
            body = {"model": "text", "input": "Begin.", "stream": True}
            http.post(f"{url}/responses", json=body, headers={"authorization": "Bearer x"})
        process.send_signal(2)
        told = process.stdout.read()
    assert process.returncode == 1
    assert "it never sent what it understood" in told


class Clumsy:
    """A client that does everything right but one thing."""

    def __init__(self, fault: str, url: str, http: httpx.AsyncClient) -> None:
        self.fault = fault
        self._url = f"{url}/responses"
        self._http = http

    async def take_part(self, play: str) -> None:
        text, status, response_id = "", "", ""
        output: list[Json] = []
        async for event in self._events(play):
            kind = event["type"]
            if kind == "response.created":
                response_id = event["response"]["id"]
            elif kind == "response.output_text.delta" or (
                kind == "response.refusal.delta" and self.fault != "client.items"
            ):
                text += event["delta"]
            elif kind in ("response.completed", "response.incomplete", "response.failed"):
                output = event["response"]["output"]
                status = event["response"]["status"]
                if self.fault == "client.states" and status == "incomplete":
                    status = "completed"
                if self.fault == "client.errors" and status == "failed":
                    status = "completed"
            elif ":" in kind and self.fault == "client.unknown":
                return
        calls = [item for item in output if item["type"] == "function_call"]
        if calls and self.fault == "client.loop":
            return
        answers = [{"type": "function_call_output", "call_id": c["call_id"], "output": "x"} for c in calls]
        if self.fault == "client.parallel":
            answers = answers[:1]
        if self.fault == "client.previous":
            response_id = "resp_other"
        reply: Json = {"model": play, "previous_response_id": response_id}
        if response_id:
            await self._post({**reply, "input": answers or f"{status}|{text}"})

    async def _post(self, body: Json) -> httpx.Response:
        return await self._http.post(self._url, json=body, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {} if self.fault == "client.headers" else {"authorization": "Bearer x"}

    async def _events(self, play: str) -> AsyncIterator[Json]:
        body = {"model": play, "input": "Begin.", "stream": True}
        tries = {"client.no_retries": 3, "client.retries": 1}.get(self.fault, 2 if play == "busy" else 1)
        for _ in range(tries):
            async with self._http.stream("POST", self._url, json=body, headers=self._headers()) as answer:
                if answer.status_code == 200:
                    async for event in self._read(answer):
                        yield event
                    return

    async def _read(self, answer: httpx.Response) -> AsyncIterator[Json]:
        if self.fault == "client.utf8":
            async for event in _by_pieces(answer):
                yield event
            return
        decoder = Decoder()
        done = False
        async for piece in answer.aiter_raw():
            # One fault: what one read does not complete is thrown away.
            for found in (Decoder() if self.fault == "client.sse" else decoder).feed(piece):
                done = done or found.is_done
                if not found.is_done:
                    yield json.loads(found.data)
            if done and self.fault != "client.done":
                return


async def _by_pieces(answer: httpx.Response) -> AsyncIterator[Json]:
    """Each piece is decoded by itself, so that a character in two of them is lost."""
    decoder = Decoder()
    async for piece in answer.aiter_raw():
        for found in decoder.feed(codecs.decode(piece, "utf-8", "replace").encode()):
            if not found.is_done:
                yield json.loads(found.data)


PROVED_BY = {
    "client.headers": set(SCENARIOS),
    "client.items": {"refusal"},
    "client.states": {"incomplete"},
    "client.sse": {"one-byte-at-a-time", "split-lines"},
    "client.done": {"held-open"},
    "client.loop": {"call"},
    "client.unknown": {"vendor-event"},
    "client.previous": {"text"},
    "client.parallel": {"parallel-calls"},
    "client.utf8": {"split-characters"},
    "client.errors": {"failed"},
    "client.retries": {"busy"},
    "client.no_retries": {"wrong"},
}


async def perform(fault: str) -> dict[str, Seen]:
    async with ScenarioServer(held=0.3) as stage, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        client = Clumsy(fault, stage.url, http)
        await asyncio.gather(*(client.take_part(play) for play in SCENARIOS))
        return stage.seen


async def test_the_same_client_without_a_fault_comes_through() -> None:
    assert failures(judge_scenarios(await perform(""))) == {}


@pytest.mark.parametrize("rule", RULES)
async def test_a_clumsy_client_fails_this_rule(rule: str) -> None:
    found = failures(judge_scenarios(await perform(rule)))
    assert PROVED_BY[rule] <= found[rule]
