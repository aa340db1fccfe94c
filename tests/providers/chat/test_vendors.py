"""What single vendors of `/chat/completions` do in their own way, and that nothing of it is lost."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.chat.profiles import PROFILES
from antiphon.providers.chat.stream import ChatStream
from antiphon.spec.items import Reasoning
from antiphon.spec.response import InputTokensDetails, OutputTokensDetails, Response, Usage
from antiphon.stream.deltas import Failure, Finish, UsageDelta
from antiphon.stream.whole_answers import check_figures
from antiphon.wires.chat.chunks import ChatCounts
from antiphon.wires.chat.source_numbers import SourceNumbers
from antiphon.wires.reasoning.kept import CONTENT
from tests.providers.chat import wire
from tests.providers.chat.bodies import body
from tests.providers.chat.reading import read, response
from tests.providers.compose import compose, plain, told


def whole(message: dict[str, Any], *, finish: str = "stop", usage: Any = None, **fields: Any) -> bytes:
    """The body of an answer that was not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    choice |= fields.pop("choice", {})
    return json.dumps({**wire.HEAD, "choices": [choice], "usage": usage, **fields}).encode()


def answered(answer: bytes, **options: Any) -> Response:
    return compose([ChatStream(**options).whole(answer)])


# --- calls that are none -----------------------------------------------------------------------------------

EMPTY_CALL = {"name": "", "arguments": ""}
EMPTY_AUDIO = {"data": "", "expires_at": 0, "id": "", "transcript": ""}


def test_an_empty_function_call_is_no_call() -> None:
    made = answered(
        whole(
            {"content": "4", "function_call": EMPTY_CALL, "tool_calls": None, "audio": EMPTY_AUDIO}, finish=""
        )
    )
    assert told(made) == ["4"]
    streamed = response(wire.chunk({"content": "4", "function_call": EMPTY_CALL}) + wire.finish())
    assert told(streamed) == ["4"]


def test_an_empty_function_call_beside_a_true_one_is_no_second_call() -> None:
    call = {
        "id": "toolu_1",
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
        "custom": {"name": "", "input": ""},
    }
    made = answered(whole({"content": "", "function_call": EMPTY_CALL, "tool_calls": [call]}, finish=""))
    assert told(made) == [("look", "{}", "toolu_1")]


def test_a_custom_call_keeps_its_name_and_input() -> None:
    call = {"id": "call_1", "type": "custom", "custom": {"name": "sum", "input": "4 + 4"}}
    assert told(answered(whole({"tool_calls": [call]}, finish="tool_calls"))) == [("sum", "4 + 4", "call_1")]


# --- words -------------------------------------------------------------------------------------------------


def test_content_that_the_server_decoded_is_text_again() -> None:
    [text] = told(answered(whole({"content": {"title": "Ä", "n": [1, None]}})))
    assert json.loads(text) == {"title": "Ä", "n": [1, None]}


def test_a_message_beside_an_empty_delta_is_read() -> None:
    answer = whole({"content": "Ruby"}, choice={"delta": {"role": "assistant", "content": ""}})
    assert told(answered(answer)) == ["Ruby"]


def test_a_delta_beside_the_whole_message_is_what_is_new() -> None:
    pieces = [("Ru", "Ru"), ("by", "Ruby")]
    stream = b"".join(
        wire.data({"choices": [{"index": 0, "delta": {"content": new}, "message": {"content": so_far}}]})
        for new, so_far in pieces
    )
    assert told(response(stream + wire.finish())) == ["Ruby"]


def test_a_line_that_begins_with_error_keeps_its_message() -> None:
    line = b'error: {"detail":"out of slots","error":{"message":"out of slots"}}\n\n'
    *_, failure = read(wire.text("On") + line)
    assert isinstance(failure, Failure)
    assert "out of slots" in failure.error.message


def test_an_error_after_a_cut_says_no_more_than_the_cut() -> None:
    usage = {"prompt_tokens": 43, "completion_tokens": 10}
    late = wire.chunk({"content": ""}, error={"code": 400, "message": "Token limit reached"}, usage=usage)
    made = response(wire.text("On") + wire.chunk({}, "length") + late + wire.DONE)
    assert made.status == "incomplete"
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == "max_output_tokens"
    assert made.usage is not None
    assert made.usage.total_tokens == 53


