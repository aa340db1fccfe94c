"""Sampling, thinking, formats and the rest of a Converse body that is neither words nor tools."""

from typing import Any

from antiphon.providers.anthropic.json_schema import Inexpressible, fit_schema
from antiphon.providers.base import DROPPED, REWRITTEN, SUPPRESSED, Turn
from antiphon.providers.bedrock.models import Family
from antiphon.providers.parameters import find_tier, in_words
from antiphon.spec.codec import encode, extras
from antiphon.spec.response import nearest_effort
from antiphon.spec.tools import JsonObjectFormat, JsonSchemaFormat
from antiphon.wires.messages.thinking import LEAST_BUDGET, budget_for

_TIERS = {"flex": "flex", "priority": "priority"}

_Fields = dict[str, Any]


class BedrockParameters:
    """Reads them once; each that cannot be sent leaves a receipt."""

    def __init__(self, turn: Turn, family: Family, provider: str) -> None:
        self._turn = turn
        self._request = turn.request
        self._family = family
        self._provider = provider
        self._inference: _Fields = {}
        self._own: _Fields = {}
        """Fields that only this model knows."""
        self._output: _Fields = {}
        self._thinks = False

    def fields(self, system: list[_Fields], *, is_forced: bool, may_think: bool) -> _Fields:
        """`is_forced`: the model has to call a tool. `may_think`: the history allows it."""
        if self._request.max_output_tokens is not None:
            self._inference["maxTokens"] = self._request.max_output_tokens
        self._reasoning(is_forced=is_forced, may_think=may_think)
        self._sampling()
        self._extras()
        self._format(system)
        body: _Fields = {}
        if self._inference:
            body["inferenceConfig"] = self._inference
        if self._own:
            body["additionalModelRequestFields"] = self._own
        if self._output:
            body["outputConfig"] = self._output
        if (tier := find_tier(self._turn, self._provider, _TIERS)) is not None:
            body["serviceTier"] = {"type": tier}
        return body

    def _receipt(self, param: str, why: str, action: str = DROPPED) -> None:
        self._turn.receipt(self._provider, param, why, action)

    # --- thinking -----------------------------------------------------------------------------------------

    def _reasoning(self, *, is_forced: bool, may_think: bool) -> None:
        asked, family = self._request.reasoning, self._family
        effort, summary = (asked.effort, asked.summary) if asked else (None, None)
        if effort == "none":
            self._not_thinking()
        elif effort is None and summary is None:
            return
        elif family.thinking is None:
            self._receipt("reasoning", "this model has no setting for how much to reason")
        elif family.thinking in ("adaptive", "budget") and is_forced:
            self._receipt("reasoning", "this model does not think when it is made to call a tool")
        else:
            if summary is not None and not family.summarises:
                self._receipt("reasoning.summary", "this model shows its reasoning itself, without a summary")
            match family.thinking:
                case "adaptive":
                    display = {"display": "summarized"} if summary else {}
                    self._own["thinking"] = {"type": "adaptive", **display}
                    self._thinks = True
                    if effort is not None:
                        self._output["effort"] = self._nearest(effort)
                case "budget":
                    self._budget(effort or "medium", may_think=may_think)
                case "nova":
                    self._nova(self._nearest(effort or "medium"))
                case "reasoning_effort" if effort:
                    self._own["reasoning_effort"] = self._nearest(effort)
                case "reasoning_config" if effort:
                    self._own["reasoning_config"] = self._nearest(effort)
                case "reasoning.effort" if effort:
                    self._own["reasoning"] = {"effort": self._nearest(effort)}

    def _not_thinking(self) -> None:
        family = self._family
        if "none" in family.efforts:
            self._own["reasoning"] = {"effort": "none"}
        elif family.off in ("disabled", "between_tools"):
            self._own["thinking"] = {"type": family.off}
        elif family.off is None:
            why = "this model always thinks, so the effort is sent as 'low'"
            self._receipt("reasoning.effort", why, REWRITTEN)
            if family.thinking == "reasoning_effort":
                self._own["reasoning_effort"] = "low"
            else:
                self._output["effort"] = "low"

    def _budget(self, effort: str, *, may_think: bool) -> None:
        limit = self._inference.get("maxTokens", self._family.max_tokens)
        budget = budget_for(effort, limit)
        if budget is None:
            why = f"a limit of {limit:,} tokens leaves no room for thinking, which takes {LEAST_BUDGET:,}"
            self._receipt("reasoning", why)
        elif not may_think:
            why = "the calls before these results were made without thinking, which cannot begin in between"
            self._receipt("reasoning", why, SUPPRESSED)
        else:
            self._own["thinking"] = {"type": "enabled", "budget_tokens": budget}
            self._inference["maxTokens"] = limit
            self._thinks = True

    def _nova(self, effort: str) -> None:
        self._own["reasoningConfig"] = {"type": "enabled", "maxReasoningEffort": effort}
        self._thinks = True
        if effort == "high" and self._inference.pop("maxTokens", None) is not None:
            self._receipt("max_output_tokens", "this model takes no limit with the highest effort")

    def _nearest(self, effort: str) -> str:
        nearest = nearest_effort(effort, self._family.efforts)
        if nearest != effort:
            self._receipt("reasoning.effort", f"{effort!r} is sent as {nearest!r} here", REWRITTEN)
        return nearest

    # --- sampling -----------------------------------------------------------------------------------------

    def _sampling(self) -> None:
        for param, field, value in (
            ("temperature", "temperature", self._request.temperature),
            ("top_p", "topP", self._request.top_p),
        ):
            if value is None:
                continue
            if self._family.sampling is None:
                self._receipt(param, "this model takes no sampling parameters")
            elif self._thinks:
                self._receipt(param, "not while it thinks")
            elif self._family.sampling == "one" and "temperature" in self._inference:
                self._receipt(param, "this model takes temperature or top_p, not both")
            else:
                if value > 1:
                    self._receipt(param, f"{value:g} is sent as 1, the highest here", REWRITTEN)
                self._inference[field] = min(value, 1)

    def _extras(self) -> None:
        """Fields outside the specification that many clients send."""
        given = extras(self._request)
        stop = given.get("stop")
        if sequences := [stop] if isinstance(stop, str) else stop:
            self._inference["stopSequences"] = sequences
        top_k, place = given.get("top_k"), self._family.top_k
        if top_k is None:
            return
        if place is None:
            self._receipt("top_k", "this model takes no top_k")
        elif self._thinks:
            self._receipt("top_k", "not while it thinks")
        else:
            outer, _, inner = place.partition(".")
            self._own[outer] = {inner: top_k} if inner else top_k

    # --- formats ------------------------------------------------------------------------------------------

    def _format(self, system: list[_Fields]) -> None:
        match self._request.text and self._request.text.format:
            case JsonObjectFormat() as wanted:
                self._receipt("text.format", "Converse has no JSON mode, so the model is asked", REWRITTEN)
                system.append({"text": in_words(wanted)})
            case JsonSchemaFormat() as wanted:
                try:
                    self._output["textFormat"] = self._schema(wanted)
                except Inexpressible as reason:
                    why = f"it cannot be guaranteed ({reason}), so the schema is put into the prompt"
                    self._receipt("text.format", why, REWRITTEN)
                    system.append({"text": in_words(wanted)})

    def _schema(self, wanted: JsonSchemaFormat) -> _Fields:
        if not self._family.structured:
            raise Inexpressible("this model takes no schema")
        schema, left_out = fit_schema(wanted.schema or {})
        if left_out:
            words = ", ".join(sorted(left_out))
            why = f"the model is not held to {words}, which the gateway checks"
            self._receipt("text.format", why, SUPPRESSED)
        definition = {"schema": encode(schema).decode(), "name": wanted.name}
        if wanted.description:
            definition["description"] = wanted.description
        return {"type": "json_schema", "structure": {"jsonSchema": definition}}
