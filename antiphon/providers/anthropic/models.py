"""What the models behind the Messages API take and how they differ, as a table.

A model that is newer than the table is taken for the newest row of its family.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ClaudeModel:
    """What one model takes. The defaults are those of a server that only imitates this wire."""

    max_tokens: int = 8_192
    """The longest answer. This wire wants a limit with every request."""
    thinking: Literal["adaptive", "budget"] | None = "budget"
    """Does it find out itself how much to think, or is it given a number of tokens?"""
    off: Literal["omit", "disabled", "between_tools"] | None = "omit"
    """What keeps it from thinking; None when nothing does."""
    efforts: tuple[str, ...] = ()
    """The values of `output_config.effort` that it knows."""
    forced_tools: bool = True
    """May it be made to call a tool? With a budget for thinking no model may."""
    sampling: Literal["both", "one"] | None = "both"
    """May it be given temperature and top_p, or only one of them, or neither?"""
    json_schema: bool = False
    system_messages: bool = False
    """May a system message stand in the middle of a conversation?"""
    summarises: bool = False
    """Is what it shows of its thinking a summary, always signed?"""
    binds: bool = False
    """Does it take its thinking back only behind the very same conversation?"""


UNKNOWN = ClaudeModel()

PREFILL = re.compile(r"claude-(?:[23]|instant|haiku-4-5|(?:opus|sonnet)-4(?:-[015])?(?:-\d{8}|@|$))")
"""Models that go on with a last message of their own; those from 4.6 on refuse it."""

_LOWER = ("low", "medium", "high")
_EVERY = (*_LOWER, "xhigh", "max")

_CLAUDE_3 = ClaudeModel(4_096, None)
_CLAUDE_3_5 = replace(_CLAUDE_3, max_tokens=8_192)
_CLAUDE_3_7 = ClaudeModel(64_000)
_OPUS_4 = ClaudeModel(32_000, summarises=True)
_SONNET_4 = replace(_OPUS_4, max_tokens=64_000)
_CLAUDE_4_5 = replace(_SONNET_4, sampling="one", json_schema=True)
_OPUS_4_5 = replace(_CLAUDE_4_5, efforts=_LOWER)
_CLAUDE_4_6 = replace(_CLAUDE_4_5, max_tokens=128_000, thinking="adaptive", efforts=(*_LOWER, "max"))
_OPUS_4_7 = replace(_CLAUDE_4_6, efforts=_EVERY, sampling=None)
_OPUS_4_8 = replace(_OPUS_4_7, system_messages=True)
_OPUS_5 = replace(_OPUS_4_8, off="disabled")
_SONNET_5 = replace(_OPUS_4_7, off="disabled")
_OPUS_5_5 = replace(_OPUS_5, off=None, forced_tools=False, binds=True)
_SONNET_5_5 = replace(_OPUS_5_5, off="between_tools")
_HAIKU_5_5 = replace(_OPUS_5, binds=True)
_FABLE_5 = replace(_OPUS_5, off=None)

# Each family from its oldest model on; a row counts until the next.
_FAMILIES: dict[str, dict[Version, ClaudeModel]] = {
    "opus": {
        (0, 0): _CLAUDE_3,
        (4, 0): _OPUS_4,
        (4, 1): replace(_OPUS_4, sampling="one"),
        (4, 5): _OPUS_4_5,
        (4, 6): _CLAUDE_4_6,
        (4, 7): _OPUS_4_7,
        (4, 8): _OPUS_4_8,
        (5, 0): _OPUS_5,
        (5, 5): _OPUS_5_5,
    },
    "sonnet": {
        (0, 0): _CLAUDE_3,
        (3, 5): _CLAUDE_3_5,
        (3, 7): _CLAUDE_3_7,
        (4, 0): _SONNET_4,
        (4, 5): _CLAUDE_4_5,
        (4, 6): _CLAUDE_4_6,
        (5, 0): _SONNET_5,
        (5, 5): _SONNET_5_5,
    },
    "haiku": {(0, 0): _CLAUDE_3, (3, 5): _CLAUDE_3_5, (4, 5): _CLAUDE_4_5, (5, 5): _HAIKU_5_5},
    "fable": {(0, 0): _FABLE_5, (5, 1): _OPUS_5_5},
    "mythos": {(0, 0): _FABLE_5, (5, 1): _OPUS_5_5},
}

_NUMBER = r"(\d)(?:[-.](\d{1,2})(?!\d))?"
_NAME = re.compile(rf"claude-(?:{_NUMBER}-)?({'|'.join(_FAMILIES)})(?:-{_NUMBER})?(?!\d)")


def find(name: str) -> ClaudeModel:
    """The row of a model, however the name is dated or prefixed; without a number, the newest."""
    found = _NAME.search(name.lower())
    if found is None:
        return UNKNOWN
    before, before_minor, family, after, after_minor = found.groups()
    major = before or after
    version = (int(major), int(before_minor or after_minor or 0)) if major else (99, 0)
    rows = _FAMILIES[family]
    return rows[max(since for since in rows if since <= version)]
