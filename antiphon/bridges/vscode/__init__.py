"""VS Code's language model API and Open Responses, in both directions.

>>> asked = read_chat(b'{"messages": [{"role": 1, "content": "Hi"}]}')
>>> asked.request.input[0].content
'Hi'
"""

from antiphon.bridges.vscode.parts import (
    ASSISTANT,
    AUTO,
    REQUIRED,
    SYSTEM,
    USER,
    DataPart,
    PromptTsxPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VsCodeMessage,
    VsCodePart,
    assistant,
    read_bytes,
    read_part,
    read_parts,
    user,
)
from antiphon.bridges.vscode.request import (
    ReadChat,
    VsCodeOptions,
    VsCodeRequest,
    VsCodeTool,
    read_chat,
    to_request,
)
from antiphon.bridges.vscode.stream import (
    PartStream,
    TokenUsage,
    VsCodeFinish,
    VsCodeLine,
    VsCodeLines,
    VsCodeStart,
)

__all__ = [
    "ASSISTANT",
    "AUTO",
    "REQUIRED",
    "SYSTEM",
    "USER",
    "DataPart",
    "PartStream",
    "PromptTsxPart",
    "ReadChat",
    "TextPart",
    "ThinkingPart",
    "TokenUsage",
    "ToolCallPart",
    "ToolResultPart",
    "VsCodeFinish",
    "VsCodeLine",
    "VsCodeLines",
    "VsCodeMessage",
    "VsCodeOptions",
    "VsCodePart",
    "VsCodeRequest",
    "VsCodeStart",
    "VsCodeTool",
    "assistant",
    "read_bytes",
    "read_chat",
    "read_part",
    "read_parts",
    "to_request",
    "user",
]
