"""How the servers that speak `/responses` differ, as a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from antiphon.providers.base import Capabilities
from antiphon.spec.history_text import SystemPrompt, ToolHistory
from antiphon.spec.limits import MAX_IDENTIFIER
from antiphon.spec.request import PROVIDER_PARAMETERS
from antiphon.spec.response import EFFORTS, EVERY_EFFORT

_BASIC = frozenset({"temperature", "top_p", "max_output_tokens", "reasoning"})
_EVERYTHING = frozenset(
    {*PROVIDER_PARAMETERS, "include", "max_tool_calls", "moderation", "prompt", "truncation"}
)
_OPENAI = _EVERYTHING - {"presence_penalty", "frequency_penalty"}
_OPENAI_TOOLS = frozenset(
    {
        "mcp",
        "web_search",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "image_generation",
        "computer_use_preview",
    }
)
_TIERS = {"standard": "default"} | {tier: tier for tier in ("auto", "default", "flex", "priority")}
# Fields of other wires that clients send out of habit.
_CHAT_FIELDS = frozenset(
    {
        "logit_bias",
        "max_tokens",
        "min_p",
        "n",
        "prediction",
        "repetition_penalty",
        "seed",
        "stop",
        "top_k",
        "web_search_options",
    }
)


@dataclass(frozen=True, slots=True)
class Quirks:
    """One kind of server. A parameter that it does not take is never sent to it."""

    name: str
    hosts: tuple[str, ...] = ()
    """Host names by which it is recognised when no quirks are configured."""
    parameters: frozenset[str] = _EVERYTHING
    refuses: frozenset[str] = frozenset()
    """Fields outside the specification that it refuses; every other one is passed on."""
    prefixed: bool = True
    """It takes, or ignores, fields under a prefix that is not its own: `acme:note`."""
    efforts: tuple[str, ...] = EFFORTS
    longest_identifier: int = MAX_IDENTIFIER
    """How many characters of a `safety_identifier` it takes."""
    tiers: Mapping[str, str] = field(default_factory=lambda: _TIERS)
    """What it calls the tiers that it has."""
    extended: bool = True
    """It knows what grew beside functions and texts: custom tools, namespaces, phases, refusals as input."""
    hosted: bool = True
    """It takes tools that it runs itself, their items, and items that we do not know."""
    runs: frozenset[str] = frozenset()
    """The types of tools that it is known to run itself."""
    tool_choice: bool = True
    all_keys: bool = False
    """A function tool must have every key, with null where there is nothing to say."""
    padded: bool = False
    """It pads its stream unless it is told not to."""
    proofs: bool = True
    """Reasoning goes back as the proof that the server gave; otherwise as its words."""
    json_object: bool = True
    image_urls: bool = True
    files: bool = True
    counts_tokens: bool = False
    compacts: bool = False
    """It holds custom tools to their grammar, and makes compaction items by itself."""
    tool_history: ToolHistory = "native"
    """How the calls of earlier turns are told."""
    system_prompt: SystemPrompt = "instructions"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            parameters=self.parameters,
            images=True,
            image_urls=self.image_urls,
            files=self.files,
            file_urls=self.files,
            custom_tools=True,
            hosted_tools=self.runs,
            foreign_tools=self.hosted,
            enforces_grammar=self.compacts,
            compacts=self.compacts,
            forced_tools=self.tool_choice,
            logprobs="top_logprobs" in self.parameters,
            reasoning=True,
            proofs=self.proofs,
            foreign_proofs=self.proofs,
            makes_summaries=True,
            extras=True,
            counts_tokens=self.counts_tokens,
        )


OPEN_RESPONSES = Quirks("open_responses", counts_tokens=True)

OPENAI = Quirks(
    "openai",
    hosts=("api.openai.com",),
    parameters=_OPENAI,
    efforts=EVERY_EFFORT,
    longest_identifier=2 * MAX_IDENTIFIER,
    tiers=_TIERS | {tier: tier for tier in ("scale", "fast", "ultrafast")},
    refuses=_CHAT_FIELDS,
    prefixed=False,
    all_keys=True,
    padded=True,
    counts_tokens=True,
    runs=_OPENAI_TOOLS,
    compacts=True,
)

_TABLE = (
    OPEN_RESPONSES,
    OPENAI,
    Quirks(
        "ai_gateway",
        parameters=_OPENAI - {"include"},
        extended=False,
        tool_history="text",
        system_prompt="developer",
    ),
    Quirks(
        "lmstudio",
        parameters=_BASIC | {"top_logprobs"},
        efforts=("low", "medium", "high"),
        extended=False,
        proofs=False,
        json_object=False,
        image_urls=False,
        files=False,
    ),
    Quirks(
        "vllm",
        parameters=_BASIC | {"max_tool_calls", "prompt_cache_key", "top_logprobs", "truncation"},
        extended=False,
        hosted=False,
        proofs=False,
        json_object=False,
    ),
    Quirks(
        "ollama",
        parameters=_BASIC,
        efforts=("none", "low", "medium", "high"),
        extended=False,
        hosted=False,
        tool_choice=False,
        json_object=False,
        image_urls=False,
        files=False,
    ),
)

QUIRKS = {quirks.name: quirks for quirks in _TABLE}


def choose(
    base_url: str,
    name: str | None = None,
    *,
    tool_history: ToolHistory | None = None,
    system_prompt: SystemPrompt | None = None,
) -> Quirks:
    """The quirks of that name, else those of the host, with what the configuration changes."""
    if name is not None:
        quirks = QUIRKS[name]
    else:
        host = urlsplit(base_url).hostname or ""
        quirks = next((one for one in _TABLE if host in one.hosts), OPEN_RESPONSES)
    return replace(
        quirks,
        tool_history=tool_history or quirks.tool_history,
        system_prompt=system_prompt or quirks.system_prompt,
    )
