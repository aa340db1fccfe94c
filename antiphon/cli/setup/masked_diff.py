"""Makes the diff of a client's file and masks the secrets on both sides."""

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

MASK: Final = "***"
_WORD: Final = r"(?:key|token|secret|passw|passphrase|credential|authorization|cookie|bearer)"
_SAID: Final = rf"""{_WORD}\w*["']?\s*[:=]\s*"""
_SHAPE: Final = (
    r"\b(?:sk|pk|rk)-\w|\bgh[opsu]_\w|\bgithub_pat_|\bxox[a-z]-|\bAKIA\w|\bAIza\w|\beyJ\w|\bbearer\s+\S"
    r"|://[^/\s@]*:[^/\s@]*@"
)
_NAME: Final = re.compile(rf"{_WORD}|headers?$", re.I)
_LOOK: Final = re.compile(rf"{_SHAPE}|{_SAID}\S", re.I)
_IN_COMMENT: Final = re.compile(rf"{_WORD}\w*|(?=(?:{_SHAPE}))", re.I)
"""What stands in a comment before a secret; the secret may be on a later line."""
_REFERENCE: Final = re.compile(r"\$?\{[\w:.-]+\}|\$\w+")
"""A value that only says where the secret is."""
_LONG: Final = 8
"""A secret of so many characters is masked wherever else it stands; a shorter one could be a word."""

TextRange = tuple[int, int]


class FileScalar(NamedTuple):
    """A value that is no list and no table, with the names on its path and its place in the text."""

    names: tuple[str, ...]
    value: Any
    span: TextRange


class DiffSide(NamedTuple):
    """A text with its parsed values and comments; values in `own` belong to the program, and may be shown."""

    text: str
    scalars: list[FileScalar]
    comments: list[TextRange]
    own: list[TextRange]


def masked_diff(name: str, before: DiffSide, after: DiffSide, key: str = "") -> str:
    """Returns the lines that differ, with one line around them; masks `key` too, which the program writes."""
    olds, news = _masked_lines(before, key), _masked_lines(after, key)
    real = SequenceMatcher(None, _lines(before.text), _lines(after.text))
    lines = [f"--- {name}", f"+++ {name}"]
    for group in real.get_grouped_opcodes(1):
        (_, old, _, new, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        lines.append(f"@@ -{_range(old, old_end)} +{_range(new, new_end)} @@")
        for kind, i, i_end, j, j_end in group:
            if kind == "equal":
                lines += [f" {line}" for line in olds[i:i_end]]
                continue
            lines += [f"-{line}" for line in olds[i:i_end]]
            lines += [f"+{line}" for line in news[j:j_end]]
    text = "\n".join(lines)
    for secret in sorted(_long_secrets(before, key), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _long_secrets(side: DiffSide, key: str) -> set[str]:
    found = {str(one.value) for one in side.scalars if _is_secret(one)}
    return {one for one in found if len(one) >= _LONG} | ({key} if key else set())


def _masked_lines(side: DiffSide, key: str) -> list[str]:
    """The lines of the text, each at its place, with its secrets masked."""
    text, pieces, at = side.text, [], 0
    for start, end in sorted(_secret_spans(side, key)):
        if start < at:
            continue
        # A text of several lines stays as many, so that each line keeps its number.
        hidden = "\n".join(f'"{MASK}"' if line.strip() else line for line in text[start:end].split("\n"))
        pieces += [text[at:start], hidden]
        at = end
    return _lines("".join(pieces) + text[at:])


def _secret_spans(side: DiffSide, key: str) -> Iterator[TextRange]:
    for one in side.scalars:
        is_own = any(start <= one.span[0] and one.span[1] <= end for start, end in side.own)
        if (_is_secret(one) and not is_own) or (key and key in str(one.value)):
            yield one.span
    for start, end in _comment_blocks(side):
        if found := _IN_COMMENT.search(side.text, start, end):
            yield found.end(), end


def _comment_blocks(side: DiffSide) -> Iterator[TextRange]:
    """Returns the comments of a side; comments with only blanks between them are one block."""
    start = end = -1
    for one in side.comments:
        if start >= 0 and side.text[end : one[0]].isspace():
            end = one[1]
            continue
        if start >= 0:
            yield start, end
        start, end = one
    if start >= 0:
        yield start, end


def _is_secret(one: FileScalar) -> bool:
    """Returns whether the name or the look of a value marks it as a secret; a limit of tokens is none."""
    if isinstance(one.value, bool) or not isinstance(one.value, str | int | float) or one.value == "":
        return False
    text = str(one.value)
    if _REFERENCE.fullmatch(text):
        return False
    if one.names and one.names[-1].lower().endswith("tokens") and text.isdecimal():
        return False
    return any(_NAME.search(name) for name in one.names) or bool(_LOOK.search(text))


def leaves(names: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Returns the scalars in a value with the names on their paths; `--api-key` names the word after it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves((*names, str(name)), inner)
    elif isinstance(value, list):
        for inner, flag in zip(value, flags(value), strict=True):
            yield from leaves((*names, *flag), inner)
    else:
        yield names, value


def flags(values: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """Returns for each member of a list the command-line option before it, if there is one."""
    before: Any = None
    for value in values:
        yield (before,) if isinstance(before, str) and before.startswith("-") else ()
        before = value


def _lines(text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _range(start: int, end: int) -> str:
    """Formats a range of lines as a diff does."""
    length = end - start
    first = start + 1 if length else start
    return f"{first}" if length == 1 else f"{first},{length}"
