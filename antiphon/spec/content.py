"""Content parts: what messages, reasoning items and tool outputs are made of."""

from typing import TYPE_CHECKING, Literal, get_args

from msgspec import UNSET, Struct, UnsetType, field

from antiphon.spec.codec import Opaque
from antiphon.spec.limits import FileData, ImageUrl, Index, Text

ImageDetail = Literal["low", "high", "auto"]


class Part(Struct, tag_field="type", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    pass


class InputText(Part, tag="input_text"):
    """A text in a message that is not the model's own."""

    text: Text


class InputImage(Part, tag="input_image", omit_defaults=False):
    """An image in a message, by its URL; a data URL holds the image itself."""

    image_url: ImageUrl | None = None
    detail: ImageDetail = "auto"


class InputFile(Part, tag="input_file"):
    """A file in a message, by its URL or with its data."""

    filename: str | None = None
    file_data: FileData | None = None
    file_url: str | None = None


class InputVideo(Part, tag="input_video"):
    """A video in a message, by its URL."""

    video_url: str


class UrlCitation(Part, tag="url_citation"):
    """An annotation: this part of a text comes from that page."""

    url: str
    title: str
    start_index: Index
    end_index: Index


class TopLogProb(Struct, forbid_unknown_fields=True):
    """A token that could have stood there, and its log probability."""

    token: str
    logprob: float
    bytes: list[int] = field(default_factory=list)


class LogProb(Struct, forbid_unknown_fields=True):
    """A token of the answer, its log probability, and the likeliest alternatives."""

    token: str
    logprob: float
    bytes: list[int] = field(default_factory=list)
    top_logprobs: list[TopLogProb] = field(default_factory=list)


if TYPE_CHECKING:
    Annotation = UrlCitation | Opaque
else:
    Annotation = UrlCitation


class OutputText(Part, tag="output_text", omit_defaults=False):
    """A text of the model, with its annotations."""

    text: Text
    annotations: list[Annotation] = field(default_factory=list)
    logprobs: list[LogProb] | UnsetType = UNSET


class Refusal(Part, tag="refusal"):
    """The model declines, in its own words."""

    refusal: Text


class TextContent(Part, tag="text"):
    text: Text


class SummaryText(Part, tag="summary_text"):
    """A part of a reasoning summary."""

    text: Text


class ReasoningText(Part, tag="reasoning_text"):
    """A piece of raw reasoning."""

    text: Text


_Known = (
    InputText
    | InputImage
    | InputFile
    | InputVideo
    | OutputText
    | Refusal
    | TextContent
    | SummaryText
    | ReasoningText
)

PARTS: dict[str, type[Part]] = {str(cls.__struct_config__.tag): cls for cls in get_args(_Known)}

# msgspec cannot mix Structs with another class in a union; the reader puts Opaque parts in by hand.
if TYPE_CHECKING:
    ContentPart = _Known | Opaque
else:
    ContentPart = _Known
"""Anything that a message or a reasoning item can hold."""


def text_of(content: "str | list[ContentPart]") -> str:
    """All the words in a content, in order, without its media."""
    if isinstance(content, str):
        return content
    words = []
    for part in content:
        if isinstance(part, (InputText, OutputText, TextContent, SummaryText, ReasoningText)):
            words.append(part.text)
        elif isinstance(part, Refusal):
            words.append(part.refusal)
    return "".join(words)
