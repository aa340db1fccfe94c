"""Two tenants on one server: nothing of the one can be used by the other."""

from typing import Final

from antiphon.compliance.catalog import check
from antiphon.compliance.checks.inputs import ENOUGH, assistant, user
from antiphon.compliance.checks.official import compact
from antiphon.compliance.probe import Failed, Probe, Skipped, refusal, respond

_TENANTS: Final = "Our requirement; two keys"


def _second_key(probe: Probe) -> str:
    if probe.target.second_key is None:
        raise Skipped("no --second-key was given")
    return probe.target.second_key


@check("tenant.second_key", "SHOULD", _TENANTS)
async def second_key(probe: Probe) -> None:
    """The second key is served too."""
    key = _second_key(probe)
    respond(await probe.ask(key=key, input="Say hello.", max_output_tokens=ENOUGH))


@check("tenant.previous", "SHOULD", _TENANTS)
async def previous(probe: Probe) -> None:
    """A response of one tenant does not exist for another."""
    key = _second_key(probe)
    first = await probe.create(input="Hello.", store=True, max_output_tokens=ENOUGH)
    exchange = await probe.ask(
        key=key, input="Go on.", previous_response_id=first["id"], max_output_tokens=ENOUGH
    )
    if exchange.status == 200:
        raise Failed("another tenant continued the response")
    refusal(exchange)


@check("tenant.reference", "SHOULD", _TENANTS)
async def reference(probe: Probe) -> None:
    """An item of one tenant does not exist for another."""
    key = _second_key(probe)
    first = await probe.create(input="Hello.", store=True, max_output_tokens=ENOUGH)
    known = {"type": "item_reference", "id": first["output"][0]["id"]}
    exchange = await probe.ask(key=key, input=[known, user("Go on.")], max_output_tokens=ENOUGH)
    if exchange.status == 200:
        raise Failed("another tenant used the item")
    refusal(exchange)


@check("tenant.compaction", "SHOULD", _TENANTS)
async def compaction(probe: Probe) -> None:
    """A compaction item of one tenant is refused from another."""
    key = _second_key(probe)
    resource = await compact(probe, input=[user("The word is heron."), assistant("Heron.")])
    exchange = await probe.ask(
        key=key, input=[*resource["output"], user("Say hello.")], max_output_tokens=ENOUGH
    )
    if exchange.status == 200:
        raise Failed("another tenant used the compaction")
    refusal(exchange)


@check("tenant.get", "SHOULD", _TENANTS)
async def get(probe: Probe) -> None:
    """A stored response cannot be read by another, if it can be read at all."""
    key = _second_key(probe)
    first = await probe.create(input="Hello.", store=True, max_output_tokens=ENOUGH)
    path = f"/responses/{first['id']}"
    own = await probe.send("GET", path, content_type=None)
    if own.status != 200:
        raise Skipped("capability absent: stored responses cannot be read here")
    other = await probe.send("GET", path, content_type=None, key=key)
    if other.status == 200:
        raise Failed("another tenant read the response")
