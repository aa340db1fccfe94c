"""A model that does what checks ask of one: it remembers, calls tools, fits schemas, and can be tempted."""

import json
import re
from itertools import count
from typing import Any

from tests.providers.conformance.asked import Json, Question
from tests.providers.conformance.said import Called, Counted, Ending, Script, Text

_STORY = "once upon a time there was a heron and "
_ids = count()


def answer(question: Question) -> Script:
    given = len(question.everything) // 4 + 1
    if calls := _calls(question):
        made = tuple(Called(name, json.dumps(sent), f"call_{next(_ids)}") for name, sent in calls)
        return Script(made, "tool_calls", Counted(given, 4 * len(made)), size=20)
    words: list[str] = re.findall(r"\S+\s*", _words(question))
    told = words[: question.limit]
    ending: Ending = "length" if len(told) < len(words) else "stop"
    return Script((Text("".join(told)),), ending, Counted(given, len(told)), size=20)


def _calls(question: Question) -> list[tuple[str, Json]]:
    if question.last.role != "user":
        return []
    ask = question.last.text
    if tempted := re.search(r"[Cc]all (get_\w+)", ask):
        # Whatever it is offered, and whatever it was told to choose.
        return [(tempted[1], {"location": "Paris"})]
    if not question.tools or question.choice == "none":
        return []
    if "python" in question.tools and "Python" in ask:
        return [("python", {"code": "print(1234 * 5678)"})]
    for name, asked in (("web_search", "the web"), ("file_search", "the files")):
        if name in question.tools and f"Search {asked}" in ask:
            return [(name, {"query": "bridge"})]
    if question.choice in question.tools:
        return [(question.choice, {"location": "Paris"})]
    if "weather" not in ask.lower() and question.choice != "required":
        return []
    name = "get_weather" if "get_weather" in question.tools else question.tools[0]
    cities = ["Paris", "Tokyo"] if "Tokyo" in ask else ["Paris"]
    return [(name, {"location": city}) for city in cities]


def _words(question: Question) -> str:
    everything, ask = question.everything, question.last.text
    if question.schema is not None:
        return json.dumps(_instance(question.schema))
    if "thousand words" in ask:
        return _STORY * 10
    if "name first" in ask:
        named = re.findall(r"I name (?:an animal|another): (\w+)", everything)
        return named[0] if named else "none"
    if "What is the" in ask and "word" in ask:
        words = re.findall(r"(?:secret|code) word(?: is|:) (\w+)", everything)
        return words[-1] if words else "unknown"
    if "Which animal" in ask:
        return "heron" if "heron" in everything else "none"
    if question.last.pictures:
        return "It is red."
    if "secret word" in everything:
        return "The secret word is heron."
    return "That is fine."


def _instance(schema: Json) -> Any:
    """Something that fits."""
    match str(schema.get("type")).lower():
        case "object":
            return {name: _instance(schema["properties"][name]) for name in schema.get("required", ())}
        case "integer" | "number":
            return 21
    return "Paris"
