"""Who asks, and how they want to be answered."""

from msgspec import Struct

from antiphon.engine.idempotency import IdempotencyClaim
from antiphon.spec.routing import RouteHint
from antiphon.stream.dialects import OPEN_RESPONSES, Dialect
from antiphon.stream.pairing import Pairing


class RequestContext(Struct, frozen=True, eq=False):
    """What a request says of its sender. Made once; a door that knows more makes a copy."""

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
    """The header by which an unknown sender shows that a proxy has passed the request on."""
    hint: RouteHint | None = None
    """What a header says about the task, for routes that choose by it."""
    skipped: tuple[str, ...] = ()
    """Where texts stood among the items of the input; a lenient dialect lets the reader pass over them."""
    pairing: Pairing | None = None
    """What becomes of a call or an output without its partner, where the door decides that."""
    claim: IdempotencyClaim | None = None
    """The claim on the idempotency key of the request, if it has one."""
