"""Reads docstrings: the summary, and the description of each parameter.

Three styles are read: Google (`Args:`), NumPy (`Parameters` over dashes), reST (`:param x:`).
"""

import inspect
import re

_SECTION = re.compile(
    r"(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?|attributes):?\s*",
    re.IGNORECASE,
)
_ARGUMENTS = re.compile(r"(args|arguments|parameters|params):?\s*", re.IGNORECASE)
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?")
_REST = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")


def describe(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Returns the summary of a docstring, and its description of each parameter."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    return _summary(lines), _rest(lines) or _section(lines)


def _summary(lines: list[str]) -> str:
    found: list[str] = []
    for line in lines:
        if _SECTION.fullmatch(line) or line.startswith(":"):
            break
        found.append(line)
    paragraphs = re.split(r"\n\s*\n", "\n".join(found).strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _rest(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if match := _REST.match(line):
            name, found[match[1]] = match[1], match[2]
        elif line.startswith(":") or not line.strip():
            name = ""
        elif name:
            found[name] = f"{found[name]} {line.strip()}"
    return found


def _section(lines: list[str]) -> dict[str, str]:
    """The lines under the heading; those further in than the first go on with what is said."""
    start = next((n for n, line in enumerate(lines) if _ARGUMENTS.fullmatch(line)), None)
    if start is None:
        return {}
    body = lines[start + 1 :]
    underlined = bool(body) and set(body[0].strip()) == {"-"}
    body = body[1:] if underlined else body
    first = next((len(line) - len(line.lstrip()) for line in body if line.strip()), 0)
    found: dict[str, str] = {}
    name = ""
    for line in body:
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if depth < first or (depth == 0 and not underlined) or _SECTION.fullmatch(line):
            break
        match = (_NUMPY if underlined else _GOOGLE).fullmatch(line.strip()) if depth == first else None
        if match is not None:
            name = match[1]
            found[name] = "" if underlined else match[2]
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}
