"""An MCP server for tests of the gateway: over standard input and output, or over HTTP.

`python mcp_program.py http [json] [TOKEN]` tells its port, and serves streamable HTTP at /mcp and the older
transport at /sse. With a token, whoever does not send it is refused.
"""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("tests", instructions="Ask me about the weather.")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"18 degrees in {city}"


@server.tool()
def append(path: str, line: str) -> str:
    """Write a line to the end of a file."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    return "written"


@server.tool()
def environment() -> list[str]:
    """The names of the environment variables."""
    return sorted(os.environ)


@server.tool()
def repeat(variable: str, fails: bool = False) -> str:
    """Says what an environment variable holds; over HTTP, AUTHORIZATION is the header that came last."""
    if fails:
        raise ToolError(f"{os.environ[variable]!r} is not valid")
    return f"got {os.environ[variable]}"


@server.tool()
def refuse() -> str:
    """Always fails."""
    raise ToolError("not today")


@server.tool()
def draw() -> Image:
    """A picture."""
    return Image(data=b"GIF89a", format="gif")


@server.tool()
def big(size: int) -> str:
    """A long text."""
    return "x" * size


@server.tool(structured_output=False)
def rows(count: int) -> list[str]:
    """As many texts."""
    return ["{,[" for _ in range(count)]


@server.tool()
async def slow(seconds: float, path: str = "") -> str:
    """Waits; with a path, it writes there when it begins and when it is cancelled."""
    note = Path(path) if path else None
    if note is not None:
        note.write_text("begun")
    try:
        await asyncio.sleep(seconds)
    except BaseException:
        if note is not None:
            note.write_text("cancelled")
        raise
    return "done"


@server.tool()
def change() -> str:
    """Gives the server one more tool, and takes the weather away."""

    def later() -> str:
        """A tool that was not there before."""
        return "here"

    server.add_tool(later, name="later")
    server.remove_tool("get_weather")
    return "changed"


@server.tool()
def die() -> str:
    """Ends the server in the middle of a call."""
    os._exit(3)


def app(arguments: list[str]) -> Any:
    from contextlib import asynccontextmanager

    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, RedirectResponse
    from starlette.routing import Route

    streamable = server.streamable_http_app(json_response="json" in arguments)
    older = server.sse_app()
    token = next((one for one in arguments if one.startswith("token-")), None)

    async def moved(request: Any) -> Any:
        return RedirectResponse(request.query_params["to"], 307)

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        sent = dict(scope.get("headers") or ()).get(b"authorization", b"")
        os.environ["AUTHORIZATION"] = sent.decode()
        if scope["type"] == "http" and token is not None and sent != f"Bearer {token}".encode():
            await JSONResponse({"error": "no"}, 401)(scope, receive, send)
            return
        await inner(scope, receive, send)

    @asynccontextmanager
    async def life(_: Any) -> Any:
        async with streamable.router.lifespan_context(streamable):
            yield

    routes = [Route("/moved", moved, methods=["GET", "POST"]), *streamable.routes, *older.routes]
    inner = Starlette(routes=routes, lifespan=life)
    return guarded


def main(arguments: list[str]) -> None:
    if "http" not in arguments:
        server.run()
        return
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app(arguments), log_level="critical", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1:])
