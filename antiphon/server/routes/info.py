"""Models, health, the state of the routes, the audit report, and the pages of the API."""

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
from antiphon.engine.routing.routes import Routes
from antiphon.providers.base import Provider
from antiphon.server.api.objects import (
    AuditReport,
    Health,
    ModelDetails,
    ModelList,
    ModelObject,
    Readiness,
    RouteList,
    RouteStatus,
    TargetStatus,
)
from antiphon.server.endpoint import Endpoint
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
    """The configured names, then `PROVIDER/model` for what each provider lists. `antiphon:model` has
    what is known of each: window, limits, what it takes, and prices; null is unknown. With
    `client_version` (Codex) they come as `models` in the shape of its catalogue, with an `ETag`.
    """
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
    """The id may have slashes in it."""
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
    """The server is ready when its store answers. Lists which models are loaded; one that is not is
    loaded by its first request.
    """
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
    """How many streams and answers this worker has audited, as `[server] audit` asks for, and how often
    each rule of the protocol was broken.
    """
    await exchange.answer(encode(gateway.audits.report(exchange.context)))


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


async def routes(gateway: Gateway, exchange: Exchange) -> None:
    """Every name that has several targets, with the state of each: whether it is asked or rests after
    failures, and how fast it is.
    """
    await exchange.answer(encode(route_list(gateway.engine.routes)))


def route_list(routes: Routes) -> RouteList:
    return RouteList(
        data=[
            RouteStatus(
                name=one.route.name,
                strategy=one.route.settings.strategy,
                on_cut=one.route.settings.on_cut,
                targets=[_status(routes, target) for target in one.route.targets],
                context_window_fallback=_status(routes, one.route.spare) if one.route.spare else None,
            )
            for one in routes
        ]
    )


def _status(routes: Routes, target: Target) -> TargetStatus:
    state, now = routes.states[target], routes.clock()
    breaker, estimates = state.breaker, state.estimates
    is_known = target.provider in routes.providers
    return TargetStatus(
        target=str(target),
        state=breaker.state(now) if is_known else "disabled",
        probing=breaker.is_probed(now),
        failures=int(breaker.failures),
        reopens_in=round(max(0.0, breaker.reopens_at - now), 1) if breaker.reopens_at else None,
        retries_left=state.budget.left(now),
        time_to_first_token=_known(estimates.first_token, 4),
        tokens_per_second=_known(estimates.speed, 1),
        requests=state.budget.requests,
        errors=int(state.errors),
    )


def _known(number: float, digits: int) -> float | None:
    """An estimate of 0 is none."""
    return round(number, digits) if number else None


ENDPOINTS = (
    Endpoint("GET /v1/models", models, "listModels", "List models", answer=ModelList),
    Endpoint("GET /v1/models/{id...}", model, "getModel", "Retrieve a model", answer=ModelObject),
    Endpoint("GET /v1/audit", audit, "audit", "Get the audit report", answer=AuditReport),
    Endpoint("GET /v1/antiphon/routes", routes, "listRoutes", "List routes", answer=RouteList),
    Endpoint(
        "GET /api/hello",
        healthz,
        "hello",
        "Check liveness, for clients that ask here",
        answer=Health,
        open=True,
    ),
    Endpoint("GET /healthz", healthz, "health", "Check liveness", answer=Health, open=True),
    Endpoint("GET /readyz", readyz, "readiness", "Check readiness", answer=Readiness, open=True),
    Endpoint("GET /docs", docs, "page", "Get this description as a page", answer="text/html", open=True),
    Endpoint(
        "GET /favicon.svg", favicon, "icon", "Get the icon of the page", answer="image/svg+xml", open=True
    ),
)
