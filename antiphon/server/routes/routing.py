"""`GET /v1/antiphon/routes`: the targets of each route, and how they are."""

from antiphon.config import Target
from antiphon.engine.routing.routes import Routes
from antiphon.server.api.objects import RouteList, RouteStatus, TargetStatus
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.spec.codec import encode


async def routes(gateway: Gateway, exchange: Exchange) -> None:
    await exchange.answer(encode(listed(gateway.engine.routes)))


def listed(routes: Routes) -> RouteList:
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
