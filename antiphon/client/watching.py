"""What a call to a server looks like from outside: the bytes of its request and answer, as they were."""

from collections.abc import Mapping
from typing import Protocol


class Watch(Protocol):
    """Give one as `watch=` to see a call on the wire. Attempts that failed are seen too, each from `sent` on.

    Its methods are called from the event loop while the answer comes, so they must be quick.
    """

    def sent(self, method: str, url: str, body: bytes) -> None:
        """A request goes out; its headers are left out, since they hold the key."""

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of the answer is here."""

    def received(self, piece: bytes) -> None:
        """The next bytes of a successful answer, unpacked."""
