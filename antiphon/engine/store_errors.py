"""What a client is told when the store fails: the same on every path."""

from antiphon.spec.errors import STORE_FAILED, STORE_FULL, ErrorPayload
from antiphon.store.base import StoreError, StoreFull


def store_error(error: StoreError, what: str = "") -> ErrorPayload:
    """Its status is 507 when there is no room, and 503 for anything else; `what` stands before its words."""
    code = STORE_FULL if isinstance(error, StoreFull) else STORE_FAILED
    return ErrorPayload("server_error", f"{what}{error}", code=code)