def test_an_error_after_a_stop_fails() -> None:
    late = wire.chunk({"content": ""}, error={"code": 500, "message": "boom"})
    assert response(wire.text("On") + wire.chunk({}, "stop") + late + wire.DONE).status == "failed"


# --- sources -----------------------------------------------------------------------------------------------

PAGES = [{"url": "https://a.example", "title": "A", "date": "2026-01-01"}, {"url": "https://b.example"}]


def cited(made: Response) -> list[tuple[str, str]]:
    return [
        (note["url"], note["title"])
        for item in plain(made)["output"]
        if item["type"] == "message"
        for part in item["content"]
        for note in part["annotations"]
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"search_results": PAGES}, [("https://a.example", "A"), ("https://b.example", "")]),
        ({"citations": ["https://b.example"]}, [("https://b.example", "")]),
        (
            {"citations": ["https://a.example", "https://c.example"], "search_results": PAGES},
            [("https://a.example", "A"), ("https://c.example", ""), ("https://b.example", "")],
        ),
        ({"citations": [{"odd": 1}, 3, None], "search_results": "none"}, []),
    ],
)
def test_the_sources_of_a_search_are_citations(
    fields: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert cited(answered(whole({"content": "Yes[1]."}, **fields))) == expected
    stream = wire.chunk({"content": "Yes"}, **fields) + wire.chunk({"content": "[1]."}, **fields)
    made = response(stream + wire.finish())
    assert (told(made), cited(made)) == (["Yes[1]."], expected)


def test_a_source_that_an_annotation_names_is_cited_once() -> None:
    note = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}
    made = answered(whole({"content": "Yes.", "annotations": [note]}, citations=["https://a.example"]))
    assert cited(made) == [("https://a.example", "A")]


def test_sources_stand_on_the_text_before_a_call() -> None:
    stream = wire.chunk({"content": "Yes."}, search_results=PAGES) + wire.call(0, "look", "{}", "call_a")
    made = response(stream + wire.finish("tool_calls"))
    assert told(made) == ["Yes.", ("look", "{}", "call_a")]
    assert len(cited(made)) == 2


def located(made: Response) -> list[tuple[str, int, int]]:
    [message] = plain(made)["output"]
    [part] = message["content"]
    return [(note["url"], note["start_index"], note["end_index"]) for note in part["annotations"]]


FOUND = ["https://a.example", "https://b.example", "https://c.example", "https://a.example"]


@pytest.mark.parametrize("last_only", [False, True])
def test_a_source_that_the_text_names_by_its_number_has_its_place(last_only: bool) -> None:
    text = "It rains [3][1]. Still [3], see [4], [0], [99] and [x]."
    places = [("https://a.example", 12, 15), ("https://b.example", 0, 0), ("https://c.example", 9, 12)]
    at_once = answered(whole({"content": text}, citations=FOUND), numbers=SourceNumbers())
    assert located(at_once) == places
    early = None if last_only else FOUND
    pieces = [wire.chunk({"content": text[n : n + 5]}, citations=early) for n in range(0, len(text), 5)]
    end = wire.chunk({}, finish="stop", citations=FOUND)
    assert located(response(b"".join(pieces) + end, numbers=SourceNumbers())) == places


def test_only_where_a_server_numbers_its_sources_are_numbers_read() -> None:
    made = answered(whole({"content": "a[1]"}, citations=FOUND[:1]))
    assert located(made) == [("https://a.example", 0, 0)]
    assert [name for name, profile in PROFILES.items() if profile.numbers_sources] == ["perplexity"]


# --- files that the server read ----------------------------------------------------------------------------

READ_FILE = {
    "type": "file",
    "file": {"hash": "a1", "name": "note.pdf", "content": [{"type": "text", "text": "Dear Sir"}]},
}


