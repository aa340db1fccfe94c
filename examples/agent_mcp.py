"""The tools of an MCP server for an agent. This file is its own server: `agent_mcp.py serve`."""

import asyncio
import os
import sys

from antiphon import Agent, MCPServer

# Plays the model on a gateway with the `script` provider; a real model needs none.
SCRIPT = """
```script
{"turns": [
  {"when": {"last": "message"}, "steps": [{"call": "roll", "arguments": {"sides": 6}}]},
  {"when": {"last": "function_call_output"}, "steps": [{"text": "The die was thrown."}]}
]}
```
"""


def serve() -> None:
    from mcp.server.mcpserver import MCPServer as Server

    server = Server("dice")

    @server.tool()
    def roll(sides: int) -> str:
        """Roll a die."""
        return f"a number from 1 to {sides}"

    server.run()


async def main() -> None:
    # Without `env` a server gets only the variables that every program needs.
    async with MCPServer.stdio(sys.executable, [__file__, "serve"], env=os.environ) as server:
        agent = Agent(tools=[*server.tools], instructions="You roll dice." + SCRIPT)
        result = await agent.run("Roll a die.")
    for outcome in result.outcomes:
        print(outcome.call.name, outcome.call.arguments, "gave", outcome.output)
    print(result.text)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())
