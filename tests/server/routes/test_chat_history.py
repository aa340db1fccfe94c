"""Chats of `/api/v1/chat`: what is kept, what goes on, and which branches there are."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.bridges.ai_sdk.chats import chat_id
from tests.bridges.scripts import ROUND, TOML, Json, said
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.routes.chat_calls import CHAT, HELLO, chunks, history, post, said_in, text_of, tree, user
from tests.server.servers import Client, Serving, configure, until
from tests.server.upstream import Upstream


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(TOML)


@pytest.fixture
def client(server: Serving) -> Client:
    return server.client()


def test_a_session_goes_on_from_the_store(client: Client) -> None:
    for text in ("One", "Two"):
        post(client, messages=[{"role": "user", "content": text}], session_id="s1")
    assert history(client, "s1") == ["One", "One", "Two", "Two"]


def test_a_session_that_repeats_its_history_is_not_doubled(client: Client) -> None:
    sent: list[Json] = []
    for text in ("One", "Two", "Three"):
        sent.append({"role": "user", "content": text})
        answer = post(client, messages=sent, session_id="s2")
        sent.append({"role": "assistant", "content": text_of(answer.text)})
    assert history(client, "s2") == ["One", "One", "Two", "Two", "Three", "Three"]


def test_a_session_can_be_a_conversation_that_is_already_there(client: Client) -> None:
    made = client.ok("POST", "/v1/conversations", json={"items": [{"role": "user", "content": "I am Ada."}]})
    post(client, messages=[{"role": "user", "content": "Who am I?"}], session_id=made["id"])
    assert history(client, made["id"]) == ["I am Ada.", "Who am I?", "Who am I?"]
    post(client, messages=[{"role": "user", "content": "Sure?"}], session_id=made["id"])
    assert history(client, made["id"])[3:] == ["Sure?", "Sure?"]


def test_a_chat_belongs_to_its_tenant(serve: Serve) -> None:
    server = serve(TOML + key_table("alice") + key_table("bob"))
    for name in ("alice", "bob"):
        post(server.client(f"sk-{name}"), messages=HELLO, session_id="same")
    assert history(server.client("sk-alice"), "same", "alice") == ["Hello", "Hello"]
    assert history(server.client("sk-bob"), "same", "bob") == ["Hello", "Hello"]


def test_a_chat_that_is_not_stored_leaves_no_trace(client: Client) -> None:
    post(client, messages=HELLO, id="c9", store=False)
    client.refused(404, "GET", f"/v1/antiphon/chats/{chat_id('', 'c9')}")


def test_nothing_is_made_for_a_chat_that_has_nothing_to_answer(client: Client) -> None:
    client.refused(404, "POST", CHAT, json={"id": "c10", "trigger": "regenerate-message"})
    client.refused(404, "GET", f"/v1/antiphon/chats/{chat_id('', 'c10')}")
    refused = {"id": "c10", "messages": [user(said([{"error": {"message": "busy", "status": 429}}]))]}
    assert client.post(CHAT, json=refused).status_code == 429
    client.refused(404, "GET", f"/v1/antiphon/chats/{chat_id('', 'c10')}")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "refused",
    [
        {"id": "c11", "messages": [user(said([{"error": {"message": "busy", "status": 429}}]))]},
        {"id": "c11", "messages": [user("Edited")], "tool_choice": "required"},
        {"id": "c11", "trigger": "regenerate-message", "tool_choice": "required"},
        {"id": "c11", "messages": [user("Edited")], "tool_choice": "required", "resumable": True},
    ],
    ids=["upstream", "edited", "regenerated", "resumable"],
)
def test_a_refused_request_leaves_the_chat_as_it_was(client: Client, refused: Json, stream: bool) -> None:
    post(client, messages=HELLO, id="c11")
    answer = client.post(CHAT, json=refused | {"stream": stream})
    assert answer.status_code in (400, 429), answer.text
    assert history(client, "c11") == ["Hello", "Hello"]


def test_an_answer_that_fails_is_a_branch_beside_the_earlier_one(client: Client) -> None:
    post(client, messages=HELLO, id="c12")
    broken = said([{"text": "Once"}, {"error": {"message": "it broke", "status": 500}}])
    body = {"id": "c12", "messages": [user(broken)], "stream": False}
    assert client.post(CHAT, json=body).status_code == 500
    assert history(client, "c12") == [broken, "Once"]
    assert [(node["previous_response_id"], node["status"]) for node in tree(client, "c12").values()] == [
        (None, "completed"),
        (None, "failed"),
    ]


def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    for text in ("One", "Two"):
        with Serving(configure(tmp_path, TOML)) as server:
            post(server.client(), messages=[{"role": "user", "content": text}], session_id="s1")
            told = history(server.client(), "s1")
    assert told == ["One", "One", "Two", "Two"]


def test_two_requests_of_one_chat_at_once_are_both_kept(client: Client, server: Serving) -> None:
    def ask(word: str) -> None:
        slow = said([{"text": word, "delay": 0.05}])
        post(server.client(), messages=[{"role": "user", "content": slow}], session_id="s12")

    with ThreadPoolExecutor(2) as pages:
        list(pages.map(ask, ("A", "B")))
    assert {said_in(node)[1] for node in tree(client, "s12").values()} == {"A", "B"}


def test_a_chat_without_a_name_keeps_its_proofs_in_the_front_end(client: Client) -> None:
    script = said([{"reasoning": "Hm."}, {"signature": "proof"}, {"text": "Yes"}])
    (end,) = [c for c in chunks(post(client, messages=[user(script)]).text) if c["type"] == "reasoning-end"]
    proof = end["providerMetadata"]["antiphon"]
    thought = {"type": "reasoning", "text": "Hm.", "providerMetadata": end["providerMetadata"]}
    answer = {"role": "assistant", "parts": [thought, {"type": "text", "text": "Yes"}]}
    start, *_ = chunks(post(client, messages=[user(script), answer, user("So?")]).text)
    path = f"/v1/responses/{start['messageMetadata']['responseId']}/input_items?order=asc"
    (given,) = [item for item in client.ok("GET", path)["data"] if item["type"] == "reasoning"]
    assert (given["id"], given["encrypted_content"]) == (proof["itemId"], proof["encryptedContent"])


def test_what_the_model_is_given_is_the_chat_and_nothing_twice(serve: Serve, voice: Voice) -> None:
    voice.say("Fine")
    client = serve(voice.toml).client()
    first = text_of(post(client, messages=[user("One")], id="c1").text)
    answer = {"id": "a", "role": "assistant", "parts": [{"type": "text", "text": first}]}
    post(client, messages=[user("One"), answer, user("Two")], id="c1")
    assert words(voice.last) == ["One", "Fine", "Two"]
    post(client, message=user("Three"), id="c1")
    assert words(voice.last) == ["One", "Fine", "Two", "Fine", "Three"]
    post(client, messages=[user("One"), answer, user("Else")], id="c1", trigger="submit-message")
    assert words(voice.last) == ["One", "Fine", "Else"]


def answer_in(body: str) -> Json:
    """The message that a front end makes of a stream."""
    start = chunks(body)[0]
    parts = [{"type": "text", "text": text_of(body)}]
    return {
        "id": start["messageId"],
        "role": "assistant",
        "parts": parts,
        "metadata": start["messageMetadata"],
    }


def test_asking_again_and_otherwise_adds_branches(client: Client) -> None:
    one, two = user("One"), user("Two")
    first = answer_in(post(client, messages=[one], id="b1").text)
    second = answer_in(post(client, messages=[one, first, two], id="b1").text)
    again: Json = {"messages": [one, first, two], "trigger": "regenerate-message", "messageId": second["id"]}
    third = answer_in(post(client, id="b1", **again).text)
    other = answer_in(post(client, messages=[one, first, user("Else")], id="b1").text)
    anew = answer_in(post(client, messages=[user("Anew")], id="b1").text)
    nodes = tree(client, "b1")
    assert {id: node["previous_response_id"] for id, node in nodes.items()} == {
        first["id"]: None,
        second["id"]: first["id"],
        third["id"]: first["id"],
        other["id"]: first["id"],
        anew["id"]: None,
    }
    assert said_in(nodes[third["id"]]) == ["Two", "Two"]
    assert history(client, "b1") == ["Anew", "Anew"]
    # Who still shows an older branch goes on from there, by the id of its last answer.
    deeper = answer_in(post(client, messages=[one, first, two, second, user("So?")], id="b1").text)
    assert tree(client, "b1")[deeper["id"]]["previous_response_id"] == second["id"]
    assert history(client, "b1") == ["One", "One", "Two", "Two", "So?", "So?"]


def test_a_chat_that_is_too_long_for_the_event_loop_goes_on(client: Client) -> None:
    first = answer_in(post(client, message=user("Long " * 60_000), id="long").text)
    second = post(client, id="long", stream=False, message=user("And?")).json()
    assert second["previous_response_id"] == first["id"]
    assert said_in(tree(client, "long")[second["id"]]) == ["And?", "And?"]


def test_a_single_message_says_where_it_belongs(client: Client) -> None:
    first = answer_in(post(client, message=user("One"), id="b2").text)
    second = answer_in(post(client, message=user("Two"), id="b2").text)
    third = answer_in(post(client, message=user("Three"), id="b2").text)
    question = tree(client, "b2")[second["id"]]["input"][0]["id"]
    chat: Json = {"id": "b2", "stream": False}
    edited = post(client, **chat, message=user("Other"), messageId=question).json()
    assert edited["previous_response_id"] == first["id"]
    regenerated = post(client, **chat, trigger="regenerate-message", messageId=second["id"]).json()
    assert regenerated["previous_response_id"] == first["id"]
    assert said_in(tree(client, "b2")[regenerated["id"]]) == ["Two", "Two"]
    newest = post(client, **chat, trigger="regenerate-message").json()
    assert newest["previous_response_id"] == first["id"]
    named = post(client, **chat, message=user("Four"), previous_response_id=third["id"]).json()
    assert tree(client, "b2")[named["id"]]["previous_response_id"] == third["id"]
    root = post(client, **chat, messages=[user("Zero")]).json()
    assert root["previous_response_id"] is None
    assert len(tree(client, "b2")) == 8


def test_a_chat_goes_by_its_id_too(client: Client) -> None:
    made = client.ok("POST", "/v1/antiphon/chats", json={"title": "Mine"})
    post(client, messages=HELLO, id=made["id"])
    found = client.ok("GET", f"/v1/antiphon/chats/{made['id']}")
    assert found["title"] == "Mine"
    for body in ({"antiphon:chat": made["id"], "id": "else"}, {"antiphon:chat": made["id"]}):
        answer = post(client, message=user("More"), stream=False, **body).json()
        assert answer["previous_response_id"] == found["current"]
        found = client.ok("GET", f"/v1/antiphon/chats/{made['id']}")
        assert found["current"] == answer["id"]
    missing = {"message": user("x"), "antiphon:chat": "chat_nope"}
    assert client.refused(404, "POST", CHAT, json=missing)["code"] == "chat_not_found"
    # An id that is none is a name like any other.
    post(client, messages=HELLO, id="chat_of_mine")
    assert history(client, "chat_of_mine") == ["Hello", "Hello"]


def test_a_question_without_an_answer_is_asked_again_beside_it(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml).client()
    body: Json = {"messages": [user("One")], "id": "b3", "resumable": True, "stream": False}
    failed = post(client, **body).json()
    upstream.next().refuse(400, "not now")
    until(lambda: client.ok("GET", f"/v1/responses/{failed['id']}")["status"] == "failed")
    upstream.answer = "Here"
    again = post(client, messages=[user("One")], id="b3", stream=False).json()
    assert again["previous_response_id"] is None
    assert history(client, "b3") == ["One", "Here"]
    assert len(tree(client, "b3")) == 2


def words(body: Json) -> list[str]:
    texts = [message["content"] for message in body["messages"]]
    return [text if isinstance(text, str) else "".join(part["text"] for part in text) for text in texts]


def test_a_tool_round_trip_with_plain_requests(client: Client) -> None:
    first = chunks(post(client, messages=[user(said(ROUND))], id="c2").text)
    (start, *_), *_ = [first]
    calls = [chunk for chunk in first if chunk["type"] == "tool-input-available"]
    parts = [
        {"type": "dynamic-tool", "state": "output-available", "output": 18, **call, "providerMetadata": None}
        | {"type": "dynamic-tool"}
        for call in calls
    ]
    answer = {"id": start["messageId"], "role": "assistant", "parts": parts}
    body = post(client, message=answer, id="c2").text
    assert text_of(body) == "Paris 18, Tokyo 25."
    assert chunks(body)[0]["messageId"] == start["messageId"]


def test_an_earlier_response_can_be_continued_too(client: Client) -> None:
    first = post(client, messages=HELLO, stream=False).json()
    made = post(client, messages=HELLO, previous_response_id=first["id"], stream=False).json()
    assert made["previous_response_id"] == first["id"]
