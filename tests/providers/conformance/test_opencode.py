"""What opencode sends, on every wire: a title first, then turns with the whole history and its own tools.

The requests are those of opencode 1.18.33, written down by hand without its prompts.
"""

import json
from pathlib import Path

from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import Json, gateway
from tests.providers.conformance.said import Called, Script, Text

SYSTEM: Json = {"role": "system", "content": "You are a coding agent."}
USER: Json = {"role": "user", "content": [{"type": "input_text", "text": "Write plum.txt."}]}
WRITE: Json = {
    "type": "function",
    "name": "write",
    "description": "Writes a file.",
    "strict": False,
    "parameters": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"content": {"type": "string"}, "filePath": {"type": "string"}},
        "required": ["content", "filePath"],
        "additionalProperties": False,
    },
}
BASH: Json = {**WRITE, "name": "bash", "description": "Runs a command."}
# What every turn of it has beside the input.
BODY: Json = {"max_output_tokens": 32000, "store": False}
TURN: Json = {**BODY, "prompt_cache_key": "ses_1", "tools": [BASH, WRITE], "tool_choice": "auto"}


async def test_a_title_is_asked_for_without_tools(tmp_path: Path) -> None:
    wanted: Json = {"role": "user", "content": [{"type": "input_text", "text": "Generate a title."}]}
    async with gateway(tmp_path, *FAKES) as asked:
        for wire in FAKES:
            asked.fakes[wire].plays(Script((Text("Plums"),)))
            response = await asked.ask(wire, "sse", input=[SYSTEM, wanted, USER], **BODY)
            assert response["output"][-1]["content"][0]["text"] == "Plums"


async def test_calls_and_results_are_replayed_all_calls_first(tmp_path: Path) -> None:
    calls = Called("write", '{"content":"violet","filePath":"plum.txt"}'), Called("bash", '{"command":"ls"}')
    async with gateway(tmp_path, *FAKES) as asked:
        for wire in FAKES:
            asked.fakes[wire].plays(Script(calls, "tool_calls"), Script((Text("Done."),)))
            first = await asked.ask(wire, "sse", input=[SYSTEM, USER], **TURN)
            made = [item for item in first["output"] if item["type"] == "function_call"]
            assert [call["name"] for call in made] == ["write", "bash"]
            # It sends back neither ids of items nor their status.
            sent = [{key: call[key] for key in ("type", "call_id", "name", "arguments")} for call in made]
            results = [
                {
                    "type": "function_call_output",
                    "call_id": call["call_id"],
                    "output": f"{call['name']} went well",
                }
                for call in made
            ]
            second = await asked.ask(wire, "sse", input=[SYSTEM, USER, *sent, *results], **TURN)
            assert second["output"][-1]["content"][0]["text"] == "Done."
            heard = json.dumps(asked.fakes[wire].requests[-1].body)
            assert heard.index("write went well") < heard.index("bash went well")
