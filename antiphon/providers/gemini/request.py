"""From a turn to the body of `generateContent`: contents, tools, and what else Google takes."""

import re
from typing import Any

from msgspec.structs import replace

from antiphon.providers.base import REWRITTEN, SUPPRESSED, Turn
from antiphon.providers.errors import unsupported
from antiphon.providers.exchange import PreparedBody
from antiphon.providers.gemini.content import GeminiContent, GeminiPartBody, inline_part
from antiphon.providers.gemini.json_schema import SchemaTooLarge, fits, is_sound, translate
from antiphon.providers.gemini.models import generation, thinking
from antiphon.providers.gemini.signatures import NO_PROOF, SEARCH, VENDOR, ModelParts, from_blob
from antiphon.providers.gemini.wire import OTHERS
from antiphon.providers.history import AnyCall, AnyCallOutput, InputEntry, Speech, speeches
from antiphon.providers.parameters import find_tier
from antiphon.providers.tools import as_object, flatten
from antiphon.spec.codec import Opaque, encode, extras
from antiphon.spec.content import text_of
from antiphon.spec.items import CustomToolCall, FunctionCall, Message, Reasoning, is_failed
from antiphon.spec.tools import AllowedTools, FunctionToolChoice, JsonObjectFormat, JsonSchemaFormat, ToolRef
from antiphon.wires.media import IMAGES, image_of
from antiphon.wires.tools.names import ToolNames, UpstreamFunction

# Sampling by its name here and there; the last three are outside the specification.
_SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "max_output_tokens": "maxOutputTokens",
}
_EXTRA = {"seed": "seed", "top_k": "topK", "stop": "stopSequences"}
_TIERS = {"default": "standard", "standard": "standard", "flex": "flex", "priority": "priority"}
SEARCHES = frozenset({"web_search", "web_search_preview"})

PARAMETERS = frozenset({*_SAMPLING, *_EXTRA, "top_logprobs", "reasoning", "service_tier"})


def prepare(turn: Turn, provider: str = "gemini", *, invocations: bool = True) -> PreparedBody:
    """The body of a request; what cannot be sent leaves a receipt or is refused.

    `invocations`: Google has to be asked to tell what its own tools do, if there are functions beside them.
    """
    own = [tool for tool in turn.tools if isinstance(tool, Opaque) and _is_own(tool)]
    tools = [tool for tool in turn.tools if tool not in own]
    names = flatten(replace(turn, tools=tools), provider)
    contents = _Contents(turn, provider, names)
    body: dict[str, Any] = {"contents": contents.all()}
    body |= _tool_fields(turn, provider, names, own, invocations)
    generating = _sampling(turn, provider) | _format(turn, provider, names, contents)
    if thoughts := thinking(turn, provider):
        generating["thinkingConfig"] = thoughts
    if contents.system:
        body["systemInstruction"] = {"parts": [{"text": text} for text in contents.system]}
    if generating:
        body["generationConfig"] = generating
    if (tier := find_tier(turn, provider, _TIERS)) is not None:
        body["serviceTier"] = tier
    return PreparedBody(body, names)


def _sampling(turn: Turn, provider: str) -> dict[str, Any]:
    request = turn.request
    fields = {
        there: value for here, there in _SAMPLING.items() if (value := getattr(request, here)) is not None
    }
    given = extras(request)
    fields |= {there: given[here] for here, there in _EXTRA.items() if given.get(here) is not None}
    if isinstance(fields.get("stopSequences"), str):
        fields["stopSequences"] = [fields["stopSequences"]]
    if request.top_logprobs or "message.output_text.logprobs" in request.include:
        fields["responseLogprobs"] = True
        if request.top_logprobs:
            fields["logprobs"] = request.top_logprobs
    return fields


# --- tools ------------------------------------------------------------------------------------------------


def _is_own(tool: Opaque) -> bool:
    return tool.type in SEARCHES or tool.type.startswith(VENDOR)


def _own_tool(tool: Opaque) -> dict[str, Any]:
    """A tool that Google runs itself, under its own name."""
    if tool.type in SEARCHES:
        return {"googleSearch": {}}
    name = re.sub(r"_([a-z])", lambda found: found[1].upper(), tool.type.removeprefix(VENDOR))
    return {name: {field: value for field, value in tool.fields.items() if field != "type"}}