@pytest.mark.parametrize("details", [[], [{"type": "reasoning.encrypted", "data": "x", "index": 0}]])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_openrouter_read_in_a_file_goes_back_on_the_next_turn(
    details: list[dict[str, Any]], streamed: bool
) -> None:
    notes: list[str] = []
    options: dict[str, Any] = {"keeps": "", "note": lambda _, why: notes.append(why)}
    message = {"content": "A letter.", "annotations": [READ_FILE], "reasoning_details": details}
    if streamed:
        made = response(wire.chunk(message) + wire.finish(), **options)
    else:
        made = answered(whole(message), **options)
    assert len(notes) == 1
    history = [
        {"role": "user", "content": "What is it?"},
        *plain(made)["output"],
        {"role": "user", "content": "Who?"},
    ]
    sent = body({"input": history}, PROFILES["openrouter"])
    [assistant] = [one for one in sent["messages"] if one["role"] == "assistant"]
    assert assistant["content"] == "A letter."
    assert assistant["annotations"] == [READ_FILE]
    assert assistant.get("reasoning_details", []) == details
    assert [item for item in made.output if isinstance(item, Reasoning)]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "x", "annotations": [READ_FILE]},
        {"content": "x", "annotations": [{"type": "new", "place": 1}]},
        {"content": [{"type": "text", "text": "x"}, {"type": "hologram", "data": "…"}]},
        {
            "content": "x",
            "images": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}],
        },
        {"content": "x", "audio": {"data": "AA==", "transcript": "x"}},
        {"content": "x", "executed_tools": [{"type": "search", "arguments": "{}"}]},
    ],
)
def test_what_cannot_be_told_leaves_a_note(message: dict[str, Any]) -> None:
    notes: list[tuple[str, str]] = []
    made = answered(whole(message), note=lambda param, why: notes.append((param, why)))
    assert told(made) == ["x"]
    assert [param for param, _ in notes] == ["output"]


# --- reasoning in a tool loop -----------------------------------------------------------------------------

CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def sent_back(message: dict[str, Any], profile: str) -> dict[str, Any]:
    """What of the reasoning of an answer with a call is sent back with the call's output."""
    chosen = PROFILES[profile]
    keeps = "" if chosen.details or chosen.reasoning_field else CONTENT
    made = answered(whole({"content": None, "tool_calls": [CALL], **message}), keeps=keeps)
    result = {"type": "function_call_output", "call_id": "a", "output": "x"}
    history = [{"role": "user", "content": "Look."}, *plain(made)["output"], result]
    [assistant] = [one for one in body({"input": history}, chosen)["messages"] if one["role"] == "assistant"]
    return {name: value for name, value in assistant.items() if "reasoning" in name}


@pytest.mark.parametrize("profile", ["generic", "llamacpp", "vllm", "lmstudio"])
def test_reasoning_goes_back_in_a_tool_loop_where_the_server_gave_it(profile: str) -> None:
    assert sent_back({"reasoning_content": "Hm."}, profile) == {"reasoning_content": "Hm."}
    assert sent_back({"reasoning": "Hm."}, profile) == {}


def test_the_reasoning_details_of_vercels_gateway_go_back_in_a_tool_loop() -> None:
    details = [
        {
            "type": "reasoning.text",
            "text": "Hm.",
            "signature": "s",
            "format": "anthropic-claude-v1",
            "index": 0,
        }
    ]
    message = {"reasoning": "Hm.", "reasoning_details": details}
    assert sent_back(message, "vercel") == {"reasoning_details": details}


# --- usage -------------------------------------------------------------------------------------------------


def usage_of(given: dict[str, Any]) -> tuple[int, int, int, int]:
    usage = answered(whole({"content": "x"}, usage=given)).usage
    assert usage is not None
    assert usage.adds_up()
    cached, thought = usage.input_tokens_details, usage.output_tokens_details
    return usage.input_tokens, cached.cached_tokens, usage.output_tokens, thought.reasoning_tokens


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        # xAI: the reasoning is not in the completion, but in the total.
        (
            {
                "prompt_tokens": 12,
                "completion_tokens": 2,
                "total_tokens": 354,
                "prompt_tokens_details": {"cached_tokens": 11},
                "completion_tokens_details": {"reasoning_tokens": 340},
            },
            (12, 11, 342, 340),
        ),
        # Google's compatible address names the reasoning nowhere.
        ({"prompt_tokens": 66, "completion_tokens": 6, "total_tokens": 100}, (66, 0, 34, 28)),
        # Grok on Azure: more is cached than was counted.
        (
            {
                "prompt_tokens": 7,
                "completion_tokens": 1,
                "total_tokens": 8,
                "prompt_tokens_details": {"cached_tokens": 163},
            },
            (7, 7, 1, 0),
        ),
        # Mistral: cached tokens under another name, audio beside the prompt.
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "num_cached_tokens": 8},
            (9, 8, 2, 0),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 201,
                "total_tokens": 585,
                "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 375},
            },
            (384, 0, 201, 0),
        ),
        # Moonshot and Together.
        ({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "cached_tokens": 5}, (9, 5, 2, 0)),
        # OpenRouter: one token more of reasoning than of everything.
        (
            {
                "prompt_tokens": 43,
                "completion_tokens": 10,
                "total_tokens": 53,
                "completion_tokens_details": {"reasoning_tokens": 11},
            },
            (43, 0, 10, 10),
        ),
    ],
)
def test_the_usage_of_vendors(given: dict[str, Any], counted: tuple[int, int, int, int]) -> None:
    assert usage_of(given) == counted


