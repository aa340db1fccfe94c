"""OpenAI's chat completions and Open Responses: a body to a request, and events to chunks or a whole answer.

>>> asked = read_completion(b'{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}')
>>> asked.request.input, asked.request.max_output_tokens
('Hi', 5)
"""

from antiphon.bridges.chat_completions.body import ChatCompletionBody as ChatCompletionBody
from antiphon.bridges.chat_completions.completion import ChatCompletion as ChatCompletion
from antiphon.bridges.chat_completions.completion import encode_completion as encode_completion
from antiphon.bridges.chat_completions.completion import list_unrepresented as list_unrepresented
from antiphon.bridges.chat_completions.request import ReadCompletion as ReadCompletion
from antiphon.bridges.chat_completions.request import read_completion as read_completion
from antiphon.bridges.chat_completions.stream import ChatCompletionChunks as ChatCompletionChunks
