"""Models, health, audit report, and the description of the API."""

import asyncio
import hashlib
from contextlib import suppress
from functools import cache
from importlib.resources import files

from antiphon.bridges.encoder import Headers
from antiphon.bridges.messages.errors import speaks_messages
from antiphon.bridges.messages.picker_names import model_of
from antiphon.catalogue import ModelInfo
from antiphon.catalogue.codex import CodexModel, codex_catalogue
from antiphon.config import Target, UnknownModel
from antiphon.providers.base import Provider
from antiphon.server.api import openapi as description
from antiphon.server.api.objects import Health, ModelDetails, ModelList, ModelObject, Readiness
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.routes.messages_models import model_object, model_page
from antiphon.spec.codec import encode
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.store import StoreError
from antiphon.wires.worker_thread import in_worker_thread

HTML = b"text/html; charset=utf-8"
SVG = b"image/svg+xml"
_PATIENCE = 2.0
_HEALTHY = encode(Health())
PAGE_HEADERS: Headers = (
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
"""What each page and file for a browser is sent with, beside a policy of its own for its content."""
# The page needs nothing but itself and the description beside it, and no other page can frame it.
_DOCS_HEADERS: Headers = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
        b"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    *PAGE_HEADERS,
)


async def models(gateway: Gateway, exchange: Exchange) -> None:
    """Every model; in the shape of the Messages API, or of Codex's catalogue, for who asks for that."""
    found = await _served(gateway, exchange)
    if exchange.query("client_version") is not None:
        await _codex_models(gateway, exchange, found)
        return
    # Some list hundreds of models, and the first look at each takes a while.
    key = exchange.context.key
    models = await in_worker_thread(lambda: [_model(gateway, *each, key) for each in found.items()])
    if speaks_messages(exchange.head.path, exchange.head.headers):
        await exchange.answer(encode(model_page(models, exchange)))
        return
    await exchange.answer(encode(ModelList(data=models)))


async def _served(gateway: Gateway, exchange: Exchange) -> dict[str, Target]:
    """The configured names, the default first, then the models of each provider as `NAME/model`."""
    config, found = gateway.config, {}
    for alias in sorted(config.aliases(), key=lambda alias: alias != config.default_model):
        with suppress(SpecError):  # who asks cannot use it
            found[alias] = _target(gateway, exchange, alias)
    refused = config.discovered if exchange.context.via else ()
    for name, listed in (await gateway.models.listed(without=refused)).items():
        for model in listed:
            if config.models.get(model) != (f"{name}/{model}",):
                found.setdefault(f"{name}/{model}", Target(name, model))
    await gateway.engine.routes.catalogue.load()
    return found


async def _codex_models(gateway: Gateway, exchange: Exchange, found: dict[str, Target]) -> None:
    engine = gateway.engine

    def made() -> bytes:
        known = (
            CodexModel(id, engine.routes.catalogue.lookup(*target), provider.capabilities)
            for id, target in found.items()
            if (provider := engine.providers.get(target.provider)) is not None
        )
        return encode(codex_catalogue(known))

    body = await in_worker_thread(made)
    tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()
    if exchange.head.headers.get(b"if-none-match") == tag:
        await exchange.empty(304, headers=((b"etag", tag),))
        return
    await exchange.answer(body, headers=((b"etag", tag),))


async def model(gateway: Gateway, exchange: Exchange) -> None:
    id = exchange.params["id"]
    is_asked_so = speaks_messages(exchange.head.path, exchange.head.headers)
    if is_asked_so:
        id = model_of(id)
    target = _target(gateway, exchange, id)
    await gateway.engine.routes.catalogue.load()
    found = _model(gateway, id, target, exchange.context.key)
    await exchange.answer(encode(model_object(found) if is_asked_so else found))


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


async def healthz(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(_HEALTHY)


async def readyz(gateway: Gateway, exchange: Exchange) -> None:
    """Ready as long as the store answers; a model that is not loaded is loaded by its first request."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await gateway.store.get("", "resp_")
        store = "ok"
    except TimeoutError:
        store = f"no answer within {_PATIENCE:g} seconds"
    except StoreError as error:
        store = str(error)
    ready = store == "ok"
    usable = gateway.engine.providers
    states = {
        name: _state(usable[name]) if name in usable else "disabled" for name in gateway.config.providers
    }
    answer = Readiness(status="ready" if ready else "not_ready", store=store, models=states)
    await exchange.answer(encode(answer), 200 if ready else 503)


async def audit(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(encode(gateway.audits.report(exchange.context)))


async def openapi(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(description.document())


async def docs(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(_file("docs.html"), content_type=HTML, headers=_DOCS_HEADERS)


async def favicon(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(
        _file("favicon.svg"), content_type=SVG, headers=((b"cache-control", b"max-age=86400"), *PAGE_HEADERS)
    )


def _model(gateway: Gateway, id: str, target: Target, key: str) -> ModelObject:
    engine = gateway.engine
    info = engine.routes.catalogue.lookup(*target)
    provider = engine.providers.get(target.provider)
    calls_tools = provider is not None and provider.capabilities.tools and info.tools is not False
    return ModelObject(
        id=id,
        created=gateway.started,
        owned_by=target.provider,
        details=_details(target, info),
        tools=engine.hosted.announced(key) if calls_tools else [],
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


def _state(provider: Provider) -> str:
    """Only a provider that runs its model itself knows whether it is loaded."""
    loaded = getattr(provider, "is_loaded", None)
    if loaded is None:
        return "remote"
    return "loaded" if loaded else "not loaded"


@cache
def _file(name: str) -> bytes:
    return files("antiphon.server").joinpath(name).read_bytes()
