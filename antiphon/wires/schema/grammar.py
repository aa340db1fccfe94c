"""Checks the input of a custom tool against the grammar of the client: Lark's notation, or an expression.

Runs where it can be killed (`child`): to read a grammar, and to apply it, may take longer than anybody waits.
"""

import re
from functools import lru_cache
from typing import Any

import lark
import regex
from lark.exceptions import LarkError, UnexpectedInput

from antiphon.wires.schema.jobs import UNCHECKED

_EXPRESSION_SECONDS = 4.0
_LONGEST = 300
# A text, a comment or an expression in a grammar; only the last one is looked at.
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|#[^\n]*|/(?![*/])((?:\\.|[^/\\\n])+)/([imslux]*)')
# `.*` and the like, alone or in brackets: what is repeated, and no more often than never at the least.
_MAY_BE_EMPTY = re.compile(r"\(?(?:\?:)?(\.|\[(?:\\.|[^\]\\])+\]|\\[dDwWsS])\*\)?")


def objection(format: dict[str, Any], text: str) -> str | None:
    """Why the text does not follow the grammar, or why that cannot be known; None when it does."""
    definition, syntax = format.get("definition"), format.get("syntax")
    if not isinstance(definition, str):
        return f"{UNCHECKED}the tool has no grammar"
    if syntax == "regex":
        return _expression(definition, text)
    if syntax != "lark":
        return f"{UNCHECKED}unknown syntax {syntax!r}"
    try:
        parser = _parser(definition)
    except (LarkError, ValueError, re.error) as error:
        return f"{UNCHECKED}the grammar cannot be read, {str(error)[:_LONGEST]}"
    try:
        parser.parse(text)
    except UnexpectedInput as error:
        return _describe_error(error, text)
    except LarkError as error:
        return str(error)[:_LONGEST]
    return None


def _expression(definition: str, text: str) -> str | None:
    try:
        fits = regex.fullmatch(definition, text, timeout=_EXPRESSION_SECONDS) is not None
    except regex.error as error:
        return f"{UNCHECKED}the expression cannot be read, {error}"
    except TimeoutError:
        return f"{UNCHECKED}the expression takes too long"
    return None if fits else "it does not match the expression"


@lru_cache(maxsize=16)
def _parser(definition: str) -> lark.Lark:
    """A parser without a lexer of its own, since a grammar may be ambiguous about where a word ends."""
    return lark.Lark(
        _TOKEN.sub(_never_empty, definition), parser="earley", lexer="dynamic", ambiguity="forest"
    )


def _never_empty(token: re.Match[str]) -> str:
    """An expression that may match nothing, which this parser does not take, is made optional instead."""
    repeated = _MAY_BE_EMPTY.fullmatch(token[1] or "")
    return f"(/{repeated[1]}+/{token[2]})?" if repeated else token[0]


def _describe_error(error: UnexpectedInput, text: str) -> str:
    """Where the text goes wrong, for a model to understand."""
    if error.line < 1:
        return "it ends too early"
    lines = text.split("\n")
    line = lines[error.line - 1] if error.line <= len(lines) else ""
    return f"line {error.line} goes wrong at character {error.column}: {line[:_LONGEST]}"
