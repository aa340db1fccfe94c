"""The catalogue: complete, stable, documented."""

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.compliance.catalog import SPECS, UnknownRule, catalog, select
from antiphon.compliance.checklist import SERVER
from antiphon.compliance.checks.official import OFFICIAL
from antiphon.compliance.client.verdicts import RULES as CLIENT_RULES
from antiphon.stream import json_shapes
from antiphon.stream.rules import RULES
from scripts import compliance_page
from tests.compliance.musts import CONTRADICTIONS, ELSEWHERE, POINTS, SECTIONS, SUMMARY

SCHEMAS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "spec" / "schema-2026-04-24.json").read_text(encoding="utf-8")
)["components"]["schemas"]


@pytest.mark.parametrize("points", [POINTS, SUMMARY, CONTRADICTIONS], ids=["points", "summary", "others"])
def test_every_point_is_covered_by_rules_that_exist(points: dict[str, tuple[str, ...] | str]) -> None:
    for point, rules in points.items():
        assert rules, point
        if not isinstance(rules, str):
            assert set(rules) <= set(catalog()), point


def test_every_rule_cites_the_specification() -> None:
    """By the title of a section or the name of a schema, both of which a reader can look up."""
    titles = {title.strip() for title in SECTIONS.split(",")}
    for rule in catalog().values():
        for source in rule.source.split("; "):
            schema = source.removeprefix("Schema of ")
            known = source in titles | ELSEWHERE or (schema != source and schema in SCHEMAS)
            assert known, f"{rule.id} comes from {source!r}"


def test_no_must_of_the_text_is_without_a_rule() -> None:
    """The sections whose text has a MUST for servers."""
    cited = {source for rule in catalog().values() for source in rule.source.split("; ")}
    demanding = (
        "HTTP Responses, Streaming HTTP Responses, Items are state machines, Items are streamable, "
        "previous_response_id, tool_choice, allowed_tools, Extending Items, Required item fields, "
        "Extending streaming events, Required fields for extended streaming events"
    )
    assert set(demanding.split(", ")) <= cited


class Silent:
    def __init__(self) -> None:
        self.missing: list[str] = []

    def report(self, rule: str, message: str) -> None:
        if rule == "keys.required":
            self.missing.append(message.rpartition(" has no ")[2])

    def quote(self, value: object) -> str:
        return ""

    def admits(self, type_name: str) -> bool:
        return False

    def admits_tools(self) -> bool:
        return False


# Objects that a server sends, by their names in the schema and in our tables.
OBJECTS = {
    "ResponseResource": "response",
    "CompactResource": "compaction_resource",
    "IncompleteDetails": "incomplete_details",
    "Error": "error",
    "ErrorPayload": "error_payload",
    "Reasoning": "reasoning_settings",
    "Usage": "usage",
    "InputTokensDetails": "input_tokens_details",
    "OutputTokensDetails": "output_tokens_details",
    "TextField": "text",
    "LogProb": "logprob",
    "TopLogProb": "top_logprob",
    "Message": "item/message",
    "FunctionCall": "item/function_call",
    "FunctionCallOutput": "item/function_call_output",
    "ReasoningBody": "item/reasoning",
    "CompactionBody": "item/compaction",
    "OutputTextContent": "part/output_text",
    "RefusalContent": "part/refusal",
    "ReasoningTextContent": "part/reasoning_text",
    "SummaryTextContent": "part/summary_text",
    "TextContent": "part/text",
    "InputTextContent": "part/input_text",
    "InputImageContent": "part/input_image",
    "InputFileContent": "part/input_file",
    "InputVideoContent": "part/input_video",
    "UrlCitationBody": "annotation/url_citation",
    "FunctionTool": "tool/function",
    "FunctionToolChoice": "tool_choice/function",
    "AllowedToolChoice": "tool_choice/allowed_tools",
    "TextResponseFormat": "format/text",
    "JsonObjectResponseFormat": "format/json_object",
    "JsonSchemaResponseFormat": "format/json_schema",
}
SHAPES = {
    **{name: json_shapes._SHAPES[ours] for name, ours in OBJECTS.items()},
    **{
        name: json_shapes.EVENT_SHAPES[schema["properties"]["type"]["enum"][0]]
        for name, schema in SCHEMAS.items()
        if name.endswith("StreamingEvent")
    },
    "WebSocketErrorEvent": json_shapes.WEBSOCKET_ERROR,
}
# What a client sends: its required keys are a matter of what a server refuses.
REQUESTS = {name for name in SCHEMAS if name.endswith(("Param", "Param-2", "PublicBody"))} | {
    "CreateResponseBody"
}


def test_no_object_with_required_keys_is_forgotten() -> None:
    demanding = {name for name, schema in SCHEMAS.items() if schema.get("required")}
    assert demanding - set(SHAPES) - REQUESTS == set()


@pytest.mark.parametrize("kind", SHAPES)
def test_every_required_key_of_the_schema_is_demanded(kind: str) -> None:
    judge = Silent()
    SHAPES[kind].check({}, "", judge)
    assert set(judge.missing) >= set(SCHEMAS[kind]["required"]) - {"type"}


def test_the_official_scenarios_are_all_here() -> None:
    assert len(OFFICIAL) == 17
    assert set(OFFICIAL) <= set(catalog())


def test_the_check_lists_have_their_lines() -> None:
    assert [line.number for line in SERVER] == list(range(1, 13))
    assert {rule for line in SERVER for rule in line.rules} <= set(catalog())
    assert {rule.line for rule in CLIENT_RULES.values()} - {None} == set(range(1, 9))


def test_all_rules_of_the_auditor_are_rules_of_the_tool() -> None:
    for rule in RULES.values():
        assert catalog()[rule.id].level == rule.level


def test_every_rule_says_what_it_is() -> None:
    for rule in catalog().values():
        assert rule.says.endswith("."), rule.id
        assert rule.source, rule.id
        assert rule.proof, rule.id
        assert rule.transports, rule.id


def test_rules_are_chosen_by_level_version_transport_and_name() -> None:
    assert {rule.level for rule in select(level="MUST").values()} == {"MUST"}
    assert {rule.level for rule in select(level="SHOULD").values()} == {"MUST", "SHOULD"}
    assert "logprobs.present" in select(spec="2026-01-15")
    assert "websocket-response" not in select(spec=SPECS[0])
    assert all("websocket" in rule.transports for rule in select(transports=["websocket"]).values())
    assert set(select(only=["tools.none", "state."])) == {"tools.none"} | {
        name for name in catalog() if name.startswith("state.")
    }
    assert set(select(only=["formats"])) == {n for n, rule in catalog().items() if rule.group == "formats"}


def test_a_rule_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(UnknownRule, match=r"tools\.sometimes"):
        select(only=["tools.sometimes"])


def test_the_page_is_what_the_catalogue_says() -> None:
    assert compliance_page.PAGE.read_text(encoding="utf-8") == compliance_page.page(), (
        "run python -m scripts.compliance_page"
    )
