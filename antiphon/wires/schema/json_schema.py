"""Checks values against JSON schemas of clients, within a budget of time and memory, without the network.

A schema can be written so that a few bytes cost hours: expressions that backtrack, references that double at
each level, lists whose every element is held against every other. So whatever is looked at counts as a
step, and steps and CPU time are limited together. One call into C cannot be stopped from here, such as the
compilation of an expression: where the budget forbids them, the check ends with `TooCostly`, and a child
process does it again (`child`), which can be killed.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import regex
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY as SPECIFICATIONS  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable

_EXPRESSION_SECONDS = 0.1
_LONGEST = 300

Errors = Iterator[jsonschema.ValidationError]
Keyword = Callable[[Any, Any, Any, Any], Errors | None]


class TooCostly(Exception):
    """The budget does not suffice to find out."""


class Budget:
    """How many steps one check may take, and how many seconds of CPU time; with expressions or without."""

    __slots__ = ("_ends", "expressions", "steps")

    def __init__(self, steps: int, seconds: float, *, expressions: bool) -> None:
        self.steps = steps
        self.expressions = expressions
        self._ends = time.thread_time() + seconds

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0 or time.thread_time() > self._ends:
            raise TooCostly


def objection_to_schema(schema: dict[str, Any], budget: Budget) -> str | None:
    """Why this is no schema; None when it is one. Raises `TooCostly`."""

    def is_expression(pattern: object) -> bool:
        if isinstance(pattern, str):
            if not budget.expressions:
                raise TooCostly
            budget.spend(len(pattern))
            regex.compile(pattern)
        return True

    formats = FormatChecker(())
    formats.checks("regex", regex.error)(is_expression)
    # The expressions of the specification itself are harmless.
    keywords = _bound_keywords(
        Draft202012Validator.VALIDATORS | {"uniqueItems": _unique_items(budget)}, budget
    )
    judge = _validator(keywords)(
        Draft202012Validator.META_SCHEMA, registry=SPECIFICATIONS, format_checker=formats
    )
    try:
        found = next(judge.iter_errors(schema), None)
    except RecursionError:
        return "it is nested too deeply"
    return None if found is None else str(best_match([found]).message)[:_LONGEST]


def objection(schema: dict[str, Any], value: Any, budget: Budget) -> str | None:
    """Why the value does not fit the schema, or why that cannot be known; None when it fits.

    Raises `TooCostly`.
    """
    keywords = _bound_keywords(Draft202012Validator.VALIDATORS | _expressions(budget), budget)
    try:
        found = next(_validator(keywords)(schema, registry=Registry()).iter_errors(value), None)
    except Unresolvable as missing:
        return f"the schema could not be applied: it refers to {missing.ref!r}, which is not in it"
    except (RecursionError, TimeoutError):
        raise TooCostly from None
    except regex.error as error:
        return f"the schema could not be applied: a pattern in it is wrong, {error}"
    return None if found is None else f"{found.json_path}: {found.message[:_LONGEST]}"


def _validator(keywords: dict[str, Keyword]) -> Any:
    """A class of validators that knows these keywords alone, also in a part that names its `$schema`."""
    make: Any = extend
    made = make(Draft202012Validator, keywords)

    def evolve(self: Any, **changes: Any) -> Any:
        for field in made.__attrs_attrs__:
            if field.init:
                changes.setdefault(field.alias, getattr(self, field.name))
        return made(**changes)

    made.evolve = evolve
    return made


def _bound_keywords(keywords: dict[str, Keyword], budget: Budget) -> dict[str, Keyword]:
    """The same keywords, each of which spends as much as it may look at."""

    def bound_keyword(keyword: Keyword) -> Keyword:
        def apply(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors | None:
            cost = 1
            if isinstance(wanted, dict | list | str):
                cost += len(wanted)
            if isinstance(instance, dict | list):
                cost += len(instance)
            budget.spend(cost)
            return keyword(validator, wanted, instance, schema)

        return apply

    return {name: bound_keyword(keyword) for name, keyword in keywords.items()}


def _unique_items(budget: Budget) -> Keyword:
    """jsonschema holds each element against each other; here every element is looked at once."""

    def key(value: Any) -> Any:
        budget.spend(1)
        if isinstance(value, list):
            return tuple(map(key, value))
        if isinstance(value, dict):
            return frozenset((name, key(one)) for name, one in value.items())
        return isinstance(value, bool), value  # to Python, but not to JSON, true is 1

    def unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
        if wanted and isinstance(instance, list) and len(set(map(key, instance))) < len(instance):
            yield jsonschema.ValidationError(f"{instance!r} has non-unique elements")

    return unique_items


def _expressions(budget: Budget) -> dict[str, Keyword]:
    """The keywords whose own implementation runs expressions, or compares, without a limit."""

    def matches(expression: str, text: str) -> bool:
        if not budget.expressions:
            raise TooCostly
        budget.spend(1)
        return regex.search(expression, text, timeout=_EXPRESSION_SECONDS) is not None

    def pattern(validator: Any, wanted: str, instance: Any, schema: Any) -> Errors:
        if isinstance(instance, str) and not matches(wanted, instance):
            yield jsonschema.ValidationError(f"{instance!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: dict[str, Any], instance: Any, schema: Any) -> Errors:
        if isinstance(instance, dict):
            for expression, subschema in wanted.items():
                for name, value in instance.items():
                    if matches(expression, name):
                        yield from validator.descend(value, subschema, path=name, schema_path=expression)

    def additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
        if not isinstance(instance, dict):
            return
        named, expressions = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, value in instance.items():
            if name in named or any(matches(expression, name) for expression in expressions):
                continue
            if wanted is False:
                yield jsonschema.ValidationError(f"{name!r} is not one of the properties")
            else:
                yield from validator.descend(value, wanted, path=name)

    def unevaluated_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors | None:
        # jsonschema looks for patterns anywhere below to find what has been evaluated.
        if not budget.expressions:
            raise TooCostly
        return Draft202012Validator.VALIDATORS["unevaluatedProperties"](validator, wanted, instance, schema)  # type: ignore[no-any-return]

    return {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
        "unevaluatedProperties": unevaluated_properties,
        "uniqueItems": _unique_items(budget),
    }
