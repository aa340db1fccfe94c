"""What every store must do: a test class inherits `Conformance` and has two fixtures.

`open_store` opens one more handle on the same data, as another process would; `store` is the first of them.
"""

from tests.store.conformance.approvals import Approvals
from tests.store.conformance.background import Background
from tests.store.conformance.chats import Chats
from tests.store.conformance.conversations import Conversations
from tests.store.conformance.files import Files
from tests.store.conformance.idempotency_keys import IdempotencyKeys
from tests.store.conformance.operations import Operations
from tests.store.conformance.responses import Responses
from tests.store.conformance.retention import Retention
from tests.store.conformance.sessions import Sessions
from tests.store.conformance.settlements import Settlements
from tests.store.conformance.shared_numbers import SharedNumbers


class Conformance(
    Responses,
    Background,
    Conversations,
    Chats,
    Retention,
    Sessions,
    Approvals,
    Files,
    IdempotencyKeys,
    SharedNumbers,
    Settlements,
    Operations,
):
    """All of it, for one store."""
