"""The short way to read a whole answer: it finds what a full reading finds, or leaves the answer to that."""

import json
from collections.abc import Callable
from copy import deepcopy
from itertools import count
from typing import Any, cast
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.base import UpstreamError
from antiphon.providers.responses import stream as responses_stream
from antiphon.providers.responses.stream import ResponsesStream, plain
from antiphon.spec.codec import to_builtins
from antiphon.spec.response import Response, Usage
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import Finish, TextDelta, UsageDelta

Json = dict[str, Any]

ANSWER: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "model": "m",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}],
        }
    ],
    "usage": {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 8,
    },
}
PLACES: list[Callable[[Json], Json]] = [
    lambda answer: answer,
    lambda answer: answer["output"][0],
    lambda answer: answer["output"][0]["content"][0],
    lambda answer: answer["usage"],
    lambda answer: answer["usage"]["input_tokens_details"],
]
KEYS = sorted(
    {key for place in PLACES for key in place(ANSWER)} | {"phase", "vendor", "refusal", "prompt_tokens"}
)
VALUES = [
    *(
        None,
        "",
        "completed",
        "incomplete",
        "failed",
        "in_progress",
        "final_answer",
        "user",
        "x",
        0,
        -1,
        7,
        1.5,
    ),
    *(True, [], {}, [{}], {"reason": "length"}, {"message": "no", "code": "x"}),
    *(ANSWER["output"], ANSWER["output"] * 2, ANSWER["output"][0]["content"], ANSWER["usage"]),
    [{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}],
    [{"token": "H", "logprob": -1.0, "bytes": [72], "top_logprobs": []}],
]
_GONE = "gone"
changes = st.lists(
    st.tuples(
        st.sampled_from(PLACES), st.sampled_from(KEYS), st.one_of(st.just(_GONE), st.sampled_from(VALUES))
    ),
    max_size=2,
)


def read(body: bytes) -> Json | str:
    """The response that this answer makes, right or wrong, or the error that it is."""
    stream = ResponsesStream()
    try:
        deltas = stream.whole(body)
    except UpstreamError as error:
        return error.payload.message
    assert stream.over
    numbers = count(1)
    composer = Composer(
        Response.new("resp_1", "m", now=1),
        clock=lambda: 2.0,
        new_id=lambda prefix: f"{prefix}{next(numbers)}",
    )
    composer.feed(deltas)
    return cast(Json, to_builtins(composer.response))


def test_a_plain_answer() -> None:
    usage = Usage.of(3, 5, cached=1, reasoning=2)
    assert plain(json.dumps(ANSWER).encode()) == [TextDelta("Hello."), UsageDelta(usage), Finish("stop")]


@given(st.text(), changes)
def test_the_short_way_finds_what_the_long_one_finds(
    text: str, made: list[tuple[Callable[[Json], Json], str, Any]]
) -> None:
    answer = deepcopy(ANSWER)
    answer["output"][0]["content"][0]["text"] = text
    for place, key, value in made:
        try:
            found = place(answer)
        except (KeyError, IndexError, TypeError):
            continue
        if isinstance(found, dict):
            found.pop(key, None)
            if value != _GONE:
                found[key] = deepcopy(value)
    body = json.dumps(answer).encode()
    short = read(body)
    with mock.patch.object(responses_stream, "plain", return_value=None):
        assert short == read(body)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"error": {}}', b"\xff", b'{"a":' * 100_000])
def test_what_is_no_plain_answer(body: bytes) -> None:
    assert plain(body) is None


def test_an_error_in_another_encoding_is_told_as_unreadable() -> None:
    body = '{"error":{"message":"clé refusée"}}'.encode("latin-1")
    with pytest.raises(UpstreamError) as caught:
        ResponsesStream().whole(body)
    assert caught.value.payload.code == "upstream_invalid"
