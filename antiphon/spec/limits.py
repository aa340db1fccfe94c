"""The numbers of the specification, as annotated types that msgspec enforces while it decodes."""

from typing import Annotated

from msgspec import Meta

MAX_BODY = 64 * 1024 * 1024

# Ours, not the specification's: what a hostile body may cost.
MAX_DEPTH = 200
MAX_VALUES = 250_000
MAX_ESCAPES = 2_000_000
"""Backslashes: what follows one is read far more slowly than plain text, in one call for a whole string."""
LARGE = 256 * 1024
"""A body above this is read item by item: together they take longer than the event loop can spare."""
MAX_PROBLEMS = 100
MAX_UNKNOWN_SHAPES = 256
MAX_UNKNOWN_FIELDS = 64
MAX_UNKNOWN_NAME = 256
MAX_INTEGER = 2**53 - 1

Text = Annotated[str, Meta(max_length=10_485_760)]
ImageUrl = Annotated[str, Meta(max_length=20_971_520)]
FileData = Annotated[str, Meta(max_length=33_554_432)]
CallId = Annotated[str, Meta(min_length=1, max_length=64)]
# `\Z`, because `$` would let a final line break through.
FunctionName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+\Z")]
Identifier = Annotated[str, Meta(max_length=64)]
MetadataKey = Annotated[str, Meta(max_length=64)]
MetadataValue = Annotated[str, Meta(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=16)]
Index = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
MaxOutputTokens = Annotated[int, Meta(ge=16, le=MAX_INTEGER)]
MaxToolCalls = Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
TopLogprobs = Annotated[int, Meta(ge=0, le=20)]
