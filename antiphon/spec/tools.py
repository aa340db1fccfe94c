"""Tools, the choice among them, and text formats."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from msgspec import Meta, Struct

from antiphon.spec.codec import Opaque
from antiphon.spec.limits import FunctionName

ToolChoiceMode = Literal["none", "auto", "required"]
Verbosity = Literal["low", "medium", "high"]


class FunctionTool(Struct, tag_field="type", tag="function", forbid_unknown_fields=True):
    """A function tool; all five keys are on the wire, also when the client sent only a name."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class CustomTool(Struct, tag_field="type", tag="custom", forbid_unknown_fields=True, omit_defaults=True):
    """A freeform tool: its input is one string, optionally held to a grammar."""

    name: str
    description: str | None = None
    format: dict[str, Any] | None = None


if TYPE_CHECKING:
    Tool = FunctionTool | CustomTool | Opaque
else:
    Tool = FunctionTool | CustomTool

TOOLS: dict[str, type[Struct]] = {str(cls.__struct_config__.tag): cls for cls in (FunctionTool, CustomTool)}


class FunctionToolChoice(
    Struct, tag_field="type", tag="function", omit_defaults=True, forbid_unknown_fields=True
):
    """A tool choice that makes the model call this function."""

    name: str = ""


if TYPE_CHECKING:
    ToolRef = FunctionToolChoice | Opaque
else:
    ToolRef = FunctionToolChoice


class AllowedTools(Struct, tag_field="type", tag="allowed_tools", forbid_unknown_fields=True):
    """A tool choice that restricts the model to some of the request's tools."""

    tools: Annotated[list[ToolRef], Meta(min_length=1, max_length=128)]
    mode: ToolChoiceMode = "auto"


if TYPE_CHECKING:
    ToolChoice = ToolChoiceMode | FunctionToolChoice | AllowedTools | Opaque
else:
    ToolChoice = ToolChoiceMode | FunctionToolChoice | AllowedTools
"""What `tool_choice` may be: a mode, one function, or a set of allowed tools."""


class TextFormat(Struct, tag_field="type", tag="text", forbid_unknown_fields=True, frozen=True):
    """Ask for plain text, the default."""


class JsonObjectFormat(Struct, tag_field="type", tag="json_object", forbid_unknown_fields=True):
    """Ask for an answer that is a JSON object, of no given schema."""


class JsonSchemaFormat(Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True):
    """Ask for an answer that fits this JSON Schema."""

    name: str = "response"
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool = False


Format = TextFormat | JsonObjectFormat | JsonSchemaFormat

FORMATS: dict[str, type[Struct]] = {str(cls.__struct_config__.tag): cls for cls in get_args(Format)}


class TextOptions(Struct, omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """How a response's text was asked for, as the response repeats it."""

    format: Format
    verbosity: Verbosity | None = None