def _tool_fields(
    turn: Turn, provider: str, names: ToolNames, own: list[Opaque], invocations: bool
) -> dict[str, Any]:
    if own and names.functions and generation(turn.model) < 3:
        why = "before Gemini 3, Google's own tools cannot be used beside functions, so they are left out"
        turn.receipt(provider, "tools", why)
        own = []
    tools = [_own_tool(tool) for tool in own]
    if not names.functions:
        return {"tools": tools} if tools else {}
    tools.append(
        {"functionDeclarations": [_declaration(turn, provider, function) for function in names.functions]}
    )
    config: dict[str, Any] = {}
    if calling := _calling(turn, provider, names):
        config["functionCallingConfig"] = calling
    if own and invocations:
        config["includeServerSideToolInvocations"] = True
    return {"tools": tools, "toolConfig": config} if config else {"tools": tools}


def _declaration(turn: Turn, provider: str, function: UpstreamFunction) -> dict[str, Any]:
    made: dict[str, Any] = {"name": function.name}
    if function.description:
        made["description"] = function.description
    if function.parameters.get("properties") or function.parameters.keys() - {"type", "properties"}:
        what = f"the parameters of {function.origin.name!r}"
        made |= _schema(turn, provider, function.parameters, "parameters", "tools", what)
    return made


def _schema(
    turn: Turn, provider: str, schema: dict[str, Any], name: str, param: str, what: str
) -> dict[str, Any]:
    """The schema under `parameters` or `responseSchema`, or as it is under the other name of either."""
    if not is_sound(schema):
        raise unsupported(provider, param, f"the schema of {what} is not a JSON schema")
    if fits(schema):
        as_it_is = {"parameters": "parametersJsonSchema", "responseSchema": "responseJsonSchema"}
        return {as_it_is[name]: schema}
    try:
        made = translate(schema)
    except SchemaTooLarge:
        why = f"the schema of {what} is too large once its references are written out"
        raise unsupported(provider, param, why) from None
    if made.lost:
        places = ", ".join(made.lost[:5]) + (" and more" if len(made.lost) > 5 else "")
        turn.receipt(provider, param, f"Google's schemas cannot say this of {what}: {places}", REWRITTEN)
    return {name: made.schema}


def _calling(turn: Turn, provider: str, names: ToolNames) -> dict[str, Any]:
    match turn.request.tool_choice:
        case "none":
            return {"mode": "NONE"}
        case "required":
            return {"mode": "ANY"}
        case FunctionToolChoice() | Opaque() as choice:
            if (name := _find_chosen(names, choice)) is not None:
                return {"mode": "ANY", "allowedFunctionNames": [name]}
            turn.receipt(provider, "tool_choice", "the chosen tool cannot be sent, so the model may choose")
        case AllowedTools(mode="none"):
            return {"mode": "NONE"}
        case AllowedTools(tools=tools, mode=mode):
            allowed = [name for one in tools if (name := _find_chosen(names, one)) is not None]
            if allowed:
                wanted = "ANY" if mode == "required" else "VALIDATED"
                return {"mode": wanted, "allowedFunctionNames": list(dict.fromkeys(allowed))}
    # A strict function is one whose arguments are held to its schema.
    return {"mode": "VALIDATED"} if any(function.strict for function in names.functions) else {}


def _find_chosen(names: ToolNames, choice: ToolRef) -> str | None:
    if isinstance(choice, FunctionToolChoice):
        return names.find(choice.name)
    return names.find(str(choice.fields.get("name", "")), choice.fields.get("namespace"))


# --- the format of the answer -----------------------------------------------------------------------------


def _format(turn: Turn, provider: str, names: ToolNames, contents: "_Contents") -> dict[str, Any]:
    wanted = turn.request.text and turn.request.text.format
    if not isinstance(wanted, JsonObjectFormat | JsonSchemaFormat):
        return {}
    schema = wanted.schema if isinstance(wanted, JsonSchemaFormat) else None
    if names.functions and generation(turn.model) < 3:
        why = "this model has no JSON output beside functions, so the prompt asks for it"
        turn.receipt(provider, "text.format", why, REWRITTEN)
        told = f"a JSON object that fits this JSON schema:\n{encode(schema).decode()}" if schema else "JSON"
        contents.system.append(f"When you answer, and call no function, write nothing but {told}")
        return {}
    fields: dict[str, Any] = {"responseMimeType": "application/json"}
    if schema:
        fields |= _schema(turn, provider, schema, "responseSchema", "text.format.schema", "the format")
    return fields


# --- contents ---------------------------------------------------------------------------------------------


