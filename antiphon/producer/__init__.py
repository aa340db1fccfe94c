"""For agents that want to speak Open Responses: a builder, a bridge from thread events, and an endpoint."""

from antiphon.producer.builder import Handle, ResponseBuilder, StateError, is_estimated
from antiphon.producer.endpoint import ResponsesApp
from antiphon.producer.integration import DualEventEmitter, FileExporter, OpenResponsesIntegration
from antiphon.producer.produce import response_of, stream_open_responses
from antiphon.producer.thread_bridge import BridgeOptions, ThreadEventBridge
from antiphon.producer.thread_deltas import ThreadDeltas

__all__ = [
    "BridgeOptions",
    "DualEventEmitter",
    "FileExporter",
    "Handle",
    "OpenResponsesIntegration",
    "ResponseBuilder",
    "ResponsesApp",
    "StateError",
    "ThreadDeltas",
    "ThreadEventBridge",
    "is_estimated",
    "response_of",
    "stream_open_responses",
]
