"""What must hold before a response joins a chat."""

from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.request import Request
from antiphon.store.store import Store

PARAM = "antiphon:chat"


async def check_chat(request: Request, tenant: str, store: Store) -> None:
    """Refuse a request that cannot join the chat which it names."""
    assert request.chat is not None
    if not request.store:
        message = "a response in a chat must be stored; leave out `store: false`, or the chat"
        raise SpecError(invalid_param("store", message).with_code("chat_needs_store"))
    if request.conversation is not None:
        raise SpecError(invalid_param("conversation", "give `conversation` or `antiphon:chat`, not both"))
    if await store.chat(tenant, request.chat) is None:
        raise chat_not_found(request.chat, PARAM)
    if request.previous_response_id is not None:
        await check_free(request.previous_response_id, request.chat, tenant, store, "previous_response_id")


async def check_free(response: str, chat: str, tenant: str, store: Store, param: str) -> None:
    """Refuse a response that is in another chat: it has one place."""
    found = await store.chat_of(tenant, response)
    if found is not None and found != chat:
        message = f"the response {response[:100]!r} is in the chat {found!r}, and can be in one chat only"
        raise SpecError(ErrorPayload("invalid_request", message, "response_in_another_chat", param))


def chat_not_found(id: str, param: str | None = None) -> SpecError:
    message = f"the chat {id[:100]!r} does not exist; `GET /v1/antiphon/chats` lists the existing chats"
    return SpecError(ErrorPayload("not_found", message, "chat_not_found", param))
