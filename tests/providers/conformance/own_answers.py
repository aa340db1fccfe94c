"""What a wire can say beyond the common scenarios, in its own bytes, so that each of its events comes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.providers.anthropic import wire as anthropic
from tests.providers.azure import fake as azure
from tests.providers.bedrock import fake as bedrock
from tests.providers.chat import wire as chat
from tests.providers.conformance.said import Script, Text, Thought
from tests.providers.fake_server import Wire
from tests.providers.gemini import fake as gemini
from tests.providers.responses import wire as responses

PAGE = {"url": "https://a.example/", "title": "A"}


@dataclass(frozen=True)
class Own:
    """One answer, and the model that gives it where its name matters."""

    answer: Wire | Script | list[dict[str, Any]]
    model: str = "m"


def _chat(delta: dict[str, Any]) -> Own:
    return Own(Wire([chat.chunk({"role": "assistant", **delta}), chat.finish()]))


def _numbered(*events: dict[str, Any]) -> list[dict[str, Any]]:
    numbers = count()
    begun = {"type": "response.created", "response": responses.response({}, "in_progress")}
    ended = {"type": "response.completed", "response": responses.response({}, "completed")}
    return [{**event, "sequence_number": next(numbers)} for event in (begun, *events, ended)]


_CITED = Own(
    Wire(
        [
            anthropic.start(),
            anthropic.begin(0, {"type": "text", "text": "So.", "citations": []}),
            anthropic.delta(0, "citations_delta", citation={"type": "web_search_result_location", **PAGE}),
            anthropic.end(0),
            anthropic.finish(),
        ]
    )
)
_EXPLAINED = {"type": "refusal", "explanation": "I cannot help with that."}
_SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
_MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}
_NOTE = {"type": "url_citation", "start_index": 0, "end_index": 3, **PAGE}
_HERE = {"item_id": "msg_1", "output_index": 1, "content_index": 0}

_SEARCHED = Own(
    _numbered(
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": _SEARCH | {"status": "in_progress"},
        },
        *(
            {"type": f"response.web_search_call.{step}", "item_id": "ws_1", "output_index": 0}
            for step in ("in_progress", "searching", "completed")
        ),
        {"type": "response.output_item.done", "output_index": 0, "item": _SEARCH},
        {"type": "response.output_item.added", "output_index": 1, "item": _MESSAGE},
        {"type": "response.output_text.delta", **_HERE, "delta": "So."},
        {
            "type": "response.output_text.annotation.added",
            **_HERE,
            "annotation_index": 0,
            "annotation": _NOTE,
        },
        {"type": "response.output_item.done", "output_index": 1, "item": _MESSAGE},
    )
)
_THOUGHT = Script((Thought("Let me think.", "c2lnbmF0dXJl"), Text("Done.")))
_ANNOTATED = _chat(
    {"content": "So.", "annotations": [{"type": "url_citation", "url_citation": {**PAGE, "start_index": 0}}]}
)
_GROUNDED = {"groundingMetadata": {"groundingChunks": [{"web": {"uri": PAGE["url"], "title": "A"}}]}}
_GOOGLED = Own(Wire([gemini.sse({"text": "So."}, finish="STOP", candidate=_GROUNDED)]))

OWN: Mapping[str, Sequence[Own]] = {
    "anthropic": (
        _CITED,
        Own(_THOUGHT, "claude-opus-5-5"),
        Own(Wire([anthropic.start(), anthropic.finish("refusal", stop_details=_EXPLAINED)])),
    ),
    "azure": (
        _ANNOTATED,
        Own(Wire([azure.prompt_chunk(azure.VIOLENT), chat.text("So."), chat.finish()])),
    ),
    "bedrock": (
        Own(
            bedrock.stream(
                bedrock.BEGIN,
                bedrock.delta(0, text="So."),
                bedrock.delta(0, citation={"title": "A", "location": {"web": {"url": PAGE["url"]}}}),
                bedrock.stop(0),
                *bedrock.ends(),
            )
        ),
        Own(_THOUGHT, "openai.gpt-oss-120b-1:0"),
    ),
    "chat": (_ANNOTATED,),
    "chat openrouter": (
        _chat({"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm.", "index": 0}]}),
    ),
    "gemini": (_GOOGLED,),
    "responses": (Own(_THOUGHT), _SEARCHED),
    "vertex": (_GOOGLED,),
}
