"""An MCP server for tests: over standard input and output, or over HTTP on a free port, which it tells."""

import os
import socket
import sys
from typing import Any

import uvicorn
from mcp import types
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("tests", instructions="Ask me about the weather.")


@server.tool()
def get_weather(city: str, unit: str = "celsius") -> str:
    """Tell the weather in a city."""
    return f"18 degrees {unit} in {city}"


@server.tool(name="files.count")
def count_files() -> int:
    """Count files."""
    return 3


@server.tool()
def refuse() -> str:
    """Always fails."""
    raise ToolError("not today")


@server.tool()
def draw() -> Image:
    """A picture."""
    return Image(data=b"GIF89a", format="gif")


@server.tool()
def everything() -> list[Any]:
    """Every kind of content."""
    page = types.TextResourceContents(uri="file:///a.txt", text="a page")
    data = types.BlobResourceContents(uri="file:///b.bin", blob="AAAA")
    return [
        types.TextContent(text="words"),
        types.AudioContent(data="AAAA", mime_type="audio/wav"),
        types.ResourceLink(name="a link", uri="https://a.example/"),
        types.EmbeddedResource(resource=page),
        types.EmbeddedResource(resource=data),
    ]


@server.tool()
def die() -> str:
    """Ends the server in the middle of a call."""
    os._exit(3)


if __name__ == "__main__":
    if "http" in sys.argv:
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
        uvicorn.Server(config).run(sockets=[listener])
    else:
        server.run()
