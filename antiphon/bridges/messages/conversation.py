"""From the turns of a Messages request to items, in order; every item knows the block that it comes from."""

from collections.abc import Sequence
from typing import Any

from antiphon.bridges.messages.block_fields import (
    check_length,
    flag,
    optional_object,
    optional_string,
    required_object,
    string,
    wrong_kind,
)
from antiphon.bridges.messages.body import MessageBlock, MessageContent, MessageParam
from antiphon.bridges.messages.searches import is_own_use, own_search
from antiphon.bridges.messages.summaries import summary_items
from antiphon.bridges.messages.tool_declarations import TOOL_CHANGES, tool_change
from antiphon.bridges.messages.tool_ids import call_id, unique_id
from antiphon.spec import items
from antiphon.spec.codec import Opaque, encode, extras, with_extras
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText, OutputText, ReasoningText
from antiphon.spec.error_paths import describe, wrong
from antiphon.spec.errors import SpecError
from antiphon.wires.compaction import COMPACTION
from antiphon.wires.messages.citations import annotation
from antiphon.wires.messages.vendor import (
    BLOCK,
    FIELDS,
    MESSAGE_FIELDS,
    SLUG,
    VENDOR,
    with_block,
    with_fields,
    without,
)
from antiphon.wires.sealing import is_sealed


