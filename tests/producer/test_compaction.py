"""`POST /v1/responses/compact` of a producer's endpoint: the author summarises, the endpoint seals."""

import asyncio
import socket
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon.producer import ResponsesApp
from antiphon.spec.errors import SpecError, rate_limit
from antiphon.spec.items import Message
from antiphon.spec.request import Request
from tests.producer.serving import serving
from tests.server.servers import DEADLINE, Client

PATH = "/v1/responses/compact"
TALK = [{"role": "user", "content": "The word is heron."}, {"role": "assistant", "content": "OK."}]


class Notes:
    """An agent that tells what it was given, and a summary that does what the last message asks for."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.cancelled = threading.Event()

    async def answer(self, request: Request) -> AsyncIterator[str]:
        assert isinstance(request.input, list)
        yield " | ".join(f"{i.role}: {i.get_text()}" for i in request.input if isinstance(i, Message))

    async def summarise(self, request: Request) -> str:
        assert isinstance(request.input, list)
        asked = request.input[-1]
        match asked.get_text() if isinstance(asked, Message) else "":
            case "refuse":
                raise SpecError(rate_limit("slow down"))
            case "break":
                raise RuntimeError("private")
            case "nothing":
                return " "
            case "wait":
                self.asked.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
        return f"{request.instructions} {len(request.input)} messages about a heron"


def app(**options: Any) -> ResponsesApp:
    notes = Notes()
    return ResponsesApp(notes, summarise=notes.summarise, **options)


def test_a_conversation_is_compacted_and_goes_on_from_the_summary() -> None:
    with serving(app()) as url, Client(url) as client:
        body = {"model": "agent", "input": TALK, "instructions": "Brief:"}
        resource = client.post(PATH, json=body).json()
        (item,) = resource["output"]
        response = client.create(input=[item, {"role": "user", "content": "Go on."}])
    assert (resource["object"], item["type"]) == ("response.compaction", "compaction")
    assert resource["usage"]["output_tokens"] > 0
    assert "heron" not in str(resource)
    (message,) = response["output"]
    assert message["content"][0]["text"] == (
        "developer: Summary of the conversation so far:\n\nBrief: 2 messages about a heron | user: Go on."
    )


def test_a_stored_conversation_is_compacted_by_its_last_response() -> None:
    with serving(app()) as url, Client(url) as client:
        first = client.create(input="Hi")
        body = {"model": "agent", "previous_response_id": first["id"]}
        (item,) = client.post(PATH, json=body).json()["output"]
        assert "2 messages" in str(client.create(input=[item])["output"])
        lost = {"model": "agent", "previous_response_id": "resp_lost"}
        assert client.refused(404, "POST", PATH, json=lost)["code"] == "previous_response_not_found"


def test_the_same_key_opens_what_another_process_made_and_no_other_does() -> None:
    key, body = bytes(range(32)), {"model": "agent", "input": TALK}
    with serving(app(seal_key=key)) as url, Client(url) as client:
        (item,) = client.post(PATH, json=body).json()["output"]
    with serving(app(seal_key=key)) as url, Client(url) as client:
        client.create(input=[item, *TALK])
    with serving(app()) as url, Client(url) as client:
        error = client.refused(400, "POST", "/v1/responses", json={"input": [*TALK, item]})
    assert (error["code"], error["param"]) == ("invalid_encrypted_content", "input[2].encrypted_content")


@pytest.mark.parametrize(
    ("word", "status", "code"),
    [
        ("refuse", 429, "rate_limit_exceeded"),
        ("break", 500, "generation_failed"),
        ("nothing", 500, "empty_summary"),
    ],
)
def test_a_summary_that_fails_is_an_error(word: str, status: int, code: str) -> None:
    with serving(app()) as url, Client(url) as client:
        error = client.refused(status, "POST", PATH, json={"model": "agent", "input": word})
    assert error["code"] == code
    assert "private" not in str(error)


def test_nothing_cannot_be_compacted() -> None:
    with serving(app()) as url, Client(url) as client:
        assert client.refused(400, "POST", PATH, json={"model": "agent"})["param"] == "input"
        assert client.refused(400, "POST", PATH, json={"input": "Hi"})["param"] == "model"


def test_a_client_that_goes_away_cancels_the_summary() -> None:
    notes = Notes()
    with serving(ResponsesApp(notes, summarise=notes.summarise)) as url:
        body = b'{"model": "agent", "input": "wait"}'
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), DEADLINE) as connection:
            connection.sendall(head.encode() + body)
            assert notes.asked.wait(DEADLINE)
        assert notes.cancelled.wait(DEADLINE)


def test_an_agent_without_a_summary_says_so() -> None:
    item = {"type": "compaction", "encrypted_content": "abc"}
    with serving(ResponsesApp(Notes())) as url, Client(url) as client:
        error = client.refused(404, "POST", PATH, json={"model": "agent", "input": TALK})
        closed = client.refused(400, "POST", "/v1/responses", json={"input": [*TALK, item]})
    assert error["code"] == "unsupported_operation"
    assert "`summarise`" in error["message"]
    assert (closed["code"], closed["param"]) == ("unsupported_content", "input[2]")


def test_a_summary_is_no_generator() -> None:
    with pytest.raises(TypeError, match="a summary comes whole"):
        ResponsesApp(Notes(), summarise=Notes().answer)  # type: ignore[arg-type]


def test_without_the_library_for_it_a_summary_is_an_error_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "antiphon.wires.sealing")
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ImportError, match=r"install `antiphon\[server\]`"):
        app()
