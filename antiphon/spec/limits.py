"""The numbers of the specification, as annotated types that msgspec enforces while it decodes."""

import re
from typing import Annotated

from msgspec import Meta

MAX_BODY = 36 * 1024 * 1024

# Ours, not the specification's: what a hostile body may cost.
MAX_DEPTH = 200
MAX_VALUES = 250_000
MAX_ESCAPES = 2_000_000
"""Backslashes: what follows one is read far more slowly than plain text, in one call for a whole string."""
MAX_OUTSIDE = 8 * 1024 * 1024
"""Bytes outside of strings: spaces and digits, of which any number could stand between two values."""
MAX_FIELD_NAME = 64 * 1024
MAX_SETTINGS = 4 * 1024 * 1024
"""Bytes of a request without its input: most of it is repeated in the response, in each of its states."""
LARGE = 256 * 1024
"""A body above this is read item by item: together they take longer than the event loop can spare."""
MAX_PROBLEMS = 100
MAX_UNKNOWN_SHAPES = 256
MAX_UNKNOWN_FIELDS = 64
MAX_UNKNOWN_NAME = 256
MAX_INTEGER = 2**53 - 1
"""The largest whole number that every JSON parser reads alike; no count or index comes near it."""

MAX_TEXT = 10_485_760
MAX_NAME = 64
MAX_CALL_ID = 64
MAX_ALLOWED_TOOLS = 128
_NAME_CHARACTERS = "a-zA-Z0-9_-"
NAME = re.compile(f"[{_NAME_CHARACTERS}]{{1,{MAX_NAME}}}")
"""The name of a function, or of a format; for `fullmatch`."""
NOT_IN_NAME = re.compile(f"[^{_NAME_CHARACTERS}]")

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
ImageUrl = Annotated[str, Meta(max_length=20_971_520)]
FileData = Annotated[str, Meta(max_length=33_554_432)]
CallId = Annotated[str, Meta(min_length=1, max_length=MAX_CALL_ID)]
# `\Z`, because `$` would let a final line break through.
FunctionName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=rf"^[{_NAME_CHARACTERS}]+\Z")]
MAX_IDENTIFIER = 64
Identifier = Annotated[str, Meta(max_length=MAX_IDENTIFIER)]
SafetyIdentifier = Annotated[str, Meta(max_length=128)]
"""Only some dialects take more than `MAX_IDENTIFIER` characters."""
StreamId = Annotated[str, Meta(min_length=1, max_length=256)]
MetadataKey = Annotated[str, Meta(max_length=64)]
MetadataValue = Annotated[str, Meta(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=16)]
Index = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
MaxOutputTokens = Annotated[int, Meta(ge=16, le=MAX_INTEGER)]
MaxToolCalls = Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
TopLogprobs = Annotated[int, Meta(ge=0, le=20)]