class MessagesTranslation:
    """The `items` of a request, and where each was said, in `places`, and each of its parts, in `blocks`."""

    def __init__(self, system: MessageContent | None, messages: Sequence[MessageParam]) -> None:
        self.items: list[items.Item] = []
        self.places: list[str] = []
        self.blocks: list[list[str]] = []
        self._calls: dict[str, str] = {}  # the ids of calls, by those that the client knows
        self._waiting: dict[str, list[str]] = {}  # those without a result, in their order
        self._taken: set[str] = set()  # the ids that calls have
        self.tool_changes: list[MessageBlock] = []
        """The blocks that add tools or take them away."""
        if system:
            self._system(system, "system")
        for n, message in enumerate(messages):
            where = f"messages[{n}].content"
            match message.role:
                case "user":
                    self._user(message.content, where)
                case "assistant":
                    self._assistant(message.content, where)
                case "system":
                    self._system(message.content, where, _fields_of_message(message))

    def _add(self, item: items.Item, where: str, blocks: list[str] | None = None) -> None:
        self.items.append(item)
        self.places.append(where)
        self.blocks.append([] if blocks is None else blocks)

    def _system(self, content: MessageContent, where: str, fields: MessageBlock | None = None) -> None:
        """A message for each block, so that no server runs them together; the first has the fields."""
        start = len(self.items)
        if isinstance(content, str):
            self._add(items.Message(role="system", content=content), where)
        else:
            self._system_blocks(content, where)
        first = self.items[start] if len(self.items) > start else None
        if fields and isinstance(first, items.Message):
            self.items[start] = with_fields(first, fields)

    def _system_blocks(self, content: list[MessageBlock], where: str) -> None:
        for n, block in enumerate(content):
            place = f"{where}[{n}]"
            kind = _type(block, place)
            if kind in TOOL_CHANGES:
                self._add(tool_change(block, place), place)
                self.tool_changes.append(block)
                continue
            if kind != "text":
                raise _unknown(block, place)
            self._add(items.Message(role="system", content=[_text(block, place)]), place)

    # --- the user -----------------------------------------------------------------------------------------

    def _user(self, content: MessageContent, where: str) -> None:
        if isinstance(content, str):
            self._say("user", content, where)
            return
        parts: list[ContentPart] = []
        blocks: list[str] = []
        for n, block in enumerate(content):
            place = f"{where}[{n}]"
            kind = _type(block, place)
            if kind in ("tool_result", COMPACTION):
                if parts:
                    self._say("user", parts, where, blocks)
                parts, blocks = [], []
                if kind == COMPACTION:
                    self._summary(block, place)
                else:
                    self._result(block, place)
            else:
                parts.append(_part(block, place))
                blocks.append(place)
        if parts:
            self._say("user", parts, where, blocks)

    def _summary(self, block: MessageBlock, where: str) -> None:
        for item in summary_items(block, where):
            self._add(item, where)
        self.tool_changes += block.get("tool_changes") or []

    def _say(
        self, role: items.Role, content: str | list[ContentPart], where: str, blocks: list[str] | None = None
    ) -> None:
        self._add(items.Message(role=role, content=content), where, blocks)

    def _result(self, block: MessageBlock, where: str) -> None:
        given = block.get("content")
        blocks: list[str] = []
        output: str | list[ContentPart]
        if given is None or isinstance(given, str):
            output = check_length(given or "", f"{where}.content")
        elif isinstance(given, list):
            blocks = [f"{where}.content[{n}]" for n in range(len(given))]
            output = [_part(part, place) for part, place in zip(given, blocks, strict=True)]
        else:
            raise wrong_kind(f"{where}.content", "a string or a list of blocks", given)
        result = items.FunctionCallOutput(
            call_id=self._call_of(string(block, "tool_use_id", where)),
            output=output,
            status="incomplete" if flag(block, "is_error", where) else None,
        )
        more = without(block, "type", "tool_use_id", "content", "is_error")
        self._add(with_fields(result, more), where, blocks)

    # --- the model ----------------------------------------------------------------------------------------

    def _assistant(self, content: MessageContent, where: str) -> None:
        if isinstance(content, str):
            self._say("assistant", content, where)
            return
        texts: list[ContentPart] = []
        blocks: list[str] = []
        used: MessageBlock = {}
        for n, block in enumerate(content):
            place = f"{where}[{n}]"
            if _type(block, place) == "text":
                if not texts:
                    self._say("assistant", texts, where, blocks)
                texts.append(_output_text(block, place))
                blocks.append(place)
                continue
            texts, blocks = [], []
            if is_own_use(block):
                used = block
            elif block["type"] == COMPACTION:
                self._summary(block, place)
            elif (search := own_search(block, used)) is not None:
                self._add(search, place)
            else:
                item = (
                    self._read_call(block, place)
                    if block["type"] == "tool_use"
                    else _read_block(block, place)
                )
                self._add(item, place)

    def _read_call(self, block: MessageBlock, where: str) -> items.Item:
        given = required_object(block, "input", where)
        call = items.FunctionCall(
            call_id=self._new_call(string(block, "id", where)),
            name=string(block, "name", where),
            arguments=encode(given).decode(),
        )
        return with_fields(call, without(block, "type", "id", "name", "input"))

    def _new_call(self, tool_id: str) -> str:
        """A server that counts from zero in each answer has used it before: providers want each id once."""
        known = call_id(tool_id)
        if known in self._taken:
            known = unique_id(tool_id if tool_id not in self._calls else f"{len(self._taken)} {tool_id}")
        self._calls[tool_id] = known
        self._waiting.setdefault(tool_id, []).append(known)
        self._taken.add(known)
        return known

    def _call_of(self, tool_id: str) -> str:
        """The first call of this id that has no result yet."""
        if waiting := self._waiting.get(tool_id):
            self._calls[tool_id] = waiting.pop(0)
        return self._calls.get(tool_id) or call_id(tool_id)


def _fields_of_message(message: MessageParam) -> MessageBlock:
    found = extras(message)
    return {name: found[name] for name in MESSAGE_FIELDS if found.get(name) is not None}


def _read_block(block: MessageBlock, where: str) -> items.Item:
    match block["type"]:
        case "thinking":
            return _thinking(block, where)
        case "redacted_thinking":
            data = string(block, "data", where)
            if is_sealed(data):
                return items.Reasoning(summary=[], encrypted_content=data)
            return with_block(items.Reasoning(summary=[]), block)
    if not items.is_valid_extension_type(VENDOR + block["type"]):
        raise _unknown(block, where)
    return items.vendor_item(SLUG, block["type"], id="", data=block)


def _thinking(block: MessageBlock, where: str) -> items.Reasoning:
    """One that was signed here is opened for its model again; another's signature is that model's affair."""
    words, signature = string(block, "thinking", where), optional_string(block, "signature", where)
    content: list[ContentPart] | None = [ReasoningText(words)] if words else None
    if signature and is_sealed(signature):
        return items.Reasoning(summary=[], content=content, encrypted_content=signature)
    thought = items.Reasoning(summary=[], content=content)
    return with_block(thought, block) if signature else thought


