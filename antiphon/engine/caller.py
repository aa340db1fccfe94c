"""Who asks for a response, and what another process may have made of it before."""

from msgspec import Struct, field

from antiphon.engine.current_target import Asked
from antiphon.engine.idempotency import HeldKey
from antiphon.spec.response import Response
from antiphon.spec.routing import RouteHint
from antiphon.store.base import Context
from antiphon.stream.dialects import OPEN_RESPONSES, Dialect
from antiphon.stream.pairing import Pairing


class Caller(Struct, eq=False):
    """Who asks, and how they want to be answered."""

    tenant: str = ""
    key: str = ""
    """The name of the key that was sent."""
    dialect: Dialect = OPEN_RESPONSES
    receipts: bool = False
    strict: bool = False
    request_id: str = ""
    is_large: bool = False
    """Has this request a body that takes longer than the event loop can spare?"""
    via: str = ""
    """The header by which somebody whom nobody knows shows that they come through a proxy."""
    hint: RouteHint | None = None
    """What a header says about the task, for routes that choose by it."""
    skipped: list[str] = field(default_factory=list)
    """Where texts stood among the items of the input; a lenient dialect lets them be passed over."""
    pairing: Pairing | None = None
    """What becomes of a call or an output that stands alone, if that is not for the configuration to say."""
    held: HeldKey | None = None
    """The idempotency key that the request has."""
    asked: Asked = field(default_factory=Asked)
    """What the request leads to, as the engine finds it. A copy of the caller shares it."""


class Begun(Struct):
    """A response that another process has begun, and the context that it follows."""

    response: Response
    previous: Context | None
