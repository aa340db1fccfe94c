"""`type = "llama"`: the embedded model, one more chat upstream that happens to run on this machine.

The default model's chat template knows no tools, and the model cannot see. So a grammar makes its calls, and
words describe pictures. Another model gets its tools by its own template, if that takes any. Everything else
is the wire of `chat`.
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from antiphon.config import DeclaredSettings, LocalSettings, local_alias
from antiphon.embedded import weights
from antiphon.embedded.catalogue import DEFAULT
from antiphon.embedded.defaults import defaults_of
from antiphon.embedded.grammar_cost import objection
from antiphon.embedded.process import Endpoint, ModelError, ModelProcess, why_unavailable
from antiphon.embedded.tool_choice import choose
from antiphon.embedded.tool_prompt import (
    MOST_CALLS,
    PromptMessage,
    build_answer_messages,
    build_call_messages,
    last_question,
    tool_schema,
)
from antiphon.embedded.tool_text import CallArguments, CallStart, ToolTextParser
from antiphon.providers import errors
from antiphon.providers.base import REWRITTEN, Capabilities, Environment, Sink, Turn, UpstreamError
from antiphon.providers.chat.profiles import PROFILES
from antiphon.providers.chat.request import prepare
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.exchange import Call, ask, encode_body, run_apart
from antiphon.providers.image_info import describe
from antiphon.spec.content import ContentPart, InputImage, InputText
from antiphon.spec.errors import MODEL_UNAVAILABLE, ErrorPayload
from antiphon.spec.items import FunctionCallOutput, Item
from antiphon.spec.items import Message as MessageItem
from antiphon.spec.response import Usage
from antiphon.spec.tools import AllowedTools, FunctionToolChoice, JsonSchemaFormat
from antiphon.stream.deltas import AnyDelta, Finish, TextDelta, UsageDelta
from antiphon.wires.tools.calls import Calls
from antiphon.wires.tools.names import ToolNames, UpstreamFunction
from antiphon.wires.worker_thread import in_worker_thread

_PROFILE = PROFILES["llamacpp"]
_PROMPT_FIELDS = ("messages", "tools", "chat_template_kwargs")
_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")
_PROGRESS = re.compile(rb'"prompt_progress":\{"total":(\d+),"cache":(\d+)')


class LlamaSettings(DeclaredSettings, frozen=True, kw_only=True):
    embedded: ClassVar[bool] = True

    @classmethod
    def absence(cls) -> str | None:
        return why_unavailable()

    @classmethod
    def objection(cls, local: LocalSettings) -> str | None:
        return weights.objection(local.model)


class Llama:
    Settings = LlamaSettings

    def __init__(self, settings: LlamaSettings, environment: Environment) -> None:
        local = environment.local
        self.name = settings.name
        self.alias = local_alias(local)
        may_think = local.model != DEFAULT
        self._defaults = defaults_of(local.model)
        self.capabilities = Capabilities(
            parameters=_PROFILE.capabilities.parameters | ({"reasoning"} if may_think else set()),
            custom_tools=True,
            logprobs=True,
            reasoning=may_think,
            counts_tokens=True,
            context_window=local.context,
            defaults=self._defaults.sampling,
        )
        self._context = local.context
        self._describes = local.images == "describe"
        self._http = environment.http
        self._process = ModelProcess(local, self.alias, environment.folder)
        self._timeouts = settings.timeouts

    async def answer(self, turn: Turn, sink: Sink) -> None:
        body, names = await run_apart(turn, self._prepare, turn)
        if schemas := _schemas(turn, names):
            await in_worker_thread(self._check_schemas, schemas)
        try:
            async with self._process.lease(turn.tenant, sink.queued) as endpoint:
                call = await self._call(turn, body, names, endpoint, sink)
                tokens = await self._most_tokens(turn, body, endpoint)
                async with self._process.reserve(tokens, turn.tenant, sink.queued):
                    await ask(self._http, turn, lambda _: call, sink)
        except ModelError as error:
            raise _unavailable(error) from None

    async def count_tokens(self, turn: Turn) -> int | None:
        body, names = await run_apart(turn, self._prepare, turn)
        try:
            async with self._process.lease(turn.tenant) as endpoint:
                if _by_template(turn, body, names, endpoint):
                    asked = {
                        "messages": body["messages"],
                        "tools": _select_tools(body, _candidates(turn, names)),
                    }
                else:
                    asked = {"messages": self._conversation(turn, body)}
                sent = await run_apart(turn, encode_body, turn, asked)
                return await self._prompt_tokens(endpoint, sent)
        except ModelError as error:
            raise _unavailable(error) from None

    @property
    def is_loaded(self) -> bool:
        """Does the model run? The first request loads it."""
        return self._process.is_loaded

    async def models(self) -> list[str]:
        return [self.alias]

    async def close(self) -> None:
        await self._process.aclose()

    def _prepare(self, turn: Turn) -> tuple[dict[str, Any], ToolNames]:
        items = [self._describe_images(turn, item, n) for n, item in enumerate(turn.items)]
        return prepare(msgspec.structs.replace(turn, items=items), _PROFILE, self.name)

    def _check_schemas(self, schemas: dict[str, Any]) -> None:
        """Refuse a schema whose grammar would keep all users of the model waiting."""
        for param, schema in schemas.items():
            if (why := objection(schema)) is not None:
                raise errors.unsupported(self.name, param, why)

    def _describe_images(self, turn: Turn, item: Item, n: int) -> Item:
        """The item with words in the place of its pictures."""
        if isinstance(item, MessageItem) and not isinstance(item.content, str):
            return msgspec.structs.replace(
                item, content=self._parts(turn, item.content, f"input[{n}].content")
            )
        if isinstance(item, FunctionCallOutput) and not isinstance(item.output, str):
            return msgspec.structs.replace(item, output=self._parts(turn, item.output, f"input[{n}].output"))
        return item

    def _parts(self, turn: Turn, parts: list[ContentPart], path: str) -> list[ContentPart]:
        return [
            self._in_words(turn, part, f"{path}[{n}]") if isinstance(part, InputImage) else part
            for n, part in enumerate(parts)
        ]

    def _in_words(self, turn: Turn, image: InputImage, path: str) -> InputText:
        if not self._describes:
            reason = "the embedded model takes no images; choose another model, or set images to 'describe'"
            raise errors.unsupported(self.name, path, reason)
        turn.receipt(
            self.name, path, "the embedded model cannot see images; a note is sent instead", REWRITTEN
        )
        return InputText(describe(image.image_url or ""))

    def _conversation(self, turn: Turn, body: dict[str, Any]) -> list[PromptMessage]:
        """The conversation for an answer in words; our opening stands first without tools and format."""
        messages = build_answer_messages(body["messages"])
        return messages if turn.tools or "response_format" in body else self._defaults.add_opening(messages)

    async def _prompt_tokens(self, endpoint: Endpoint, asked: bytes) -> int:
        answer = await self._post(endpoint, "/v1/chat/completions/input_tokens", asked)
        return int(answer["input_tokens"])

    async def _most_tokens(self, turn: Turn, body: dict[str, Any], endpoint: Endpoint) -> int:
        """How many tokens of the cache a request may fill: its prompt and the longest answer it allows."""
        longest = body.get("max_tokens")
        if longest is None or not self._process.shares_cache:
            return self._context
        asked = {name: body[name] for name in _PROMPT_FIELDS if name in body}
        prompt = await self._prompt_tokens(endpoint, await run_apart(turn, encode_body, turn, asked))
        # llama.cpp refuses a prompt that is too long.
        return 0 if prompt >= self._context else prompt + int(longest)

    async def _call(
        self, turn: Turn, body: dict[str, Any], names: ToolNames, endpoint: Endpoint, sink: Sink
    ) -> Call:
        """The request, which `body` becomes."""
        parser = ChatStream(
            names, note=turn.note(self.name), keeps_chunks=turn.keeps_chunks, provider=self.name
        )
        reader: ChatStream | CallStream = parser
        thinking = self._thinking(turn, endpoint)
        if _by_template(turn, body, names, endpoint):
            body["tools"] = _select_tools(body, _candidates(turn, names))
            body["tool_choice"] = "auto"
            body["parallel_tool_calls"] = turn.request.parallel_tool_calls is not False
        elif functions := await self._functions(turn, names, body["messages"], endpoint, sink):
            reader = CallStream(parser, names, last_question(body["messages"]))
            _hold_to_calls(turn, body, functions)
            thinking = False if endpoint.thinks else None
        else:
            body["messages"] = self._conversation(turn, body)
            for field in _TOOL_FIELDS:
                body.pop(field, None)
            body |= self._defaults.more
        if thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": thinking}
        if self._defaults.longest is not None:
            body.setdefault("max_tokens", self._defaults.longest)
        body |= {
            "return_progress": True,
            "cache_prompt": True,
            **{name: body.get(name, value) for name, value in self._defaults.sampling.items()},
        }
        return Call(
            provider=self.name,
            url=f"{endpoint.url}/v1/chat/completions",
            headers=_headers(endpoint),
            body=await run_apart(turn, encode_body, turn, body),
            parser=reader,
            timeouts=self._timeouts,
            reuse=False,
            secrets=(endpoint.key,),
        )

    def _thinking(self, turn: Turn, endpoint: Endpoint) -> bool | None:
        """Is the model to think? None leaves it to the model."""
        effort = turn.request.reasoning.effort if turn.request.reasoning else None
        if effort is None:
            return None
        if not endpoint.thinks:
            reason = "the chat template of this model has no switch for thinking"
            turn.receipt(self.name, "reasoning.effort", reason)
            return None
        return effort not in ("none", "minimal")

    async def _functions(
        self, turn: Turn, names: ToolNames, messages: Sequence[PromptMessage], endpoint: Endpoint, sink: Sink
    ) -> list[UpstreamFunction]:
        """The function that this answer is to call; none when it is to be words."""
        candidates = _candidates(turn, names)
        must = _must_call(turn)
        if not candidates or (not must and messages and messages[-1]["role"] == "tool"):
            return []

        async def post(path: str, body: dict[str, Any]) -> Any:
            sent = msgspec.json.encode(body)
            if path != "/completion":
                return await self._post(endpoint, path, sent)
            # A token is at least one byte. The prompts run side by side, each with its own answer.
            tokens = len(sent) + len(body["prompt"]) * int(body["n_predict"])
            async with self._process.reserve(tokens, turn.tenant, sink.queued):
                return await self._post(endpoint, path, sent)

        chosen = await choose(post, candidates, last_question(messages), must=must)
        return [] if chosen is None else [chosen]

    async def _post(self, endpoint: Endpoint, path: str, body: bytes) -> Any:
        request = self._http.post(
            f"{endpoint.url}{path}", body, _headers(endpoint), self._timeouts, provider=self.name, reuse=False
        )
        async with request as response:
            answer = await response.read()
            if response.status != 200:
                raise errors.from_response(
                    self.name, response.status, response.headers, answer, secrets=(endpoint.key,)
                )
        return msgspec.json.decode(answer)


class CallStream:
    """Reads an answer that the grammar holds to calls: its text is not words but the calls themselves.

    Once the calls begin to repeat themselves there is nothing to wait for; the counts are then our own.
    """

    def __init__(self, stream: ChatStream, names: ToolNames, said: str) -> None:
        self._stream = stream
        self._tool_calls = Calls(names)
        self._text = ToolTextParser(said)
        self._count = 0
        self._tokens = 0
        self._prompt: tuple[int, int] | None = None

    @property
    def over(self) -> bool:
        return self._stream.over or self._text.done

    def feed(self, data: bytes) -> list[AnyDelta]:
        if self._prompt is None and (progress := _PROGRESS.search(data)):
            self._prompt = int(progress[1]), int(progress[2])
        passed = self._calls(self._stream.feed(data))
        if self._text.done and not self._stream.over:
            passed += self._end_early()
        return passed

    def end(self, error: ErrorPayload | None = None) -> list[AnyDelta]:
        return self._calls(self._stream.end(error))

    def whole(self, body: bytes) -> list[AnyDelta]:
        return self._calls(self._stream.whole(body))

    def _end_early(self) -> list[AnyDelta]:
        given, cached = self._prompt or (0, 0)
        return [UsageDelta(Usage.of(given, self._tokens, cached=cached)), Finish("tool_calls")]

    def _calls(self, deltas: list[AnyDelta]) -> list[AnyDelta]:
        passed: list[AnyDelta] = []
        for delta in deltas:
            if isinstance(delta, TextDelta):
                self._tokens += 1
                passed += self._pieces(delta.text)
            elif isinstance(delta, Finish) and delta.reason == "stop" and self._count:
                passed.append(Finish("tool_calls"))
            else:
                passed.append(delta)
        return passed

    def _pieces(self, text: str) -> list[AnyDelta]:
        passed: list[AnyDelta] = []
        for piece in self._text.feed(text):
            if isinstance(piece, CallStart):
                self._count += 1
                passed.append(self._tool_calls.begin(self._count, piece.name))
            elif isinstance(piece, CallArguments):
                passed += self._tool_calls.arguments(self._count, piece.text)
            else:
                passed += self._tool_calls.end(self._count)
        return passed


def _by_template(turn: Turn, body: dict[str, Any], names: ToolNames, endpoint: Endpoint) -> bool:
    """Are the tools given to the model by its own template?

    A call that must be made, and calls beside an answer in JSON, are held to by our grammar: llama.cpp lets a
    model write words before the call, and takes no other grammar beside its own.
    """
    wanted = endpoint.tools and "response_format" not in body and not _must_call(turn)
    return wanted and bool(_candidates(turn, names))


def _select_tools(body: dict[str, Any], candidates: list[UpstreamFunction]) -> list[dict[str, Any]]:
    may = {one.name for one in candidates}
    return [tool for tool in body["tools"] if tool["function"]["name"] in may]


def _hold_to_calls(turn: Turn, body: dict[str, Any], functions: list[UpstreamFunction]) -> None:
    """Makes it a request for calls of these functions and nothing else."""
    for field in _TOOL_FIELDS:
        body.pop(field, None)
    parallel = turn.request.parallel_tool_calls is not False
    most = min(turn.request.max_tool_calls or MOST_CALLS, MOST_CALLS)
    schema = tool_schema(functions, parallel=parallel, most=most)
    body["messages"] = build_call_messages(body["messages"], functions)
    body["response_format"] = {"type": "json_schema", "json_schema": {"name": "calls", "schema": schema}}


def _candidates(turn: Turn, names: ToolNames) -> list[UpstreamFunction]:
    """The functions that may be called; the others only the model's prompt would have seen."""
    choice = turn.request.tool_choice
    allowed: set[str] | None = None
    if choice == "none":
        return []
    if isinstance(choice, FunctionToolChoice):
        allowed = {choice.name}
    elif isinstance(choice, AllowedTools):
        if choice.mode == "none":
            return []
        allowed = {ref.name for ref in choice.tools if isinstance(ref, FunctionToolChoice)}
    return [one for one in names.functions if allowed is None or one.origin.name in allowed]


