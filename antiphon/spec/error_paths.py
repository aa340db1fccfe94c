"""Turn msgspec's errors into sentences: where (`param`), what was expected, and what came."""

import json as stdlib_json
import re
import types
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Raw, structs

from antiphon.spec import codec
from antiphon.spec.codec import UNREADABLE, encode, first_byte
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param, invalid_request
from antiphon.spec.limits import LARGE, MAX_DEPTH
from antiphon.spec.long_json import NUMBER_TOO_LONG, readable_parts, text_pieces

_STEP = re.compile(r"\[(?:\d+|\.\.\.)\]|\.[^.\[\]]+")
_ENTRY = "[...]"
_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_NUMBER = re.compile(rb"[-+.0-9eE]+")
_KINDS = {codec.BRACE: "an object", codec.BRACKET: "a list", codec.QUOTE: "a string"}
_WORDS = {">=": "at least", "<=": "at most"}
_TOO_BIG = {
    "Number out of range": "a number that a 64-bit float can hold",
    NUMBER_TOO_LONG: "an integer of at most 4,300 digits",
}
_LIMITED = re.compile(r"Expected `(\w+)` (>=|<=) (-?\d+)")
_SIZED = re.compile(r"Expected `(\w+)` of length (>=|<=) (\d+)")
_MATCHING = re.compile(r"Expected `str` matching regex '(.+)'")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_TYPED = re.compile(r"Expected `(.+?)`")
_BYTE = re.compile(r"\(byte (\d+)\)")
_FORM = re.compile(rb"\s*([A-Za-z_]\w*)=")
_LETTER = re.compile(rb"\s*[A-Za-z]")
_GLIMPSE = 100
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def wrong(param: str, message: str, code: str = "invalid_value") -> SpecError:
    """The error for a wrong field, or with an empty `param` for a wrong body."""
    payload = invalid_param(param, message) if param else invalid_request(f"the body: {message}")
    return SpecError(payload.with_code(code))


def missing(path: str, name: str) -> SpecError:
    return wrong(join(path, name), f"`{name}` is missing", "missing_field")


def too_deep(path: str) -> SpecError:
    message = f"the JSON is nested too deeply; the limit is {MAX_DEPTH} levels"
    return SpecError(ErrorPayload("invalid_request", message, "too_deep", path or None))


def join(path: str, name: str) -> str:
    name = name if len(name) <= 64 else f"{name[:64]}…"
    return f"{path}.{name}" if path else name


def decode_error(error: Exception, type_: Any, raw: bytes | Raw, path: str, expected: str = "") -> SpecError:
    """The error for `raw` at `path`, which is no `type_`; `expected` describes the type."""
    if isinstance(error, RecursionError):
        return too_deep(path)
    if not isinstance(error, msgspec.ValidationError):
        return _half_pair(raw, path) or _malformed_error(error, raw, path)
    what, steps = _split_message(str(error))
    if _ENTRY in steps and (culprit := _entry(type_, raw, path)):
        return culprit
    steps = list(takewhile(lambda step: step != _ENTRY, steps))
    param = (path + "".join(steps)).removeprefix(".")
    if found := _MISSING.match(what):
        return missing(param, found[1])
    is_inside = what in _TOO_BIG and first_byte(raw) in (codec.BRACE, codec.BRACKET)
    got = "a value with a number out of range" if is_inside else describe_raw(raw, steps)
    return wrong(param, f"expected {expected or _describe_expected(what, _inner(type_, steps))}, got {got}")


def _split_message(message: str) -> tuple[str, list[str]]:
    """Split msgspec's message into the mistake and the path: `.name`, `[0]`, and `[...]` for a mapping."""
    what, _, where = message.rpartition(" - at `")
    if not where.endswith("`") or not what:
        return message, []
    return what, [_ENTRY] if where.startswith("key`") else _STEP.findall(where[:-1])


def _inner(type_: Any, steps: Sequence[str]) -> Any:
    """The type of what is at the end of the way."""
    for step in steps:
        found = [_member(one, step) for one in alternatives(type_)]
        type_ = next((one for one in found if one is not None), Any)
    return type_


