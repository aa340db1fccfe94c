"""Parameters and formats: what each kind of chat server is sent, and what it never sees."""

from dataclasses import replace

import pytest

from antiphon.providers.chat.profiles import PROFILES, choose
from tests.providers.chat.bodies import body, build

# --- parameters -------------------------------------------------------------------------------------------

EVERYTHING = {
    "input": "x",
    "temperature": 0.5,
    "top_p": 0.9,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.2,
    "max_output_tokens": 99,
    "top_logprobs": 3,
    "reasoning": {"effort": "xhigh"},
    "text": {"verbosity": "low"},
    "service_tier": "standard",
    "prompt_cache_key": "k",
    "safety_identifier": "s",
    "metadata": {"a": "b"},
    "store": True,
    "truncation": "auto",
    "seed": 7,
    "stop": ["END"],
    "client_metadata": {"x": "y"},
}


def test_every_parameter_for_openai() -> None:
    made = body(EVERYTHING)
    del made["messages"], made["stream"], made["stream_options"]
    assert made == {
        "model": "m",
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "max_completion_tokens": 99,
        "logprobs": True,
        "top_logprobs": 3,
        "reasoning_effort": "xhigh",
        "verbosity": "low",
        "service_tier": "default",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "seed": 7,
        "stop": ["END"],
    }


@pytest.mark.parametrize("profile", PROFILES)
def test_a_server_is_sent_only_what_its_profile_takes(profile: str) -> None:
    taken = PROFILES[profile]
    made = body(EVERYTHING, taken)
    sent = made.keys() - {"model", "messages", "stream", "stream_options"}
    known = {
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        taken.max_tokens,
        "top_logprobs",
    }
    assert sent <= known | taken.takes | taken.extra
    assert ("stream_options" in made) == taken.stream_options
    assert made[taken.max_tokens] == 99
    promised = taken.capabilities.parameters
    assert ("reasoning" in promised) == ("reasoning_effort" in made)
    assert ("top_logprobs" in promised) == ("logprobs" in made) == taken.capabilities.logprobs
    assert ("safety_identifier" in promised) == bool({"user", "safety_identifier"} & made.keys())
    assert ("prompt_cache_key" in promised) == ("prompt_cache_key" in made)
    assert ("seed" in promised) == ("seed" in made)


def test_logprobs_can_be_asked_for_by_include() -> None:
    made = body({"input": "x", "include": ["message.output_text.logprobs"]})
    assert made["logprobs"] is True
    assert "top_logprobs" not in made


@pytest.mark.parametrize(("effort", "sent"), [("xhigh", "high"), ("none", "low"), ("medium", "medium")])
def test_efforts_that_a_server_does_not_know(effort: str, sent: str) -> None:
    made, turn = build({"input": "x", "reasoning": {"effort": effort}}, PROFILES["vllm"])
    assert made["reasoning_effort"] == sent
    assert bool(turn.receipts) == (effort != sent)


@pytest.mark.parametrize(
    ("url", "effort", "sent"),
    [
        ("https://api.mistral.ai/v1", "high", "high"),
        ("https://api.mistral.ai/v1", "none", "none"),
        ("https://api.mistral.ai/v1", "low", "high"),
        ("https://api.deepseek.com", "medium", "medium"),
        ("https://api.deepseek.com", "high", "high"),
        ("https://api.cerebras.ai/v1", "none", "none"),
        ("https://api.z.ai/api/paas/v4", "high", "high"),
        ("https://api.perplexity.ai", "medium", "medium"),
        ("https://ollama.com/v1", "medium", "medium"),
        ("http://127.0.0.1:11434/v1", "medium", "medium"),
        ("https://bedrock-mantle.us-east-2.api.aws/v1", "high", "high"),
        ("https://api.groq.com/openai/v1", "none", "none"),
    ],
)
def test_an_effort_reaches_the_servers_that_know_it(url: str, effort: str, sent: str) -> None:
    made, turn = build({"input": "x", "reasoning": {"effort": effort}}, choose(url))
    assert made["reasoning_effort"] == sent
    assert [receipt.param for receipt in turn.receipts] == (["reasoning.effort"] if effort != sent else [])


def test_summaries_leave_a_receipt() -> None:
    _, turn = build({"input": "x", "reasoning": {"summary": "auto"}})
    assert [receipt.param for receipt in turn.receipts] == ["reasoning.summary"]


def test_a_batch_tier_leaves_a_receipt() -> None:
    made, turn = build({"input": "x", "service_tier": "batch"})
    assert "service_tier" not in made
    assert [receipt.param for receipt in turn.receipts] == ["service_tier"]


# --- formats ----------------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
JSON_SCHEMA = {
    "type": "json_schema",
    "name": "thing",
    "schema": SCHEMA,
    "strict": True,
    "description": "A thing.",
}


def test_json_schema() -> None:
    made = body({"input": "x", "text": {"format": JSON_SCHEMA}})
    assert made["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "thing", "schema": SCHEMA, "description": "A thing.", "strict": True},
    }


def test_json_object() -> None:
    made = body({"input": "x", "text": {"format": {"type": "json_object"}}})
    assert made["response_format"] == {"type": "json_object"}
    assert "response_format" not in body({"input": "x", "text": {"format": {"type": "text"}}})


@pytest.mark.parametrize("instructions", [None, "Be kind."])
def test_a_server_without_json_schema_is_told_the_schema(instructions: str | None) -> None:
    request = {"input": "x", "instructions": instructions, "text": {"format": JSON_SCHEMA}}
    made, turn = build(request, PROFILES["deepseek"])
    assert made["response_format"] == {"type": "json_object"}
    system, said = made["messages"]
    assert said["role"] == "user"
    assert '"required":["a"]' in system["content"]
    assert system["content"].startswith(instructions or "Answer")
    assert [(receipt.param, receipt.action) for receipt in turn.receipts] == [("text.format", "rewritten")]


# --- profiles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.openai.com.evil.example/v1", "generic"),
        ("https://bedrock-mantle.eu-west-1.api.aws/v1", "mantle"),
        ("https://bedrock-mantle.eu-west-1.api.aws.evil.example/v1", "generic"),
        ("https://org-account.snowflakecomputing.com/api/v2/cortex/v1", "snowflake"),
        ("https://ai-gateway.vercel.sh/v1", "vercel"),
        ("https://ai-gateway.vercel.sh.evil.example/v1", "generic"),
        ("http://127.0.0.1:8000/v1", "generic"),
    ],
)
def test_a_known_host_has_its_profile(url: str, name: str) -> None:
    assert choose(url).name == name


def test_the_configuration_has_the_last_word() -> None:
    profile = choose(
        "https://api.openai.com/v1", "vllm", max_tokens="max_completion_tokens", think_tags=False
    )
    assert profile == replace(PROFILES["vllm"], max_tokens="max_completion_tokens", think_tags=False)
