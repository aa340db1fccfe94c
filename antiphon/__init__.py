"""Antiphon: one program that speaks Open Responses on one side and every model on the other.

Names are loaded when they are first used, so that importing the package costs nothing. `docs/reference.md`
describes each. Type checkers read `__init__.pyi`, which `python -m scripts.reference` writes from the names.
"""

from importlib import import_module

__version__ = "0.1.0"

# Every public name, by the module that has it.
_NAMES = {
    "antiphon.client": (
        "Agent AgentResult AntiphonError AsyncClient AsyncEventStream AsyncSession CapabilityViolation "
        "Chat ChatResponse Client ConnectionFailed Conversation Deleted EventStream Hooks Incomplete Input "
        "InputItem InputTokens InputTool Limits MCPServer Mismatch Model NoAnswer Parameters ParseFailed "
        "Parsed Refused ResponseFailed Retries Session StatusError StreamBroken TaskWorker TimedOut Timeouts "
        "Tool ToolCall ToolError ToolOutcome UnexpectedAnswer UsageError Watch tool via"
    ),
    "antiphon.client.agent.events": "AgentEvent RunEnded Step StepEnded StepStarted ToolEnded ToolStarted",
    "antiphon.client.agent.run": "AgentModel AgentRun",
    "antiphon.client.agent.sync_run": "SyncAgentRun",
    "antiphon.client.agent.tasks": (
        "AgentProtocol LLMClientProtocol LLMClientWithOpenResponsesProtocol OpenResponsesAgentProtocol "
        "TaskFailed"
    ),
    "antiphon.client.hashbrown": "hashbrown_frames",
    "antiphon.client.router": "ProviderStatus Router",
    "antiphon.client.tools": "BadArguments PythonTool",
    "antiphon.client.tools.parameter_schema": "SchemaError",
    "antiphon.producer": (
        "BridgeOptions DualEventEmitter FileExporter Handle OpenResponsesIntegration ResponseBuilder "
        "ResponsesApp StateError ThreadDeltas ThreadEventBridge is_estimated response_of "
        "stream_open_responses"
    ),
    "antiphon.providers.base": (
        "Capabilities Environment Provider Sink Turn UpstreamError WrappingSink answer_from"
    ),
    "antiphon.spec": (
        "CompactRequest CompactResource ErrorPayload Item Opaque Request Response SpecError Usage "
        "decode_event decode_item decode_request decode_response encode extras"
    ),
    "antiphon.spec.content": (
        "ContentPart InputFile InputImage InputText InputVideo LogProb OutputText ReasoningText Refusal "
        "SummaryText TopLogProb UrlCitation"
    ),
    "antiphon.spec.errors": "ResponseError",
    "antiphon.spec.events": (
        "AnyEvent ContentPartAddedEvent ContentPartDoneEvent CustomToolCallInputDeltaEvent "
        "CustomToolCallInputDoneEvent ErrorEvent Event FunctionCallArgumentsDeltaEvent "
        "FunctionCallArgumentsDoneEvent OtherEvent OutputItemAddedEvent OutputItemDoneEvent "
        "OutputTextAnnotationAddedEvent OutputTextDeltaEvent OutputTextDoneEvent ReasoningDeltaEvent "
        "ReasoningDoneEvent ReasoningSummaryPartAddedEvent ReasoningSummaryPartDoneEvent "
        "ReasoningSummaryTextDeltaEvent ReasoningSummaryTextDoneEvent RefusalDeltaEvent RefusalDoneEvent "
        "ResponseCompletedEvent ResponseCreatedEvent ResponseFailedEvent ResponseIncompleteEvent "
        "ResponseInProgressEvent ResponseQueuedEvent"
    ),
    "antiphon.spec.items": (
        "Compaction CustomToolCall CustomToolCallOutput FunctionCall FunctionCallOutput ItemReference "
        "Message Reasoning"
    ),
    "antiphon.spec.request": "ReasoningParam StreamOptions TextParam",
    "antiphon.spec.response": (
        "IncompleteDetails InputTokensDetails OutputTokensDetails ReasoningOptions Receipt"
    ),
    "antiphon.spec.routing": "RoutingDecision SpeedRequirement TaskComplexity",
    "antiphon.spec.tools": (
        "AllowedTools CustomTool FunctionTool FunctionToolChoice JsonObjectFormat JsonSchemaFormat "
        "TextFormat TextOptions ToolChoice"
    ),
    "antiphon.stream.deltas": (
        "AnnotationDelta AnyDelta CallDelta Delta Failure Finish ItemDelta ItemEnd MessageStart PartEnd "
        "ReasoningDelta RefusalDelta SignatureDelta SummaryDelta TextDelta UsageDelta VendorDelta"
    ),
    "antiphon.wires.hashbrown.frame_reader": "BrokenFrames HashbrownReader HashbrownState HashbrownThread",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