def _member(type_: Any, step: str) -> Any:
    if get_origin(type_) is list:
        return get_args(type_)[0]
    if not isinstance(type_, type) or not issubclass(type_, msgspec.Struct):
        return None
    return next((one.type for one in structs.fields(type_) if f".{one.encode_name}" == step), None)


def _malformed_error(error: Exception, raw: bytes | Raw, path: str) -> SpecError:
    if isinstance(error, UnicodeError):
        why, code = "not valid UTF-8", "invalid_utf8"
    else:
        detail = str(error).removeprefix("JSON is malformed: ")
        detail = detail.replace("Input data was truncated", "it is cut off")
        advice = _advice(raw, detail)
        # Below the top, msgspec counts bytes from the start of the field.
        detail = re.sub(r" \(byte \d+\)", "", detail) if path else detail
        why, code = f"not valid JSON: {detail}{advice}", "invalid_json"
    payload = invalid_param(path, f"this is {why}") if path else invalid_request(f"the body is {why}")
    return SpecError(payload.with_code(code))


def _advice(raw: bytes | Raw, detail: str) -> str:
    """How to write what was taken for JSON: the words of Python, a form, or plain text."""
    at = _BYTE.search(detail)
    here = bytes(memoryview(raw)[int(at[1]) :][:5]) if at else b""
    if here.startswith(b"'"):
        return "; names and texts stand in double quotes"
    if here.startswith((b"True", b"False", b"None")):
        return "; JSON writes true, false and null"
    head = bytes(memoryview(raw)[:_GLIMPSE])
    if not _LETTER.match(head):
        return ""
    form = _FORM.match(head)
    return f'; expected an object, such as {{"{form[1].decode() if form else "input"}": "…"}}'


def _half_pair(raw: bytes | Raw, path: str) -> SpecError | None:
    """The error for the string with half of a surrogate pair, if nothing else makes the JSON malformed."""
    for text in readable_parts(raw):
        if _SURROGATE_ESCAPE.search(text) and (found := _half_pair_in(text, path)):
            return found
    return None


def _half_pair_in(raw: bytes, path: str) -> SpecError | None:
    try:
        for where, value in walk(raw, path):
            names = [name for name, _ in value] if isinstance(value, tuple) else []
            for text in [value] if isinstance(value, str) else names:
                if found := _SURROGATE.search(text):
                    what = "string" if isinstance(value, str) else "field name"
                    half = f"\\u{ord(found[0]):04x}"
                    message = f"a {what} holds {half}, half of a surrogate pair, which is not a character"
                    return SpecError(ErrorPayload("invalid_request", message, "invalid_utf8", where or None))
    except (ValueError, RecursionError):
        pass  # malformed in another way too
    return None


def walk(raw: bytes, path: str) -> Iterator[tuple[str, Any]]:
    """Every value with its path. An object is a tuple of pairs, in which a name can stand twice."""
    document = stdlib_json.loads(raw, object_pairs_hook=tuple, parse_constant=_no_json)
    entered: list[Iterator[tuple[str, Any]]] = [iter([(path, document)])]
    while entered:
        for where, value in entered[-1]:
            yield where, value
            if isinstance(value, list | tuple):
                entered.append(_inside(value, where))
                break
        else:
            entered.pop()