def _output_text(block: MessageBlock, where: str) -> ContentPart:
    text = string(block, "text", where)
    cited = block.get("citations") or []
    if not isinstance(cited, list):
        raise wrong_kind(f"{where}.citations", "a list", cited)
    notes = [note for one in cited if (note := annotation(one, len(text))) is not None]
    return with_fields(OutputText(text, notes), without(block, "type", "text", "citations"))


# --- parts ------------------------------------------------------------------------------------------------


def _part(block: Any, where: str) -> ContentPart:
    match _type(block, where):
        case "text":
            return _text(block, where)
        case "image":
            return _image(block, where)
        case "document":
            return _document(block, where)
        case "search_result":
            found = _words(block.get("content"), f"{where}.content")
            title, source = (optional_string(block, name, where) or "" for name in ("title", "source"))
            heading = f"{title} ({source})".strip()
            return with_block(InputText(f"{heading}\n{found}"), block)
        case "tool_reference":
            tool = string(block, "tool_name", where)
            return with_block(InputText(f"The tool {tool} can be called now."), block)
    return _own(block, where)


def _own(block: MessageBlock, where: str) -> ContentPart:
    """What only this API has; a provider of another gets a receipt instead."""
    kind = VENDOR + block["type"]
    if not items.is_valid_extension_type(kind):
        raise _unknown(block, where)
    return Opaque.make(type=kind, data=block)


def _text(block: MessageBlock, where: str) -> InputText:
    return with_fields(InputText(string(block, "text", where)), without(block, "type", "text"))


def _image(block: MessageBlock, where: str) -> ContentPart:
    source = required_object(block, "source", where)
    match string(source, "type", f"{where}.source"):
        case "base64":
            url = _data_url(source, f"{where}.source")
        case "url":
            url = string(source, "url", f"{where}.source")
        case "file":
            return _read_upload(InputImage(), block, where)
        case _:
            return _own(block, where)
    return with_fields(InputImage(image_url=url), without(block, "type", "source"))


def _read_upload(part: InputImage | InputFile, block: MessageBlock, where: str) -> ContentPart:
    """A file that was uploaded: to the gateway, or to the provider, which is given the block as it is."""
    id = string(block["source"], "file_id", f"{where}.source")
    fields = without(block, "type", "source", "title")
    return with_extras(part, {"file_id": id, BLOCK: block} | ({FIELDS: fields} if fields else {}))


def _document(block: MessageBlock, where: str) -> ContentPart:
    """A file with bytes or an address is a file; one of words is words, which every model can read."""
    source, name = required_object(block, "source", where), optional_string(block, "title", where)
    context = optional_string(block, "context", where)
    optional_object(block, "citations", where)
    more = without(block, "type", "source", "title")
    match string(source, "type", f"{where}.source"):
        case "base64":
            data = _data_url(source, f"{where}.source")
            return with_fields(InputFile(filename=name, file_data=data), more)
        case "url":
            url = string(source, "url", f"{where}.source")
            return with_fields(InputFile(filename=name, file_url=url), more)
        case "file":
            return _read_upload(InputFile(filename=name), block, where)
        case "text":
            words = string(source, "data", f"{where}.source")
        case "content":
            words = _words(source.get("content"), f"{where}.source.content")
        case _:
            return _own(block, where)
    return with_block(InputText("\n".join(one for one in (name, context, words) if one)), block)


def _data_url(source: MessageBlock, where: str) -> str:
    return f"data:{string(source, 'media_type', where)};base64,{string(source, 'data', where)}"


def _words(content: Any, where: str) -> str:
    """The texts among these blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise wrong_kind(where, "a string or a list of blocks", content)
    blocks = [one for one in content if isinstance(one, dict) and one.get("type") == "text"]
    return "\n".join(string(one, "text", where) for one in blocks)


def _type(block: Any, where: str) -> str:
    if not isinstance(block, dict):
        raise wrong_kind(where, "an object", block)
    optional_object(block, "cache_control", where)
    return string(block, "type", where)


def _unknown(block: MessageBlock, where: str) -> SpecError:
    return wrong(f"{where}.type", f"a block of type {describe(block['type'])} cannot stand here")
