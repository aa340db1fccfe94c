"""What a program that runs the gateway inside itself is told of each provider that is asked."""

from typing import Protocol

from antiphon.spec.errors import ErrorPayload


class ProviderWatch(Protocol):
    """Told whenever a provider is asked, and then once what came of it: an answer or a failure.

    `request_id` is that of the request for which it is asked, `provider` its name in the configuration.
    """

    def asks(self, request_id: str, provider: str) -> None:
        """It is about to be asked; a `SpecError` keeps it from that, and is what came of it."""

    def answered(self, request_id: str, provider: str, tokens: int) -> None:
        """It has answered, with so many tokens in all, or who asked has left before the end."""

    def failed(self, request_id: str, provider: str, status: int, error: ErrorPayload) -> None:
        """It has refused, or broken off; `status` is that of the error over HTTP."""
