"""An agent while it works: words as they come, the tools that run, and a call that is not approved."""

import asyncio

from antiphon import Agent, Limits, OutputTextDeltaEvent, RunEnded, ToolCall, ToolEnded, ToolStarted, tool

# Plays the model on a gateway with the `script` provider; a real model needs none.
SCRIPT = """
```script
{"turns": [
  {"when": {"last": "message"}, "steps": [
    {"call": "read_file", "arguments": {"path": "notes.txt"}},
    {"call": "delete_file", "arguments": {"path": "notes.txt"}}]},
  {"when": {"last": "function_call_output"}, "steps": [
    {"text": "I have read the notes, and I was not allowed to delete them.", "chunk": 8}]}
]}
```
"""


@tool(timeout=5)
def read_file(path: str) -> str:
    """Read a file."""
    return f"the text of {path}"


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def approve(call: ToolCall) -> bool | str:
    return True if call.name.startswith("read") else "ask the owner of the file first"


async def main() -> None:
    agent = Agent(
        tools=[read_file, delete_file],
        instructions="You keep the files." + SCRIPT,
        approve=approve,
        limits=Limits(steps=5, tool_calls=10, seconds=60),
    )
    async with agent.stream("Read the notes, then delete them.") as run:
        async for event in run:
            match event:
                case OutputTextDeltaEvent():
                    print(event.delta, end="", flush=True)
                case ToolStarted():
                    print("runs", event.call.name)
                case ToolEnded():
                    print("ends", event.outcome.call.name, event.outcome.fault or "well")
                case RunEnded():
                    print(f"\n{event.result.stopped} after {len(event.result.steps)} steps")


if __name__ == "__main__":
    asyncio.run(main())
