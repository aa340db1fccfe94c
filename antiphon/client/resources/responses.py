"""`client.responses`: make, stream, parse, read, cancel, delete, shorten, list and count."""

from collections.abc import AsyncIterator
from typing import Literal, TypeVar, Unpack, overload

from antiphon.client.errors import ResponseFailed
from antiphon.client.resources import parsing
from antiphon.client.resources.create import PATH, CreateSource, Creator
from antiphon.client.resources.objects import (
    Deleted,
    InputTokens,
    Order,
    iterate_items,
    read_object,
    unexpected_answer,
)
from antiphon.client.resources.parameters import (
    Input,
    Parameters,
    RequestOptions,
    encode_body,
    items_of,
    request_body,
)
from antiphon.client.resources.parsing import Parsed
from antiphon.client.streams import AsyncEventStream
from antiphon.client.transport.event_source import HttpSource
from antiphon.client.transport.http import HttpCall, path_to
from antiphon.client.transport.response_decoding import response_of
from antiphon.spec.decode import decode_compact_resource
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item
from antiphon.spec.response import CompactResource, Response

T = TypeVar("T")


class AsyncResponses:
    """Creates, reads, cancels and deletes responses."""

    def __init__(self, creator: Creator) -> None:
        self._creator = creator
        self._http = creator.http

    @overload
    async def create(
        self,
        input: Input | None = None,
        *,
        model: str | None = None,
        stream: Literal[False] = False,
        **parameters: Unpack[Parameters],
    ) -> Response: ...

    @overload
    async def create(
        self,
        input: Input | None = None,
        *,
        model: str | None = None,
        stream: Literal[True],
        **parameters: Unpack[Parameters],
    ) -> AsyncEventStream: ...

    @overload
    async def create(
        self,
        input: Input | None = None,
        *,
        model: str | None = None,
        stream: bool,
        **parameters: Unpack[Parameters],
    ) -> Response | AsyncEventStream: ...

    async def create(
        self,
        input: Input | None = None,
        *,
        model: str | None = None,
        stream: bool = False,
        **parameters: Unpack[Parameters],
    ) -> Response | AsyncEventStream:
        """Create a response. Raises `ResponseFailed` when it failed; an incomplete one says so itself.

        With `stream=True`, the stream, already open.
        """
        if stream:
            events = self.stream(input, model=model, **parameters)
            await events.open()
            return events
        response = await self._creator.whole(encode_body(request_body(input, model, parameters)), parameters)
        if response.status == "failed":
            raise ResponseFailed(response)
        return response

    def stream(
        self, input: Input | None = None, *, model: str | None = None, **parameters: Unpack[Parameters]
    ) -> AsyncEventStream:
        """Create a response and follow it: `async with client.responses.stream(...) as stream:`."""
        body = encode_body(request_body(input, model, parameters) | {"stream": True})
        return AsyncEventStream(CreateSource(self._creator, body, parameters))

    async def parse(
        self,
        input: Input | None = None,
        *,
        into: type[T],
        model: str | None = None,
        **parameters: Unpack[Parameters],
    ) -> Parsed[T]:
        """Create a response that is a value of this type: a msgspec Struct, a dataclass, a Pydantic model.

        Raises `Refused`, `Incomplete` or `Mismatch` when there is no such value in it.
        """
        parameters["text"] = parsing.text_param(into, parameters.get("text"))
        body = encode_body(request_body(input, model, parameters))
        return parsing.parse_output(await self._creator.whole(body, parameters), into)

    @overload
    async def retrieve(
        self, id: str, *, stream: Literal[False] = False, **options: Unpack[RequestOptions]
    ) -> Response: ...

    @overload
    async def retrieve(
        self,
        id: str,
        *,
        stream: Literal[True],
        starting_after: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncEventStream: ...

    @overload
    async def retrieve(
        self, id: str, *, stream: bool, starting_after: int | None = None, **options: Unpack[RequestOptions]
    ) -> Response | AsyncEventStream: ...

    async def retrieve(
        self,
        id: str,
        *,
        stream: bool = False,
        starting_after: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response | AsyncEventStream:
        """Read a stored response; with `stream=True`, the events of one in the background.

        `starting_after` leaves out the events up to that `sequence_number`.
        """
        path = path_to(PATH, id)
        if not stream:
            return await self._response(self._http.call("GET", path, options, repeatable=True))
        query = {"stream": "true", "starting_after": starting_after}
        call = self._http.call("GET", path, options, query=query, repeatable=True)
        after = -1 if starting_after is None else starting_after
        events = AsyncEventStream(HttpSource(self._http, call, resumes=id, after=after))
        await events.open()
        return events

    async def cancel(self, id: str, **options: Unpack[RequestOptions]) -> Response:
        """End a background response; it comes back with what it has said so far."""
        call = self._http.call("POST", path_to(PATH, id, "cancel"), options, repeatable=True)
        return await self._response(call)

    async def delete(self, id: str, **options: Unpack[RequestOptions]) -> Deleted:
        answer = await self._http.answer(self._http.call("DELETE", path_to(PATH, id), options))
        return read_object(Deleted, answer.body, "a deletion")

    async def compact(
        self,
        input: Input | None = None,
        *,
        model: str,
        instructions: str | None = None,
        previous_response_id: str | None = None,
        prompt_cache_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> CompactResource:
        """Compact a conversation; the items that come back take its place as input."""
        fields: dict[str, object] = {
            "model": model,
            "input": items_of(input),
            "instructions": instructions,
            "previous_response_id": previous_response_id,
            "prompt_cache_key": prompt_cache_key,
        }
        body = {name: value for name, value in fields.items() if value is not None}
        body |= options.get("extra_body", {})
        call = self._http.call("POST", f"{PATH}/compact", options, body=encode_body(body))
        answer = await self._http.answer(call)
        try:
            return decode_compact_resource(answer.body)
        except SpecError as error:
            raise unexpected_answer("a compaction", error) from None

    def input_items(
        self,
        id: str,
        *,
        order: Order | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[Item]:
        """Yields the input of a response; fetches pages of `limit` items as they are needed."""
        path = path_to(PATH, id, "input_items")
        return iterate_items(self._http, path, options, order=order, limit=limit, after=after)

    async def input_tokens(
        self, input: Input | None = None, *, model: str | None = None, **parameters: Unpack[Parameters]
    ) -> InputTokens:
        """Counts the tokens of a request without generating anything."""
        body = encode_body(request_body(input, model, parameters))
        call = self._http.call("POST", f"{PATH}/input_tokens", parameters, body=body, repeatable=True)
        return read_object(InputTokens, (await self._http.answer(call)).body, "a count of tokens")

    async def _response(self, call: HttpCall) -> Response:
        answer = await self._http.answer(call)
        return response_of(answer.body, answer.content_type)
