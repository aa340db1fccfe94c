"""The door of the Messages API."""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from antiphon.bridges.door import Ending, ErrorAnswer, ResponseDoor
from antiphon.bridges.encoder import Headers
from antiphon.bridges.finish_reasons import is_cancelled
from antiphon.bridges.messages.errors import MessagesErrorBody, encode_error, request_id_header
from antiphon.bridges.messages.message import encode_message, list_unrepresented
from antiphon.bridges.messages.request import ReadMessages, read_counted, read_messages
from antiphon.bridges.messages.searches import SEARCH
from antiphon.bridges.messages.stream import MessageStream
from antiphon.bridges.messages.threads import thread_not_found
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.spec.decode import decode_response
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.limits import LARGE
from antiphon.spec.response import Receipt, Response
from antiphon.store import RUNNING
from antiphon.stream.dialects import Dialect
from antiphon.wires.messages.vendor import VENDOR
from antiphon.wires.worker_thread import in_worker_thread

# What a message can hold beside the core of the specification; the rest leaves a receipt.
_DIALECT = Dialect("messages", vocabulary=frozenset({VENDOR, "custom_tool_call", SEARCH}))
# The codes of a response that a request cannot follow; clients of this API know threads, and no responses.
_LOST_THREAD = frozenset({"previous_response_not_found", "previous_response_not_finished"})
_NEVER_ENDED = RUNNING | {"failed", "cancelled"}
_SHARED_PATHS = ("/v1/models", "/v1/files")
_VERSION = b"anthropic-version"
"""The header that tells clients of this API from others, where both use the same path."""


class MessagesDoor(ResponseDoor[ReadMessages]):
    error_body = MessagesErrorBody
    is_idempotent = True

    def serves(self, path: str, headers: Mapping[bytes, bytes]) -> bool:
        return path.startswith(self.path) or (path.startswith(_SHARED_PATHS) and _VERSION in headers)

    def error(self, error: ErrorPayload, status: int, context: RequestContext) -> ErrorAnswer:
        if error.code in _LOST_THREAD:
            lost = thread_not_found()
            error, status = lost.payload, lost.status
        body, status = encode_error(error, status, context.request_id)
        return ErrorAnswer(body, status, self.headers(context.request_id))

    def headers(self, request_id: str) -> Headers:
        return (request_id_header(request_id),)

    def reader(self, engine: Engine, headers: Mapping[bytes, bytes]) -> Callable[..., ReadMessages]:
        return partial(read_messages, betas=_betas(headers))

    def reader_to_count(self, headers: Mapping[bytes, bytes]) -> Callable[..., ReadMessages]:
        """A function that reads the body of a request whose tokens are to be counted."""
        return partial(read_counted, betas=_betas(headers))

    async def prepare(self, asked: ReadMessages, engine: Engine, tenant: str) -> ReadMessages:
        """Add the tools of the thread that the request continues; refuse it if that cannot be continued."""
        if (id := asked.request.previous_response_id) is None:
            return asked
        found = await engine.store.get(tenant, id)
        if found is None or found.status in _NEVER_ENDED:
            raise thread_not_found()
        is_large = len(found.body) > LARGE
        last = (
            await in_worker_thread(decode_response, found.body) if is_large else decode_response(found.body)
        )
        if is_cancelled(last):
            raise thread_not_found()
        return asked.following(last.tools)

    def context(self, asked: ReadMessages, context: RequestContext) -> RequestContext:
        return replace(context, dialect=_DIALECT)

    def encoder(self, asked: ReadMessages, ending: Ending, request_id: str) -> MessageStream:
        return MessageStream(
            ending, omits_thinking=asked.omits_thinking, request_id=request_id, named=asked.param
        )

    def encode(self, response: Response, asked: ReadMessages, ending: Ending) -> bytes:
        return encode_message(response, ending(), omits_thinking=asked.omits_thinking, named=asked.param)

    def list_unrepresented(self, response: Response) -> list[Receipt]:
        return list_unrepresented(response)


MESSAGES = MessagesDoor("/v1/messages")


def _betas(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"anthropic-beta", b"").decode("latin-1")
