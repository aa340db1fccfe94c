"""`type = "chat"`: any server that speaks OpenAI's `/chat/completions`."""

from antiphon.config import HttpSettings
from antiphon.providers import model_lists
from antiphon.providers.base import Embedded, EmbeddingTask, Environment, Turn
from antiphon.providers.chat.embeddings import EmbeddingsAnswer, embeddings_body
from antiphon.providers.chat.profiles import Profile, choose
from antiphon.providers.chat.request import prepare
from antiphon.providers.chat.settings import ChatSettings
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.embeddings import checked
from antiphon.providers.exchange import Call, apart, encoded
from antiphon.providers.http_provider import HttpProvider
from antiphon.wires.chat.source_numbers import SourceNumbers
from antiphon.wires.reasoning.kept import CONTENT, KeptReasoning
from antiphon.wires.reasoning.think_tags import ThinkTags


class ChatUpstream(HttpProvider):
    """An upstream of this wire: one address, one key, one profile."""

    reader: type[ChatStream] = ChatStream

    def __init__(self, settings: HttpSettings, environment: Environment, profile: Profile) -> None:
        base = (settings.base_url or "").rstrip("/").removesuffix("/chat/completions")
        super().__init__(settings, environment, base)
        self.profile = profile
        self.capabilities = profile.capabilities
        self._keeps = profile.keeps_reasoning
        self._kept_field = "" if profile.details or profile.reasoning_field else CONTENT
        self._url = f"{self._base}/chat/completions"
        self._patient = self._timeouts.patient(stream=False)

    async def count_tokens(self, turn: Turn) -> int | None:
        if not self.profile.counts_tokens:
            return None

        def asked() -> bytes:
            body, _ = prepare(turn, self.profile, self.name)
            body.pop("stream", None)
            body.pop("stream_options", None)
            return encoded(turn, body)

        return await self._count(f"{self._url}/input_tokens", await apart(turn, asked), "input_tokens")

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

    async def _embed_at(self, url: str, task: EmbeddingTask) -> Embedded:
        answer = await self._embeddings(url, embeddings_body(task), EmbeddingsAnswer)
        return checked(self.name, len(task.input), answer.vectors(), answer.tokens())

    async def _fetch_models(self) -> model_lists.Listed:
        answer = await self._look_up(f"{self._base}/models")
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
        return await self._embed_at(f"{self._base}/embeddings", task)