def _inside(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        return ((f"{path}[{n}]", one) for n, one in enumerate(value))
    return ((join(path, name), one) for name, one in value)


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _entry(type_: Any, raw: bytes | Raw, path: str) -> SpecError | None:
    """The entry of a mapping that is wrong; msgspec does not say which one it means."""
    mapping = next((one for one in alternatives(type_) if get_origin(one) is dict), None)
    if mapping is None:
        return None
    key_type, value_type = get_args(mapping)
    for name, value in msgspec.json.decode(raw, type=dict[str, Raw]).items():
        try:
            msgspec.convert(name, key_type)
        except msgspec.ValidationError as error:
            expected = _describe_expected(str(error), key_type)
            return wrong(path, f"expected each key to be {expected}, got {describe(name)}")
        try:
            msgspec.json.decode(value, type=value_type)
        except UNREADABLE as error:
            return decode_error(error, value_type, value, join(path, name))
    return None


def describe_raw(raw: bytes | Raw, steps: Sequence[str] = ()) -> str:
    """Describe in a few words what stands at this place of this JSON."""
    try:
        value = _long(raw) if len(raw) > LARGE else msgspec.json.decode(raw)
    except (*UNREADABLE, ValueError) as error:
        return _unreadable(error, raw)
    for n, step in enumerate(steps):
        if isinstance(value, Raw):
            return describe_raw(value, steps[n:])
        try:
            value = value[step[1:]] if step.startswith(".") else value[int(step[1:-1])]
        except (LookupError, TypeError, ValueError):
            break
    if isinstance(value, Raw):
        return describe_raw(value)
    return value if isinstance(value, str) and len(raw) > LARGE else describe(value)


def _unreadable(error: Exception, raw: bytes | Raw) -> str:
    """Describe a value that cannot be decoded: its kind, or that a number in it is too large."""
    text = bytes(memoryview(raw)[:41])
    if _NUMBER.fullmatch(text):
        return text.decode() if len(text) <= 40 else "a very long number"
    is_malformed = isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError)
    if is_malformed or isinstance(error, RecursionError):
        return _KINDS.get(first_byte(raw), "something that is not JSON")
    return "a value with a number out of range"


def _long(raw: bytes | Raw) -> Any:
    """A long value with what it holds undecoded; of a string, a description."""
    match first_byte(raw):
        case codec.QUOTE:
            return f"a string of {sum(map(len, text_pieces(raw))):,} characters"
        case codec.BRACE:
            return msgspec.json.decode(raw, type=dict[str, Raw])
        case codec.BRACKET:
            return msgspec.json.decode(raw, type=list[Raw])
    raise ValueError("a long number")


def _describe_expected(what: str, type_: Any) -> str:
    if what.startswith("Invalid enum value") and (values := literals(type_)):
        return "one of " + ", ".join(map(repr, values))
    if found := _LIMITED.match(what):
        return f"{_kind_name(found[1])} of {_WORDS[found[2]]} {int(found[3]):,}"
    if found := _SIZED.match(what):
        unit = "characters" if found[1] == "str" else "entries"
        return f"{_kind_name(found[1])} of {_WORDS[found[2]]} {int(found[3]):,} {unit}"
    if found := _MATCHING.match(what):
        return f"a string that matches {found[1]}".replace(r"\\Z", "$")
    if what in _TOO_BIG:
        return _TOO_BIG[what]
    found = _TYPED.match(what)
    if found is None:
        return "another value"  # msgspec says it in words that we do not know
    return " or ".join(map(_kind_name, found[1].split("|")))


def _kind_name(kind: str) -> str:
    return _NAMES.get(kind.strip(), kind.strip())


def literals(type_: Any) -> tuple[Any, ...]:
    """The values that a Literal allows, also inside a list or a union."""
    found: list[Any] = []
    for one in alternatives(type_):
        if get_origin(one) is Literal:
            found += get_args(one)
        elif get_origin(one) is list:
            found += literals(get_args(one)[0])
    return tuple(found)


def alternatives(type_: Any) -> list[Any]:
    """The members of a union, without their annotations; a plain type is its own only member."""
    if get_origin(type_) is Annotated:
        return alternatives(get_args(type_)[0])
    if get_origin(type_) in (Union, types.UnionType):
        return [a for one in get_args(type_) for a in alternatives(one)]
    return [type_]


def describe(value: Any) -> str:
    """Describe a value in a few words; of a long one only its length."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            text = encode(value).decode()
            return text if len(text) <= 40 else "a very long number"
        case str() if len(value) <= 60:
            return repr(value)
        case str():
            return f"a string of {len(value):,} characters"
        case list():
            return f"a list of {len(value):,}"
    return f"an object of {len(value):,} fields"
