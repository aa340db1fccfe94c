"""`antiphon models show`: the facts about the models behind the configured names, with their sources."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from antiphon.cli.common import CommandFailed, add_command, add_config_option, load_config, not_installed

if TYPE_CHECKING:
    from antiphon.catalogue import ModelInfo, Prices
    from antiphon.cli.common import Commands
    from antiphon.config import Config, Target

SHOW: Final = """\
Prints the facts about a model with their sources: the configuration ([catalogue."PROVIDER/model"]), the list
of its provider, which it asks, or the table of prices of the package genai-prices. Other facts are unknown.
Of a name with several targets it prints each. Without a model it prints every configured name.

examples:
  antiphon models show
  antiphon models show openai/gpt-5-mini
"""

_UNKNOWN: Final = "unknown"


def add_to(group: "Commands") -> None:
    parser = add_command(group, "show", show, "print the facts about a model", SHOW)
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a configured name, or PROVIDER/model")
    add_config_option(parser)


def show(arguments: argparse.Namespace) -> int:
    config = load_config(arguments)
    from antiphon.config import UnknownModel

    names = config.aliases() if arguments.model is None else [arguments.model]
    try:
        shown = [each for name in names for each in _targets(config, name)]
    except UnknownModel as unknown:
        raise CommandFailed(f"antiphon: {unknown}") from None
    try:
        from antiphon.cli.provider_models import look_up

        found = look_up(config, [target for _, target in shown])
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from missing
    for title, target in shown:
        print("\n".join(_lines(title, found[target])))
    return 0


def _targets(config: "Config", name: str) -> "Iterator[tuple[str, Target]]":
    """Returns each target of a name with its title."""
    first, route = config.resolve(name), config.route(name)
    targets = (first,) if route is None else route.targets
    for n, target in enumerate(targets, 1):
        title = name if name == str(target) else f"{name} = {target}"
        yield (title if len(targets) == 1 else f"{title} ({n} of {len(targets)})"), target
    if route is not None and route.spare is not None:
        yield f"{name} = {route.spare} (context_window_fallback)", route.spare


def _lines(title: str, info: "ModelInfo") -> Iterator[str]:
    yield title
    for field, label, value in (
        ("context_window", "context window", _tokens(info.context_window)),
        ("output_limit", "output limit", _tokens(info.output_limit)),
        ("input_modalities", "input", _join_words(info.input_modalities and sorted(info.input_modalities))),
        ("tools", "tools", _yes(info.tools)),
        ("json_schema", "JSON schema", _yes(info.json_schema)),
        ("reasoning_levels", "reasoning", _join_words(info.reasoning_levels)),
        ("prices", "prices", _prices(info.prices)),
    ):
        source: str = info.sources.get(field, "")
        if source == "genai-prices":
            source += f" ({info.price_model})"
        yield f"  {label:<15} {value:<24} {source}".rstrip()


def _tokens(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,} tokens"


def _yes(said: bool | None) -> str:
    return _UNKNOWN if said is None else "yes" if said else "no"


def _join_words(words: "tuple[str, ...] | list[str] | frozenset[str] | None") -> str:
    return _UNKNOWN if words is None else ", ".join(words) or "none"


def _prices(prices: "Prices | None") -> str:
    """Formats the prices in USD for a million tokens of input and of output."""
    if prices is None:
        return _UNKNOWN
    parts = {"in": prices.input, "cached": prices.cached_input, "out": prices.output}
    return ", ".join(f"{name} ${rate:g}" for name, rate in parts.items() if rate is not None) or _UNKNOWN
