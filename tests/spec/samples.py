"""One of everything that this package can put on the wire."""

from antiphon.spec import events as ev
from antiphon.spec.content import (
    InputFile,
    InputImage,
    InputText,
    LogProb,
    OutputText,
    ReasoningText,
    Refusal,
    SummaryText,
    TopLogProb,
    UrlCitation,
)
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import (
    Compaction,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
)
from antiphon.spec.response import IncompleteDetails, ReasoningOptions, Response, Usage
from antiphon.spec.tools import (
    AllowedTools,
    FunctionTool,
    FunctionToolChoice,
    JsonObjectFormat,
    JsonSchemaFormat,
    TextOptions,
)

CITATION = UrlCitation("https://example.org", "Example", 0, 4)
LOGPROB = LogProb("Hi", -0.5, [72, 105], [TopLogProb("Hi", -0.5, [72, 105])])


def output_items() -> list[Item]:
    """Every kind of the closed union, with every part that its schema allows."""
    return [
        Message(
            id="msg_1",
            role="assistant",
            status="completed",
            phase="final_answer",
            content=[OutputText("Hi", [CITATION], [LOGPROB]), Refusal("no")],
        ),
        Message(
            id="msg_2",
            role="user",
            status="incomplete",
            content=[InputText("Hi"), InputImage("https://example.org/a.png"), InputFile(filename="a.txt")],
        ),
        FunctionCall(id="fc_1", call_id="call_1", name="f", arguments="{}", status="in_progress"),
        FunctionCallOutput(id="fco_1", call_id="call_1", output="ok", status="completed"),
        FunctionCallOutput(id="fco_2", call_id="call_1", output=[InputText("ok")], status="completed"),
        Reasoning(id="rs_1", summary=[SummaryText("why")], content=[ReasoningText("because")]),
        Reasoning(id="rs_2", summary=[], encrypted_content="sealed", status="completed"),
        Compaction(id="cmp_1", encrypted_content="sealed", created_by="system"),
    ]


def responses() -> list[Response]:
    fresh = Response.new("resp_1", "some-model", now=1_700_000_000)
    full = Response(
        id="resp_2",
        created_at=1_700_000_000,
        model="some-model",
        output=output_items(),
        previous_response_id="resp_1",
        instructions="Be brief.",
        tools=[FunctionTool("f", "does it", {"type": "object"}, True), FunctionTool("g")],
        tool_choice=AllowedTools([FunctionToolChoice("f")], "required"),
        truncation="auto",
        text=TextOptions(JsonObjectFormat(), "low"),
        reasoning=ReasoningOptions("xhigh", "concise"),
        max_output_tokens=16,
        max_tool_calls=1,
        metadata={"a": "b"},
        safety_identifier="s",
        prompt_cache_key="p",
    )
    full.complete(Usage.of(10, 5, cached=3, reasoning=2), now=1_700_000_001)
    failed = Response.new("resp_3", "some-model", now=1_700_000_000)
    failed.fail(ErrorPayload("server_error", "it broke"), now=1_700_000_001)
    cut = Response(
        id="resp_4",
        created_at=1,
        model="m",
        status="incomplete",
        incomplete_details=IncompleteDetails("max_output_tokens"),
        tool_choice=FunctionToolChoice("f"),
        # The schema allows only null as the echoed schema of a format.
        text=TextOptions(JsonSchemaFormat("answer", "an answer", None, True)),
    )
    return [fresh, full, failed, cut]


def standard_events() -> list[ev.Event]:
    """Each of the 24 events, and the variants of those with optional fields."""
    fresh, full, failed, cut = responses()
    where = ("msg_1", 0, 0)
    text, summary = OutputText(""), SummaryText("")
    return [
        ev.ResponseCreatedEvent(0, fresh),
        ev.ResponseQueuedEvent(1, fresh),
        ev.ResponseInProgressEvent(2, fresh),
        ev.ResponseCompletedEvent(3, full),
        ev.ResponseFailedEvent(4, failed),
        ev.ResponseIncompleteEvent(5, cut),
        *(ev.OutputItemAddedEvent(6, n, item) for n, item in enumerate(output_items())),
        ev.OutputItemAddedEvent(7, 0, None),
        *(ev.OutputItemDoneEvent(8, n, item) for n, item in enumerate(output_items())),
        ev.ContentPartAddedEvent(9, *where, text),
        ev.ContentPartDoneEvent(10, *where, Refusal("no")),
        ev.OutputTextDeltaEvent(11, *where, "Hi"),
        ev.OutputTextDeltaEvent(12, *where, "Hi", [LOGPROB], "xxxx"),
        ev.OutputTextDoneEvent(13, *where, "Hi"),
        ev.OutputTextDoneEvent(14, *where, "Hi", [LOGPROB]),
        ev.OutputTextAnnotationAddedEvent(15, *where, 0, CITATION),
        ev.OutputTextAnnotationAddedEvent(16, *where, 0, None),
        ev.RefusalDeltaEvent(17, *where, "n"),
        ev.RefusalDoneEvent(18, *where, "no"),
        ev.ReasoningDeltaEvent(19, *where, "b", "xx"),
        ev.ReasoningDoneEvent(20, *where, "because"),
        ev.ReasoningSummaryPartAddedEvent(21, "rs_1", 0, 0, summary),
        ev.ReasoningSummaryPartDoneEvent(22, "rs_1", 0, 0, SummaryText("why")),
        ev.ReasoningSummaryTextDeltaEvent(23, "rs_1", 0, 0, "wh"),
        ev.ReasoningSummaryTextDoneEvent(24, "rs_1", 0, 0, "why"),
        ev.FunctionCallArgumentsDeltaEvent(25, "fc_1", 0, "{"),
        ev.FunctionCallArgumentsDoneEvent(26, "fc_1", 0, "{}"),
        ev.ErrorEvent(27, ErrorPayload("server_error", "it broke")),
        ev.ErrorEvent(28, ErrorPayload("model_error", "m", "timeout", "p", {"retry-after": "1"})),
    ]


def extended_events() -> list[ev.Event]:
    return [
        ev.CustomToolCallInputDeltaEvent(0, "ctc_1", 0, "*** "),
        ev.CustomToolCallInputDoneEvent(1, "ctc_1", 0, "*** End"),
    ]
