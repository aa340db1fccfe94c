"""The answer of a chat upstream: each fault in it becomes an error in the name of this provider."""

from collections.abc import Collection

from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload
from antiphon.stream.deltas import AnyDelta
from antiphon.wires.chat.reader import ChatFault, ChatReader


class ChatStream(ChatReader, eq=False):
    """Reads one answer for the provider of this name; no secret of it stands in an error."""

    provider: str = "chat"
    secrets: Collection[str] = ()

    def whole(self, body: bytes) -> list[AnyDelta]:
        """The deltas of an answer that was not streamed; raises `UpstreamError` if it is an error."""
        try:
            return ChatReader.whole(self, body)
        except ChatFault as fault:
            raise self._error(fault) from None

    def describe(self, fault: ChatFault) -> ErrorPayload:
        return self._error(fault).payload

    def _error(self, fault: ChatFault) -> UpstreamError:
        match fault.kind:
            case "reported":
                return errors.from_error_object(self.provider, fault.said, secrets=self.secrets)
            case "closed":
                return errors.closed(self.provider, str(fault.said))
        return errors.invalid(self.provider, str(fault.said))
