"""`type = "plain"`: a server that takes a prompt as text and answers with text, as it comes."""

import codecs

from antiphon import AnyDelta, ErrorPayload, Failure, Finish, Message, TextDelta
from antiphon.config import HttpSettings
from antiphon.providers.base import Capabilities, Environment, Sink, Turn
from antiphon.providers.exchange import Call, ask
from antiphon.providers.history import speeches


class PlainSettings(HttpSettings, frozen=True, kw_only=True):
    """The keys of the provider's table, besides the common ones."""

    path: str = "/complete"


class Plain:
    """What the gateway asks of a provider: a name, its capabilities, and four methods."""

    Settings = PlainSettings

    def __init__(self, settings: PlainSettings, environment: Environment) -> None:
        self.name = settings.name
        self.capabilities = Capabilities(parameters=frozenset(), tools=False)
        self._http = environment.http
        self._timeouts = settings.timeouts
        self._key = settings.api_key.reveal() if settings.api_key else ""
        self._url = f"{settings.base_url}{settings.path}"

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await ask(self._http, turn, self._call, sink)

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        return ["plain-1"]

    async def close(self) -> None:
        return

    def _call(self, turn: Turn) -> Call:
        for n, _ in enumerate(turn.tools):
            turn.receipt(self.name, f"tools[{n}]", "this server knows no tools")
        said = [f"system: {turn.request.instructions}"] if turn.request.instructions else []
        for speech in speeches(turn, self.name):
            texts = [entry.item.get_text() for entry in speech.entries if isinstance(entry.item, Message)]
            said.append(f"{speech.role}: {' '.join(texts)}")
        return Call(
            provider=self.name,
            url=self._url,
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "text/plain; charset=utf-8"},
            body="\n".join(said).encode(),
            parser=PlainText(),
            timeouts=self._timeouts,
            secrets=[self._key],
        )


class PlainText:
    """Reads the answer without I/O: bytes in, deltas out, wherever the network cut a character."""

    over = False

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, data: bytes) -> list[AnyDelta]:
        text = self._decode(data)
        return [TextDelta(text)] if text else []

    def end(self, error: ErrorPayload | None = None) -> list[AnyDelta]:
        return [Failure(error) if error else Finish()]

    def whole(self, body: bytes) -> list[AnyDelta]:
        return [*self.feed(body), *self.end()]
