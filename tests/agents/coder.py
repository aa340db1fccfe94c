"""A model that codes just enough: asked to write or change a file, it calls the tools that it was offered."""

import json
import re
from itertools import count
from typing import Any

from tests.providers.conformance.asked import Question
from tests.providers.conformance.said import Called, Counted, Script, Text

FILE = "proof.txt"
SEEN = "end-of-the-output"
WRITE = f"Write the file {FILE} with the word alpha, and count to 2000 with a command."
CHANGE = f"Change {FILE}: the word beta in place of the word alpha."
DONE = "Use no tool. Answer with one word: done."
COUNT = f"seq 1 2000; echo {SEEN}"
PATCH = f"*** Begin Patch\n*** Update File: {FILE}\n@@\n-alpha\n+beta\n*** End Patch"

# How clients ask for a summary or for a title: such a request is answered in words.
IN_WORDS = (
    "CONTEXT CHECKPOINT COMPACTION",
    "Here is the conversation so far",
    "Respond with TEXT ONLY",
    "Generate a title",
)
_FOLDER = re.compile(r"[Ww]orking directory: (\S+)")
_ids = count()


def answer(question: Question) -> Script:
    """Calls for what the user asked last, words for everything else."""
    given = len(question.everything) // 4 + 1
    made = [Called(name, json.dumps(sent), f"call_{next(_ids)}") for name, sent in _calls(question)]
    if made:
        return Script(tuple(made), "tool_calls", Counted(given, 20 * len(made)), size=40)
    return Script((Text("That is done."),), "stop", Counted(given, 4), size=4)


def _calls(question: Question) -> list[tuple[str, dict[str, Any]]]:
    asked = question.last
    if not question.tools or any(marker in asked.text for marker in IN_WORDS):
        return []
    # Some wires put the results of calls and what the user says next into one message.
    wants = {WRITE: asked.text.rfind(WRITE), CHANGE: asked.text.rfind(CHANGE)}
    newest = max(wants, key=wants.__getitem__)
    if wants[newest] < 0 or asked.text.rfind(DONE) > wants[newest]:
        return []
    found = _FOLDER.search(question.everything)
    return calls(newest == WRITE, set(question.tools), found[1] if found else ".")


def calls(is_new: bool, tools: set[str], folder: str) -> list[tuple[str, dict[str, Any]]]:
    """What a model would call in the client that offers these tools, to write the file or to change it."""
    path = f"{folder}/{FILE}"
    if "exec_command" in tools:
        command = ("exec_command", {"cmd": f"echo alpha > {FILE}; {COUNT}"})
        return [command if is_new else ("apply_patch", {"input": PATCH})]
    if "Write" in tools:
        command = ("Bash", {"command": COUNT, "description": "Count"})
        if is_new:
            return [("Write", {"file_path": path, "content": "alpha\n"}), command]
        change = {"file_path": path, "old_string": "alpha", "new_string": "beta"}
        return [("Read", {"file_path": path}), ("Edit", change)]
    command = ("bash", {"command": COUNT, "description": "Count"})
    if is_new:
        return [("write", {"filePath": path, "content": "alpha\n"}), command]
    return [
        ("read", {"filePath": path}),
        ("edit", {"filePath": path, "oldString": "alpha", "newString": "beta"}),
    ]
