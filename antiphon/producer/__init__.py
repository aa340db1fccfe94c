"""For agents that want to speak Open Responses: a builder, a bridge from thread events, and an endpoint."""

from antiphon.producer.builder import Handle as Handle
from antiphon.producer.builder import ResponseBuilder as ResponseBuilder
from antiphon.producer.builder import StateError as StateError
from antiphon.producer.builder import is_estimated as is_estimated
from antiphon.producer.endpoint import ResponsesApp as ResponsesApp
from antiphon.producer.integration import DualEventEmitter as DualEventEmitter
from antiphon.producer.integration import FileExporter as FileExporter
from antiphon.producer.integration import OpenResponsesIntegration as OpenResponsesIntegration
from antiphon.producer.produce import response_of as response_of
from antiphon.producer.produce import stream_open_responses as stream_open_responses
from antiphon.producer.thread_bridge import BridgeOptions as BridgeOptions
from antiphon.producer.thread_bridge import ThreadEventBridge as ThreadEventBridge
from antiphon.producer.thread_deltas import ThreadDeltas as ThreadDeltas
