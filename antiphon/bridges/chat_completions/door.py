"""The doors of OpenAI's older APIs."""

from collections.abc import Callable, Mapping
from functools import partial

from antiphon.bridges.chat_completions.completion import encode_completion, list_unrepresented
from antiphon.bridges.chat_completions.request import ReadCompletion, read_completion
from antiphon.bridges.chat_completions.stream import ChatCompletionChunks
from antiphon.bridges.door import Door, Ending, ResponseDoor
from antiphon.engine.engine import Engine
from antiphon.spec.codec import Opaque
from antiphon.spec.response import Receipt, Response
from antiphon.stream.dialects import OPENAI

_SEARCH = Opaque.make(type="web_search")


class ChatCompletionsDoor(ResponseDoor[ReadCompletion]):
    is_idempotent = True

    def reader(self, engine: Engine, headers: Mapping[bytes, bytes]) -> Callable[..., ReadCompletion]:
        return partial(read_completion, searches=engine.hosted.runs(_SEARCH))

    def encoder(self, asked: ReadCompletion, ending: Ending, request_id: str) -> ChatCompletionChunks:
        request = asked.request
        has_more = bool(request.include or request.top_logprobs or request.stream_options)
        return ChatCompletionChunks(
            asked.param, has_usage=asked.has_usage, is_older=asked.is_older, has_more=has_more
        )

    def encode(self, response: Response, asked: ReadCompletion, ending: Ending) -> bytes:
        return encode_completion(response, is_older=asked.is_older, named=asked.param)

    def list_unrepresented(self, response: Response) -> list[Receipt]:
        return list_unrepresented(response)


CHAT_COMPLETIONS = ChatCompletionsDoor("/v1/chat/completions", OPENAI)
EMBEDDINGS = Door("/v1/embeddings", OPENAI)
