"""Models behind an Open Responses server, with the methods of Vértice's provider, router and client."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from antiphon.client import AntiphonError, Client, Model, ResponseFailed, Timeouts
from antiphon.client.agent.model import from_another_loop
from antiphon.client.agent.run import ModelStream
from antiphon.client.agent.tasks import LLMClientWithOpenResponsesProtocol
from antiphon.client.event_text import event_text
from antiphon.client.router import provider_failed, task_word
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.errors import ErrorPayload, model_error
from antiphon.spec.events import OutputTextDeltaEvent
from antiphon.spec.routing import PARAMETER, SpeedRequirement, TaskComplexity
from antiphon.stream.dialects import VERTICE
from antiphon.stream.sse import Decoder

Messages = Sequence[Mapping[str, Any]]

_LOOKING = Timeouts(connect=2.0, read=5.0, idle=5.0, total=5.0)


class _Served:
    """One model of the server that a client calls."""

    def __init__(self, model_name: str | None, client: Client | None) -> None:
        self.model_id = model_name
        self._client = client or Client()
        self._owns_client = client is None

    def close(self) -> None:
        """Close the connections to the server; a client that was given stays open."""
        if self._owns_client:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_model_info(self) -> dict[str, str]:
        """The name of the model."""
        return {"model": self.model_id or "unknown"}

    def is_available(self) -> bool:
        """Does the server answer, and does it list this model? Waits for it, five seconds at most."""
        names = [model.id for model in self._models()]
        return self.model_id in names if self.model_id is not None else bool(names)

    async def generate(self, prompt: str, **options: Any) -> str:
        """The answer to one prompt, in words."""
        return "".join([words async for words in self.stream(prompt, **options)])

    async def stream(self, prompt: str, **options: Any) -> AsyncIterator[str]:
        """Yields the answer in pieces as they come."""
        async for words in self.stream_chat([{"role": "user", "content": prompt}], **options):
            yield words

    async def stream_chat(self, messages: Messages, **options: Any) -> AsyncIterator[str]:
        """The words of the answer to a conversation; `ResponseFailed` if the response fails."""
        async with self._open(messages, **options) as stream:
            async for event in stream:
                if isinstance(event, OutputTextDeltaEvent):
                    yield event.delta
            if stream.response.status == "failed":
                raise ResponseFailed(stream.response)

    def _models(self) -> Sequence[Model]:
        try:
            return self._client.models.list(timeouts=_LOOKING)
        except AntiphonError:
            return []

    def _open(
        self,
        messages: Messages,
        system_prompt: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        **options: Any,
    ) -> AbstractAsyncContextManager[ModelStream]:
        return from_another_loop(
            self._client.responses.stream(
                messages,
                model=self.model_id,
                instructions=system_prompt,
                max_output_tokens=max_tokens,
                temperature=temperature,
                **options,
            )
        )


class VertexAIProvider(_Served):
    """One model of the server that a client calls; without a client, of the one that the environment names.

    The name is Vértice's. Which provider answers, Vertex AI or another, is the server's configuration.
    """

    def __init__(self, model_name: str | None = None, *, client: Client | None = None) -> None:
        super().__init__(model_name, client)

    async def stream_open_responses(
        self,
        messages: Messages,
        system_prompt: str | None = None,
        max_tokens: int = 8192,
        temperature: float = 0.7,
        **options: Any,
    ) -> AsyncIterator[str]:
        """The server's events as the text of server-sent events, to `[DONE]`.

        What fails on the way ends the stream with `response.failed` and the code `generation_failed`.
        """
        opened = self._open(messages, system_prompt, max_tokens, temperature, **options)
        async for text in event_text(opened, VERTICE, self.model_id or "", _generation_failed):
            yield text


def _generation_failed(error: AntiphonError) -> ErrorPayload:
    return model_error(str(error)).with_code("generation_failed")


class VerticeRouter(_Served):
    """The server as a router: its default model, and the providers that it has.

    Where that model is a route of tiers, complexity and speed choose among its targets. `antiphon.Router`
    is a router inside of the program, with `route` and the status of each provider.
    """

    def __init__(self, *, client: Client | None = None) -> None:
        super().__init__(None, client)

    async def stream_open_responses(
        self,
        messages: Messages,
        system_prompt: str | None = None,
        complexity: TaskComplexity | str | None = None,
        speed: SpeedRequirement | str | None = None,
        *,
        max_tokens: int = 8192,
        temperature: float = 0.7,
        **options: Any,
    ) -> AsyncIterator[str]:
        """The server's events as the text of server-sent events, to `[DONE]`.

        What fails ends the stream with `response.failed` and the code `provider_failed`. Without complexity
        and speed the server takes the task for a moderate one in no haste.
        """
        hint: dict[str, str] = {}
        if complexity is not None:
            hint["complexity"] = task_word(TaskComplexity, complexity)
        if speed is not None:
            hint["speed"] = task_word(SpeedRequirement, speed)
        if hint:
            options["extra_body"] = {PARAMETER: hint, **options.get("extra_body", {})}
        opened = self._open(messages, system_prompt, max_tokens, temperature, **options)
        async for text in event_text(opened, VERTICE, "", provider_failed, replaces_failures=True):
            yield text

    def get_available_providers(self) -> list[str]:
        """The names of the providers whose models the server lists; none if it does not answer."""
        return sorted({model.owned_by for model in self._models()})


@dataclass(frozen=True, slots=True)
class OpenResponsesEvent:
    """An event that was read from a stream."""

    event_type: str
    sequence_number: int
    data: dict[str, Any]

    @property
    def is_text_delta(self) -> bool:
        """Is it a piece of the answer's text?"""
        return self.event_type == "response.output_text.delta"

    @property
    def delta_text(self) -> str:
        """Returns the text of a delta; empty for every other event."""
        return str(self.data.get("delta", "")) if self.is_text_delta else ""

    @property
    def is_done(self) -> bool:
        """Did the response end as it should?"""
        return self.event_type == "response.completed"


class LLMClient:
    """Reads the streams of a provider: events in the place of text."""

    def __init__(self, provider: LLMClientWithOpenResponsesProtocol) -> None:
        self._provider = provider

    async def stream_open_responses(
        self, messages: Messages, **options: Any
    ) -> AsyncIterator[OpenResponsesEvent]:
        """The events up to `[DONE]`; data that is not a JSON object is skipped."""
        decoder = Decoder()
        async for line in self._stream_raw_sse(messages, **options):
            for one in decoder.feed(line.encode() + b"\n"):
                if one.is_done:
                    return
                try:
                    data = msgspec.json.decode(one.data, type=dict[str, Any])
                except UNREADABLE:
                    continue
                kind, number = one.event or data.get("type"), data.get("sequence_number")
                yield OpenResponsesEvent(
                    str(kind or "unknown"), number if isinstance(number, int) else 0, data
                )

    async def _stream_raw_sse(self, messages: Messages, **options: Any) -> AsyncIterator[str]:
        """The lines of the stream, wherever its texts are cut; a class with other lines overrides this."""
        rest = ""
        async for text in self._provider.stream_open_responses(messages, **options):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                yield line
