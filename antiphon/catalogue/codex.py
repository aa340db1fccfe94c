"""The models of a gateway in the shape of Codex's own catalogue.

Codex asks `GET /models?client_version=…` for it, or reads it from the file that `model_catalog_json` names.
Without it, every model gets the same guess: a window of 272,000 tokens, no levels of reasoning, and no tool
for patches.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from antiphon.catalogue.lookup import ModelInfo
from antiphon.providers.base import Capabilities

# What the efforts mean, in the words of its menu. Older versions refuse a catalogue with another one in it.
_EFFORTS: Final = {
    "minimal": "Hardly any reasoning",
    "low": "Short reasoning for simple tasks",
    "medium": "Reasoning for everyday tasks",
    "high": "Long reasoning for hard tasks",
    "xhigh": "The longest reasoning",
}
_USUAL_EFFORTS: Final = ("low", "medium", "high")
_TOOL_OUTPUT: Final = 10_000
"""How many tokens of a tool's output Codex keeps, and at most an eighth of the window."""
_INSTRUCTIONS: Final = """\
You are a coding agent. You work in the user's terminal, on the files of their project, with the tools that \
you are given; the work ends with you.

- Look before you change anything: find and read the files that matter, with fast searches. Files named \
AGENTS.md hold the project's rules for the folder that they are in and all below it; follow them, the \
nearest first. What the user says goes before them.
- Run commands with the tool for the shell. Some need an approval, or a sandbox forbids them: the messages \
of the system say what holds here.
- Change files with the tool apply_patch if you have it, otherwise with the shell. Keep each change small, \
in the style of the code around it, and at the root of the problem. Leave alone what the task does not ask \
for; never undo changes that are not yours, and commit only if you were asked to.
- For a task of several steps keep a short plan, in the tool for plans if there is one.
- Check your work with the project's own tests and tools, first near to what you changed. Report what failed \
and what you could not run; never say that something works which you have not seen to work.
- Go on until the task is done, or you need an answer that only the user can give. Then say in a few plain \
sentences what you did, with the paths of the files, and what is left.
"""
"""Codex refuses a model without instructions, and takes these instead of its own."""


class CodexModel(NamedTuple):
    """A model under the name by which it is asked for, with what it and its provider can do."""

    slug: str
    info: ModelInfo
    takes: Capabilities


def codex_catalogue(models: Iterable[CodexModel]) -> dict[str, Any]:
    """`{"models": […]}`, in the order of the models, with every field that some version must have."""
    return {"models": [_entry(model, n) for n, model in enumerate(models)]}


def _entry(model: CodexModel, priority: int) -> dict[str, Any]:
    slug, info, takes = model
    window, levels = info.context_window, _levels(info, takes)
    calls_tools = takes.tools and info.tools is not False
    sees = takes.images if info.input_modalities is None else "image" in info.input_modalities
    entry: dict[str, Any] = {
        "slug": slug,
        "display_name": slug,
        "description": None,
        "supported_reasoning_levels": [{"effort": one, "description": _EFFORTS[one]} for one in levels],
        "shell_type": "unified_exec" if calls_tools else "disabled",
        "visibility": "list",
        "supported_in_api": True,
        "priority": priority,
        "upgrade": None,
        "base_instructions": _INSTRUCTIONS,
        "supports_reasoning_summaries": bool(levels),
        "support_verbosity": "text.verbosity" in takes.parameters,
        "default_verbosity": None,
        "apply_patch_tool_type": "freeform" if calls_tools else None,
        "truncation_policy": {"mode": "tokens", "limit": min(_TOOL_OUTPUT, (window or 2**30) // 8)},
        "supports_parallel_tool_calls": calls_tools,
        "effective_context_window_percent": 95,
        "experimental_supported_tools": [],
        "input_modalities": ["text", "image"] if sees else ["text"],
    }
    if levels:
        entry["default_reasoning_level"] = "medium" if "medium" in levels else levels[0]
    if window is not None:
        entry |= {"context_window": window, "max_context_window": window}
    return entry


def _levels(info: ModelInfo, takes: Capabilities) -> list[str]:
    if "reasoning" not in takes.parameters:
        return []
    known = _USUAL_EFFORTS if info.reasoning_levels is None else info.reasoning_levels
    return [one for one in _EFFORTS if one in known]
