"""A gateway as most would write it first: FastAPI, httpx and pydantic, one model for everything on the wire.

It translates text turns correctly, with all 31 keys and the whole lifecycle of events, and stores nothing.
Its upstream is the environment variable UPSTREAM.
"""

import json
import os
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

UPSTREAM = os.environ.get("UPSTREAM", "http://127.0.0.1:9/v1")


class InputMessage(BaseModel):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[dict[str, Any]]


class ResponseRequest(BaseModel):
    model: str
    input: str | list[InputMessage]
    instructions: str | None = None
    stream: bool = False
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    max_output_tokens: int | None = Field(None, ge=16)
    metadata: dict[str, str] | None = None
    store: bool = True


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str = ""
    annotations: list[dict[str, Any]] = []
    logprobs: list[dict[str, Any]] = []


class OutputMessage(BaseModel):
    type: Literal["message"] = "message"
    id: str
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"] = "in_progress"
    content: list[OutputText] = []


class InputTokensDetails(BaseModel):
    cached_tokens: int = 0


class OutputTokensDetails(BaseModel):
    reasoning_tokens: int = 0


class Usage(BaseModel):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokensDetails = InputTokensDetails()
    output_tokens_details: OutputTokensDetails = OutputTokensDetails()


class TextFormat(BaseModel):
    type: Literal["text"] = "text"


class TextOptions(BaseModel):
    format: TextFormat = TextFormat()


class ResponseObject(BaseModel):
    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Literal["in_progress", "completed", "incomplete", "failed"] = "in_progress"
    incomplete_details: dict[str, str] | None = None
    model: str
    previous_response_id: str | None = None
    instructions: str | None = None
    output: list[OutputMessage] = []
    error: dict[str, str] | None = None
    tools: list[dict[str, Any]] = []
    tool_choice: str = "auto"
    truncation: Literal["auto", "disabled"] = "disabled"
    parallel_tool_calls: bool = True
    text: TextOptions = TextOptions()
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int = 0
    temperature: float = 1.0
    reasoning: dict[str, str] | None = None
    usage: Usage | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    store: bool = True
    background: bool = False
    service_tier: str = "default"
    metadata: dict[str, str] = {}
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


class Event(BaseModel):
    type: str
    sequence_number: int


class ResponseEvent(Event):
    response: ResponseObject


class ItemEvent(Event):
    output_index: int
    item: OutputMessage


class PartEvent(Event):
    item_id: str
    output_index: int
    content_index: int
    part: OutputText


class TextDeltaEvent(Event):
    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: list[dict[str, Any]] = []


class TextDoneEvent(Event):
    item_id: str
    output_index: int
    content_index: int
    text: str
    logprobs: list[dict[str, Any]] = []


class ChatMessage(BaseModel):
    role: str | None = None
    content: str | None = None


class ChatChoice(BaseModel):
    index: int
    message: ChatMessage | None = None
    delta: ChatMessage | None = None
    finish_reason: str | None = None


class ChatUsage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    id: str
    choices: list[ChatChoice]
    usage: ChatUsage | None = None


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=UPSTREAM, timeout=300, limits=limits) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def chat_body(request: ResponseRequest) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        messages.append({"role": "user", "content": request.input})
    else:
        for message in request.input:
            content = message.content
            if isinstance(content, list):
                content = "".join(part.get("text", "") for part in content)
            messages.append({"role": message.role, "content": content})
    body: dict[str, Any] = {"model": request.model, "messages": messages, "stream": request.stream}
    if request.stream:
        body["stream_options"] = {"include_usage": True}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.max_output_tokens is not None:
        body["max_tokens"] = request.max_output_tokens
    return body


def start(request: ResponseRequest) -> ResponseObject:
    return ResponseObject(
        id=new_id("resp"),
        created_at=int(time.time()),
        model=request.model,
        instructions=request.instructions,
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        max_output_tokens=request.max_output_tokens,
        metadata=request.metadata or {},
        store=request.store,
    )


def finish(response: ResponseObject, message: OutputMessage, reason: str, usage: ChatUsage | None) -> None:
    is_cut = reason == "length"
    message.status = "incomplete" if is_cut else "completed"
    response.output = [message]
    response.status = "incomplete" if is_cut else "completed"
    response.incomplete_details = {"reason": "max_output_tokens"} if is_cut else None
    response.completed_at = int(time.time())
    if usage is not None:
        response.usage = Usage(
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            total_tokens=usage.total_tokens,
        )


@app.get("/healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@app.post("/v1/responses", response_model=ResponseObject)
async def create(request: ResponseRequest) -> Any:
    if request.stream:
        return StreamingResponse(stream(request), media_type="text/event-stream")
    response = start(request)
    answer = await app.state.client.post("/chat/completions", json=chat_body(request))
    if answer.status_code != 200:
        raise HTTPException(502, "the upstream refused the request")
    completion = ChatCompletion.model_validate(answer.json())
    choice = completion.choices[0]
    text = choice.message.content if choice.message and choice.message.content else ""
    message = OutputMessage(id=new_id("msg"), content=[OutputText(text=text)])
    finish(response, message, choice.finish_reason or "stop", completion.usage)
    return response


def sse(event: Event) -> str:
    return f"event: {event.type}\ndata: {event.model_dump_json()}\n\n"


async def stream(request: ResponseRequest) -> AsyncIterator[str]:
    response = start(request)
    message = OutputMessage(id=new_id("msg"))
    place: dict[str, Any] = {"item_id": message.id, "output_index": 0, "content_index": 0}
    number = 0
    text = ""
    reason = "stop"
    usage: ChatUsage | None = None

    def numbered(kind: str) -> dict[str, Any]:
        nonlocal number
        number += 1
        return {"type": kind, "sequence_number": number - 1}

    yield sse(ResponseEvent(**numbered("response.created"), response=response))
    yield sse(ResponseEvent(**numbered("response.in_progress"), response=response))
    yield sse(ItemEvent(**numbered("response.output_item.added"), output_index=0, item=message))
    yield sse(PartEvent(**numbered("response.content_part.added"), **place, part=OutputText()))
    async with app.state.client.stream("POST", "/chat/completions", json=chat_body(request)) as answer:
        async for line in answer.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            chunk = ChatCompletion.model_validate(json.loads(line[6:]))
            usage = chunk.usage or usage
            for choice in chunk.choices:
                reason = choice.finish_reason or reason
                if choice.delta and choice.delta.content:
                    text += choice.delta.content
                    delta = choice.delta.content
                    yield sse(TextDeltaEvent(**numbered("response.output_text.delta"), **place, delta=delta))
    part = OutputText(text=text)
    yield sse(TextDoneEvent(**numbered("response.output_text.done"), **place, text=text))
    yield sse(PartEvent(**numbered("response.content_part.done"), **place, part=part))
    message.content = [part]
    finish(response, message, reason, usage)
    yield sse(ItemEvent(**numbered("response.output_item.done"), output_index=0, item=message))
    yield sse(ResponseEvent(**numbered(f"response.{response.status}"), response=response))
    yield "data: [DONE]\n\n"
