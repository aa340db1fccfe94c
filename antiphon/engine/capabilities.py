"""Compares a request with what its provider can do: what it cannot is dropped with a receipt, or refused."""

from functools import cache

from antiphon.engine.truncation import known_window
from antiphon.providers.base import UNMET, Provider, Turn
from antiphon.spec.codec import extras
from antiphon.spec.request import NOT_FORWARDED, PROVIDER_PARAMETERS, ReasoningParam, Request

# Those that are a field of the request; `text.verbosity` is not.
_FIELDS = tuple(name for name in PROVIDER_PARAMETERS if name in Request.__struct_fields__)
# Values that ask for nothing which a provider could fail to give.
_UNDEMANDING = {"service_tier": ("auto", "default"), "top_logprobs": (0,), "reasoning": (ReasoningParam(),)}
# What can be included: logprobs if the provider has them, and reasoning that is sealed always is.
_INCLUDED = frozenset({"message.output_text.logprobs", "reasoning.encrypted_content"})


@cache
def _missing(parameters: frozenset[str]) -> list[str]:
    return [name for name in _FIELDS if name not in parameters]


def report_unsupported(turn: Turn, provider: Provider) -> None:
    request, takes = turn.request, provider.capabilities
    for name in _missing(takes.parameters):
        value = getattr(request, name)
        if value is not None and value not in _UNDEMANDING.get(name, ()):
            turn.receipt(provider.name, name, "this provider has no such parameter")
    if request.text and request.text.verbosity and "text.verbosity" not in takes.parameters:
        turn.receipt(provider.name, "text.verbosity", "this provider has no such parameter")
    if request.truncation == "auto" and known_window(takes) is None and "truncation" not in takes.parameters:
        reason = "this provider cannot count tokens, so a context that is too long fails"
        turn.receipt(provider.name, "truncation", reason)
    for name in request.include:
        if name == "message.output_text.logprobs" and not takes.logprobs:
            turn.receipt(provider.name, "include", "this provider gives no logprobs")
        elif name == "reasoning.encrypted_content" and not takes.proofs:
            turn.receipt(provider.name, "include", "this provider gives no proof of its reasoning", UNMET)
        elif name not in _INCLUDED and "include" not in takes.parameters:
            turn.receipt(provider.name, "include", f"nothing here gives {name!r}")
    for name in extras(request):
        if name not in NOT_FORWARDED and name not in takes.parameters and not takes.extras:
            turn.receipt(provider.name, name, "this parameter is not part of the specification")
