"""What nobody follows is asked for whole; everything else is streamed."""

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import dial, streamed, text_of, turn
from tests.server.servers import until


def test_a_plain_request_is_asked_for_whole(serve: Serve, voice: Voice) -> None:
    voice.says = lambda call: call.finish_whole("All at once.")
    client = serve(voice.toml).client()
    response = client.post("/v1/responses", json={"input": "hi"}).json()
    assert "stream" not in voice.last
    assert (response["status"], text_of(response)) == ("completed", "All at once.")
    assert response["usage"]["output_tokens"] == 2
    assert client.get(f"/v1/responses/{response['id']}").json() == response


def test_a_compaction_is_asked_for_whole(serve: Serve, voice: Voice) -> None:
    voice.says = lambda call: call.finish_whole("They said hi.")
    compacted = (
        serve(voice.toml).client().post("/v1/responses/compact", json={"model": "model", "input": "hi"})
    )
    assert compacted.status_code == 200
    assert "stream" not in voice.last


def test_whatever_is_followed_is_streamed(serve: Serve, voice: Voice) -> None:
    server = serve(voice.toml)
    client = server.client()
    streamed(client, input="hi")
    assert voice.last["stream"] is True
    voice.reset()
    client.post("/v1/responses", json={"input": "hi", "background": True})
    assert until(lambda: voice.heard)[0]["stream"] is True
    voice.reset()
    with dial(server) as socket:
        turn(socket, input="hi")
    assert voice.last["stream"] is True
