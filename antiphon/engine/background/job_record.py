"""What is kept of a running background response so that another process can go on with it.

It may hold credentials of the caller's tools, so it is sealed for one tenant and one response. What the
request brought as input is not in it: the store has that in the row of the response.
"""

import zlib
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from antiphon.engine.hosted.progress import HostedProgress
from antiphon.engine.request_context import RequestContext
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.decode import decode_request
from antiphon.spec.items import Item
from antiphon.spec.request import Request, encode_request
from antiphon.spec.routing import RouteHint
from antiphon.stream.dialects import of_log
from antiphon.wires.run_listener import Spent
from antiphon.wires.sealing import Seal, SealBroken


class UnreadableJob(Exception):
    """A job that this gateway cannot open: it has other sealing keys, or another version."""


class JobRecord(Struct, omit_defaults=True):
    """A request and its context, and how far hosted tools have come with it."""

    request: Raw
    key: str = ""
    receipts: bool = False
    strict: bool = False
    request_id: str = ""
    is_large: bool = False
    via: str = ""
    hint: RouteHint | None = None
    hosted: HostedProgress | None = None
    spent: Spent | None = None
    """What the attempts of the run have taken so far."""
    handovers: int = 0
    """How often a process that was stopped has left it to another one."""

    @classmethod
    def of(cls, request: Request, context: RequestContext) -> "JobRecord":
        return cls(
            request=Raw(encode_request(replace(request, input=None))),
            key=context.key,
            receipts=context.receipts,
            strict=context.strict,
            request_id=context.request_id,
            is_large=context.is_large,
            via=context.via,
            hint=context.hint,
        )

    def with_input(self, given: list[Item]) -> Request:
        """The request, with the input that it brought."""
        return replace(decode_request(bytes(self.request)), input=given)

    def context(self, tenant: str, dialect: str | None) -> RequestContext:
        return RequestContext(
            tenant=tenant,
            key=self.key,
            dialect=of_log(dialect),
            receipts=self.receipts,
            strict=self.strict,
            request_id=self.request_id,
            is_large=self.is_large,
            via=self.via,
            hint=self.hint,
        )

    def seal(self, seal: Seal, tenant: str, response: str) -> bytes:
        raw = zlib.compress(msgspec.json.encode(self), 1)
        return seal.seal(raw, tenant=tenant, purpose=_purpose(response)).encode()

    @classmethod
    def unseal(cls, sealed: bytes, seal: Seal, tenant: str, response: str) -> "JobRecord":
        try:
            raw: Any = seal.open(sealed.decode(), tenant=tenant, purpose=_purpose(response))
            return msgspec.json.decode(zlib.decompress(raw), type=cls)
        except (SealBroken, zlib.error, *UNREADABLE) as error:
            raise UnreadableJob(str(error)) from error


def _purpose(response: str) -> str:
    return f"background job {response}"
