"""`type = "responses"`: any server of Open Responses, or of OpenAI's Responses, over HTTP or WebSocket."""

import time
from collections.abc import Callable
from copy import copy
from operator import is_
from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec.structs import replace

from antiphon.config import HttpSettings
from antiphon.providers.base import FALLBACK, SUPPRESSED, Environment, Sink, Turn, UpstreamError, WrappingSink
from antiphon.providers.chat import ChatUpstream
from antiphon.providers.chat.profiles import PROFILES
from antiphon.providers.chat.profiles import choose as choose_profile
from antiphon.providers.errors import AddressNotFound
from antiphon.providers.exchange import Call, ask, encode_body, run_apart
from antiphon.providers.http_provider import HttpProvider
from antiphon.providers.model_lists import ModelList
from antiphon.providers.responses.quirks import choose
from antiphon.providers.responses.request import ResponsesRequest, prepare
from antiphon.providers.responses.stream import ResponsesStream
from antiphon.spec.errors import INVALID_ENCRYPTED_CONTENT
from antiphon.spec.history_text import SystemPrompt, ToolHistory
from antiphon.spec.items import Item, Reasoning
from antiphon.spec.request import PROVIDER_PARAMETERS
from antiphon.stream.deltas import AnyDelta
from antiphon.wires.reasoning.kept import put_by

if TYPE_CHECKING:
    from antiphon.providers.responses.websocket import Sockets

# Values that ask for nothing.
_UNDEMANDING = (None, 0, "auto", "default")
_REMEMBERED = 300.0
"""How long a server is taken at its word that it has no such address."""


class ResponsesSettings(HttpSettings, frozen=True, kw_only=True):
    needs_base_url: ClassVar[bool] = True

    quirks: Literal["open_responses", "openai", "ai_gateway", "lmstudio", "vllm", "ollama"] | None = None
    tool_history: ToolHistory | None = None
    system_prompt: SystemPrompt | None = None
    websocket: bool = False
    fallback: bool = True


