"""What Codex sends, on every wire: its tools, the items that it replays, and how it compacts.

The requests are those of Codex 0.166, written down by hand without its prompts.
"""

import json
from pathlib import Path

import pytest

from tests.providers.conformance.asked import Question
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import Gateway, Json, Transport, gateway
from tests.providers.conformance.said import Called, Counted, Script, Text

GRAMMAR = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

%import common.LF
"""
PATCH = "*** Begin Patch\n*** Add File: plum.txt\n+violet\n+\n*** End Patch\n"
BROKEN = "*** Begin Patch\n*** Ad File: plum.txt\n+violet\n*** End Patch\n"
APPLY_PATCH: Json = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
}
EXEC: Json = {
    "type": "function",
    "name": "exec_command",
    "strict": False,
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
}
SEARCH: Json = {
    "type": "tool_search",
    "execution": "client",
    "description": "Searches over deferred tools.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "number"}},
        "required": ["query"],
        "additionalProperties": False,
    },
}
LOOKUP: Json = {
    "type": "function",
    "name": "lookup",
    "description": "Looks up a fact about plums.",
    "strict": False,
    "defer_loading": True,
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
}
WEB_SEARCH: Json = {"type": "web_search", "external_web_access": True}
USER: Json = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it."}]}
# What every request of it has beside the input and the tools.
BODY: Json = {
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "01a1e7ff-928b-7040-be8a-f7efa0fae8c7",
    "client_metadata": {"x-codex-turn-metadata": "{}"},
}
# Wires of servers that know what Codex sends, and are given it as it came.
NATIVE = [wire for wire in FAKES if wire.startswith("responses")]
FLAT = [wire for wire in FAKES if wire not in NATIVE]


def heard(asked: Gateway, wire: str, n: int = -1) -> str:
    """What the upstream was sent."""
    return json.dumps(asked.fakes[wire].requests[n].body, ensure_ascii=False)


def receipts(response: Json, action: str) -> list[str]:
    """What is told of tools and items; not every wire has every parameter."""
    return [
        one["reason"]
        for one in response["antiphon:receipts"]
        if one["action"] == action and one["param"].startswith(("tools", "input", "output"))
    ]


def patching(text: str) -> Script:
    return Script((Text("I patch it."), Called("apply_patch", json.dumps({"input": text}))), "tool_calls")


async def test_a_patch_that_follows_its_grammar_is_asked_for_once(tmp_path: Path) -> None:
    async with gateway(tmp_path, *FAKES) as asked:
        for wire in FAKES:
            asked.fakes[wire].plays(patching(PATCH))
            response = await asked.ask(wire, "sse", input=[USER], tools=[EXEC, APPLY_PATCH], **BODY)
            assert [item["type"] for item in response["output"]] == ["message", "custom_tool_call"]
            assert response["output"][1]["input"] == PATCH
            assert len(asked.fakes[wire].requests) == 1


@pytest.mark.parametrize("transport", ["json", "websocket"])
async def test_a_patch_that_breaks_its_grammar_is_asked_for_again(
    transport: Transport, tmp_path: Path
) -> None:
    async with gateway(tmp_path, *FLAT) as asked:
        for wire in FLAT:
            asked.fakes[wire].plays(patching(BROKEN), patching(PATCH))
            response = await asked.ask(wire, transport, input=[USER], tools=[APPLY_PATCH], **BODY)
            said, call = response["output"]
            assert said["content"][0]["text"] == "I patch it."
            assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "apply_patch", PATCH)
            assert "line 2 goes wrong" in receipts(response, "suppressed")[-1]
            assert "*** Ad File: plum.txt" in heard(asked, wire)
            usage, once = response["usage"], Counted()
            assert (usage["input_tokens"], usage["output_tokens"]) == (2 * once.input, 2 * once.output)


async def test_a_patch_that_stays_wrong_goes_out_as_it_is(tmp_path: Path) -> None:
    async with gateway(tmp_path, *FLAT) as asked:
        for wire in FLAT:
            asked.fakes[wire].plays(patching(BROKEN), Script((Text("I will not."),)))
            response = await asked.ask(wire, "sse", input=[USER], tools=[APPLY_PATCH], **BODY)
            assert [item["type"] for item in response["output"]] == ["message", "custom_tool_call"]
            assert response["output"][1]["input"] == BROKEN
            assert "not known to follow its grammar" in receipts(response, "unmet")[-1]
            assert len(asked.fakes[wire].requests) == 2


ADDED: Json = {
    "type": "additional_tools",
    "id": "at_1",
    "role": "developer",
    "tools": [
        {"type": "namespace", "name": "functions", "description": "", "tools": [EXEC, APPLY_PATCH]},
        {"type": "namespace", "name": "mcp__facts", "description": "Facts.", "tools": [LOOKUP]},
    ],
}


async def test_tools_in_an_additional_tools_item_are_tools(tmp_path: Path) -> None:
    """The gateway's own dialect, which hides what nobody asked for, shows their calls."""
    patch = Called("functions__apply_patch", json.dumps({"input": PATCH}), "call_1")
    lookup = Called("mcp__facts__lookup", '{"q": "colour"}', "call_2")
    async with gateway(tmp_path, *FLAT) as asked:
        for wire in FLAT:
            asked.fakes[wire].plays(Script((patch, lookup), "tool_calls"))
            response = await asked.ask(wire, "sse", input=[ADDED, USER], **BODY)
            calls = [(item["type"], item["namespace"], item["name"]) for item in response["output"]]
            assert calls == [
                ("custom_tool_call", "functions", "apply_patch"),
                ("function_call", "mcp__facts", "lookup"),
            ]
            assert receipts(response, "dropped") == receipts(response, "suppressed") == []


