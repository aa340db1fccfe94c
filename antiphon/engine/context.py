"""From a request to the one flat list of items that a provider is given."""

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from msgspec import Struct

from antiphon.engine.reasoning import Proofs
from antiphon.spec import ids
from antiphon.spec.codec import Opaque, extras
from antiphon.spec.content import InputImage
from antiphon.spec.decode import decode_stored_items
from antiphon.spec.error_paths import wrong
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.items import Compaction, Item, ItemReference, Message, has_media, parts_of, type_of
from antiphon.spec.limits import LARGE
from antiphon.spec.request import CompactRequest, Request, WebSocketCreate
from antiphon.store.base import Context
from antiphon.store.store import Store
from antiphon.stream.client_calls import COMPACTION_TRIGGER
from antiphon.stream.pairing import Pairing, pair_calls
from antiphon.wires.compaction import opened_summary
from antiphon.wires.media import data_url
from antiphon.wires.responses_socket import TurnMemory
from antiphon.wires.sealing import Seal, is_sealed
from antiphon.wires.worker_thread import in_worker_thread

_MOST_REFERENCES = 1000
_BLOB = re.compile(r"[\w+/=.-]{40,}", re.ASCII)
"""What something encrypted looks like, whoever made it."""
_COMPACTIONS = frozenset({"compaction_summary", "context_compaction"})
_ANSWERABLE = ("input", "previous_response_id", "conversation", "instructions")
_INPUT_ELSEWHERE = frozenset({"messages", "prompt"})

INVALID_IMAGE = "invalid_image"
_PICTURE_SLICE = 64 * 1024

# Of both alphabets, and with the line breaks that some encoders put in.
_BASE64_ALPHABETS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_= \t\r\n"


class Resolved(Struct, gc=False):
    """`items` is the whole context; `input` the part of it that this request brought."""

    items: list[Item]
    input: list[Item]
    previous: Context | None = None
    is_large: bool = False
    start: int = 0
    """How many of the items came before this request."""
    is_plain: bool = False
    """Are there only messages, which every provider sees alike?"""
    has_media: bool = False
    """Is there anything beside text?"""


Memory = TurnMemory[Context]


def resolve_alone(request: Request, is_large: bool = False) -> Resolved | None:
    """The context of a request that follows nothing and brings nothing but words, if they are few."""
    words = request.input
    if words is None or request.previous_response_id is not None or request.conversation is not None:
        return None
    if not isinstance(words, str) and (is_large or set(map(type, words)) != {Message} or has_media(words)):
        return None
    given = input_items(words) if isinstance(words, str) else give_ids(words)
    # Two lists: the first is the provider's, and what it adds there was not given by the client.
    return Resolved([*given], given, is_plain=True)


def check_question(request: Request) -> None:
    """Refuse a request that has nothing to answer, and name the field that was probably misspelt."""
    if any(getattr(request, name) is not None for name in _ANSWERABLE):
        return
    if isinstance(request, WebSocketCreate) and not request.generate:
        return  # it warms the connection
    unknown = extras(request)
    if isinstance(unknown.get("prompt"), dict):
        return  # a prompt that the upstream keeps
    advice = f"give one of {', '.join(f'`{name}`' for name in _ANSWERABLE)}"
    for name in unknown:
        close = get_close_matches(name[:100], _ANSWERABLE, 1)
        meant = "input" if name in _INPUT_ELSEWHERE else close[0] if close else None
        if meant is not None:
            advice = f"did you mean `{meant}` for `{name[:100]}`?"
            break
    raise wrong(
        "input", f"`input` is missing, and there is nothing else to answer; {advice}", "missing_field"
    )


async def resolve(
    request: Request | CompactRequest,
    *,
    tenant: str,
    store: Store,
    memory: Memory | None = None,
    pairing: Pairing = "reject",
    is_large: bool = False,
    previous: Context | None = None,
) -> Resolved:
    """`is_large` says that what the request itself brought is; so may be what came before.

    `previous` is the context of the response that the request follows, where that has been read before.
    """
    earlier = b""
    if request.previous_response_id is not None and previous is None:
        previous = await _previous(request.previous_response_id, tenant, store, memory)
    conversation = request.conversation if isinstance(request, Request) else None
    if conversation is not None:
        if previous is not None:
            raise SpecError(
                invalid_param("conversation", "give `conversation` or `previous_response_id`, not both")
            )
        earlier = await _conversation(conversation, tenant, store)

    def read() -> tuple[list[Item], list[Item]]:
        if isinstance(request.input, list):
            check_pictures(request.input)
        context = previous.json() if previous is not None else earlier
        return decode_stored_items(context) if context else [], give_ids(input_items(request.input))

    def join() -> Resolved:
        if set(map(type, before)) | set(map(type, given)) == {Message}:
            items, is_plain = [*before, *given], True  # nothing to pair or to open
        else:
            items, is_plain = pair_calls([*before, *given], len(before), pairing), False
        return Resolved(items, given, previous, is_large, len(before), is_plain, has_media(items))

    is_large = is_large or (previous.size if previous is not None else len(earlier)) > LARGE
    before, given = await in_worker_thread(read) if is_large else read()
    if ItemReference in set(map(type, given)):
        given = await _resolve_references(given, before, tenant, store)
    return await in_worker_thread(join) if is_large else join()


