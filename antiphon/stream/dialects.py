"""How one stream is spelled for different clients.

A dialect is a table of names and shapes. The Composer asks it what a client may see and where numbering
begins; a transport asks it for bytes. Inside, there is only the specification.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import UNSET, Raw, Struct
from msgspec.json import Encoder
from msgspec.structs import replace as altered

from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.error_paths import wrong
from antiphon.spec.errors import CONTEXT_LENGTH_EXCEEDED, ErrorPayload
from antiphon.spec.items import CORE_TYPES, is_valid_extension_type
from antiphon.spec.limits import MAX_IDENTIFIER
from antiphon.spec.request import USUAL_TIERS, Request
from antiphon.spec.response import EFFORTS, InputTokensDetails, Response, Usage
from antiphon.spec.tools import CustomTool, JsonSchemaFormat, TextFormat, Tool
from antiphon.stream.lifecycle import CHANNELS

DELTAS: Mapping[str, type[ev.Event]] = {channel.delta: ev.EVENTS[channel.delta] for channel in CHANNELS}
"""The events of one piece of text, by their type."""


class DeltaFrame(Struct, frozen=True):
    """What of the JSON of a delta is kept, and what is written around it."""

    first: bytes
    last: bytes
    kept: slice
    """What is kept of one event's JSON."""
    kept_lines: slice
    """What is kept of many, one a line, if `end` is put between them as `between`."""
    end: bytes
    between: bytes
    absent: bytes
    """A key that is added, unless it is there already: then none of this holds."""

    def many(self, lines: bytes, count: int) -> tuple[bytes, ...]:
        """So many events, framed, in pieces; none if they have to be spelled one by one."""
        if lines.count(b"\n") != count or (self.absent and self.absent in lines):
            return ()
        kept = lines[self.kept_lines]
        if len(self.end) == 1:
            return self.first, kept.replace(self.end, self.between), self.last
        # To replace more than one byte takes ten times as long as to replace one.
        return self.first, self.between.join(kept.split(self.end)), self.last


def delta_frame(before: bytes, after: bytes, cut: bytes, start: bytes, key: str, added: bytes) -> DeltaFrame:
    """`before` and `after` are of the frame; the JSON begins with `start` where it began with `cut`.

    `added` comes at its end, and has a value for `key` (if that is not empty) in case the event has none.
    """
    last = added + b"}" + after if added else after
    end = b"}\n" + cut if added else b"\n" + cut
    return DeltaFrame(
        first=before + start,
        last=last,
        kept=slice(len(cut), -1 if added else None),
        kept_lines=slice(len(cut), -2 if added else -1),
        end=end,
        between=last + before + start,
        absent=f',"{key}":'.encode() if key else b"",
    )


Encode = Callable[[Any], bytes]


def _hook(value: object) -> Raw:
    if isinstance(value, ev.OtherEvent):
        return Raw(value.to_json())
    if isinstance(value, Opaque):
        return Raw(value.raw)
    raise TypeError(f"{type(value).__name__} is not wire data")


# Any event as the specification spells it, in one call.
_plain: Encode = Encoder(enc_hook=_hook).encode

# The items and annotations that a tool of each type, outside the specification, brings with it.
TOOL_ITEMS: Mapping[str, frozenset[str]] = {
    "custom": frozenset({"custom_tool_call", "custom_tool_call_output"}),
    "mcp": frozenset({"mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"}),
    "tool_search": frozenset({"tool_search_call", "tool_search_output", "additional_tools"}),
    "web_search": frozenset({"web_search_call"}),
    "web_search_preview": frozenset({"web_search_call"}),
    "file_search": frozenset({"file_search_call", "file_citation"}),
    "code_interpreter": frozenset({"code_interpreter_call", "container_file_citation", "file_path"}),
    "image_generation": frozenset({"image_generation_call"}),
    "computer": frozenset({"computer_call", "computer_call_output"}),
    "computer_use_preview": frozenset({"computer_call", "computer_call_output"}),
    "local_shell": frozenset({"local_shell_call", "local_shell_call_output"}),
    "shell": frozenset({"shell_call", "shell_call_output"}),
    "apply_patch": frozenset({"apply_patch_call", "apply_patch_call_output"}),
    "programmatic_tool_calling": frozenset({"program", "program_output"}),
}

