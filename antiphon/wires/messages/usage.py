"""Token counts of the Messages API: its input leaves out what was read from a cache or written to one."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct

from antiphon.spec.response import Usage

_Number = int | float | None


class Thought(Struct, gc=False):
    thinking_tokens: _Number = None


class MessagesCounts(Struct, kw_only=True, gc=False):
    """The `usage` of a message; what the specification has no word for is kept as it came."""

    input_tokens: _Number = None
    output_tokens: _Number = None
    cache_read_input_tokens: _Number = None
    cache_creation_input_tokens: _Number = None
    output_tokens_details: Thought | None = None
    cache_creation: dict[str, Any] | None = None
    server_tool_use: dict[str, Any] | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None

    def followed_by(self, later: "MessagesCounts") -> "MessagesCounts":
        """Counts are cumulative; what a later one leaves out stays as it was."""
        known = {
            name: value for name in later.__struct_fields__ if (value := getattr(later, name)) is not None
        }
        return msgspec.structs.replace(self, **known)

    def to_spec(self) -> Usage:
        cached = int(self.cache_read_input_tokens or 0)
        written = int(self.cache_creation_input_tokens or 0)
        details = self.output_tokens_details or Thought()
        return Usage.of(
            int(self.input_tokens or 0) + written + cached,
            int(self.output_tokens or 0),
            cached=cached,
            written=written,
            reasoning=int(details.thinking_tokens or 0),
        )

    def beyond_spec(self) -> dict[str, Any]:
        """What `to_spec` has no place for."""
        return {name: value for name in _BEYOND if (value := getattr(self, name)) is not None}


_BEYOND = ("cache_creation", "server_tool_use", "service_tier", "inference_geo", "speed")


def count_fields(usage: Usage | None) -> dict[str, Any]:
    """Counts of the specification as this API has them.

    >>> count_fields(Usage.of(30, 5, cached=20))["input_tokens"]
    10
    """
    usage = usage or Usage()
    details = usage.input_tokens_details
    written = 0 if details.cache_write_tokens is UNSET else details.cache_write_tokens
    counts: dict[str, Any] = {
        "input_tokens": max(0, usage.input_tokens - details.cached_tokens - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": details.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if reasoning := usage.output_tokens_details.reasoning_tokens:
        counts["output_tokens_details"] = {"thinking_tokens": reasoning}
    return counts
