"""The wire of Open Responses 2026-04-24 as typed data, without I/O."""

from antiphon.spec.codec import Opaque as Opaque
from antiphon.spec.codec import encode as encode
from antiphon.spec.codec import extras as extras
from antiphon.spec.decode import decode_compact_request as decode_compact_request
from antiphon.spec.decode import decode_compact_resource as decode_compact_resource
from antiphon.spec.decode import decode_event as decode_event
from antiphon.spec.decode import decode_item as decode_item
from antiphon.spec.decode import decode_items as decode_items
from antiphon.spec.decode import decode_output_item as decode_output_item
from antiphon.spec.decode import decode_request as decode_request
from antiphon.spec.decode import decode_response as decode_response
from antiphon.spec.decode import decode_stored_items as decode_stored_items
from antiphon.spec.decode import decode_websocket_create as decode_websocket_create
from antiphon.spec.errors import ErrorPayload as ErrorPayload
from antiphon.spec.errors import SpecError as SpecError
from antiphon.spec.items import Item as Item
from antiphon.spec.request import CompactRequest as CompactRequest
from antiphon.spec.request import Request as Request
from antiphon.spec.request import encode_request as encode_request
from antiphon.spec.response import CompactResource as CompactResource
from antiphon.spec.response import Response as Response
from antiphon.spec.response import Usage as Usage