COUNTS = {
    "prompt_tokens": 20,
    "completion_tokens": 8,
    "total_tokens": 28,
    "completion_tokens_details": {"reasoning_tokens": 50},
}


@pytest.mark.parametrize("vendor", ["google", "vertex"])
@pytest.mark.parametrize(
    ("thoughts", "said", "counted"),
    [
        (50, 8, 58),
        (5, 8, 13),
        # A gateway that counts the thoughts as output already.
        (5, 3, 8),
    ],
)
def test_thoughts_that_vercels_gateway_leaves_out_of_the_output_are_counted(
    vendor: str, thoughts: int, said: int, counted: int
) -> None:
    """Google counts answer and thoughts apart, and the gateway repeats how."""
    google = {"promptTokenCount": 20, "candidatesTokenCount": said, "thoughtsTokenCount": thoughts}
    metadata = {"provider_metadata": {vendor: {"usageMetadata": google}, "gateway": {"cost": "0.1"}}}
    usage = COUNTS | {"completion_tokens_details": {"reasoning_tokens": thoughts}}
    streamed = wire.chunk({"content": "x"}) + wire.chunk(metadata, finish="stop", usage=usage)
    for made in (
        answered(whole({"content": "x", **metadata}, usage=usage)),
        response(streamed + b"data: [DONE]\n\n"),
    ):
        assert made.usage is not None
        assert made.usage.input_tokens == 20
        assert made.usage.output_tokens == counted
        assert made.usage.total_tokens == 20 + counted
        assert made.usage.output_tokens_details.reasoning_tokens == thoughts


numbers = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
detail = st.none() | st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("cached_tokens", "reasoning_tokens", "audio_tokens", "other"), numbers)
)
DETAILS = [name for name in ChatCounts.__struct_fields__ if "details" in name]
PLAIN = [name for name in ChatCounts.__struct_fields__ if "details" not in name]
vendor_usages = st.fixed_dictionaries(
    {}, optional=dict.fromkeys([*PLAIN, "cost"], numbers) | dict.fromkeys(DETAILS, detail)
)


class Judge:
    """Keeps what the rules of the Auditor object to."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def report(self, rule: str, message: str) -> None:
        self.found.append(f"{rule}: {message}")

    def quote(self, value: object) -> str:
        return str(value)

    def admits(self, type_name: str) -> bool:
        return False

    def admits_tools(self) -> bool:
        return False


def objections(usage: Usage) -> list[str]:
    judge = Judge()
    check_figures({"usage": msgspec.to_builtins(usage)}, judge)
    return judge.found


@given(vendor_usages)
def test_any_usage_of_a_vendor_adds_up(given_usage: dict[str, Any]) -> None:
    stream = wire.text("x") + wire.chunk({}, "stop", usage=given_usage) + wire.DONE
    for made in (answered(whole({"content": "x"}, usage=given_usage)), response(stream)):
        assert made.usage is None or objections(made.usage) == []


@given(*(st.integers(-(2**60), 2**60) for _ in range(5)))
def test_whatever_a_provider_counts_the_response_adds_up(
    given_tokens: int, said: int, total: int, cached: int, reasoning: int
) -> None:
    usage = Usage(
        input_tokens=given_tokens,
        output_tokens=said,
        total_tokens=total,
        input_tokens_details=InputTokensDetails(cached),
        output_tokens_details=OutputTokensDetails(reasoning),
    )
    made = compose([[UsageDelta(usage), Finish()]])
    assert made.usage is not None
    assert objections(made.usage) == []
    assert made.usage.adds_up()
    if usage.adds_up():
        assert made.usage is usage
