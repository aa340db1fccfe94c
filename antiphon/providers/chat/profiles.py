"""What the servers that speak `/chat/completions` take and how they differ, as a table."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import urlsplit

from antiphon.providers.base import Capabilities
from antiphon.spec.request import SAMPLING
from antiphon.spec.response import EFFORTS, EVERY_EFFORT

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]

# Request parameters that every server of this wire takes under the same name.
COMMON = frozenset(SAMPLING)
# Fields outside the specification that clients send and most servers know.
_SAMPLING = frozenset({"seed", "stop"})
_LOCAL_SAMPLING = _SAMPLING | {"logit_bias", "top_k", "min_p", "repetition_penalty"}


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of server. What it does not take is never sent to it."""

    name: str
    hosts: tuple[str, ...] = ()
    """Host names by which it is recognised when no profile is configured; `*` is any part of one."""
    max_tokens: MaxTokensField = "max_tokens"
    common: frozenset[str] = COMMON
    """Request parameters that go under their own names."""
    takes: frozenset[str] = frozenset()
    """Optional fields of the body, beside those that every server takes."""
    efforts: tuple[str, ...] = ("low", "medium", "high")
    extra: frozenset[str] = _SAMPLING
    """Fields outside the specification that are passed on as they are."""
    developer_role: bool = False
    names: bool = False
    """Those who speak may have names."""
    text_parts: bool = False
    """Several text parts stay apart; otherwise they become one string."""
    images: bool = True
    image_urls: bool = True
    """Images by address; otherwise only as data."""
    image_details: bool = True
    """How closely to look at an image can be said."""
    files: bool = False
    file_urls: bool = False
    strict_tools: bool = True
    """A function may be marked as strict."""
    wraps_tool_choice: bool = False
    """The choice of a tool is the `value` of an object."""
    alternatives: bool = True
    """Logprobs can be had of the tokens that were not chosen, too."""
    refusals: bool = False
    """An assistant message may carry its refusal in a field of its own."""
    reasoning: bool = True
    """Its answers may show the reasoning."""
    reasoning_field: str | None = None
    """Where the reasoning of an earlier step goes, for servers that want it back during a tool loop."""
    returns_reasoning: bool = False
    """Without such a field, what the server gave as `reasoning_content` goes back there in a tool loop."""
    details: bool = False
    """Reasoning comes with `reasoning_details`, proofs among them, which the server wants back."""
    numbers_sources: bool = False
    """The text names its sources by their numbers, as in `[3]`."""
    json_schema: bool = True
    json_object: bool = True
    think_tags: bool = False
    stream_options: bool = True
    always_streams: bool = False
    """Only a streamed request stops when it is hung up on, so plain answers are streamed too."""
    short_call_ids: bool = False
    """Call ids must be nine letters and digits."""
    counts_tokens: bool = False

    @property
    def keeps_reasoning(self) -> bool:
        """Must the reasoning of an answer be put by, because the server wants it back?"""
        return self.details or self.returns_reasoning or self.reasoning_field is not None

    @property
    def capabilities(self) -> Capabilities:
        taken = {_TAKEN_AS[field] for field in self.takes if field in _TAKEN_AS}
        if not self.alternatives:
            taken.discard("top_logprobs")
        return Capabilities(
            parameters=self.common | taken | self.extra | {"max_output_tokens"},
            images=self.images,
            image_urls=self.images and self.image_urls,
            files=self.files,
            file_urls=self.files and self.file_urls,
            custom_tools=True,
            json_schema=self.json_schema,
            logprobs="logprobs" in self.takes,
            reasoning=self.reasoning,
            proofs=self.keeps_reasoning,
            makes_summaries=self.details,
            counts_tokens=self.counts_tokens,
        )


# Optional fields of the body, by the request parameter that they honour.
_TAKEN_AS = {
    "logprobs": "top_logprobs",
    "reasoning_effort": "reasoning",
    "verbosity": "text.verbosity",
    "service_tier": "service_tier",
    "prompt_cache_key": "prompt_cache_key",
    "safety_identifier": "safety_identifier",
    "user": "safety_identifier",
}

GENERIC = Profile(
    "generic",
    takes=frozenset({"logprobs", "parallel_tool_calls", "reasoning_effort", "user"}),
    efforts=EFFORTS,
    extra=_SAMPLING | {"logit_bias"},
    files=True,
    returns_reasoning=True,
)

