"""The events of an agent's harness as Open Responses: on the screen, and in a file beside them."""

import io
from typing import Any

from antiphon import FileExporter, ThreadEventBridge

COMMAND = {"command": "ls", "exit_code": 0, "status": "completed"}
EVENTS: list[dict[str, Any]] = [
    {"type": "thread.started", "thread_id": "t1"},
    {"type": "turn.started"},
    {"type": "item.started", "item": {"id": "i1", "type": "agent_message", "text": ""}},
    {"type": "item.updated", "item": {"id": "i1", "type": "agent_message", "text": "I look"}},
    {"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": "I look at it."}},
    {"type": "item.completed", "item": {"id": "i2", "type": "command_execution", **COMMAND}},
    {"type": "turn.completed", "usage": {"input_tokens": 12, "cached_input_tokens": 4, "output_tokens": 9}},
]


def main() -> None:
    file = io.BytesIO()
    bridge = ThreadEventBridge("my-agent", vendor="acme")
    with FileExporter(file) as exporter:
        for event in EVENTS:
            made = bridge.feed(event)
            exporter.export(*made)
            print(event["type"], "->", ", ".join(one.type for one in made) or "nothing")
    response = bridge.response
    assert response is not None
    print(response.status, "with", len(response.output), "items,", len(file.getvalue()), "bytes of events")


if __name__ == "__main__":
    main()
