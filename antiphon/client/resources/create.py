"""Creates responses with `/responses`, or with `/chat/completions` where a server has only that."""

from dataclasses import replace

from antiphon.client.chat_fallback import ChatSource, chat_body, read_request, says_no_endpoint, whole_answer
from antiphon.client.errors import StatusError, UsageError
from antiphon.client.resources.parameters import Parameters
from antiphon.client.streams import EventSource
from antiphon.client.transport.event_source import HttpSource
from antiphon.client.transport.http import Http, HttpCall
from antiphon.client.transport.response_decoding import response_of
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response

PATH = "/responses"
_CHAT_PATH = "/chat/completions"
_NO_CHAT = frozenset({404, 405})


class Creator:
    """Creates responses; once a server has shown that it has only chat, it gets no more `/responses`."""

    def __init__(self, http: Http) -> None:
        self.http = http
        self._only_chat = False

    async def whole(self, body: bytes, options: Parameters) -> Response:
        refusal: StatusError | None = None
        if not self._only_chat:
            try:
                answer = await self.http.answer(self._call(PATH, options, body))
                return response_of(answer.body, answer.content_type)
            except StatusError as error:
                refusal = _without_endpoint(error)
        request = read_request(body)
        call = self._call(_CHAT_PATH, options, chat_body(request))
        try:
            answer = await self.http.answer(call)
        except StatusError as error:
            raise _choose_error(refusal, error) from None
        self._only_chat = True
        return whole_answer(request, answer.body)

    async def open(self, body: bytes, options: Parameters) -> EventSource:
        """Opens a stream of events."""
        refusal: StatusError | None = None
        if not self._only_chat:
            source = HttpSource(self.http, self._call(PATH, options, body))
            try:
                await source.open()
                return source
            except StatusError as error:
                refusal = _without_endpoint(error)
        request = read_request(body)
        call = self._call(_CHAT_PATH, options, chat_body(request))
        chat = ChatSource(self.http, call, request)
        try:
            await chat.open()
        except StatusError as error:
            raise _choose_error(refusal, error) from None
        self._only_chat = True
        return chat

    def _call(self, path: str, options: Parameters, body: bytes) -> HttpCall:
        """With a key, also a call that may have begun can be made again."""
        key = options.get("idempotency_key")
        call = self.http.call("POST", path, options, body=body, repeatable=key is not None)
        return call if key is None else replace(call, headers={**call.headers, "Idempotency-Key": key})


class CreateSource:
    """The events of a new response; `open` finds out which endpoint they come from."""

    def __init__(self, creator: Creator, body: bytes, options: Parameters) -> None:
        self._creator = creator
        self._body = body
        self._options = options
        self._source: EventSource | None = None

    @property
    def response(self) -> Response:
        return self._current.response

    @property
    def request_id(self) -> str:
        return self._current.request_id

    async def open(self) -> None:
        self._source = await self._creator.open(self._body, self._options)

    def take(self) -> list[AnyEvent] | None:
        return self._current.take()

    async def wait(self) -> None:
        await self._current.wait()

    async def close(self) -> None:
        if self._source is not None:
            await self._source.close()

    @property
    def _current(self) -> EventSource:
        if self._source is None:
            raise UsageError("there is no response yet: the stream has not been opened")
        return self._source


def _without_endpoint(error: StatusError) -> StatusError:
    """Returns the refusal, if it means that there is no `/responses`; raises any other."""
    if not says_no_endpoint(error):
        raise error
    return error


def _choose_error(refusal: StatusError | None, error: StatusError) -> StatusError:
    """Returns the error about `/responses` for a server that has neither endpoint, else the one of the
    chat.
    """
    return refusal if refusal is not None and error.status in _NO_CHAT else error
