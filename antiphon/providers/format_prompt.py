"""A format of the answer told in words, for models that cannot be held to it."""

from antiphon.spec.codec import encode
from antiphon.spec.tools import JsonObjectFormat, JsonSchemaFormat


def in_words(wanted: JsonObjectFormat | JsonSchemaFormat) -> str:
    if isinstance(wanted, JsonObjectFormat):
        return "Answer with one JSON object and nothing else."
    schema = encode(wanted.schema or {}).decode()
    return f"Answer with JSON that fits this JSON schema, and with nothing else:\n{schema}"
