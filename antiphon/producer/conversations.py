"""Resolves a request to the whole conversation for the answer, and refuses what the agent cannot do."""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, get_args

from antiphon.spec.content import InputFile, InputImage, InputVideo
from antiphon.spec.errors import (
    UNSUPPORTED_CONTENT,
    UNSUPPORTED_OPERATION,
    UNSUPPORTED_PARAMETER,
    SpecError,
    invalid_param,
    not_found,
)
from antiphon.spec.items import Compaction, Item, ItemReference, Message, parts_of
from antiphon.spec.request import CompactRequest, Request
from antiphon.spec.response import Response
from antiphon.spec.tools import JsonSchemaFormat
from antiphon.stream.dialects import OPEN_RESPONSES
from antiphon.stream.pairing import pair_calls
from antiphon.stream.policy import check_tools
from antiphon.wires.responses_socket import TurnMemory

if TYPE_CHECKING:
    from antiphon.wires.sealing import Seal

Ability = Literal["tools", "json_schema", "images", "files", "videos"]
"""What an agent may be without."""

_PARTS: Final[dict[type, Ability]] = {InputImage: "images", InputFile: "files", InputVideo: "videos"}
_CHECKERS: Final = ("jsonschema", "regex")


class KeptConversations:
    """The last `memory` conversations by the id of their newest response, and what this agent cannot do."""

    def __init__(self, memory: int, without: Iterable[Ability], seal: "Seal | None") -> None:
        self._memory = memory
        self._without: Collection[Ability] = frozenset(without)
        if unknown := sorted(self._without - set(get_args(Ability))):
            known = ", ".join(get_args(Ability))
            raise ValueError(f"an agent cannot be `without` {', '.join(unknown)}; it can be without {known}")
        if memory < 0:
            raise ValueError("`memory` is a number of conversations; 0 keeps none")
        self._seal = seal
        self._checks_schemas = all(map(find_spec, _CHECKERS))
        self._kept: OrderedDict[str, list[Item]] = OrderedDict()

    @property
    def stores(self) -> bool:
        return self._memory > 0

    def check(self, request: Request) -> None:
        """Refuses requests that this agent cannot serve, and tool choices that no model can follow."""
        for name in ("background", "conversation"):
            if getattr(request, name):
                raise refuse_parameter(name, f"this agent has no {name}; leave it out")
        OPEN_RESPONSES.check_words(request)
        if request.tools and "tools" in self._without:
            raise refuse_parameter("tools", "this agent does not call the tools of a request; leave them out")
        if request.tool_choice is not None:
            check_tools(request)
        if request.text is not None and isinstance(request.text.format, JsonSchemaFormat):
            if "json_schema" in self._without:
                raise refuse_parameter(
                    "text.format", "this agent does not answer by a JSON schema; leave it out"
                )
            if not self._checks_schemas:
                message = "JSON schemas cannot be checked here: install `antiphon[server]`, or leave it out"
                raise refuse_parameter("text.format", message)

    def resolve(
        self, request: Request | CompactRequest, local: TurnMemory[list[Item]] | None = None
    ) -> list[Item]:
        """Returns all items before the answer; `local` is the memory of a WebSocket."""
        before: list[Item] = []
        if request.previous_response_id is not None:
            before = self._previous(request.previous_response_id, local)
        given = request.input or []
        new: list[Item] = [Message(role="user", content=given)] if isinstance(given, str) else given
        items: list[Item] = list(before)
        for n, item in enumerate(new):
            self._check_item(n, item)
            items += self._open_compaction(n, item) if isinstance(item, Compaction) else [item]
        return pair_calls(items, len(before))

    def keep(self, response: Response, items: list[Item]) -> None:
        if response.store and self.stores:
            self._kept[response.id] = items
            while len(self._kept) > self._memory:
                self._kept.popitem(last=False)

    def _previous(self, id: str, local: TurnMemory[list[Item]] | None) -> list[Item]:
        if not self.stores and local is None:
            message = "this agent stores no responses; send the whole conversation as `input`"
            raise refuse_parameter("previous_response_id", message)
        known = (local.get(id) if local is not None else None) or self._kept.get(id)
        if known is None:
            error = not_found("there is no such previous response; send the conversation again")
            named = error.with_code("previous_response_not_found").with_param("previous_response_id")
            raise SpecError(named)
        return known

    def _check_item(self, n: int, item: Item) -> None:
        if isinstance(item, ItemReference):
            raise refuse_parameter(f"input[{n}]", "items cannot be referred to here; send them whole")
        name, parts = parts_of(item)
        for m, part in enumerate(parts):
            kind = _PARTS.get(type(part))
            if kind in self._without:
                message = f"this agent takes no {kind}; send text"
                place = f"input[{n}].{name}[{m}]"
                raise SpecError(invalid_param(place, message).with_code(UNSUPPORTED_CONTENT))

    def _open_compaction(self, n: int, item: Compaction) -> list[Item]:
        if self._seal is None:
            message = "this agent makes no compaction items, and can open none; send the conversation itself"
            raise SpecError(invalid_param(f"input[{n}]", message).with_code(UNSUPPORTED_CONTENT))
        from antiphon.wires.compaction import opened_summary

        return opened_summary(item, f"input[{n}]", self._seal)


def refuse_parameter(param: str, message: str) -> SpecError:
    return SpecError(invalid_param(param, message).with_code(UNSUPPORTED_PARAMETER))


def no_compaction() -> SpecError:
    message = "this agent cannot compact a conversation: it has no `summarise`; send the conversation itself"
    return SpecError(not_found(message).with_code(UNSUPPORTED_OPERATION))
