"""`type = "chat"`: any server that speaks OpenAI's `/chat/completions`."""

from collections.abc import Mapping

from antiphon.config import ChatProvider, Secret, UpstreamTimeouts
from antiphon.config import ProviderSettings as ProviderConfig
from antiphon.providers import queries
from antiphon.providers.base import Capabilities, Environment, Sink, Turn
from antiphon.providers.chat.profiles import Profile, choose
from antiphon.providers.chat.request import prepare
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.exchange import Call, apart, ask, encoded
from antiphon.providers.http import UpstreamClient
from antiphon.providers.reasoning.kept import KeptReasoning
from antiphon.providers.reasoning.think_tags import ThinkTags


class Chat:
    """A chat upstream: one address, one key, one profile."""

    reader: type[ChatStream] = ChatStream

    def __init__(
        self,
        name: str,
        http: UpstreamClient,
        base_url: str,
        *,
        api_key: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        profile: Profile | None = None,
        timeouts: UpstreamTimeouts | None = None,
    ) -> None:
        self.name = name
        self.profile = profile or choose(base_url)
        self.capabilities: Capabilities = self.profile.capabilities
        self._keeps = self.profile.keeps_reasoning
        self._http = http
        self._base = base_url.rstrip("/").removesuffix("/chat/completions")
        self._url = f"{self._base}/chat/completions"
        self._timeouts = timeouts or UpstreamTimeouts()
        self._patient = self._timeouts.patient(stream=False)
        self._headers, self._secrets = queries.introduction(api_key, headers)
        self._models = queries.ModelNames(self._fetch_models)

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await ask(self._http, turn, self._call, sink)

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

    async def models(self) -> list[str]:
        """The upstream's own list; empty when it has none to give."""
        return await self._models.names()

    async def close(self) -> None:
        return

    def _call(self, turn: Turn) -> Call:
        name, profile, secrets = self.name, self.profile, self._secrets
        body, tools = prepare(turn, profile, name)
        think = ThinkTags() if profile.think_tags else None
        parser = self.reader(tools, name, secrets, think, KeptReasoning() if self._keeps else None)
        parser.note = turn.note(name)
        limits = self._timeouts if turn.stream or profile.always_streams else self._patient
        return Call(name, self._url, self._headers, encoded(turn, body), parser, limits, True, secrets)

    async def _fetch_models(self) -> list[str]:
        answer = await queries.look_up(self._http, f"{self._base}/models", self._headers, self.name)
        return queries.named(answer.get("data") or answer.get("models"))


def make(name: str, config: ProviderConfig, environment: Environment) -> Chat:
    assert isinstance(config, ChatProvider)
    base_url = config.base_url or ""
    profile = choose(
        base_url, config.profile, max_tokens=config.max_tokens_field, think_tags=config.think_tags
    )
    return Chat(
        name,
        environment.http,
        base_url,
        api_key=config.api_key,
        headers=config.headers,
        profile=profile,
        timeouts=config.timeouts,
    )
