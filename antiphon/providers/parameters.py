"""Parameters that several wires translate alike: service tiers, and formats that only words can ask for."""

from collections.abc import Mapping

from antiphon.providers.base import REWRITTEN, Turn
from antiphon.spec.codec import encode
from antiphon.spec.tools import JsonObjectFormat, JsonSchemaFormat

# The usual tier that is nearest to one of another name.
_NEAREST = {"scale": "auto", "fast": "priority", "ultrafast": "priority", "on_demand": "default"}
_UNDEMANDING = ("auto", "default", "standard", "on_demand")


def find_tier(turn: Turn, provider: str, tiers: Mapping[str, str]) -> str | None:
    """Find this wire's word for the tier of the request; None to send no tier.

    A tier that the wire does not have leaves a receipt.
    """
    asked = turn.request.service_tier
    if asked is None or asked in tiers:
        return tiers.get(asked or "")
    nearest = _NEAREST.get(asked, "")
    if asked in _UNDEMANDING:
        return tiers.get(nearest)
    if nearest in tiers or nearest == "auto":
        turn.receipt(provider, "service_tier", f"{asked!r} is sent as {nearest!r} here", REWRITTEN)
        return tiers.get(nearest)
    turn.receipt(provider, "service_tier", f"there is no {asked!r} tier for single requests here")
    return None


def in_words(wanted: JsonObjectFormat | JsonSchemaFormat) -> str:
    """Describe a format in words, for a model that no parameter can hold to it."""
    if isinstance(wanted, JsonObjectFormat):
        return "Answer with one JSON object and nothing else."
    schema = encode(wanted.schema or {}).decode()
    return f"Answer with JSON that fits this JSON schema, and with nothing else:\n{schema}"
