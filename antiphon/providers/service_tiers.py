"""What a provider's wire calls the tier that a request asks for."""

from collections.abc import Mapping

from antiphon.providers.base import REWRITTEN, Turn

# The usual tier that is nearest to one of another name.
_NEAREST = {"scale": "auto", "fast": "priority", "ultrafast": "priority", "on_demand": "default"}
_UNDEMANDING = ("auto", "default", "standard", "on_demand")


def find_tier(turn: Turn, provider: str, tiers: Mapping[str, str]) -> str | None:
    """The word to send, of those that this wire has for tiers; None to send none.

    A tier that it does not have leaves a receipt.
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
