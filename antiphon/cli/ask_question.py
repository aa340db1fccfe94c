"""Builds the question from the words, standard input and files, and loads the tools for it."""

import mimetypes
import shlex
import sys
from base64 import b64encode
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from antiphon.cli.common import MISTAKE, CommandFailed
from antiphon.client.tools.mcp import MCPServer
from antiphon.providers.image_info import kind_of
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText
from antiphon.spec.items import Message
from antiphon.spec.limits import MAX_NAME, NOT_IN_NAME
from antiphon.wires.terminal_text import printable_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def question_of(words: "Sequence[str]", files: "Sequence[str]") -> Message:
    """Builds one message. The words come last, where models look for the question."""
    parts: list[ContentPart] = []
    if not sys.stdin.isatty() and (came := _standard_input()):
        parts.append(InputText(came))
    parts += [_part(name) for name in files]
    if asked := " ".join(words).strip():
        parts.append(InputText(asked))
    if not parts:
        raise CommandFailed(
            'antiphon: nothing was asked; try: antiphon ask "What is the capital of France?"', MISTAKE
        )
    return Message(role="user", content=parts)


def _standard_input() -> str:
    raw = sys.stdin.buffer.read()
    try:
        return raw.decode().strip("\n")
    except UnicodeDecodeError:
        raise CommandFailed(
            "antiphon: standard input is no UTF-8 text; give an image or a document with -f FILE", MISTAKE
        ) from None


def _part(name: str) -> ContentPart:
    """Reads a picture or a document as data, and any other file as text under its name."""
    path = Path(name)
    raw = _read(path)
    if (picture := kind_of(raw)) is not None:
        return InputImage(image_url=_data_url(picture, raw))
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return InputFile(filename=path.name, file_data=_data_url(kind, raw))
    return InputText(f"{path.name}:\n\n{text}")


def _data_url(kind: str, raw: bytes) -> str:
    return f"data:{kind};base64,{b64encode(raw).decode()}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandFailed(f"antiphon: cannot read {path}: {error.strerror}", MISTAKE) from None


def format_of(name: str) -> dict[str, Any]:
    """Returns the text format that holds an answer to the schema in a file."""
    path = Path(name)
    try:
        schema = msgspec.json.decode(_read(path))
    except msgspec.DecodeError as error:
        raise CommandFailed(f"antiphon: {path} is not JSON: {error}", MISTAKE) from None
    if not isinstance(schema, dict):
        raise CommandFailed(f"antiphon: {path} is no JSON schema; expected an object", MISTAKE)
    title = NOT_IN_NAME.sub("_", path.stem)[:MAX_NAME] or "answer"
    return {"type": "json_schema", "name": title, "schema": schema, "strict": True}


def function_of(name: str) -> "Callable[..., object]":
    """Imports the Python function `MODULE:FUNCTION`; the module may lie in the working directory."""
    module, _, function = name.partition(":")
    if not module or not function:
        raise CommandFailed(f"antiphon: {name!r} is no tool; expected MODULE:FUNCTION", MISTAKE)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), function)
    except (Exception, SystemExit) as error:
        reason = printable_line(str(error)) or type(error).__name__
        raise CommandFailed(f"antiphon: the tool {name} cannot be loaded: {reason}", MISTAKE) from None
    if not callable(found):
        raise CommandFailed(f"antiphon: {name} is no function", MISTAKE)
    made: Callable[..., object] = found
    return made


def mcp_server_of(target: str) -> MCPServer:
    """Makes the MCP server of an address, or of a command that starts one."""
    if target.startswith(("http://", "https://")):
        return MCPServer.http(target)
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise CommandFailed(f"antiphon: --mcp {target}: {error}", MISTAKE) from None
    if not words:
        raise CommandFailed("antiphon: --mcp needs a command or an address", MISTAKE)
    return MCPServer.stdio(words[0], words[1:])
