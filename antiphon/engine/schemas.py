"""JSON schemas from strangers, applied within bounds: never the network, never more than a moment.

A schema can be written so that a few bytes of answer cost hours: expressions that backtrack, references
that double at each level. So every keyword counts as a step, and every expression has a time limit.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import regex
from jsonschema import Draft202012Validator
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

_MOST_STEPS = 100_000
_MOST_SECONDS = 1.0
_EXPRESSION_SECONDS = 0.1
_LONGEST = 300

Errors = Iterator[jsonschema.ValidationError]
Keyword = Callable[[Any, Any, Any, Any], Errors | None]


class _TooCostly(Exception):
    pass


def objection_to_schema(schema: dict[str, Any]) -> str | None:
    """Why this is no schema; None when it is one."""
    try:
        Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return error.message[:_LONGEST]
    except RecursionError:
        return "it is nested too deeply"
    return None


def objection(schema: dict[str, Any], value: Any) -> str | None:
    """Why the value does not fit the schema, or why that could not be found out; None when it fits."""
    keywords = _bounded(Draft202012Validator.VALIDATORS | _EXPRESSIONS)
    make: Any = extend
    try:
        found = next(
            make(Draft202012Validator, keywords)(schema, registry=Registry()).iter_errors(value), None
        )
    except Unresolvable as missing:
        return f"the schema could not be applied: it refers to {missing.ref!r}, which is not in it"
    except (_TooCostly, RecursionError, TimeoutError):
        return "the schema could not be applied: it takes too long to check"
    except regex.error as error:
        return f"the schema could not be applied: a pattern in it is wrong, {error}"
    return None if found is None else f"{found.json_path}: {found.message[:_LONGEST]}"


def _bounded(keywords: dict[str, Keyword]) -> dict[str, Keyword]:
    """The same keywords, which together may be applied only so often and for so long."""
    steps = 0
    deadline = time.monotonic() + _MOST_SECONDS

    def bounded(keyword: Keyword) -> Keyword:
        def apply(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors | None:
            nonlocal steps
            steps += 1
            if steps > _MOST_STEPS or time.monotonic() > deadline:
                raise _TooCostly
            return keyword(validator, wanted, instance, schema)

        return apply

    return {name: bounded(keyword) for name, keyword in keywords.items()}


def _matches(expression: str, text: str) -> bool:
    return regex.search(expression, text, timeout=_EXPRESSION_SECONDS) is not None


def _pattern(validator: Any, wanted: str, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, str) and not _matches(wanted, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {wanted!r}")


def _pattern_properties(validator: Any, wanted: dict[str, Any], instance: Any, schema: Any) -> Errors:
    if isinstance(instance, dict):
        for expression, subschema in wanted.items():
            for name, value in instance.items():
                if _matches(expression, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=expression)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    named, expressions = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in named or any(_matches(expression, name) for expression in expressions):
            continue
        if wanted is False:
            yield jsonschema.ValidationError(f"{name!r} is not one of the properties")
        else:
            yield from validator.descend(value, wanted, path=name)


def _unevaluated_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors | None:
    """jsonschema looks for patterns anywhere below to find what has been evaluated, so there must be none."""
    if "patternProperties" in str(validator.schema):
        raise _TooCostly
    return Draft202012Validator.VALIDATORS["unevaluatedProperties"](validator, wanted, instance, schema)  # type: ignore[no-any-return]


# The keywords whose own implementation runs expressions without a limit.
_EXPRESSIONS: dict[str, Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
}
