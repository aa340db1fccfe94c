"""VS Code's language model API and Open Responses, in both directions.

>>> asked = read_chat(b'{"messages": [{"role": 1, "content": "Hi"}]}')
>>> asked.request.input[0].content
'Hi'
"""

from antiphon.bridges.vscode.parts import ASSISTANT as ASSISTANT
from antiphon.bridges.vscode.parts import AUTO as AUTO
from antiphon.bridges.vscode.parts import REQUIRED as REQUIRED
from antiphon.bridges.vscode.parts import SYSTEM as SYSTEM
from antiphon.bridges.vscode.parts import USER as USER
from antiphon.bridges.vscode.parts import DataPart as DataPart
from antiphon.bridges.vscode.parts import PromptTsxPart as PromptTsxPart
from antiphon.bridges.vscode.parts import TextPart as TextPart
from antiphon.bridges.vscode.parts import ThinkingPart as ThinkingPart
from antiphon.bridges.vscode.parts import ToolCallPart as ToolCallPart
from antiphon.bridges.vscode.parts import ToolResultPart as ToolResultPart
from antiphon.bridges.vscode.parts import VsCodeMessage as VsCodeMessage
from antiphon.bridges.vscode.parts import VsCodePart as VsCodePart
from antiphon.bridges.vscode.parts import assistant as assistant
from antiphon.bridges.vscode.parts import read_bytes as read_bytes
from antiphon.bridges.vscode.parts import read_part as read_part
from antiphon.bridges.vscode.parts import read_parts as read_parts
from antiphon.bridges.vscode.parts import user as user
from antiphon.bridges.vscode.request import ReadChat as ReadChat
from antiphon.bridges.vscode.request import VsCodeOptions as VsCodeOptions
from antiphon.bridges.vscode.request import VsCodeRequest as VsCodeRequest
from antiphon.bridges.vscode.request import VsCodeTool as VsCodeTool
from antiphon.bridges.vscode.request import read_chat as read_chat
from antiphon.bridges.vscode.request import to_request as to_request
from antiphon.bridges.vscode.stream import PartStream as PartStream
from antiphon.bridges.vscode.stream import TokenUsage as TokenUsage
from antiphon.bridges.vscode.stream import VsCodeFinish as VsCodeFinish
from antiphon.bridges.vscode.stream import VsCodeLine as VsCodeLine
from antiphon.bridges.vscode.stream import VsCodeLines as VsCodeLines
from antiphon.bridges.vscode.stream import VsCodeStart as VsCodeStart
