"""From a turn to the body of `/v1/messages`."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from antiphon.providers.anthropic.messages import MessagesBuilder
from antiphon.providers.anthropic.models import ClaudeModel, find
from antiphon.providers.anthropic.parameters import BINDING, AnthropicParameters, betas_of
from antiphon.providers.base import Turn
from antiphon.providers.tools import flatten
from antiphon.wires.messages.vendor import BETAS, VENDOR
from antiphon.wires.tools.names import ToolNames

LATEST = "2026-10-21"
"""The version of the API that has no sampling parameters any more."""

_CACHED = {"type": "ephemeral"}
_CACHED_TURNS = 2
# What counting the tokens of a request does not take.
_UNCOUNTED = ("max_tokens", "stream", "stop_sequences", "metadata", "service_tier", "container")
_UNCOUNTED_SAMPLING = ("temperature", "top_p", "top_k")


@dataclass(frozen=True, slots=True)
class AnthropicOptions:
    """What the configuration says about all requests of a provider."""

    provider: str = "anthropic"
    version: str = LATEST
    max_tokens: int | None = None
    cache: bool = True

    @property
    def has_sampling(self) -> bool:
        return self.version < LATEST


@dataclass(frozen=True, slots=True)
class AnthropicRequest:
    """A body, and what is needed to send it and to read its answer."""

    body: dict[str, Any]
    names: ToolNames
    model: ClaudeModel
    betas: tuple[str, ...] = ()

    def build_count_body(self) -> dict[str, Any]:
        """The same request as a question for its number of tokens."""
        left_out = (*_UNCOUNTED, *_UNCOUNTED_SAMPLING)
        return {name: value for name, value in self.body.items() if name not in left_out}


def prepare(turn: Turn, shape: AnthropicOptions) -> AnthropicRequest:
    """The body of a request; what cannot be sent leaves a receipt or is refused."""
    model = find(turn.model)
    names = flatten(turn, shape.provider, VENDOR)
    settings = AnthropicParameters(turn, model, shape.provider)
    thoughts = not (settings.turns_thinking_off and model.off == "disabled")
    talk = MessagesBuilder(turn, model, shape.provider, names, thoughts=thoughts)
    limit = settings.limit(shape.max_tokens)
    system = list(talk.system)
    format = settings.format(system)  # before the tools, which share limits with it and may go without
    tools = settings.tools(names, talk.called)
    forced = tools.get("tool_choice", {}).get("type") in ("any", "tool")
    thinking, effort = settings.thinking(limit, talk, forced=forced)
    body: dict[str, Any] = {"model": turn.model, "max_tokens": limit}
    if system:
        body["system"] = system
    body |= tools
    body["messages"] = talk.messages
    body |= thinking
    output = {"effort": effort, "format": format}
    if output := {name: value for name, value in output.items() if value is not None}:
        body["output_config"] = output
    thinks = thinking.get("thinking", {}).get("type") in ("adaptive", "enabled")
    body |= settings.others(has_sampling=shape.has_sampling, thinks=thinks)
    if talk.container is not None and talk.container.is_alive(datetime.now(UTC)):
        body["container"] = talk.container.id
    if turn.stream:
        body["stream"] = True
    own = settings.own(body)
    betas = (BINDING,) if "block_binding" in body.get("thinking", {}) else ()
    named = own.pop(BETAS, ())
    body |= own
    if shape.cache and not _is_marked(body):
        _mark(body)
    return AnthropicRequest(body, names, model, (*betas, *betas_of(body.get("tools", ())), *named))


def _is_marked(body: dict[str, Any]) -> bool:
    """Has the client said itself what to keep? There are only a few marks to give."""
    messages = (message["content"] for message in body["messages"])
    blocks = [*body.get("tools", ()), *body.get("system", ()), *(block for one in messages for block in one)]
    return "cache_control" in body or any("cache_control" in one for one in blocks if isinstance(one, dict))


def _mark(body: dict[str, Any]) -> None:
    """Up to here the provider may keep what it has read: the tools, the instructions, the last turns."""
    marked = [part[-1] for name in ("tools", "system") if (part := body.get(name))]
    spoken = [message["content"][-1] for message in body["messages"] if message["role"] == "user"]
    for block in [*marked, *spoken[-_CACHED_TURNS:]]:
        block.setdefault("cache_control", _CACHED)
