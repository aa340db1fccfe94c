"""Antiphon: one program that speaks Open Responses on one side and every model on the other.

Names are loaded when they are first used, so that importing the package costs nothing. `docs/reference.md`
describes each.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon.client import Agent as Agent
    from antiphon.client import AgentResult as AgentResult
    from antiphon.client import AntiphonError as AntiphonError
    from antiphon.client import AsyncClient as AsyncClient
    from antiphon.client import AsyncEventStream as AsyncEventStream
    from antiphon.client import AsyncSession as AsyncSession
    from antiphon.client import CapabilityViolation as CapabilityViolation
    from antiphon.client import Chat as Chat
    from antiphon.client import ChatResponse as ChatResponse
    from antiphon.client import Client as Client
    from antiphon.client import ConnectionFailed as ConnectionFailed
    from antiphon.client import Conversation as Conversation
    from antiphon.client import Deleted as Deleted
    from antiphon.client import EventStream as EventStream
    from antiphon.client import Hooks as Hooks
    from antiphon.client import Incomplete as Incomplete
    from antiphon.client import Input as Input
    from antiphon.client import InputItem as InputItem
    from antiphon.client import InputTokens as InputTokens
    from antiphon.client import InputTool as InputTool
    from antiphon.client import Limits as Limits
    from antiphon.client import MCPServer as MCPServer
    from antiphon.client import Mismatch as Mismatch
    from antiphon.client import Model as Model
    from antiphon.client import NoAnswer as NoAnswer
    from antiphon.client import Parameters as Parameters
    from antiphon.client import Parsed as Parsed
    from antiphon.client import ParseFailed as ParseFailed
    from antiphon.client import Refused as Refused
    from antiphon.client import ResponseFailed as ResponseFailed
    from antiphon.client import Retries as Retries
    from antiphon.client import Session as Session
    from antiphon.client import StatusError as StatusError
    from antiphon.client import StreamBroken as StreamBroken
    from antiphon.client import TaskWorker as TaskWorker
    from antiphon.client import TimedOut as TimedOut
    from antiphon.client import Timeouts as Timeouts
    from antiphon.client import Tool as Tool
    from antiphon.client import ToolCall as ToolCall
    from antiphon.client import ToolError as ToolError
    from antiphon.client import ToolOutcome as ToolOutcome
    from antiphon.client import UnexpectedAnswer as UnexpectedAnswer
    from antiphon.client import UsageError as UsageError
    from antiphon.client import Watch as Watch
    from antiphon.client import tool as tool
    from antiphon.client import via as via
    from antiphon.client.agent.events import AgentEvent as AgentEvent
    from antiphon.client.agent.events import RunEnded as RunEnded
    from antiphon.client.agent.events import Step as Step
    from antiphon.client.agent.events import StepEnded as StepEnded
    from antiphon.client.agent.events import StepStarted as StepStarted
    from antiphon.client.agent.events import ToolEnded as ToolEnded
    from antiphon.client.agent.events import ToolStarted as ToolStarted
    from antiphon.client.agent.run import AgentModel as AgentModel
    from antiphon.client.agent.run import AgentRun as AgentRun
    from antiphon.client.agent.sync_run import SyncAgentRun as SyncAgentRun
    from antiphon.client.agent.tasks import AgentProtocol as AgentProtocol
    from antiphon.client.agent.tasks import LLMClientProtocol as LLMClientProtocol
    from antiphon.client.agent.tasks import (
        LLMClientWithOpenResponsesProtocol as LLMClientWithOpenResponsesProtocol,
    )
    from antiphon.client.agent.tasks import OpenResponsesAgentProtocol as OpenResponsesAgentProtocol
    from antiphon.client.agent.tasks import TaskFailed as TaskFailed
    from antiphon.client.hashbrown import hashbrown_frames as hashbrown_frames
    from antiphon.client.router import ProviderStatus as ProviderStatus
    from antiphon.client.router import Router as Router
    from antiphon.client.tools import BadArguments as BadArguments
    from antiphon.client.tools import PythonTool as PythonTool
    from antiphon.client.tools.parameter_schema import SchemaError as SchemaError
    from antiphon.producer import BridgeOptions as BridgeOptions
    from antiphon.producer import DualEventEmitter as DualEventEmitter
    from antiphon.producer import FileExporter as FileExporter
    from antiphon.producer import Handle as Handle
    from antiphon.producer import OpenResponsesIntegration as OpenResponsesIntegration
    from antiphon.producer import ResponseBuilder as ResponseBuilder
    from antiphon.producer import ResponsesApp as ResponsesApp
    from antiphon.producer import StateError as StateError
    from antiphon.producer import ThreadDeltas as ThreadDeltas
    from antiphon.producer import ThreadEventBridge as ThreadEventBridge
    from antiphon.producer import is_estimated as is_estimated
    from antiphon.producer import response_of as response_of
    from antiphon.producer import stream_open_responses as stream_open_responses
    from antiphon.providers.base import Capabilities as Capabilities
    from antiphon.providers.base import Environment as Environment
    from antiphon.providers.base import Provider as Provider
    from antiphon.providers.base import Sink as Sink
    from antiphon.providers.base import Turn as Turn
    from antiphon.providers.base import UpstreamError as UpstreamError
    from antiphon.providers.base import WrappingSink as WrappingSink
    from antiphon.providers.base import answer_from as answer_from
    from antiphon.spec import CompactRequest as CompactRequest
    from antiphon.spec import CompactResource as CompactResource
    from antiphon.spec import ErrorPayload as ErrorPayload
    from antiphon.spec import Item as Item
    from antiphon.spec import Opaque as Opaque
    from antiphon.spec import Request as Request
    from antiphon.spec import Response as Response
    from antiphon.spec import SpecError as SpecError
    from antiphon.spec import Usage as Usage
    from antiphon.spec import decode_event as decode_event
    from antiphon.spec import decode_item as decode_item
    from antiphon.spec import decode_request as decode_request
    from antiphon.spec import decode_response as decode_response
    from antiphon.spec import encode as encode
    from antiphon.spec import extras as extras
    from antiphon.spec.content import ContentPart as ContentPart
    from antiphon.spec.content import InputFile as InputFile
    from antiphon.spec.content import InputImage as InputImage
    from antiphon.spec.content import InputText as InputText
    from antiphon.spec.content import InputVideo as InputVideo
    from antiphon.spec.content import LogProb as LogProb
    from antiphon.spec.content import OutputText as OutputText
    from antiphon.spec.content import ReasoningText as ReasoningText
    from antiphon.spec.content import Refusal as Refusal
    from antiphon.spec.content import SummaryText as SummaryText
    from antiphon.spec.content import TopLogProb as TopLogProb
    from antiphon.spec.content import UrlCitation as UrlCitation
    from antiphon.spec.errors import ResponseError as ResponseError
    from antiphon.spec.events import AnyEvent as AnyEvent
    from antiphon.spec.events import ContentPartAddedEvent as ContentPartAddedEvent
    from antiphon.spec.events import ContentPartDoneEvent as ContentPartDoneEvent
    from antiphon.spec.events import CustomToolCallInputDeltaEvent as CustomToolCallInputDeltaEvent
    from antiphon.spec.events import CustomToolCallInputDoneEvent as CustomToolCallInputDoneEvent
    from antiphon.spec.events import ErrorEvent as ErrorEvent
    from antiphon.spec.events import Event as Event
    from antiphon.spec.events import FunctionCallArgumentsDeltaEvent as FunctionCallArgumentsDeltaEvent
    from antiphon.spec.events import FunctionCallArgumentsDoneEvent as FunctionCallArgumentsDoneEvent
    from antiphon.spec.events import OtherEvent as OtherEvent
    from antiphon.spec.events import OutputItemAddedEvent as OutputItemAddedEvent
    from antiphon.spec.events import OutputItemDoneEvent as OutputItemDoneEvent
    from antiphon.spec.events import OutputTextAnnotationAddedEvent as OutputTextAnnotationAddedEvent
    from antiphon.spec.events import OutputTextDeltaEvent as OutputTextDeltaEvent
    from antiphon.spec.events import OutputTextDoneEvent as OutputTextDoneEvent
    from antiphon.spec.events import ReasoningDeltaEvent as ReasoningDeltaEvent
    from antiphon.spec.events import ReasoningDoneEvent as ReasoningDoneEvent
    from antiphon.spec.events import ReasoningSummaryPartAddedEvent as ReasoningSummaryPartAddedEvent
    from antiphon.spec.events import ReasoningSummaryPartDoneEvent as ReasoningSummaryPartDoneEvent
    from antiphon.spec.events import ReasoningSummaryTextDeltaEvent as ReasoningSummaryTextDeltaEvent
    from antiphon.spec.events import ReasoningSummaryTextDoneEvent as ReasoningSummaryTextDoneEvent
    from antiphon.spec.events import RefusalDeltaEvent as RefusalDeltaEvent
    from antiphon.spec.events import RefusalDoneEvent as RefusalDoneEvent
    from antiphon.spec.events import ResponseCompletedEvent as ResponseCompletedEvent
    from antiphon.spec.events import ResponseCreatedEvent as ResponseCreatedEvent
    from antiphon.spec.events import ResponseFailedEvent as ResponseFailedEvent
    from antiphon.spec.events import ResponseIncompleteEvent as ResponseIncompleteEvent
    from antiphon.spec.events import ResponseInProgressEvent as ResponseInProgressEvent
    from antiphon.spec.events import ResponseQueuedEvent as ResponseQueuedEvent
    from antiphon.spec.items import Compaction as Compaction
    from antiphon.spec.items import CustomToolCall as CustomToolCall
    from antiphon.spec.items import CustomToolCallOutput as CustomToolCallOutput
    from antiphon.spec.items import FunctionCall as FunctionCall
    from antiphon.spec.items import FunctionCallOutput as FunctionCallOutput
    from antiphon.spec.items import ItemReference as ItemReference
    from antiphon.spec.items import Message as Message
    from antiphon.spec.items import Reasoning as Reasoning
    from antiphon.spec.request import ReasoningParam as ReasoningParam
    from antiphon.spec.request import StreamOptions as StreamOptions
    from antiphon.spec.request import TextParam as TextParam
    from antiphon.spec.response import IncompleteDetails as IncompleteDetails
    from antiphon.spec.response import InputTokensDetails as InputTokensDetails
    from antiphon.spec.response import OutputTokensDetails as OutputTokensDetails
    from antiphon.spec.response import ReasoningOptions as ReasoningOptions
    from antiphon.spec.response import Receipt as Receipt
    from antiphon.spec.routing import RoutingDecision as RoutingDecision
    from antiphon.spec.routing import SpeedRequirement as SpeedRequirement
    from antiphon.spec.routing import TaskComplexity as TaskComplexity
    from antiphon.spec.tools import AllowedTools as AllowedTools
    from antiphon.spec.tools import CustomTool as CustomTool
    from antiphon.spec.tools import FunctionTool as FunctionTool
    from antiphon.spec.tools import FunctionToolChoice as FunctionToolChoice
    from antiphon.spec.tools import JsonObjectFormat as JsonObjectFormat
    from antiphon.spec.tools import JsonSchemaFormat as JsonSchemaFormat
    from antiphon.spec.tools import TextFormat as TextFormat
    from antiphon.spec.tools import TextOptions as TextOptions
    from antiphon.spec.tools import ToolChoice as ToolChoice
    from antiphon.stream.deltas import AnnotationDelta as AnnotationDelta
    from antiphon.stream.deltas import AnyDelta as AnyDelta
    from antiphon.stream.deltas import CallDelta as CallDelta
    from antiphon.stream.deltas import Delta as Delta
    from antiphon.stream.deltas import Failure as Failure
    from antiphon.stream.deltas import Finish as Finish
    from antiphon.stream.deltas import ItemDelta as ItemDelta
    from antiphon.stream.deltas import ItemEnd as ItemEnd
    from antiphon.stream.deltas import MessageStart as MessageStart
    from antiphon.stream.deltas import PartEnd as PartEnd
    from antiphon.stream.deltas import ReasoningDelta as ReasoningDelta
    from antiphon.stream.deltas import RefusalDelta as RefusalDelta
    from antiphon.stream.deltas import SignatureDelta as SignatureDelta
    from antiphon.stream.deltas import SummaryDelta as SummaryDelta
    from antiphon.stream.deltas import TextDelta as TextDelta
    from antiphon.stream.deltas import UsageDelta as UsageDelta
    from antiphon.stream.deltas import VendorDelta as VendorDelta
    from antiphon.wires.hashbrown.frame_reader import BrokenFrames as BrokenFrames
    from antiphon.wires.hashbrown.frame_reader import HashbrownReader as HashbrownReader
    from antiphon.wires.hashbrown.frame_reader import HashbrownState as HashbrownState
    from antiphon.wires.hashbrown.frame_reader import HashbrownThread as HashbrownThread

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