async def test_a_server_that_knows_them_is_given_the_items_as_they_came(tmp_path: Path) -> None:
    async with gateway(tmp_path, *NATIVE) as asked:
        for wire in NATIVE:
            asked.fakes[wire].plays(Script((Text("Yes."),)))
            await asked.ask(wire, "sse", input=[ADDED, USER], tools=[SEARCH, EXEC], **BODY)
            body = asked.fakes[wire].requests[-1].body
            assert body["input"][0] == ADDED
            assert SEARCH in body["tools"]
            assert len(body["tools"]) == 2


async def test_deferred_tools_can_be_called_once_they_are_found(tmp_path: Path) -> None:
    """The first of the deferred tools stands in the request, the other one only in what was found."""
    here = {**LOOKUP, "name": "count_plums"}
    tools = [EXEC, {"type": "namespace", "name": "mcp__orchard", "tools": [here]}, SEARCH, APPLY_PATCH]
    found = [{"type": "namespace", "name": "mcp__facts", "description": "Facts.", "tools": [LOOKUP]}]
    async with gateway(tmp_path, *FLAT) as asked:
        for wire in FLAT:
            fake = asked.fakes[wire]
            fake.plays(Script((Called("tool_search", '{"query": "plums", "limit": 3}'),), "tool_calls"))
            response = await asked.ask(wire, "sse", input=[USER], tools=tools, **BODY)
            (call,) = response["output"]
            assert call["type"] == "tool_search_call"
            assert (call["execution"], call["arguments"]) == ("client", {"query": "plums", "limit": 3})
            assert all(name in heard(asked, wire) for name in ("exec_command", "tool_search", "apply_patch"))
            assert "lookup" not in heard(asked, wire)
            assert "count_plums" not in heard(asked, wire)
            output = {
                "type": "tool_search_output",
                "call_id": call["call_id"],
                "status": "completed",
                "execution": "client",
                "tools": found,
            }
            fake.plays(Script((Called("mcp__facts__lookup", '{"q": "colour"}', "call_2"),), "tool_calls"))
            response = await asked.ask(wire, "sse", input=[USER, call, output], tools=tools, **BODY)
            (second,) = response["output"]
            assert (second["type"], second["namespace"], second["name"]) == (
                "function_call",
                "mcp__facts",
                "lookup",
            )
            assert "- mcp__facts__lookup: Looks up a fact about plums." in heard(asked, wire)
            assert "count_plums" not in heard(asked, wire)
            assert receipts(response, "dropped") == []