class _Contents:
    """Speeches in, contents out: `user` and `model` by turns, and apart from them the system's words."""

    def __init__(self, turn: Turn, provider: str, names: ToolNames) -> None:
        self._turn = turn
        self._provider = provider
        self._names = names
        self._done: list[dict[str, Any]] = []
        self._called: dict[str, str] = {}
        self._generation = generation(turn.model)
        self.system: list[str] = []

    def all(self) -> list[dict[str, Any]]:
        if instructions := self._turn.request.instructions:
            self.system.append(instructions)
        for speech in speeches(self._turn, self._provider, (VENDOR, *IMAGES, SEARCH)):
            match speech.role:
                case "system":
                    self._add_system(speech)
                case "user":
                    self._add("user", [part for entry in speech.entries for part in self._user_parts(entry)])
                case "assistant":
                    self._add("model", self._model_parts(speech))
                case "tool":
                    self._add_results(speech)
        if not self._done and self.system:
            # There is no request without contents, so the last words are told to the model directly.
            self._add("user", [{"text": self.system.pop()}])
        return self._done

    def _add(self, role: str, parts: list[GeminiPartBody]) -> None:
        if not parts:
            return
        last = self._done[-1] if self._done else None
        if last is not None and last["role"] == role and not _is_result(last["parts"][0]):
            last["parts"] += parts
        else:
            self._done.append({"role": role, "parts": parts})

    def _add_system(self, speech: Speech) -> None:
        for entry in speech.entries:
            if isinstance(entry.item, Message) and (text := text_of(entry.item.content)):
                self.system.append(text)
                if self._done:
                    why = "system and developer messages all stand before the conversation here"
                    self._turn.receipt(self._provider, entry.where, why, REWRITTEN)

    def _user_parts(self, entry: InputEntry) -> list[GeminiPartBody]:
        assert isinstance(entry.item, Message)
        return GeminiContent(self._turn, self._provider, f"{entry.where}.content").all(entry.item.content)

    def _model_parts(self, speech: Speech) -> list[GeminiPartBody]:
        made = ModelParts()
        for entry in speech.entries:
            match entry.item:
                case Reasoning() as item:
                    self._add_reasoning(item, made)
                case FunctionCall() | CustomToolCall() as call:
                    made.call(self._make_call(call, entry.where))
                case Message() as message:
                    made.text(message.get_text())
                case Opaque() as item:
                    self._add_other(item, entry.where, made)
        parts = made.end()
        if made.lost:
            self._note_suppressed(
                "input.reasoning", "the part that a thought signature belongs to is not there"
            )
        first = next((part for part in parts if "functionCall" in part), None)
        if self._generation >= 3 and first is not None and "thoughtSignature" not in first:
            first["thoughtSignature"] = NO_PROOF
            self._note_suppressed(
                "input.reasoning", "a call without its thought signature is sent as not verified"
            )
        return parts

    def _add_reasoning(self, item: Reasoning, made: ModelParts) -> None:
        proof = from_blob(item.encrypted_content)
        if proof is not None:
            made.proof(proof)
        else:
            self._note_suppressed("input.reasoning", "thoughts without a signature are not sent back")

    def _add_other(self, item: Opaque, where: str, made: ModelParts) -> None:
        if item.type == SEARCH:
            return  # what was found stands in the answer
        part = item.fields.get("data")
        if (image := image_of(item)) is not None:
            made.other(inline_part(image.media_type, image.data))
        elif isinstance(part, dict) and len(part) == 1 and part.keys() <= set(OTHERS.values()):
            made.other(part)
        else:
            self._turn.receipt(self._provider, where, f"{item.type!r} has no part in its `data`")

    def _note_suppressed(self, param: str, why: str) -> None:
        self._turn.receipt(self._provider, param, why, SUPPRESSED)

    def _make_call(self, call: AnyCall, where: str) -> dict[str, Any]:
        name, arguments = self._names.upstream_call(call)
        self._called[call.call_id] = name
        given = as_object(self._turn, self._provider, where, arguments)
        return {"id": call.call_id, "name": name, "args": given}

    def _add_results(self, speech: Speech) -> None:
        results: list[GeminiPartBody] = []
        media: list[GeminiPartBody] = []
        for entry in speech.entries:
            output = entry.item
            assert isinstance(output, AnyCallOutput)
            where = f"{entry.where}.output"
            parts = GeminiContent(self._turn, self._provider, where).all(output.output)
            text = "\n".join(part["text"] for part in parts if "text" in part)
            others = [part for part in parts if "text" not in part]
            name = self._called[output.call_id]
            said = {"error" if is_failed(output) else "output": text}
            result: dict[str, Any] = {"id": output.call_id, "name": name, "response": said}
            if others and self._generation >= 3:
                result["parts"] = others
            elif others:
                why = "pictures and files in a tool's output are sent in a user message after it"
                self._turn.receipt(self._provider, where, why, REWRITTEN)
                media += [{"text": f"From the output of the tool call {output.call_id}:"}, *others]
            results.append({"functionResponse": result})
        self._done.append({"role": "user", "parts": results})
        if media:
            self._done.append({"role": "user", "parts": media})


def _is_result(part: GeminiPartBody) -> bool:
    return "functionResponse" in part
