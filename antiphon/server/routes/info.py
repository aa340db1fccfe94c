"""Health, the state of the routes, the audit report, and the pages of the API."""

import asyncio
from functools import cache
from importlib.resources import files

from antiphon.bridges.encoder import Headers
from antiphon.config import Target
from antiphon.engine.routing.routes import Routes
from antiphon.providers.base import Provider
from antiphon.server.api import objects
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.spec.codec import encode
from antiphon.store import StoreError

HTML = b"text/html; charset=utf-8"
SVG = b"image/svg+xml"
_STORE_TIMEOUT = 2.0
_HEALTHY = encode(objects.Health())
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


async def healthz(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(_HEALTHY)


async def readyz(gateway: Gateway, exchange: Exchange) -> None:
    """The server is ready when its store answers. Lists which models are loaded; one that is not is
    loaded by its first request.
    """
    try:
        async with asyncio.timeout(_STORE_TIMEOUT):
            await gateway.store.get("", "resp_")
        store = "ok"
    except TimeoutError:
        store = f"no answer within {_STORE_TIMEOUT:g} seconds"
    except StoreError as error:
        store = str(error)
    ready = store == "ok"
    usable = gateway.engine.providers
    states = {
        name: _state(usable[name]) if name in usable else "disabled" for name in gateway.config.providers
    }
    answer = objects.Readiness(status="ready" if ready else "not_ready", store=store, models=states)
    await exchange.answer(encode(answer), 200 if ready else 503)


async def audit(gateway: Gateway, exchange: Exchange) -> objects.AuditReport:
    """How many streams and answers this worker has audited, as `[server] audit` asks for, and how often
    each rule of the protocol was broken.
    """
    return gateway.audits.report(exchange.context)


async def docs(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(_file("docs.html"), content_type=HTML, headers=_DOCS_HEADERS)


async def favicon(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(
        _file("favicon.svg"), content_type=SVG, headers=((b"cache-control", b"max-age=86400"), *PAGE_HEADERS)
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


async def routes(gateway: Gateway, exchange: Exchange) -> objects.RouteList:
    """Every name that has several targets, with the state of each: whether it is asked or rests after
    failures, and how fast it is.
    """
    return route_list(gateway.engine.routes)


def route_list(routes: Routes) -> objects.RouteList:
    return objects.RouteList(
        data=[
            objects.RouteStatus(
                name=one.route.name,
                strategy=one.route.settings.strategy,
                on_cut=one.route.settings.on_cut,
                targets=[_status(routes, target) for target in one.route.targets],
                context_window_fallback=_status(routes, one.route.spare) if one.route.spare else None,
            )
            for one in routes
        ]
    )


def _status(routes: Routes, target: Target) -> objects.TargetStatus:
    state, now = routes.states[target], routes.clock()
    breaker, estimates = state.breaker, state.estimates
    is_known = target.provider in routes.providers
    return objects.TargetStatus(
        target=str(target),
        state=breaker.state(now) if is_known else "disabled",
        probing=breaker.is_probed(now),
        failures=int(breaker.failures),
        reopens_in=round(max(0.0, breaker.reopens_at - now), 1) if breaker.reopens_at else None,
        retries_left=state.budget.count_left(now),
        time_to_first_token=_round_estimate(estimates.first_token, 4),
        tokens_per_second=_round_estimate(estimates.speed, 1),
        requests=state.budget.requests,
        errors=int(state.errors),
    )


def _round_estimate(number: float, digits: int) -> float | None:
    """An estimate of 0 is none."""
    return round(number, digits) if number else None


ENDPOINTS = (
    Endpoint("GET /v1/audit", audit, "audit", "Get the audit report"),
    Endpoint("GET /v1/antiphon/routes", routes, "listRoutes", "List routes"),
    Endpoint(
        "GET /api/hello",
        healthz,
        "hello",
        "Check liveness, for clients that use this path",
        answer=objects.Health,
        open=True,
    ),
    Endpoint("GET /healthz", healthz, "health", "Check liveness", answer=objects.Health, open=True),
    Endpoint("GET /readyz", readyz, "readiness", "Check readiness", answer=objects.Readiness, open=True),
    Endpoint("GET /docs", docs, "page", "Get this description as a page", answer="text/html", open=True),
    Endpoint(
        "GET /favicon.svg", favicon, "icon", "Get the icon of the page", answer="image/svg+xml", open=True
    ),
)
