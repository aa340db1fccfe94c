"""`type = "chat"`: any server that speaks OpenAI's `/chat/completions`."""

from collections.abc import Coroutine
from typing import Any

from antiphon.config import HttpSettings
from antiphon.providers import model_lists, queries
from antiphon.providers.base import Capabilities, Embedded, EmbeddingTask, Environment, Sink, Turn
from antiphon.providers.chat.embeddings import EmbeddingsAnswer, embeddings_body
from antiphon.providers.chat.profiles import Profile, choose
from antiphon.providers.chat.request import prepare
from antiphon.providers.chat.settings import ChatSettings
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.embeddings import checked, posted
from antiphon.providers.exchange import Call, apart, ask, encoded
from antiphon.wires.chat.source_numbers import SourceNumbers
from antiphon.wires.reasoning.kept import CONTENT, KeptReasoning
from antiphon.wires.reasoning.think_tags import ThinkTags


class ChatUpstream(model_lists.ListedModels):
    """An upstream of this wire: one address, one key, one profile."""

    reader: type[ChatStream] = ChatStream

    def __init__(self, settings: HttpSettings, environment: Environment, profile: Profile) -> None:
        self.name = settings.name
        self.profile = profile
        self.capabilities: Capabilities = profile.capabilities
        self._keeps = profile.keeps_reasoning
        self._kept_field = "" if profile.details or profile.reasoning_field else CONTENT
        self._http = environment.http
        self._base = (settings.base_url or "").rstrip("/").removesuffix("/chat/completions")
        self._url = f"{self._base}/chat/completions"
        self._timeouts = settings.timeouts
        self._patient = self._timeouts.patient(stream=False)
        self._headers, self._secrets = queries.introduction(settings.api_key, settings.headers)
        self._models = model_lists.ModelNames(self._fetch_models)

    def answer(self, turn: Turn, sink: Sink) -> Coroutine[Any, Any, None]:
        return ask(self._http, turn, self._call, sink)

    async def count_tokens(self, turn: Turn) -> int | None:
        if not self.profile.counts_tokens:
            return None

        def asked() -> bytes:
            body, _ = prepare(turn, self.profile, self.name)
            body.pop("stream", None)
            body.pop("stream_options", None)
            return encoded(turn, body)

        url = f"{self._url}/input_tokens"
        return await queries.count(
            self._http,
            url,
            await apart(turn, asked),
            self._headers,
            self._timeouts,
            provider=self.name,
            field="input_tokens",
            secrets=self._secrets,
        )

    def _call(self, turn: Turn) -> Call:
        name, profile, secrets = self.name, self.profile, self._secrets
        body, tools = prepare(turn, profile, name)
        think = ThinkTags() if profile.think_tags else None
        kept = KeptReasoning(self._kept_field) if self._keeps else None
        parser = self.reader(tools, think, kept, provider=name, secrets=secrets)
        parser.note, parser.keeps_chunks = turn.note(name), turn.keeps_chunks
        parser.numbers = SourceNumbers() if profile.numbers_sources else None
        limits = self._timeouts if turn.stream or profile.always_streams else self._patient
        return Call(name, self._url, self._headers, encoded(turn, body), parser, limits, True, secrets)

    async def _embedded(self, url: str, task: EmbeddingTask) -> Embedded:
        answer = await posted(
            self._http,
            url,
            embeddings_body(task),
            self._headers,
            self._timeouts,
            EmbeddingsAnswer,
            provider=self.name,
            secrets=self._secrets,
        )
        return checked(self.name, len(task.input), answer.vectors(), answer.tokens())

    async def _fetch_models(self) -> model_lists.Listed:
        answer = await queries.look_up(
            self._http, f"{self._base}/models", self._headers, self.name, self._secrets
        )
        return model_lists.listed(answer.get("data") or answer.get("models"))


class ChatProvider(ChatUpstream):
    """Its profile is the one that is configured, else the one that goes with the address."""

    Settings = ChatSettings

    def __init__(self, settings: ChatSettings, environment: Environment) -> None:
        profile = choose(
            settings.base_url or "",
            settings.profile,
            max_tokens=settings.max_tokens_field,
            think_tags=settings.think_tags,
        )
        super().__init__(settings, environment, profile)

    async def embed(self, task: EmbeddingTask) -> Embedded:
        return await self._embedded(f"{self._base}/embeddings", task)
