"""`/v1/models`: every model, in OpenAI's shape, in that of the Messages API, or as Codex's catalogue."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from antiphon.bridges.messages.door import MESSAGES
from antiphon.bridges.messages.picker_names import model_of, picker_name
from antiphon.catalogue import ModelInfo
from antiphon.catalogue.codex import CodexModel, codex_catalogue
from antiphon.config import Target, UnknownModel
from antiphon.server.api.messages import MessagesModel, MessagesModelList
from antiphon.server.api.objects import ModelDetails, ModelList, ModelObject
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.paging import page_limit
from antiphon.spec.codec import encode
from antiphon.spec.error_paths import describe, wrong
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.wires.worker_thread import in_worker_thread

_MOST = 1000
_PICKER = "claude-code/"
"""How the User-Agent begins of the list of models in Claude Code."""


async def list_models(gateway: Gateway, exchange: Exchange) -> None:
    """The configured names, then `PROVIDER/model` for what each provider lists. `antiphon:model` has
    what is known of each: window, limits, what it takes, and prices; null is unknown. With
    `client_version` (Codex) they come as `models` in the shape of its catalogue, with an `ETag`.
    """
    found = await _list_served(gateway, exchange)
    if exchange.query("client_version") is not None:
        await _codex_models(gateway, exchange, found)
        return
    await exchange.answer(encode(ModelList(data=await _model_objects(gateway, exchange, found))))


async def list_messages_models(gateway: Gateway, exchange: Exchange) -> MessagesModelList:
    models = await _model_objects(gateway, exchange, await _list_served(gateway, exchange))
    return _messages_page(models, exchange)


async def _model_objects(gateway: Gateway, exchange: Exchange, found: dict[str, Target]) -> list[ModelObject]:
    # Some providers list hundreds of models, and the first look at each takes a while.
    key = exchange.context.key
    return await in_worker_thread(lambda: [_model_object(gateway, *each, key) for each in found.items()])


async def _list_served(gateway: Gateway, exchange: Exchange) -> dict[str, Target]:
    """The configured names, the default first, then the models of each provider as `NAME/model`."""
    config, found = gateway.config, {}
    for alias in sorted(config.aliases(), key=lambda alias: alias != config.default_model):
        with suppress(SpecError):  # who asks cannot use it
            found[alias] = _target(gateway, exchange, alias)
    refused = config.discovered if exchange.context.via else ()
    for name, listed in (await gateway.models.list_models(without=refused)).items():
        for model in listed:
            if config.models.get(model) != (f"{name}/{model}",):
                found.setdefault(f"{name}/{model}", Target(name, model))
    await gateway.engine.routes.catalogue.load()
    return found


async def _codex_models(gateway: Gateway, exchange: Exchange, found: dict[str, Target]) -> None:
    engine = gateway.engine

    def encode_catalogue() -> bytes:
        known = (
            CodexModel(id, engine.routes.catalogue.lookup(*target), provider.capabilities)
            for id, target in found.items()
            if (provider := engine.providers.get(target.provider)) is not None
        )
        return encode(codex_catalogue(known))

    body = await in_worker_thread(encode_catalogue)
    tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()
    if exchange.head.headers.get(b"if-none-match") == tag:
        await exchange.empty(304, headers=((b"etag", tag),))
        return
    await exchange.answer(body, headers=((b"etag", tag),))


async def retrieve(gateway: Gateway, exchange: Exchange) -> ModelObject:
    """The id may have slashes in it."""
    return await _find_model(gateway, exchange, exchange.params["id"])


async def retrieve_messages_model(gateway: Gateway, exchange: Exchange) -> MessagesModel:
    found = await _find_model(gateway, exchange, model_of(exchange.params["id"]))
    return _messages_model(found, found.id)


async def _find_model(gateway: Gateway, exchange: Exchange, id: str) -> ModelObject:
    target = _target(gateway, exchange, id)
    await gateway.engine.routes.catalogue.load()
    return _model_object(gateway, id, target, exchange.context.key)


def _target(gateway: Gateway, exchange: Exchange, id: str) -> Target:
    """Whom a request for this model goes to first; refused if there is none, or none for who asks."""
    engine, context = gateway.engine, exchange.context
    try:
        target = gateway.config.resolve(id)
    except UnknownModel as unknown:
        error = ErrorPayload("not_found", str(unknown), code="model_not_found", param="model")
        raise SpecError(error) from None
    if (route := engine.settings.route_of(id)) is not None:
        return engine.usable(route, context).targets[0]
    engine.check_use(target.provider, context)
    return target


def _model_object(gateway: Gateway, id: str, target: Target, key: str) -> ModelObject:
    engine = gateway.engine
    info = engine.routes.catalogue.lookup(*target)
    provider = engine.providers.get(target.provider)
    calls_tools = provider is not None and provider.capabilities.tools and info.tools is not False
    return ModelObject(
        id=id,
        created=gateway.started,
        owned_by=target.provider,
        details=_details(target, info),
        tools=engine.hosted.list_nameable_types(key) if calls_tools else [],
    )


def _details(target: Target, info: ModelInfo) -> ModelDetails:
    taken, levels = info.input_modalities, info.reasoning_levels
    return ModelDetails(
        target="/".join(target),
        context_window=info.context_window,
        output_limit=info.output_limit,
        input_modalities=None if taken is None else sorted(taken),
        tools=info.tools,
        json_schema=info.json_schema,
        reasoning_levels=None if levels is None else list(levels),
        prices=info.prices,
        price_model=info.price_model or None,
        sources=info.sources,
    )


def _messages_model(model: ModelObject, id: str) -> MessagesModel:
    details, created = model.details, datetime.fromtimestamp(model.created, UTC)
    return MessagesModel(
        id=id,
        display_name=model.id,
        created_at=created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_input_tokens=details.context_window,
        max_tokens=details.output_limit,
    )


def _messages_page(models: Sequence[ModelObject], exchange: Exchange) -> MessagesModelList:
    """The page that `limit`, `after_id` and `before_id` ask for; Claude Code is given names that it shows."""
    is_picker = (exchange.header(b"user-agent") or "").startswith(_PICKER)
    ids = [picker_name(model.id) if is_picker else model.id for model in models]
    start, end = 0, len(models)
    limit = page_limit(exchange, _MOST)
    if (after := exchange.query("after_id")) is not None:
        start = _index_of(ids, after, "after_id") + 1
    before = exchange.query("before_id")
    if before is not None:
        end = _index_of(ids, before, "before_id")
        start = max(start, end - limit)
    page = [_messages_model(models[n], ids[n]) for n in range(start, min(end, start + limit))]
    has_more = start > 0 if before is not None else start + limit < end
    return MessagesModelList(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=has_more,
    )


def _index_of(ids: list[str], id: str, param: str) -> int:
    if id not in ids:
        raise wrong(param, f"there is no model {describe(id)}")
    return ids.index(id)


ENDPOINTS = (
    Endpoint(
        "GET /v1/models",
        list_models,
        "listModels",
        "List models",
        answer=ModelList,
        theirs=(MESSAGES, list_messages_models),
    ),
    Endpoint(
        "GET /v1/models/{id...}",
        retrieve,
        "getModel",
        "Retrieve a model",
        theirs=(MESSAGES, retrieve_messages_model),
    ),
)
