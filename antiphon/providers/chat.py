"""`type = "chat"`: any server that speaks OpenAI's `/chat/completions`."""

from collections.abc import Mapping

from antiphon.config import ChatProvider, Secret, Timeouts
from antiphon.config import Provider as ProviderConfig
from antiphon.providers import questions
from antiphon.providers.base import Capabilities, Environment, Turn
from antiphon.providers.chat_profiles import Profile, choose
from antiphon.providers.chat_request import prepare
from antiphon.providers.chat_stream import ChatStream
from antiphon.providers.exchange import Answer, Call, Prepared
from antiphon.providers.http import UpstreamClient
from antiphon.providers.thoughts import Kept
from antiphon.providers.tools import ToolNames
from antiphon.spec.opaque import encode


class Chat:
    """A chat upstream: one address, one key, one profile."""

    def __init__(
        self,
        name: str,
        http: UpstreamClient,
        base_url: str,
        *,
        api_key: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        profile: Profile | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.name = name
        self.profile = profile or choose(base_url)
        self.capabilities: Capabilities = self.profile.capabilities
        self._http = http
        self._base = base_url.rstrip("/").removesuffix("/chat/completions")
        self._timeouts = timeouts or Timeouts()
        self._patient = self._timeouts.patient(stream=False)
        self._headers, self._secrets = questions.introduction(api_key, headers)
        self._models = questions.Models(self._fetch_models)

    def stream(self, turn: Turn) -> Answer:
        return Answer(self._http, turn, lambda: self._call(turn))

    async def count_tokens(self, turn: Turn) -> int | None:
        if not self.profile.counts_tokens:
            return None
        body = self._prepare(turn).body
        body.pop("stream", None)
        body.pop("stream_options", None)
        url = f"{self._base}/chat/completions/input_tokens"
        return await questions.count(
            self._http,
            url,
            encode(body),
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
        prepared = self._prepare(turn)
        return Call(
            provider=self.name,
            url=self._url(turn.model),
            headers=self._headers,
            body=prepared.to_json(),
            parser=self._parser(prepared.names),
            timeouts=self._timeouts if turn.stream or self.profile.always_streams else self._patient,
            secrets=self._secrets,
        )

    # --- what servers that are nearly this one do their own way ------------------------------------------

    def _url(self, model: str) -> str:
        return f"{self._base}/chat/completions"

    def _prepare(self, turn: Turn) -> Prepared:
        return prepare(turn, self.profile, self.name)

    def _parser(self, names: ToolNames) -> ChatStream:
        return ChatStream(
            names,
            provider=self.name,
            think_tags=self.profile.think_tags,
            keeps=Kept() if self.profile.keeps_reasoning else None,
            secrets=self._secrets,
        )

    async def _fetch_models(self) -> list[str]:
        answer = await questions.look_up(self._http, f"{self._base}/models", self._headers, self.name)
        return questions.named(answer.get("data") or answer.get("models"))


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
