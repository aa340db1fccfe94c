"""The summary of a conversation as a `compaction` item, which only those who made it can open."""

from antiphon.spec import ids
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_stored_items
from antiphon.spec.errors import INVALID_ENCRYPTED_CONTENT, ErrorPayload, SpecError
from antiphon.spec.items import Compaction, Item, Message, Role
from antiphon.wires.sealing import Seal, SealBroken

COMPACTION = "compaction"
_HEADING = "Summary of the conversation so far:\n\n"


def summary_message(text: str, role: Role = "developer") -> Message:
    """A summary as a message for a model. As the user's words it can be the whole input, on every wire."""
    return Message(role=role, content=_HEADING + text)


def sealed_summary(text: str, seal: Seal, tenant: str = "") -> Compaction:
    summary: list[Item] = [summary_message(text)]
    sealed = seal.seal(encode(summary), tenant=tenant, purpose=COMPACTION)
    return Compaction(id=ids.new_id(ids.COMPACTION), encrypted_content=sealed)


def opened_summary(item: Compaction, param: str, seal: Seal, tenant: str = "") -> list[Item]:
    """What a model is given in the place of the item; `param` is where the item stands in the request."""
    try:
        sealed = seal.open(item.encrypted_content, tenant=tenant, purpose=COMPACTION)
    except SealBroken as broken:
        raise SpecError(
            ErrorPayload(
                "invalid_request",
                f"this compaction item cannot be opened: {broken}",
                code=INVALID_ENCRYPTED_CONTENT,
                param=f"{param}.encrypted_content",
            )
        ) from None
    return decode_stored_items(sealed)
