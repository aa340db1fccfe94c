"""The wire of Open Responses 2026-04-24 as typed data, without I/O."""

from antiphon.spec.codec import Opaque, encode, extras
from antiphon.spec.decode import (
    decode_compact_request,
    decode_compact_resource,
    decode_event,
    decode_item,
    decode_items,
    decode_output_item,
    decode_request,
    decode_response,
    decode_stored_items,
    decode_websocket_create,
)
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import Item, is_valid_extension_type
from antiphon.spec.request import CompactRequest, Request, WebSocketCreate, encode_request
from antiphon.spec.response import CompactResource, Response, Usage

__all__ = [
    "CompactRequest",
    "CompactResource",
    "ErrorPayload",
    "Item",
    "Opaque",
    "Request",
    "Response",
    "SpecError",
    "Usage",
    "WebSocketCreate",
    "decode_compact_request",
    "decode_compact_resource",
    "decode_event",
    "decode_item",
    "decode_items",
    "decode_output_item",
    "decode_request",
    "decode_response",
    "decode_stored_items",
    "decode_websocket_create",
    "encode",
    "encode_request",
    "extras",
    "is_valid_extension_type",
]