# An image that the model made is never hidden: a client that did not ask for one gets it as `SHOWN_IMAGE`.
IMAGE = "image_generation_call"
SHOWN_IMAGE = "antiphon:image"
HOSTED_NOTES = frozenset({"file_citation", "container_file_citation", "file_path"})
"""Annotations of hosted tools: a client that gets the text gets them, too."""

_DETAILS = b'"input_tokens_details":{'
_NO_CACHE_WRITES = b',"cache_write_tokens":0'
_DATED = re.compile(r"_\d{4}_?\d\d_?\d\d$")


def solicited(tools: Iterable[Tool]) -> frozenset[str]:
    """The types of items and annotations outside the specification that these tools ask for.

    An entry that ends in a colon stands for every type of that vendor.
    """
    asked: set[str] = set()
    for tool in tools:
        if isinstance(tool, CustomTool):
            asked |= TOOL_ITEMS["custom"]
        elif isinstance(tool, Opaque):
            asked |= _items_of(tool.fields)
    return frozenset(asked)


def _items_of(tool: Mapping[str, Any]) -> frozenset[str]:
    kind = tool.get("type")
    if not isinstance(kind, str) or kind == "function":
        return frozenset()
    if kind == "namespace":
        inner = tool.get("tools")
        parts = inner if isinstance(inner, list) else []
        return frozenset({kind}).union(*(_items_of(part) for part in parts if isinstance(part, dict)))
    vendor, colon, own = kind.partition(":")
    if colon:
        # The gateway may run a vendor's tool in its place.
        return TOOL_ITEMS.get(_DATED.sub("", own), frozenset()) | {f"{vendor}:"}
    return TOOL_ITEMS.get(_DATED.sub("", kind), frozenset({kind, f"{kind}_call", f"{kind}_call_output"}))


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One way to spell the protocol.

    >>> by_name("openai").type_of(ev.ReasoningDeltaEvent(4, "rs_1", 0, 0, "hm"))
    'response.reasoning_text.delta'
    """

    name: str
    first_sequence_number: int = 0
    # What an event is called, where that differs, and the fields that it must not lack.
    event_types: Mapping[str, str] = field(default_factory=dict)
    event_fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Item types beyond the core that are at home here; others go out under `slug`, or not at all without one.
    vocabulary: frozenset[str] = frozenset()
    slug: str | None = None
    # The event type that carries `slug:name` events, if they do not go out under their own.
    custom_event: str | None = None
    error_types: Mapping[str, str] = field(default_factory=dict)
    error_codes: Mapping[str, str] = field(default_factory=dict)
    flat_error_event: bool = False
    error_beside_failed: bool = False
    echoes_schema: bool = False
    # Says how many tokens were written to a cache, with 0 where the provider did not count them.
    counts_cache_writes: bool = False
    # Codes of errors that clients act on only as the end of a stream, never as an HTTP status.
    stream_error_codes: frozenset[str] = frozenset()
    # Takes and tells words that are younger than the specification.
    is_lenient: bool = False
    # Its clients show summaries of reasoning, and never the reasoning itself.
    shows_summaries: bool = False
    # Has `cancelled` for a status of its own, not as a reason to be incomplete.
    cancelled_status: bool = False
    names_response: bool = False
    response_id: str | None = None

    # The JSON bytes of one event.
    encode: Encode = field(init=False, repr=False)
    _names: Mapping[type, str] = field(init=False, repr=False)
    # Deltas as server-sent events and as lines, in bulk.
    frames: Mapping[type, DeltaFrame] = field(init=False, repr=False)
    lines: Mapping[type, DeltaFrame] = field(init=False, repr=False)
    _echoing: "Dialect" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = {cls: self.event_types.get(kind, kind) for kind, cls in ev.EVENTS.items()}
        object.__setattr__(self, "_names", names)
        object.__setattr__(self, "encode", self._compile_encoder())
        deltas = {cls: self._delta_frames(kind, cls) for kind, cls in DELTAS.items()}
        object.__setattr__(self, "frames", {cls: both[0] for cls, both in deltas.items()})
        object.__setattr__(self, "lines", {cls: both[1] for cls, both in deltas.items()})
        object.__setattr__(
            self, "_echoing", self if self.echoes_schema else replace(self, echoes_schema=True)
        )

    def for_response(self, response: Response) -> "Dialect":
        """This dialect for the events of one response: it can name it, and skips what it cannot need."""
        is_special = isinstance(response.text.format, JsonSchemaFormat) or self._is_unknown_effort(response)
        fitting = self if is_special else self._echoing
        return replace(fitting, response_id=response.id) if self.names_response else fitting

    def shows(self, type: str, solicited: frozenset[str] = frozenset()) -> str | None:
        """The type under which an item or a vendor's event goes out; None when this client gets none."""
        if type in CORE_TYPES or self._at_home(type, self.vocabulary | solicited):
            return type
        if self.slug is None:
            return SHOWN_IMAGE if type in (IMAGE, SHOWN_IMAGE) else None
        return type if is_valid_extension_type(type) else f"{self.slug}:{_local(type)}"

    def type_of(self, event: ev.AnyEvent) -> str:
        """The event's type on the wire, which is also its name in an SSE event line."""
        if isinstance(event, ev.OtherEvent):
            return self.custom_event if self.custom_event and ":" in event.type else event.type
        return self._names.get(type(event)) or self.event_types.get(event.type, event.type)

    def encode_response(self, response: Response, encoded: bytes | None = None) -> bytes:
        """Encode a response; `encoded` is its JSON as the specification spells it, if the caller has that."""
        if encoded is not None and not self._changes(response):
            usage = response.usage
            if usage is None or not self._lacks_count(usage):
                return encoded
            is_known = type(response) is Response and type(usage) is Usage
            if (
                is_known
                and type(usage.input_tokens_details) is InputTokensDetails
                and not (response.metadata or response.receipts)
            ):
                # Most often nothing else differs; and behind the usage nothing else has such details.
                at = encoded.find(b"}", encoded.rfind(_DETAILS))
                return b"".join((encoded[:at], _NO_CACHE_WRITES, encoded[at:]))
        return encode(self._response(response))

    def error(self, payload: ErrorPayload) -> ErrorPayload:
        """The error as this dialect names it, for an HTTP body or a WebSocket envelope."""
        known = self.error_types.get(payload.type)
        return payload if known is None else altered(payload, type=known)

    def usage(self, usage: Usage) -> Usage:
        """The counts with every detail that this dialect must not lack."""
        if not self._lacks_count(usage):
            return usage
        details = altered(usage.input_tokens_details, cache_write_tokens=0)
        return altered(usage, input_tokens_details=details)

    def _lacks_count(self, usage: Usage) -> bool:
        return self.counts_cache_writes and usage.input_tokens_details.cache_write_tokens is UNSET

    def _at_home(self, type: str, kinds: frozenset[str]) -> bool:
        if type in kinds:
            return True
        vendor, colon, _ = type.partition(":")
        if colon:
            return f"{vendor}:" in kinds
        # `response.mcp_call_arguments.delta` belongs to the item type mcp_call.
        first, _, rest = type.partition(".")
        kind = rest.partition(".")[0]
        return first == "response" and any(kind == k or kind.startswith(f"{k}_") for k in kinds)

    # --- bytes --------------------------------------------------------------------------------------------

    def _compile_encoder(self) -> Encode:
        """Make the encoder: the specification's own, or a lookup in a table before it."""
        special: dict[type, Encode] = {
            cls: how for kind, cls in ev.EVENTS.items() if (how := self._special(kind, cls))
        }
        if not special and self.custom_event is None:
            return _plain
        special[ev.OtherEvent] = self._other

        def encode_event(event: Any) -> bytes:
            cls = type(event)
            if cls not in special and cls not in self._names:
                cls = cls.__mro__[1]  # an event with unknown fields is of a class of its own
            return special.get(cls, _plain)(event)

        return encode_event

    def _special(self, kind: str, cls: type[ev.Event]) -> Encode | None:
        make: Encode = encode
        if issubclass(cls, ev.LifecycleEvent) and self._changes_responses:
            make = self._lifecycle
        elif cls is ev.ErrorEvent and (self.flat_error_event or self.error_types):
            make = self._error
        name, tail = self._names[cls], self._tail()
        head = b"" if name == kind else f'{{"type":"{name}"'.encode()
        cut = len(f'{{"type":"{kind}"')
        lacks = [
            (key, f',"{key}":'.encode() + encode(v)) for key, v in self.event_fields.get(kind, {}).items()
        ]
        if make is encode and not (head or lacks or tail):
            return None

        def special(event: Any) -> bytes:
            data = make(event)
            added = tail
            for key, default in lacks:
                if getattr(event, key) is UNSET:
                    added += default
            if head:
                # `type` is always the first key of an event, so another name is another beginning.
                data = head + data[cut:]
            return data[:-1] + added + b"}" if added else data

        return special

    def _delta_frames(self, kind: str, cls: type) -> tuple[DeltaFrame, DeltaFrame]:
        name, fields = self._names[cls], self.event_fields.get(kind, {})
        cut, start = (f'{{"type":"{one}"'.encode() if name != kind else b"" for one in (kind, name))
        assert len(fields) <= 1, "a delta with two fields that may be lacking has no frame"
        added = b"".join(f',"{key}":'.encode() + encode(value) for key, value in fields.items())
        changes = cut, start, next(iter(fields), ""), added + self._tail()
        return delta_frame(f"event: {name}\ndata: ".encode(), b"\n\n", *changes), delta_frame(
            b"", b"\n", *changes
        )

    @property
    def _changes_responses(self) -> bool:
        kept = self.echoes_schema and not self.error_beside_failed
        return not kept or bool(self.error_codes) or self.counts_cache_writes or self.cancelled_status

    def _tail(self) -> bytes:
        return b"" if self.response_id is None else b',"response_id":' + encode(self.response_id)

    def _lifecycle(self, event: ev.LifecycleEvent) -> bytes:
        response = self._response(event.response)
        data = encode(event if response is event.response else altered(event, response=response))
        if self.error_beside_failed and isinstance(event, ev.ResponseFailedEvent):
            return b'%b,"error":%b}' % (data[:-1], encode(response.error))
        return data

    def _error(self, event: ev.ErrorEvent) -> bytes:
        error = self.error(event.error)
        if not self.flat_error_event:
            return encode(altered(event, error=error))
        flat = {
            "type": "error",
            "sequence_number": event.sequence_number,
            "code": error.code or error.type,
            "message": error.message,
            "param": error.param,
        }
        return encode(flat)

    def _other(self, event: ev.OtherEvent) -> bytes:
        if self.custom_event is None or ":" not in event.type:
            data = event.to_json()
        else:
            data = encode(
                {
                    "type": self.custom_event,
                    "sequence_number": event.sequence_number,
                    "event_type": event.type.replace(":", "."),
                    "data": event.fields,
                }
            )
        return b"%b%b}" % (data[:-1], self._tail())

    def _response(self, response: Response) -> Response:
        changes, usage = self._changes(response), response.usage
        if usage is not None and self._lacks_count(usage):
            changes["usage"] = self.usage(usage)
        return altered(response, **changes) if changes else response

    def _is_unknown_effort(self, response: Response) -> bool:
        """Does the response repeat an effort for which this dialect has no word?"""
        asked = response.reasoning
        return asked is not None and not self.is_lenient and asked.effort not in (None, *EFFORTS)

    def check_words(self, request: Request) -> None:
        """Refuse words that this dialect does not have, although others do."""
        if self.is_lenient:
            return
        effort = request.reasoning.effort if request.reasoning is not None else None
        if effort not in (None, *EFFORTS):
            raise wrong("reasoning.effort", f"expected one of {_join_words(EFFORTS)}, got {effort!r}")
        if (tier := request.service_tier) not in (None, *USUAL_TIERS):
            raise wrong("service_tier", f"expected one of {_join_words(USUAL_TIERS)}, got {tier!r}")
        if (size := len(request.safety_identifier or "")) > MAX_IDENTIFIER:
            limit = f"expected a string of at most {MAX_IDENTIFIER} characters"
            raise wrong("safety_identifier", f"{limit}, got a string of {size:,} characters")

    def _changes(self, response: Response) -> dict[str, Any]:
        """The fields beside the usage that are different here, and what they are."""
        form = response.text.format
        changes: dict[str, Any] = {}
        if (reasoning := response.reasoning) is not None and self._is_unknown_effort(response):
            changes["reasoning"] = altered(reasoning, effort=EFFORTS[-1])
        has_ended_well = response.error is None and response.incomplete_details is None
        if has_ended_well and type(form) is TextFormat:
            return changes  # all else is the same in every dialect
        if not self.echoes_schema and isinstance(form, JsonSchemaFormat) and form.schema is not None:
            changes["text"] = altered(response.text, format=altered(form, schema=None))
        if response.error is not None and response.error.code in self.error_codes:
            changes["error"] = altered(response.error, code=self.error_codes[response.error.code])
        cut = response.incomplete_details
        if self.cancelled_status and cut is not None and cut.reason == "cancelled":
            changes |= {"status": "cancelled", "incomplete_details": None}
        return changes