async def prepare_items(
    resolved: Resolved,
    proofs: Proofs,
    tenant: str,
    seal: Seal,
    told: Callable[[list[Item]], list[Item]] | None = None,
) -> list[Item]:
    """The items as one provider may see them: proofs of its own reasoning, and summaries, are opened.

    `told` tells of the calls of hosted tools as the provider needs it.
    """
    if resolved.is_plain:
        return resolved.items

    def open_items() -> list[Item]:
        items = proofs.open_items(resolved.items, resolved.start)
        items = _open_compactions(items, resolved.start, tenant, seal, proofs)
        return items if told is None else told(items)

    return await in_worker_thread(open_items) if resolved.is_large else open_items()


def input_items(given: str | list[Item] | None) -> list[Item]:
    if given is None:
        return []
    if isinstance(given, str):
        return [Message(id=ids.new_id(ids.MESSAGE), role="user", content=given)]
    return given


def give_ids(items: list[Item]) -> list[Item]:
    """Every item with an id of its own, so that it can be listed and referred to."""
    named: list[Item] = []
    for item in items:
        if item.id:
            named.append(item)
        elif isinstance(item, Opaque):
            named.append(item.replace(id=ids.new_id(ids.ITEM)))
        else:
            item.id = ids.new_id(ids.prefix(type_of(item)))
            named.append(item)
    return named


async def _previous(id: str, tenant: str, store: Store, memory: Memory | None) -> Context:
    context = memory.get(id) if memory else None
    if context is None:
        context = await store.context(tenant, id)
    if context is None or context.status in ("queued", "in_progress"):
        state = "does not exist" if context is None else "is still running"
        raise SpecError(
            ErrorPayload(
                "not_found" if context is None else "invalid_request",
                f"the response {id!r} {state}; send the whole conversation as `input` instead",
                code="previous_response_not_found" if context is None else "previous_response_not_finished",
                param="previous_response_id",
            )
        )
    return context


async def _conversation(id: str, tenant: str, store: Store) -> bytes:
    raw = await store.conversation_context(tenant, id)
    if raw is None:
        raise SpecError(
            ErrorPayload(
                "not_found",
                f"the conversation {id!r} does not exist",
                code="conversation_not_found",
                param="conversation",
            )
        )
    return raw


async def _resolve_references(given: list[Item], before: list[Item], tenant: str, store: Store) -> list[Item]:
    references = {n: item.id for n, item in enumerate(given) if isinstance(item, ItemReference)}
    if len(references) > _MOST_REFERENCES:
        message = f"a request may refer to {_MOST_REFERENCES:,} items; this one refers to {len(references):,}"
        raise SpecError(invalid_param("input", message))
    here = {item.id: item for item in [*before, *given] if not isinstance(item, ItemReference)}
    wanted = [id for id in references.values() if id not in here]
    stored = await store.items(tenant, wanted) if wanted else {}
    found: dict[str, Item] = {id: decode_stored_items(b"[" + raw + b"]")[0] for id, raw in stored.items()}
    resolved = list(given)
    for n, id in references.items():
        item = found.get(id) or here.get(id)
        if item is None:
            raise SpecError(
                ErrorPayload(
                    "not_found",
                    f"the item {id!r} is not stored; send the item itself",
                    code="item_not_found",
                    param=f"input[{n}].id",
                )
            )
        resolved[n] = item
    already = {item.id for item in before}
    return [item for n, item in enumerate(resolved) if n not in references or item.id not in already]


def _as_compaction(item: Opaque) -> Item:
    """The other names under which clients send a compaction item back."""
    sealed = item.fields.get("encrypted_content") if item.type in _COMPACTIONS else None
    return Compaction(id=item.id, encrypted_content=sealed) if isinstance(sealed, str) else item


def _open_compactions(items: list[Item], start: int, tenant: str, seal: Seal, proofs: Proofs) -> list[Item]:
    """Compaction items become the summary that they hold; an upstream that makes its own opens those.

    A stored turn that asked for a summary stands for everything before it.
    """
    opened: list[Item] = []
    for n, item in enumerate(items):
        if isinstance(item, Opaque):
            if item.type == COMPACTION_TRIGGER and n < start:
                opened.clear()
                continue
            item = _as_compaction(item)
        if not isinstance(item, Compaction):
            opened.append(item)
            continue
        if proofs.takes_foreign and not is_sealed(item.encrypted_content):
            opened.append(item)
            continue
        try:
            opened += opened_summary(item, f"input[{n - start}]", seal, tenant)
        except SpecError as broken:
            if _BLOB.fullmatch(item.encrypted_content):
                raise  # it may stand for a whole conversation
            proofs.pass_over(broken)
    return opened


def check_pictures(items: Sequence[Item]) -> None:
    """Refuse a picture that no model could see, before one is asked."""
    for n, item in enumerate(items):
        name, parts = parts_of(item)
        for m, part in enumerate(parts):
            if isinstance(part, InputImage) and (wrong := _find_picture_fault(part.image_url or "")):
                message = f"the data URL of this picture {wrong}; it must be `data:image/png;base64,…`"
                param = f"input[{n}].{name}[{m}].image_url"
                raise SpecError(ErrorPayload("invalid_request", message, INVALID_IMAGE, param))


def _find_picture_fault(url: str) -> str | None:
    inline = data_url(url)
    if inline is None:
        return None
    if not inline.data:
        return "has no data"
    # All that is left when the alphabet is taken out; decoding would cost twenty times as much.
    data = inline.data
    slices = (
        data[at : at + _PICTURE_SLICE].encode(errors="replace") for at in range(0, len(data), _PICTURE_SLICE)
    )
    return "is not in base64" if any(one.translate(None, _BASE64_ALPHABETS) for one in slices) else None
