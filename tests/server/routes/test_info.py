"""Models, health, and the server's description of itself, held against what the server really does."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import openai
import pytest
from fastapi.openapi.models import OpenAPI

from antiphon.server.api.openapi import PARAMETERS, document
from antiphon.server.endpoints import ENDPOINTS, GROUPS
from antiphon.spec.request import Request
from tests.server.conftest import Serve
from tests.server.routes.test_stored_responses import KEYS
from tests.server.servers import Client, Serving
from tests.server.upstream import Upstream

DOCUMENT: dict[str, Any] = json.loads(document(GROUPS))
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


@pytest.fixture
def server(serve: Serve, upstream: Upstream) -> Serving:
    upstream.answer = "Good evening ."
    return serve(upstream.toml)


@pytest.fixture
def client(server: Serving) -> Client:
    return server.client()


def test_the_default_model_is_the_first_in_the_list(serve: Serve, upstream: Upstream) -> None:
    """The web app offers the first, and asks for none until another one is chosen."""
    toml = upstream.toml.replace('default_model = "model"', 'default_model = "late"')
    listed = (
        serve(toml.replace("[models]", '[models]\nearly = "up/m"\nlate = "up/m"'))
        .client()
        .ok("GET", "/v1/models")
    )
    assert [model["id"] for model in listed["data"]][:3] == ["late", "early", "model"]


def test_models_are_the_aliases_and_what_providers_list(client: Client) -> None:
    listed = client.ok("GET", "/v1/models")
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["model", "up/some-model", "up/other/model"]
    for model in listed["data"]:
        assert client.ok("GET", f"/v1/models/{model['id']}") == model
        assert (model["object"], model["owned_by"]) == ("model", "up")
        assert model["created"] > 0


def test_what_is_known_of_a_model(serve: Serve, upstream: Upstream) -> None:
    known = '[catalogue."up/some-model"]\ncontext_window = 4096\nprices = { input = 1, output = 2.5 }\n'
    client = serve(upstream.toml + known).client()
    told = {model["id"]: model["antiphon:model"] for model in client.ok("GET", "/v1/models")["data"]}
    assert told["up/some-model"] == {
        "target": "up/some-model",
        "context_window": 4096,
        "output_limit": None,
        "input_modalities": None,
        "tools": None,
        "json_schema": None,
        "reasoning_levels": None,
        "prices": {"input": 1.0, "cached_input": None, "cache_write": None, "output": 2.5, "steps": []},
        "price_model": None,
        "sources": {"context_window": "configuration", "prices": "configuration"},
    }
    assert told["up/other/model"]["prices"] is None
    assert told["up/other/model"]["sources"] == {}


def test_the_list_tells_of_a_route_what_its_object_tells(serve: Serve, upstream: Upstream) -> None:
    """The first target that can be used, not one of a provider that is disabled."""
    off = '[providers.off]\ntype = "groq"\napi_key_env = "NOT_SET"\n'
    toml = upstream.toml.replace("[models]", '[models]\nq = ["off/m", "up/some-model"]\n"z*" = "off/m"')
    client = serve(toml + off).client()
    for headers in ({}, {"anthropic-version": "2023-06-01"}):
        listed = client.ok("GET", "/v1/models", headers=headers)["data"]
        (told,) = [model for model in listed if model["id"] == "q"]
        assert told == client.ok("GET", "/v1/models/q", headers=headers)
    (told,) = [model for model in client.ok("GET", "/v1/models")["data"] if model["id"] == "q"]
    assert (told["owned_by"], told["antiphon:model"]["target"]) == ("up", "up/some-model")


def test_an_unknown_model_is_not_found(client: Client) -> None:
    error = client.refused(404, "GET", "/v1/models/nobody")
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "there is: model, up/" in error["message"]


@pytest.mark.parametrize("limit", ["0", "1001", "0000000011001", "00000000" + "1" * 5000])
def test_a_page_of_models_has_at_most_a_thousand(client: Client, limit: str) -> None:
    told = client.get("/v1/models", params={"limit": limit}, headers={"anthropic-version": "2023-06-01"})
    assert told.status_code == 400
    assert told.json()["error"]["param"] == "limit"


def test_the_openai_package_lists_models(server: Serving) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as sdk:
        assert [model.id for model in sdk.models.list()] == ["model", "up/some-model", "up/other/model"]
        assert sdk.models.retrieve("model").owned_by == "up"
        assert sdk.models.retrieve("up/some-model").id == "up/some-model"


def test_an_upstream_that_is_down_is_left_out(serve: Serve) -> None:
    toml = '[providers.up]\ntype = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n[models]\nm = "up/m"\n'
    listed = serve(toml).client().ok("GET", "/v1/models")
    assert [model["id"] for model in listed["data"]] == ["m"]


def test_health_and_readiness_need_no_key(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml + KEYS).client()
    assert client.ok("GET", "/healthz") == {"status": "ok"}
    ready = client.ok("GET", "/readyz")
    assert ready == {"status": "ready", "store": "ok", "models": {"up": "remote"}}
    assert client.refused(401, "GET", "/v1/models")["code"] == "invalid_api_key"


def test_a_model_of_our_own_is_not_loaded_until_it_is_asked(serve: Serve) -> None:
    ready = serve("", LOCAL__ENABLED="true").client().ok("GET", "/readyz")
    assert ready["models"] == {"local": "not loaded"}


def test_a_store_that_does_not_answer_is_not_ready(serve: Serve) -> None:
    server = serve()
    client = server.client()
    server.call(server.gateway.store.close())
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["status"] == "not_ready"
    assert "closed" in answer.json()["store"]
    assert client.ok("GET", "/healthz") == {"status": "ok"}


# --- the description ----------------------------------------------------------------------------------------


def test_every_route_is_described_and_nothing_else() -> None:
    files_of_the_app = {"GET /assets/{name}", "GET /c/{chat}"}
    assert {each.at for each in ENDPOINTS if not each.id} == files_of_the_app
    routes = {(each.method, each.path.replace("...", "")) for each in ENDPOINTS if each.id}
    described = {(m.upper(), path) for path, methods in DOCUMENT["paths"].items() for m in methods}
    assert described == routes


def test_every_parameter_is_described() -> None:
    assert set(PARAMETERS) == set(Request.__struct_encode_fields__)
    for name, about in PARAMETERS.items():
        assert SCHEMAS["Request"]["properties"][name]["description"] == about


def test_the_description_is_a_valid_openapi_document() -> None:
    OpenAPI.model_validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1")
    ids = [
        operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()
    ]
    assert len(ids) == len(set(ids))
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            assert set(operation["tags"]) <= tags
            inside = [one["name"] for one in operation["parameters"] if one.get("in") == "path"]
            assert inside == re.findall(r"\{(\w+)\}", path)


def test_its_schemas_are_schemas_and_its_references_lead_somewhere() -> None:
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for reference in set(references(DOCUMENT)):
        found: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            elif key == "mapping":
                yield from value.values()
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def fits(value: Any, name: str) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_what_the_server_says_fits_its_own_description(client: Client) -> None:
    tool = {"type": "function", "name": "add", "parameters": {"type": "object"}}
    request = {"input": "hi", "tools": [tool], "tool_choice": "auto", "text": {"format": {"type": "text"}}}
    fits(request, "Request")
    made = client.create(**request)
    fits(made, "Response")
    background = client.create(input="hi", background=True)
    with client.listen(f"/v1/responses/{background['id']}?stream=true") as stream:
        for event in stream:
            fits(event, "Event")
    fits(client.ok("GET", f"/v1/responses/{made['id']}/input_items"), "ItemList")
    body = {"metadata": {"a": "b"}, "items": [{"type": "message", "role": "user", "content": "hi"}]}
    fits(body, "ConversationBody")
    conversation = client.ok("POST", "/v1/conversations", json=body)
    fits(conversation, "ConversationObject")
    items = client.ok("GET", f"/v1/conversations/{conversation['id']}/items")
    fits(items, "ItemList")
    fits(client.ok("GET", f"/v1/conversations/{conversation['id']}/items/{items['first_id']}"), "Item")
    fits(client.ok("DELETE", f"/v1/conversations/{conversation['id']}"), "DeletedConversation")
    fits(client.ok("DELETE", f"/v1/responses/{made['id']}"), "DeletedResponse")
    fits(client.ok("GET", "/v1/models"), "ModelList")
    fits(client.ok("GET", "/healthz"), "Health")
    fits(client.ok("GET", "/readyz"), "Readiness")
    fits(client.ok("GET", "/openapi.json"), "Description")
    fits({"error": client.refused(404, "GET", "/v1/responses/resp_none")}, "ErrorBody")
    with pytest.raises(jsonschema.ValidationError):
        fits({**made, "status": 7}, "Response")
    with pytest.raises(jsonschema.ValidationError):
        fits({key: value for key, value in made.items() if key != "usage"}, "Response")


def test_tools_items_and_parts_of_other_types_fit_the_description_there_and_back(client: Client) -> None:
    mcp = {"type": "mcp", "server_label": "docs", "server_url": "https://mcp.example"}
    parts = [{"type": "acme:picture", "url": "https://a.example"}, {"type": "input_text", "text": "hi"}]
    request = {
        "input": [
            {"type": "acme:note", "id": "note_1", "text": "x"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"type": "message", "role": "user", "content": parts},
        ],
        "tools": [{"type": "web_search"}, mcp, {"type": "acme:tool", "depth": 2}],
    }
    fits(request, "Request")
    made = client.create(**request)
    assert [tool["type"] for tool in made["tools"]] == ["web_search", "mcp", "acme:tool"]
    fits(made, "Response")
    listed = client.ok("GET", f"/v1/responses/{made['id']}/input_items")
    assert {item["type"] for item in listed["data"]} == {"acme:note", "web_search_call", "message"}
    fits(listed, "ItemList")
    kept = client.ok("POST", "/v1/conversations", json={"items": request["input"]})
    fits(client.ok("GET", f"/v1/conversations/{kept['id']}/items"), "ItemList")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/responses/resp_none", "/v1/nothing"])
def test_a_client_that_names_a_release_of_the_specification_is_told_which_one_this_is(
    client: Client, path: str
) -> None:
    for version in ("latest", "2026-04-24", "2026-01-15", "2025-06-18"):
        answer = client.get(path, headers={"OpenResponses-Version": version})
        assert answer.headers["openresponses-version"] == "2026-04-24"
        assert (answer.status_code == 200) is (path == "/v1/models")
    assert "openresponses-version" not in client.get(path).headers


def test_a_strict_server_refuses_another_release(serve: Serve) -> None:
    client = serve(SERVER__STRICT="true").client()
    for version in ("latest", "2026-04-24"):
        client.ok("GET", "/v1/models", headers={"OpenResponses-Version": version})
    error = client.refused(400, "GET", "/v1/models", headers={"OpenResponses-Version": "2026-01-15"})
    assert (error["param"], error["code"]) == ("OpenResponses-Version", "unsupported_parameter")


@pytest.mark.parametrize(
    ("headers", "param"),
    [
        ({"X-Antiphon-Dialect": "klingon"}, "X-Antiphon-Dialect"),
        ({"X-Antiphon-Dialect": ""}, "X-Antiphon-Dialect"),
        ({"X-Antiphon-Receipts": "yes"}, "X-Antiphon-Receipts"),
        ({"X-Antiphon-Route": "simple"}, "X-Antiphon-Route"),
        ({"X-Antiphon-Route": ""}, "X-Antiphon-Route"),
        ({"X-Antiphon-Route": ","}, "X-Antiphon-Route"),
    ],
)
def test_a_wrong_header_is_a_documented_400_on_every_path_with_a_key(
    client: Client, headers: dict[str, str], param: str
) -> None:
    for each in ENDPOINTS:
        method, path = each.method, each.path.replace("...", "")
        if not each.open:
            assert client.refused(400, method, path, headers=headers)["param"] == param
            assert "400" in DOCUMENT["paths"][path][method.lower()]["responses"]


def test_where_there_is_nothing_to_answer_with_204_is_documented(client: Client) -> None:
    empty = [each for each in ENDPOINTS if each.empty]
    assert empty
    for method, path in ((each.method, each.path) for each in empty):
        assert client.request(method, re.sub(r"\{\w+\}", "none", path)).status_code == 204
        assert "204" in DOCUMENT["paths"][path][method.lower()]["responses"]


@pytest.mark.parametrize("path", ["/docs", "/", "/favicon.svg"])
def test_no_other_page_can_frame_a_page_or_take_it_for_something_else(client: Client, path: str) -> None:
    """The API page had a policy for its content, and nothing else."""
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    if path != "/favicon.svg":
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_the_page_needs_nothing_from_elsewhere(client: Client) -> None:
    for path in ("/docs", "/"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    page = client.get("/docs").text
    assert not re.search(r"""(src|href)=["'](https?:)?//""", page)
    assert "@import" not in page
    assert 'fetch("/openapi.json")' in page
    assert client.ok("GET", "/openapi.json") == DOCUMENT


def test_the_page_has_an_example_for_every_body(client: Client) -> None:
    bodies = client.get("/docs").text.partition("const BODIES = {")[2].partition("};")[0]
    examples = re.findall(r"^  (\w+): \{", bodies, re.MULTILINE)
    taking = [each for each in ENDPOINTS if each.body is not None]
    assert examples == [one.id for one in taking if one.body_type == "application/json"]
    forms = client.get("/docs").text.partition("const FORMS = {")[2].partition("};")[0]
    assert re.findall(r"(?<!\S)(create\w+): \{", forms) == [
        one.id for one in taking if one.body_type != "application/json"
    ]