def _join_words(words: Iterable[str]) -> str:
    return ", ".join(map(repr, words))


def _local(type: str) -> str:
    """A type as the second half of `slug:name`."""
    return re.sub(r"\W+", "_", type.removeprefix("response."), flags=re.ASCII) or "_"


OPEN_RESPONSES = Dialect("open_responses")

OPENAI = Dialect(
    "openai",
    event_types={
        "response.reasoning.delta": "response.reasoning_text.delta",
        "response.reasoning.done": "response.reasoning_text.done",
    },
    event_fields={
        "response.output_text.delta": {"logprobs": []},
        "response.output_text.done": {"logprobs": []},
    },
    vocabulary=frozenset().union(*TOOL_ITEMS.values()),
    error_types={
        "invalid_request": "invalid_request_error",
        "not_found": "not_found_error",
        "too_many_requests": "rate_limit_error",
        "permission_denied": "permission_error",
        "model_error": "server_error",
    },
    error_codes={
        "invalid_request": "invalid_prompt",
        "too_many_requests": "rate_limit_exceeded",
        "model_error": "server_error",
    },
    stream_error_codes=frozenset({CONTEXT_LENGTH_EXCEEDED}),
    flat_error_event=True,
    echoes_schema=True,
    counts_cache_writes=True,
    is_lenient=True,
    shows_summaries=True,
    cancelled_status=True,
)

# OpenAI's names; but its errors are read only where they are nested.
AI_SDK = replace(
    OPENAI, name="ai_sdk", flat_error_event=False, stream_error_codes=frozenset(), shows_summaries=False
)

VTCODE = Dialect("vtcode", slug="vtcode", custom_event="response.custom_event", names_response=True)

VERTICE = Dialect("vertice", slug="vertice", first_sequence_number=1, error_beside_failed=True)

DIALECTS: Mapping[str, Dialect] = {d.name: d for d in (OPEN_RESPONSES, OPENAI, AI_SDK, VTCODE, VERTICE)}

AUTO = "auto"
"""Stands for the dialect of the client, as `client_dialects.detect_dialect` finds it."""


def by_name(name: str) -> Dialect:
    """The dialect of this name; `ValueError` if there is none."""
    try:
        return DIALECTS[name]
    except KeyError:
        known = ", ".join((AUTO, *DIALECTS))
        raise ValueError(f"there is no dialect {name[:60]!r}; choose one of {known}") from None


def of_log(name: str | None) -> Dialect:
    """The dialect that an event log is spelled in; one without a name here has the specification's names."""
    return DIALECTS.get(name or "", OPEN_RESPONSES)
