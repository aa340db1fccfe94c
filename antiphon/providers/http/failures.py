"""Why an exchange cannot go on; it becomes an `UpstreamError` in the name of a provider."""

from antiphon.providers import errors
from antiphon.providers.base import UpstreamError


class ExchangeFailure(Exception):
    """Becomes the error `before_answer` as long as there is no answer, and `in_answer` in its middle."""

    def before_answer(self, provider: str) -> UpstreamError:
        return errors.unreachable(provider, str(self))

    def in_answer(self, provider: str) -> UpstreamError:
        return errors.closed(provider, "in the middle of the answer")


class Unreachable(ExchangeFailure):
    """No connection, or none that a request can be sent on; the text says why and what to do."""


class BadProxy(Unreachable):
    def __init__(self) -> None:
        super().__init__("the proxy could not be used; check HTTP_PROXY and NO_PROXY")


class Closed(ExchangeFailure):
    """The upstream hung up, or the network did."""

    def before_answer(self, provider: str) -> UpstreamError:
        return errors.closed(provider, "before there was an answer")


class Invalid(ExchangeFailure):
    """What came is no answer that can be understood; the text says why."""

    def __init__(self, why: str = "the answer is not valid HTTP") -> None:
        super().__init__(why)

    def before_answer(self, provider: str) -> UpstreamError:
        return errors.invalid(provider, f"{self}; check its base_url")

    def in_answer(self, provider: str) -> UpstreamError:
        return errors.invalid(provider, str(self))


class Forbidden(ExchangeFailure):
    """The address is not one that may be connected to."""

    def before_answer(self, provider: str) -> UpstreamError:
        return errors.forbidden(provider, str(self))
