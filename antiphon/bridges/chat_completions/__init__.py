"""OpenAI's chat completions and Open Responses: a body to a request, and events to chunks or a whole answer.

>>> asked = read_completion(b'{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}')
>>> asked.request.input, asked.request.max_output_tokens
('Hi', 5)
"""

from antiphon.bridges.chat_completions.body import ChatCompletionBody
from antiphon.bridges.chat_completions.completion import ChatCompletion, encode_completion, untold
from antiphon.bridges.chat_completions.request import ReadCompletion, read_completion
from antiphon.bridges.chat_completions.stream import ChatCompletionChunks

__all__ = [
    "ChatCompletion",
    "ChatCompletionBody",
    "ChatCompletionChunks",
    "ReadCompletion",
    "encode_completion",
    "read_completion",
    "untold",
]
