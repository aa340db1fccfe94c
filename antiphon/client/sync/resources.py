"""`client.responses`, `client.conversations` and `client.models`, for programs without an event loop."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeVar, Unpack, overload

from antiphon.client.resources.conversations import AsyncConversationItems, AsyncConversations, AsyncModels
from antiphon.client.resources.objects import Conversation, Deleted, InputTokens, Model
from antiphon.client.resources.paging import Order
from antiphon.client.resources.parameters import Input, InputItem, Parameters, RequestOptions
from antiphon.client.resources.parsing import Parsed
from antiphon.client.resources.responses import AsyncResponses
from antiphon.client.sync.loop_thread import Portal
from antiphon.client.sync.streams import EventStream, each
from antiphon.spec.items import Item
from antiphon.spec.response import CompactResource, Response

T = TypeVar("T")


class Responses:
    """Everything about responses."""

    def __init__(self, portal: Portal, inner: AsyncResponses) -> None:
        self._portal = portal
        self._inner = inner

    @overload
    def create(
        self,
        input: Input | None = None,
        *,
        model: str | None = None,
        stream: Literal[False] = False,
        **parameters: Unpack[Parameters],
    ) -> Response: ...

    @overload
    def create(
        self,
        input: Input | None = None,
        *,
        model: str | None = None,
        stream: Literal[True],
        **parameters: Unpack[Parameters],
    ) -> EventStream: ...

    def create(
        self,
        input: Input | None = None,
        *,
        model: str | None = None,
        stream: bool = False,
        **parameters: Unpack[Parameters],
    ) -> Response | EventStream:
        """Create a response. Raises `ResponseFailed` when it failed; an incomplete one says so itself.

        With `stream=True`, the stream, already open.
        """
        if stream:
            opened = self._portal.call(self._inner.create(input, model=model, stream=True, **parameters))
            return EventStream(self._portal, opened)
        return self._portal.call(self._inner.create(input, model=model, **parameters))

    def stream(
        self, input: Input | None = None, *, model: str | None = None, **parameters: Unpack[Parameters]
    ) -> EventStream:
        """Create a response and follow it: `with client.responses.stream(...) as stream:`."""
        return EventStream(self._portal, self._inner.stream(input, model=model, **parameters))

    def parse(
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
        return self._portal.call(self._inner.parse(input, into=into, model=model, **parameters))

    @overload
    def retrieve(
        self, id: str, *, stream: Literal[False] = False, **options: Unpack[RequestOptions]
    ) -> Response: ...

    @overload
    def retrieve(
        self,
        id: str,
        *,
        stream: Literal[True],
        starting_after: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> EventStream: ...

    def retrieve(
        self,
        id: str,
        *,
        stream: bool = False,
        starting_after: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response | EventStream:
        """Read a stored response; with `stream=True`, the events of one in the background.

        `starting_after` leaves out the events up to that `sequence_number`.
        """
        if not stream:
            return self._portal.call(self._inner.retrieve(id, **options))
        opened = self._inner.retrieve(id, stream=True, starting_after=starting_after, **options)
        return EventStream(self._portal, self._portal.call(opened))

    def cancel(self, id: str, **options: Unpack[RequestOptions]) -> Response:
        """End a background response; it comes back with what it has said so far."""
        return self._portal.call(self._inner.cancel(id, **options))

    def delete(self, id: str, **options: Unpack[RequestOptions]) -> Deleted:
        return self._portal.call(self._inner.delete(id, **options))

    def compact(
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
        shortened = self._inner.compact(
            input,
            model=model,
            instructions=instructions,
            previous_response_id=previous_response_id,
            prompt_cache_key=prompt_cache_key,
            **options,
        )
        return self._portal.call(shortened)

    def input_items(
        self,
        id: str,
        *,
        order: Order | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Iterator[Item]:
        """Everything that a response was made from; pages of `limit` are fetched as they are needed."""
        found = self._inner.input_items(id, order=order, limit=limit, after=after, **options)
        return each(self._portal, found)

    def input_tokens(
        self, input: Input | None = None, *, model: str | None = None, **parameters: Unpack[Parameters]
    ) -> InputTokens:
        """How many tokens a request would take; nothing is generated."""
        return self._portal.call(self._inner.input_tokens(input, model=model, **parameters))


class Conversations:
    """Lists of items that responses continue and add to: `create(..., conversation=id)`."""

    def __init__(self, portal: Portal, inner: AsyncConversations) -> None:
        self._portal = portal
        self._inner = inner
        self.items = ConversationItems(portal, inner.items)

    def create(
        self,
        *,
        items: Iterable[InputItem] = (),
        metadata: Mapping[str, str] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Conversation:
        return self._portal.call(self._inner.create(items=items, metadata=metadata, **options))

    def retrieve(self, id: str, **options: Unpack[RequestOptions]) -> Conversation:
        return self._portal.call(self._inner.retrieve(id, **options))

    def update(
        self, id: str, *, metadata: Mapping[str, str], **options: Unpack[RequestOptions]
    ) -> Conversation:
        """Replace the metadata."""
        return self._portal.call(self._inner.update(id, metadata=metadata, **options))

    def delete(self, id: str, **options: Unpack[RequestOptions]) -> Deleted:
        return self._portal.call(self._inner.delete(id, **options))


class ConversationItems:
    """`client.conversations.items`: what is in a conversation."""

    def __init__(self, portal: Portal, inner: AsyncConversationItems) -> None:
        self._portal = portal
        self._inner = inner

    def list(
        self,
        id: str,
        *,
        order: Order | None = None,
        limit: int | None = None,
        after: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Iterator[Item]:
        """All items; pages of `limit` are fetched as they are needed."""
        return each(self._portal, self._inner.list(id, order=order, limit=limit, after=after, **options))

    def add(self, id: str, items: Iterable[InputItem], **options: Unpack[RequestOptions]) -> tuple[Item, ...]:
        """Add items at the end; they come back with their ids."""
        return self._portal.call(self._inner.add(id, items, **options))

    def retrieve(self, id: str, item_id: str, **options: Unpack[RequestOptions]) -> Item:
        return self._portal.call(self._inner.retrieve(id, item_id, **options))

    def delete(self, id: str, item_id: str, **options: Unpack[RequestOptions]) -> Conversation:
        """Take an item out; the conversation comes back."""
        return self._portal.call(self._inner.delete(id, item_id, **options))


class Models:
    """What can be asked for."""

    def __init__(self, portal: Portal, inner: AsyncModels) -> None:
        self._portal = portal
        self._inner = inner

    def list(self, **options: Unpack[RequestOptions]) -> tuple[Model, ...]:
        return self._portal.call(self._inner.list(**options))

    def retrieve(self, id: str, **options: Unpack[RequestOptions]) -> Model:
        """One model; a name may have slashes in it."""
        return self._portal.call(self._inner.retrieve(id, **options))
