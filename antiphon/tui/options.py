"""The options of `antiphon chat`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.wires.data_folder import default_data_folder


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The server, the settings of requests, and the chat to show."""

    base_url: str | None = None
    api_key: str | None = None
    local: bool = False
    config: str | None = None
    model: str | None = None
    effort: str | None = None
    system: str | None = None
    background: bool = False
    chat: str | None = None
    resume: bool = False
    light: bool | None = None
    tools: tuple[Any, ...] = ()
    """Tools or functions that the model may call, each after an approval."""
    mcp: tuple[Any, ...] = ()
    """MCP servers, not yet entered, whose tools the model may call."""
    folder: Path = field(default_factory=Path.cwd)
    data: Path = field(default_factory=lambda: default_data_folder() / "terminal")
