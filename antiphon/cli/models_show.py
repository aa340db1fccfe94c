"""`antiphon models show`: what is known of the models behind the configured names, and by whom."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from antiphon.cli.common import CommandFailed, add_command, add_config_option, load_config, not_installed

if TYPE_CHECKING:
    from antiphon.catalogue import ModelInfo, Prices
    from antiphon.cli.common import Commands
    from antiphon.config import Target

SHOW: Final = """\
Prints what is known of a model, and by whom: the configuration ([catalogue."PROVIDER/model"]), the list of
its provider, which is asked, or the table of prices of the package genai-prices. What nobody says is unknown.
Without a model it prints every configured name.

examples:
  antiphon models show
  antiphon models show openai/gpt-5-mini
"""

_UNKNOWN: Final = "unknown"


def add_to(group: "Commands") -> None:
    parser = add_command(group, "show", show, "print what is known of a model", SHOW)
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a configured name, or PROVIDER/model")
    add_config_option(parser)


def show(arguments: argparse.Namespace) -> int:
    config = load_config(arguments)
    from antiphon.config import UnknownModel

    names = config.aliases() if arguments.model is None else [arguments.model]
    try:
        targets = {name: config.resolve(name) for name in names}
    except UnknownModel as unknown:
        raise CommandFailed(f"antiphon: {unknown}") from None
    try:
        from antiphon.cli.model_lookup import look_up

        found = look_up(config, targets)
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from missing
    for name, target in targets.items():
        print("\n".join(_lines(name, target, found[name])))
    return 0


def _lines(name: str, target: "Target", info: "ModelInfo") -> Iterator[str]:
    yield name if name == "/".join(target) else f"{name} = {'/'.join(target)}"
    for field, title, value in (
        ("context_window", "context window", _tokens(info.context_window)),
        ("output_limit", "output limit", _tokens(info.output_limit)),
        ("input_modalities", "input", _listed(info.input_modalities and sorted(info.input_modalities))),
        ("tools", "tools", _yes(info.tools)),
        ("json_schema", "JSON schema", _yes(info.json_schema)),
        ("reasoning_levels", "reasoning", _listed(info.reasoning_levels)),
        ("prices", "prices", _prices(info.prices)),
    ):
        source: str = info.sources.get(field, "")
        if source == "genai-prices":
            source += f" ({info.price_model})"
        yield f"  {title:<15} {value:<24} {source}".rstrip()


def _tokens(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,} tokens"


def _yes(said: bool | None) -> str:
    return _UNKNOWN if said is None else "yes" if said else "no"


def _listed(words: "tuple[str, ...] | list[str] | frozenset[str] | None") -> str:
    return _UNKNOWN if words is None else ", ".join(words) or "none"


def _prices(prices: "Prices | None") -> str:
    """In USD for a million tokens: what goes in, and what comes out."""
    if prices is None:
        return _UNKNOWN
    parts = {"in": prices.input, "cached": prices.cached_input, "out": prices.output}
    return ", ".join(f"{name} ${rate:g}" for name, rate in parts.items() if rate is not None) or _UNKNOWN
