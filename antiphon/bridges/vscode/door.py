"""The door of VS Code's language model API."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from antiphon.bridges.door import Ending, ResponseDoor
from antiphon.bridges.vscode.request import ReadChat, read_chat
from antiphon.bridges.vscode.stream import VsCodeLines
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext


class VsCodeDoor(ResponseDoor[ReadChat]):
    counts_receipts = True

    def reader(self, engine: Engine, headers: Mapping[bytes, bytes]) -> Callable[..., ReadChat]:
        return read_chat

    def context(self, asked: ReadChat, context: RequestContext) -> RequestContext:
        return replace(context, pairing=asked.pairing)

    def encoder(self, asked: ReadChat, ending: Ending, request_id: str) -> VsCodeLines:
        return VsCodeLines(asked.session, asked.marker)


VSCODE = VsCodeDoor("/api/vscode/chat")
