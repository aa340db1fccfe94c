"""VS Code's language model API and Open Responses, in both directions.

>>> asked = read_chat(b'{"messages": [{"role": 1, "content": "Hi"}]}')
>>> asked.request.input[0].content
'Hi'
"""

from antiphon.bridges.vscode_parts import (
    ASSISTANT,
    AUTO,
    REQUIRED,
    SYSTEM,
    USER,
    DataPart,
    Part,
    PromptTsxPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VsCodeMessage,
    assistant,
    read_bytes,
    read_part,
    read_parts,
    user,
)
from antiphon.bridges.vscode_request import (
    Asked,
    VsCodeOptions,
    VsCodeRequest,
    VsCodeTool,
    read_chat,
    to_request,
)
from antiphon.bridges.vscode_stream import Finish, Line, PartStream, Start, TokenUsage, VsCodeLines

__all__ = [
    "ASSISTANT",
    "AUTO",
    "REQUIRED",
    "SYSTEM",
    "USER",
    "Asked",
    "DataPart",
    "Finish",
    "Line",
    "Part",
    "PartStream",
    "PromptTsxPart",
    "Start",
    "TextPart",
    "ThinkingPart",
    "TokenUsage",
    "ToolCallPart",
    "ToolResultPart",
    "VsCodeLines",
    "VsCodeMessage",
    "VsCodeOptions",
    "VsCodeRequest",
    "VsCodeTool",
    "assistant",
    "read_bytes",
    "read_chat",
    "read_part",
    "read_parts",
    "to_request",
    "user",
]