def _schemas(turn: Turn, names: ToolNames) -> dict[str, Any]:
    """What the model may be held to by a grammar, by its place in the request."""
    schemas: dict[str, Any] = {_place(turn, one): one.parameters for one in _candidates(turn, names)}
    form = turn.request.text.format if turn.request.text else None
    if isinstance(form, JsonSchemaFormat) and form.schema is not None:
        schemas["text.format.schema"] = form.schema
    return schemas


def _place(turn: Turn, function: UpstreamFunction) -> str:
    """Where the client has put a function: in a tool of its name, or in the namespace that holds it."""
    named = function.origin.namespace or function.origin.name
    places = (n for n, tool in enumerate(turn.tools) if getattr(tool, "name", None) == named)
    return f"tools[{next(places, 0)}].parameters"


def _must_call(turn: Turn) -> bool:
    choice = turn.request.tool_choice
    if isinstance(choice, AllowedTools):
        return choice.mode == "required"
    return choice == "required" or isinstance(choice, FunctionToolChoice)


def _headers(endpoint: Endpoint) -> dict[str, str]:
    return {"Content-Type": "application/json", "Authorization": f"Bearer {endpoint.key}"}


def _unavailable(error: ModelError) -> UpstreamError:
    return UpstreamError(ErrorPayload("server_error", str(error), code=MODEL_UNAVAILABLE), 503)