class OpenResponses(HttpProvider):
    """An upstream of our own wire: one address, one key, its quirks."""

    Settings = ResponsesSettings

    def __init__(self, settings: ResponsesSettings, environment: Environment) -> None:
        base_url = settings.base_url or ""
        super().__init__(settings, environment, base_url.rstrip("/").removesuffix("/responses"))
        self.quirks = choose(
            base_url,
            settings.quirks,
            tool_history=settings.tool_history,
            system_prompt=settings.system_prompt,
        )
        self.capabilities = self.quirks.capabilities
        # The same server, asked for its models, and in the older way when it does not know this one.
        kind = self.quirks.name if self.quirks.name in PROFILES else None
        self._chat = ChatUpstream(
            replace(settings, base_url=self._base), environment, choose_profile(self._base, kind)
        )
        self._fallback = settings.fallback
        self._chat_until = 0.0
        self._websocket = settings.websocket
        self._http_until = 0.0
        self._sockets: Sockets | None = None

    async def answer(self, turn: Turn, sink: Sink) -> None:
        try:
            await self._answer(turn, sink)
        except UpstreamError as refusal:
            items = [_drop_proof(item) for item in turn.items]
            if not _refuses_proofs(refusal) or all(map(is_, items, turn.items)):
                raise
            reason = "the server cannot read encrypted reasoning of the input, so it was asked again without"
            turn.receipt(self.name, "input", reason, SUPPRESSED)
            turn.items = items
            await self._answer(turn, sink)

    async def _answer(self, turn: Turn, sink: Sink) -> None:
        missing: AddressNotFound | None = None
        if time.monotonic() >= self._chat_until:
            try:
                await self._native(turn, sink)
                return
            except AddressNotFound as error:
                if not self._fallback:
                    raise
                missing = error
        try:
            await self._chat.answer(
                self._for_chat(turn), sink if missing is None else _FirstAnswerSink(sink, self._remember_chat)
            )
        except AddressNotFound as error:
            self._chat_until = 0.0
            # It has neither, so what is wrong is the address that was configured.
            raise missing or error from None

    async def count_tokens(self, turn: Turn) -> int | None:
        if not self.quirks.counts_tokens or time.monotonic() < self._chat_until:
            return None

        def build_body() -> bytes:
            return encode_body(turn, self._prepare(turn).build_count_body())

        url = f"{self._base}/responses/input_tokens"
        return await self._count(url, await run_apart(turn, build_body), "input_tokens", absent=(404, 405))

    async def close(self) -> None:
        if self._sockets is not None:
            await self._sockets.close()

    # --- the wire itself ----------------------------------------------------------------------------------

    async def _native(self, turn: Turn, sink: Sink) -> None:
        if self._websocket and time.monotonic() >= self._http_until:
            from antiphon.wires.websocket import NoWebSocket

            def message() -> tuple[bytes, ResponsesStream]:
                prepared = self._prepare(turn)
                return encode_body(turn, prepared.message()), self._parser(turn, prepared)

            try:
                await self._get_sockets().ask(*await run_apart(turn, message), sink)
                return
            except NoWebSocket as refused:
                self._http_until = time.monotonic() + _REMEMBERED
                turn.receipt(
                    self.name, "model", f"there is no WebSocket here, so HTTP is used: {refused}", FALLBACK
                )
        await ask(self._http, turn, self._call, sink)

    def _remember_chat(self) -> None:
        self._chat_until = time.monotonic() + _REMEMBERED

    def _prepare(self, turn: Turn) -> ResponsesRequest:
        return prepare(turn, self.quirks, self.name)

    def _parser(self, turn: Turn, prepared: ResponsesRequest) -> ResponsesStream:
        return ResponsesStream(
            prepared.names, provider=self.name, secrets=self._secrets, note=turn.note(self.name)
        )

    def _call(self, turn: Turn) -> Call:
        prepared = self._prepare(turn)
        parser = self._parser(turn, prepared)
        return self._call_for(turn, f"{self._base}/responses", prepared.body, parser)

    async def _fetch_models(self) -> ModelList:
        return await self._chat._fetch_models()

    def _get_sockets(self) -> "Sockets":
        if self._sockets is None:
            from antiphon.providers.responses.websocket import Sockets

            url = f"ws{self._base.removeprefix('http')}/responses"
            self._sockets = Sockets(self.name, url, self._headers, self._timeouts, self._secrets)
        return self._sockets

    def _for_chat(self, turn: Turn) -> Turn:
        """The turn for a server without `/responses`, with a receipt for what this costs."""
        turn.receipt(
            self.name, "model", "this server has no /responses; /chat/completions was asked", FALLBACK
        )
        takes = self._chat.capabilities.parameters
        for name in sorted((self.capabilities.parameters & set(PROVIDER_PARAMETERS)) - takes):
            holder, _, key = name.rpartition(".")
            holding = getattr(turn.request, holder) if holder else turn.request
            if getattr(holding, key, None) not in _UNDEMANDING:
                turn.receipt(self.name, name, "/chat/completions of this server has no such parameter")
        return replace(turn, items=[_drop_proof(item) for item in turn.items])


class _FirstAnswerSink(WrappingSink):
    """Calls `notify` when the upstream begins to answer."""

    def __init__(self, sink: Sink, notify: Callable[[], None]) -> None:
        super().__init__(sink)
        self._notify: Callable[[], None] | None = notify

    def accepted(self) -> None:
        self._notify_once()
        super().accepted()

    def put(self, deltas: list[AnyDelta]) -> bool:
        self._notify_once()
        return super().put(deltas)

    def _notify_once(self) -> None:
        if self._notify is not None:
            self._notify()
            self._notify = None


def _refuses_proofs(error: UpstreamError) -> bool:
    """Did the server refuse the request because it cannot read encrypted reasoning?"""
    told = error.payload
    is_about = told.code == INVALID_ENCRYPTED_CONTENT or "encrypted content" in told.message.lower()
    return error.status == 400 and (is_about or "encrypted_content" in f"{told.param} {told.message}")


def _drop_proof(item: Item) -> Item:
    """The item without a proof of this wire; a proof that the other wire wants back stays."""
    if isinstance(item, Reasoning) and item.encrypted_content and not put_by(item):
        item = copy(item)
        item.encrypted_content = None
    return item