OPENAI = Profile(
    "openai",
    hosts=("api.openai.com",),
    max_tokens="max_completion_tokens",
    takes=frozenset(
        {
            "logprobs",
            "parallel_tool_calls",
            "reasoning_effort",
            "verbosity",
            "service_tier",
            "prompt_cache_key",
            "safety_identifier",
        }
    ),
    efforts=EVERY_EFFORT,
    extra=_SAMPLING
    | {
        "logit_bias",
        "moderation",
        "prediction",
        "prompt_cache_options",
        "prompt_cache_retention",
        "web_search_options",
    },
    developer_role=True,
    names=True,
    text_parts=True,
    files=True,
    refusals=True,
    reasoning=False,
)

_TABLE = (
    GENERIC,
    OPENAI,
    Profile(
        "vllm",
        takes=frozenset({"logprobs", "parallel_tool_calls", "reasoning_effort", "user"}),
        extra=_LOCAL_SAMPLING,
        returns_reasoning=True,
        think_tags=True,
    ),
    Profile(
        "llamacpp",
        takes=frozenset({"logprobs", "parallel_tool_calls"}),
        extra=_LOCAL_SAMPLING,
        returns_reasoning=True,
        always_streams=True,
        counts_tokens=True,
    ),
    Profile(
        "groq",
        hosts=("api.groq.com",),
        max_tokens="max_completion_tokens",
        takes=frozenset({"parallel_tool_calls", "reasoning_effort", "user"}),
        efforts=EFFORTS[:-1],
        think_tags=True,
    ),
    Profile(
        "together",
        hosts=("api.together.xyz", "api.together.ai"),
        takes=frozenset({"reasoning_effort"}),
        extra=_LOCAL_SAMPLING,
        think_tags=True,
    ),
    Profile(
        "openrouter",
        hosts=("openrouter.ai",),
        takes=frozenset({"logprobs", "parallel_tool_calls", "reasoning_effort", "verbosity", "user"}),
        efforts=EFFORTS,
        extra=_LOCAL_SAMPLING,
        text_parts=True,
        files=True,
        file_urls=True,
        reasoning_field="reasoning",
        details=True,
    ),
    Profile(
        "deepseek",
        hosts=("api.deepseek.com",),
        takes=frozenset({"logprobs", "reasoning_effort"}),
        efforts=EFFORTS[1:],
        extra=frozenset({"stop"}),
        images=False,
        reasoning_field="reasoning_content",
        json_schema=False,
    ),
    Profile(
        "mistral",
        hosts=("api.mistral.ai",),
        takes=frozenset({"parallel_tool_calls", "reasoning_effort"}),
        efforts=("none", "high"),
        extra=frozenset({"stop"}),
        stream_options=False,
        short_call_ids=True,
    ),
    Profile(
        "lmstudio",
        takes=frozenset({"logprobs"}),
        extra=_LOCAL_SAMPLING,
        image_urls=False,
        returns_reasoning=True,
        think_tags=True,
    ),
    # Like the generic one, except for what they are known to want back or to call otherwise.
    replace(GENERIC, name="ollama", hosts=("ollama.com",), efforts=EFFORTS[:-1], reasoning_field="reasoning"),
    replace(GENERIC, name="cerebras", hosts=("api.cerebras.ai",), efforts=EFFORTS[:-1]),
    replace(GENERIC, name="zai", hosts=("api.z.ai", "open.bigmodel.cn"), reasoning_field="reasoning_content"),
    replace(
        GENERIC,
        name="moonshot",
        hosts=("api.moonshot.ai", "api.moonshot.cn"),
        takes=GENERIC.takes - {"reasoning_effort"},
        reasoning_field="reasoning_content",
    ),
    replace(
        GENERIC, name="perplexity", hosts=("api.perplexity.ai",), efforts=EFFORTS[1:-1], numbers_sources=True
    ),
    replace(
        GENERIC,
        name="mantle",
        hosts=("bedrock-mantle.*.api.aws",),
        efforts=EFFORTS[1:-1],
        reasoning_field="reasoning",
    ),
    replace(
        GENERIC, name="vercel", hosts=("ai-gateway.vercel.sh",), reasoning_field="reasoning", details=True
    ),
    replace(
        GENERIC,
        name="snowflake",
        hosts=("*.snowflakecomputing.com",),
        reasoning_field="reasoning",
        details=True,
    ),
)

PROFILES = {profile.name: profile for profile in _TABLE}


def choose(
    base_url: str,
    name: str | None = None,
    *,
    max_tokens: MaxTokensField | None = None,
    think_tags: bool | None = None,
) -> Profile:
    """The profile of that name, else the one whose host this is, with what the configuration changes."""
    if name is not None:
        profile = PROFILES[name]
    else:
        host = urlsplit(base_url).hostname or ""
        profile = next((one for one in _TABLE if any(fnmatchcase(host, name) for name in one.hosts)), GENERIC)
    return replace(
        profile,
        max_tokens=max_tokens or profile.max_tokens,
        think_tags=profile.think_tags if think_tags is None else think_tags,
    )
