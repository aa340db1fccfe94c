"""`thread` of a request: the gateway keeps the conversation, and the client sends only what is new.

A message that is stored can be continued by its id, which is that of its response under another prefix. What
the provider is asked is the whole conversation, so it never hears of a thread.
"""

from antiphon.bridges.messages.block_fields import string
from antiphon.bridges.messages.body import MessagesBody
from antiphon.bridges.messages.errors import THREAD_MISMATCH, THREAD_NOT_FOUND, THREAD_UNSUPPORTED
from antiphon.bridges.messages.message import response_id
from antiphon.spec.error_paths import describe, wrong
from antiphon.spec.errors import ErrorPayload, SpecError

PREVIOUS = "thread.previous_message_id"
THREADS_BETA = "message-threads-"
"""How the betas begin that switch threads on; they are the gateway's affair and not its provider's."""


def followed_response(asked: MessagesBody) -> str | None:
    """The id of the response that the request goes on from; None where it does not follow a message."""
    thread = asked.thread
    if thread is None:
        return None
    kind = string(thread, "type", "thread")
    if kind not in ("create", "continue"):
        raise wrong("thread.type", f"expected 'create' or 'continue', got {describe(kind)}")
    if not asked.store:
        why = "a thread has to be stored, and `store` is false; send the whole conversation without `thread`"
        raise wrong("thread", why, THREAD_UNSUPPORTED)
    if kind == "create":
        return None
    for name, given in (("system", asked.system), ("tools", asked.tools)):
        if given:
            why = (
                f"a thread keeps the `{name}` that it was created with; leave the field out, "
                'or send the whole conversation with `thread: {"type": "create"}`'
            )
            raise wrong(name, why, THREAD_MISMATCH)
    if not (id := response_id(string(thread, "previous_message_id", "thread"))):
        raise thread_not_found()
    return id


def thread_not_found() -> SpecError:
    """The error after which a client sends the whole conversation, and begins a new thread."""
    message = (
        "no message of this id can be continued: it does not exist, has expired, or did not end; "
        'send the whole conversation with `thread: {"type": "create"}`'
    )
    return SpecError(ErrorPayload("not_found", message, THREAD_NOT_FOUND, PREVIOUS))