async def test_a_search_that_nobody_runs_offers_every_tool(tmp_path: Path) -> None:
    async with gateway(tmp_path, *FLAT) as asked:
        for wire in FLAT:
            asked.fakes[wire].plays(Script((Called("lookup", '{"q": "colour"}'),), "tool_calls"))
            response = await asked.ask(
                wire, "sse", input=[USER], tools=[LOOKUP, {"type": "tool_search"}], **BODY
            )
            # So the OpenAI API names a deferred function that stands alone, and its Agents SDK looks for it.
            assert (response["output"][0]["name"], response["output"][0]["namespace"]) == ("lookup", "lookup")
            assert any("has no tool search" in one for one in receipts(response, "dropped"))


async def test_a_local_shell_is_called_and_answered(tmp_path: Path) -> None:
    """Codex answers such a call with the output of a function."""
    async with gateway(tmp_path, *FLAT) as asked:
        for wire in FLAT:
            fake = asked.fakes[wire]
            fake.plays(Script((Called("local_shell", '{"command": ["ls", "-l"]}'),), "tool_calls"))
            response = await asked.ask(wire, "sse", input=[USER], tools=[{"type": "local_shell"}], **BODY)
            (call,) = response["output"]
            assert call["type"] == "local_shell_call"
            assert call["action"] == {"type": "exec", "command": ["ls", "-l"], "env": {}}
            for kind in ("function_call_output", "local_shell_call_output"):
                output = {"type": kind, "call_id": call["call_id"], "output": "plum.txt"}
                fake.plays(Script((Text("One file."),)))
                again = await asked.ask(
                    wire, "sse", input=[USER, call, output], tools=[{"type": "local_shell"}], **BODY
                )
                assert again["status"] == "completed"
                assert "plum.txt" in heard(asked, wire)
                assert receipts(again, "dropped") == []


async def test_web_search_is_left_out_with_a_receipt(tmp_path: Path) -> None:
    wires = [wire for wire in FLAT if wire not in ("gemini", "vertex")]  # they run it themselves
    async with gateway(tmp_path, *wires) as asked:
        for wire in wires:
            asked.fakes[wire].plays(Script((Text("Yes."),)))
            response = await asked.ask(wire, "sse", input=[USER], tools=[EXEC, WEB_SEARCH], **BODY)
            assert any("web_search" in one for one in receipts(response, "dropped"))


async def test_a_message_between_agents_is_told(tmp_path: Path) -> None:
    message = {
        "type": "agent_message",
        "author": "/main/helper",
        "recipient": "/main",
        "content": [{"type": "input_text", "text": "The plums are ripe."}],
    }
    async with gateway(tmp_path, *FLAT) as asked:
        for wire in FLAT:
            asked.fakes[wire].plays(Script((Text("Good."),)))
            response = await asked.ask(wire, "sse", input=[USER, message], **BODY)
            assert "Message from /main/helper to /main" in heard(asked, wire)
            assert any("between agents" in one for one in receipts(response, "rewritten"))


def summarising(question: Question) -> Script:
    if "Write a summary" in question.last.text:
        assert question.tools == ()
        return Script((Text("The word is plum."),))
    return Script((Text(f"The word is {'plum' if 'plum' in question.everything else 'lost'}."),))


@pytest.mark.parametrize("transport", ["json", "sse", "websocket"])
async def test_a_compaction_trigger_gives_exactly_one_compaction_item(
    transport: Transport, tmp_path: Path
) -> None:
    """It is taken back under each name that clients have for it."""
    async with gateway(tmp_path, *FLAT) as asked:
        for wire in FLAT:
            asked.fakes[wire].mind = summarising
            trigger = {"type": "compaction_trigger"}
            response = await asked.ask(
                wire, transport, input=[USER, trigger], tools=[EXEC, APPLY_PATCH], **BODY
            )
            (item,) = response["output"]
            assert item["type"] == "compaction"
            assert response["status"] == "completed"
            assert response["usage"]["total_tokens"] > 0
            for kind in ("compaction", "compaction_summary", "context_compaction"):
                given = {"type": kind, "encrypted_content": item["encrypted_content"]}
                again = await asked.ask(wire, transport, input=[given, USER], tools=[EXEC], **BODY)
                assert again["output"][0]["content"][0]["text"] == "The word is plum."
