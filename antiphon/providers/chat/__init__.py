"""`type = "chat"`: any server that speaks OpenAI's `/chat/completions`."""

from typing import Any, ClassVar, Literal

from msgspec import Raw, Struct

from antiphon.config import HttpSettings
from antiphon.providers import model_lists
from antiphon.providers.base import Embedded, EmbeddingTask, Environment, Turn
from antiphon.providers.chat.profiles import MaxTokensField, Profile, choose
from antiphon.providers.chat.request import prepare
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.exchange import Call, encode_body, run_apart
from antiphon.providers.http_provider import HttpProvider, check_vectors
from antiphon.wires.chat.source_numbers import SourceNumbers
from antiphon.wires.reasoning.kept import CONTENT
from antiphon.wires.reasoning.think_tags import ThinkTags

ProfileName = Literal[
    "generic",
    "openai",
    "vllm",
    "llamacpp",
    "groq",
    "together",
    "openrouter",
    "deepseek",
    "mistral",
    "lmstudio",
    "ollama",
    "cerebras",
    "zai",
    "moonshot",
    "perplexity",
    "mantle",
    "snowflake",
    "vercel",
]


class ChatSettings(HttpSettings, frozen=True, kw_only=True):
    needs_base_url: ClassVar[bool] = True

    profile: ProfileName | None = None
    max_tokens_field: MaxTokensField | None = None
    think_tags: bool | None = None


class ChatUpstream(HttpProvider):
    """An upstream of this wire: one address, one key, one profile."""

    reader: type[ChatStream] = ChatStream

    def __init__(self, settings: HttpSettings, environment: Environment, profile: Profile) -> None:
        base = (settings.base_url or "").rstrip("/").removesuffix("/chat/completions")
        super().__init__(settings, environment, base)
        self.profile = profile
        self.capabilities = profile.capabilities
        kept_field = "" if profile.details or profile.reasoning_field else CONTENT
        self._kept_field = kept_field if profile.keeps_reasoning else None
        self._url = f"{self._base}/chat/completions"
        self._unstreamed_limits = self._timeouts.for_answer(stream=False)

    async def count_tokens(self, turn: Turn) -> int | None:
        if not self.profile.counts_tokens:
            return None

        def build_body() -> bytes:
            body, _ = prepare(turn, self.profile, self.name)
            body.pop("stream", None)
            body.pop("stream_options", None)
            return encode_body(turn, body)

        return await self._count(
            f"{self._url}/input_tokens", await run_apart(turn, build_body), "input_tokens"
        )

    def _call(self, turn: Turn) -> Call:
        name, profile, secrets = self.name, self.profile, self._secrets
        body, tools = prepare(turn, profile, name)
        think = ThinkTags() if profile.think_tags else None
        parser = self.reader(
            tools,
            think,
            self._kept_field,
            turn.note(name),
            numbers=SourceNumbers() if profile.numbers_sources else None,
            keeps_chunks=turn.keeps_chunks,
            provider=name,
            secrets=secrets,
        )
        limits = self._timeouts if turn.stream or profile.always_streams else self._unstreamed_limits
        return Call(name, self._url, self._headers, encode_body(turn, body), parser, limits, True, secrets)

    async def _embed_at(self, url: str, task: EmbeddingTask) -> Embedded:
        answer = await self._embeddings(url, embeddings_body(task), EmbeddingsAnswer)
        return check_vectors(self.name, len(task.input), answer.vectors(), answer.tokens())

    async def _fetch_models(self) -> model_lists.ModelList:
        answer = await self._look_up(f"{self._base}/models")
        return model_lists.parse_model_list(answer.get("data") or answer.get("models"))


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


class _Vector(Struct):
    embedding: Raw
    index: int = 0


class _Counts(Struct):
    prompt_tokens: int = 0


class EmbeddingsAnswer(Struct):
    data: list[_Vector]
    usage: _Counts | None = None

    def vectors(self) -> list[Raw]:
        return [one.embedding for one in sorted(self.data, key=lambda one: one.index)]

    def tokens(self) -> int:
        return self.usage.prompt_tokens if self.usage else 0


def embeddings_body(task: EmbeddingTask) -> dict[str, Any]:
    body: dict[str, Any] = {"model": task.model, "input": task.input}
    if task.dimensions is not None:
        body["dimensions"] = task.dimensions
    if task.user is not None:
        body["user"] = task.user
    return body
