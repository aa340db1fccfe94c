"""Everything of a request beside its conversation: tools, thinking, limits, formats."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from antiphon.providers.anthropic.json_schema import Inexpressible, StrictBudget, fit_schema, is_exact
from antiphon.providers.anthropic.messages import MessagesBuilder
from antiphon.providers.anthropic.models import UNKNOWN, ClaudeModel
from antiphon.providers.base import ADDED, DROPPED, REWRITTEN, SUPPRESSED, Turn
from antiphon.providers.parameters import find_tier, in_words
from antiphon.spec.codec import Opaque, extras
from antiphon.spec.tools import AllowedTools, FunctionToolChoice, JsonObjectFormat, JsonSchemaFormat
from antiphon.wires.messages.thinking import LEAST_BUDGET, budget_for
from antiphon.wires.messages.vendor import VENDOR, fields_of
from antiphon.wires.tools.names import ToolNames, UpstreamFunction

BINDING = "thinking-binding-controls-2026-08-01"
"""The beta without which a model may not be told what to do with thinking of another conversation."""

# The betas of tools that Anthropic's library takes only in its beta API; all others need none.
_BETAS = {
    "advisor_20260301": "advisor-tool-2026-03-01",
    "bash_20241022": "computer-use-2024-10-22",
    "code_execution_20250522": "code-execution-2025-05-22",
    "computer_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "mcp_toolset": "mcp-client-2025-11-20",
    "text_editor_20241022": "computer-use-2024-10-22",
}

_MODES = {"none": "none", "auto": "auto", "required": "any"}
_TIERS = {"default": "standard_only", "standard": "standard_only", "priority": "auto"}

_Fields = dict[str, Any]


class AnthropicParameters:
    """Translates the parameters of one turn; what a model does not take leaves a receipt."""

    def __init__(self, turn: Turn, model: ClaudeModel, provider: str) -> None:
        self._turn = turn
        self._request = turn.request
        self._model = model
        self._provider = provider
        self._strict = StrictBudget()

    def _receipt(self, param: str, why: str, action: str = DROPPED) -> None:
        self._turn.receipt(self._provider, param, why, action)

    @property
    def turns_thinking_off(self) -> bool:
        reasoning = self._request.reasoning
        return reasoning is not None and reasoning.effort == "none"

    def limit(self, configured: int | None) -> int:
        if given := self._request.max_output_tokens or configured:
            return given
        limit = self._model.max_tokens
        of = "a careful guess" if self._model is UNKNOWN else "the model's own"
        self._receipt("max_output_tokens", f"this API wants a limit: {limit:,} was sent, {of}", ADDED)
        return limit

    # --- tools --------------------------------------------------------------------------------------------

    def tools(self, names: ToolNames, called: set[str]) -> _Fields:
        declared = self._declare_tools(names)
        if not declared and called:
            # A history with calls is refused when no tool is declared.
            declared = [{"name": name, "input_schema": {"type": "object"}} for name in sorted(called)]
            return {"tools": declared, "tool_choice": {"type": "none"}}
        if not declared:
            return {}
        choice = self._choice(names)
        if self._request.parallel_tool_calls is False and choice.get("type") != "none":
            choice = {"type": "auto", **choice, "disable_parallel_tool_use": True}
        return {"tools": declared, "tool_choice": choice} if choice else {"tools": declared}

    def _declare_tools(self, names: ToolNames) -> list[_Fields]:
        """In the order of the request, because a mark for the cache stands for all tools before it."""
        declared: list[_Fields] = []
        placed: defaultdict[int, list[tuple[int, UpstreamFunction]]] = defaultdict(list)
        for n, function in enumerate(names.functions):
            placed[function.place].append((n, function))
        for place, tool in enumerate(self._turn.tools):
            if _is_native(tool):
                declared.append(_native(tool))
            own = {} if isinstance(tool, Opaque) else fields_of(tool)
            declared += [self._tool(function, n) | own for n, function in placed[place]]
        return declared

    def _tool(self, function: UpstreamFunction, n: int) -> _Fields:
        tool: _Fields = {"name": function.name}
        if function.description:
            tool["description"] = function.description
        tool["input_schema"] = {"type": "object", **function.parameters}
        if function.strict and self._model.json_schema:
            why: str | None = "this API takes fewer keywords"
            if is_exact(function.parameters):
                why = self._strict.take(function.parameters)
            if why is None:
                tool["strict"] = True
            else:
                said = f"the arguments of {function.name!r} cannot be guaranteed: {why}"
                self._receipt(f"tools[{n}].strict", said, SUPPRESSED)
        return tool

    def _choice(self, names: ToolNames) -> _Fields:
        match self._request.tool_choice:
            case str() as mode:
                choice: _Fields = {"type": _MODES[mode]}
            case AllowedTools() as allowed:
                # The whole list goes to the model; what it may call is enforced on what it says.
                choice = {"type": _MODES[allowed.mode]}
            case FunctionToolChoice(name=name):
                choice = self._choose_by_name(names.find(name))
            case Opaque() as opaque:
                name = str(opaque.fields.get("name", ""))
                found = name if opaque.type.startswith(VENDOR) else None
                choice = self._choose_by_name(found or names.find(name, opaque.fields.get("namespace")))
            case None:
                return {}
        if choice["type"] in ("any", "tool") and not self._model.forced_tools:
            self._receipt("tool_choice", "this model cannot be made to call a tool; it may choose", REWRITTEN)
            return {"type": "auto"}
        return choice

    def _choose_by_name(self, name: str | None) -> _Fields:
        if name is None:
            self._receipt("tool_choice", "the chosen tool cannot be sent, so the model may choose")
            return {"type": "auto"}
        return {"type": "tool", "name": name}

    # --- thinking -----------------------------------------------------------------------------------------

    def thinking(self, limit: int, talk: MessagesBuilder, *, forced: bool) -> tuple[_Fields, str | None]:
        """The field `thinking`, if any, and the effort."""
        reasoning, model = self._request.reasoning, self._model
        effort = reasoning.effort if reasoning else None
        summary = reasoning.summary if reasoning else None
        if effort == "none" and not self._has_own_thinking:
            return self._not_thinking()
        binding: _Fields = {}
        if model.binds and talk.has_thinking:
            binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        if self._has_own_thinking:
            given = fields_of(self._request)["thinking"]
            return ({"thinking": binding | given} if given else {}), None
        if effort is None and summary is None:
            return ({"thinking": {"type": "adaptive", **binding}} if binding else {}), None
        if model.thinking is None:
            self._receipt("reasoning", "this model does not think")
            return {}, None
        self._check_summary(summary)
        if model.thinking == "budget":
            return self._budget(effort or "medium", limit, talk, forced=forced)
        display = {"display": "summarized"} if summary else {}
        return {"thinking": {"type": "adaptive", **display, **binding}}, self._effort(effort)

    def _not_thinking(self) -> tuple[_Fields, str | None]:
        match self._model.off:
            case "omit":
                return {}, None
            case "disabled" | "between_tools" as kind:
                return {"thinking": {"type": kind}}, None
        why = "this model always thinks, so the effort is sent as 'low'"
        self._receipt("reasoning.effort", why, REWRITTEN)
        return {}, "low"

    def _budget(
        self, effort: str, limit: int, talk: MessagesBuilder, *, forced: bool
    ) -> tuple[_Fields, str | None]:
        budget = budget_for(effort, limit)
        if forced:
            self._receipt("reasoning", "this model does not think when it is made to call a tool")
        elif budget is None:
            why = f"a limit of {limit:,} tokens leaves no room for thinking, which takes {LEAST_BUDGET:,}"
            self._receipt("reasoning", why)
        elif talk.is_loop_without_thinking:
            why = "the calls before these results were made without thinking, which cannot begin in between"
            self._receipt("reasoning", why, SUPPRESSED)
        else:
            return {"thinking": {"type": "enabled", "budget_tokens": budget}}, self._effort(effort)
        return {}, None

    def _effort(self, effort: str | None) -> str | None:
        known = self._model.efforts
        if effort is None or not known or effort in known:
            return effort if known else None
        self._receipt("reasoning.effort", f"{effort!r} is sent as 'high' here", REWRITTEN)
        return "high"

    def _check_summary(self, summary: str | None) -> None:
        if summary is not None and not self._model.summarises:
            self._receipt("reasoning.summary", "this model shows its thinking itself, without a summary")
        elif summary in ("concise", "detailed"):
            self._receipt("reasoning.summary", "summaries have only one length here", REWRITTEN)

    @property
    def _has_own_thinking(self) -> bool:
        """Does the request have a `thinking` of this API, and is it one that the model knows?"""
        own = fields_of(self._request)
        if "thinking" not in own:
            return False
        kind = (own["thinking"] or {}).get("type")
        return kind != "adaptive" or self._model is UNKNOWN or self._model.thinking == "adaptive"

    def own(self, body: _Fields) -> _Fields:
        """The parameters of this API that the specification has no word for, to be laid over the body."""
        own = fields_of(self._request)
        own.pop("thinking", None)
        if own.pop("diagnostics", None) is not None:
            self._receipt("diagnostics", "it names a message by the gateway's id, which is unknown here")
        output = own.pop("output_config", {})
        if output.get("effort", "") not in (*self._model.efforts, "") and self._model is not UNKNOWN:
            output.pop("effort")
        if output:
            own["output_config"] = {**body.get("output_config", {}), **output}
        return own

    # --- formats ------------------------------------------------------------------------------------------

    def format(self, system: list[_Fields]) -> _Fields | None:
        """The `output_config.format`; where there is none, the system prompt says what is wanted."""
        match self._request.text and self._request.text.format:
            case JsonObjectFormat() as wanted:
                self._receipt("text.format", "this API has no JSON mode, so the model is asked", REWRITTEN)
                system.append({"type": "text", "text": in_words(wanted)})
            case JsonSchemaFormat() as wanted:
                try:
                    return self._schema(wanted)
                except Inexpressible as reason:
                    why = f"it cannot be guaranteed ({reason}), so the schema is put into the prompt"
                    self._receipt("text.format", why, REWRITTEN)
                system.append({"type": "text", "text": in_words(wanted)})
        return None

    def _schema(self, wanted: JsonSchemaFormat) -> _Fields:
        if not self._model.json_schema:
            raise Inexpressible("this model takes no schema")
        schema, left_out = fit_schema(wanted.schema or {})
        if short := self._strict.take(schema, is_tool=False):
            raise Inexpressible(short)
        if left_out:
            words = ", ".join(sorted(left_out))
            why = f"the model is not held to {words}, which the gateway checks"
            self._receipt("text.format", why, SUPPRESSED)
        if wanted.description:
            schema.setdefault("description", wanted.description)
        return {"type": "json_schema", "schema": schema}

    # --- the rest -----------------------------------------------------------------------------------------

    def others(self, *, has_sampling: bool, thinks: bool) -> _Fields:
        """Sampling, if this version of the API has it, and what needs no thought."""
        given = extras(self._request)
        fields: _Fields = self._sampling(given, thinks=thinks) if has_sampling else {}
        stop = given.get("stop")
        if sequences := [stop] if isinstance(stop, str) else stop:
            fields["stop_sequences"] = sequences
        if self._request.safety_identifier is not None:
            fields["metadata"] = {"user_id": self._request.safety_identifier}
        if (tier := find_tier(self._turn, self._provider, _TIERS)) is not None:
            fields["service_tier"] = tier
        return fields

    def _sampling(self, given: _Fields, *, thinks: bool) -> _Fields:
        fields: _Fields = {
            "temperature": self._request.temperature,
            "top_p": self._request.top_p,
            "top_k": given.get("top_k"),
        }
        fields = {name: value for name, value in fields.items() if value is not None}
        if self._model.sampling is None or thinks:
            for name in fields:
                why = "this model takes no sampling parameters" if not thinks else "not while it thinks"
                self._receipt(name, why)
            return {}
        if (temperature := fields.get("temperature")) and temperature > 1:
            self._receipt("temperature", f"{temperature:g} is sent as 1, the highest here", REWRITTEN)
            fields["temperature"] = 1
        if self._model.sampling == "one" and fields.keys() >= {"temperature", "top_p"}:
            self._receipt("top_p", "this model takes temperature or top_p, not both")
            del fields["top_p"]
        return fields


def betas_of(tools: Iterable[_Fields]) -> list[str]:
    """What has to be named in the header `anthropic-beta` for these tools."""
    return [beta for tool in tools if (beta := _BETAS.get(tool.get("type", ""))) is not None]


def _is_native(tool: object) -> bool:
    return isinstance(tool, Opaque) and tool.type.startswith(VENDOR)


def _native(tool: Any) -> _Fields:
    """A tool that the provider runs itself, under its own name."""
    return {**tool.fields, "type": tool.type.removeprefix(VENDOR)}
