"""`antiphon models`: the files of embedded models on this machine."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from antiphon.cli import models_show
from antiphon.cli.common import CommandFailed, add_command, add_config_option, add_group, load_config

if TYPE_CHECKING:
    from antiphon.cli.common import Commands

ABOUT: Final = """\
The embedded model is a GGUF file in the user's cache folder (ANTIPHON_MODELS_DIR names another). It is
fetched when it is first used; these commands do it beforehand, and manage what is there.

A model is named by its short name, by the path of a GGUF file, or by the http or https address of one.
Which one the server uses is set by [local] model in the configuration.

Models with a name come from the hub at huggingface.co; the environment variable HF_ENDPOINT names a mirror.
"""

LIST: Final = """\
Prints every model that is here or can be fetched by its name: size, memory, context, tools, thinking,
licence and file. The memory is about what [local] slots and context of the configuration make of it.
Every model calls tools: by the template that it was trained with, or held to a grammar by the gateway.

example:
  antiphon models list
"""

PULL: Final = """\
Fetches a model, or links the file at a path, and prints where it is. Without a name it takes the one that
the server would use. Run the command again to resume a download that broke off.

A model with a name is checked against its SHA-256. Of an address, the fragment #sha256=... is checked, or
what the hub says of its file.

examples:
  antiphon models pull
  antiphon models pull qwen3-0.6b
  antiphon models pull qwen3-0.6b --from ~/Downloads/Qwen3-0.6B-Q8_0.gguf
  antiphon models pull https://example.com/some-model.gguf
"""

REMOVE: Final = """\
Deletes the file of a model that was fetched. Of a file of your own, it only forgets where that is.

example:
  antiphon models rm smollm2-135m-instruct
"""

PATH: Final = """\
Prints the file of a model that is here. Without a name it takes the one that the server would use.

example:
  ls -l "$(antiphon models path)"
"""


def add_to(commands: "Commands") -> None:
    group = add_group(commands, "models", "look after the embedded model's files", ABOUT)
    parser = add_command(group, "list", list_models, "print the models that are here or can be fetched", LIST)
    add_config_option(parser)
    for name, run, summary, more in (
        ("pull", pull, "fetch a model, or link a file", PULL),
        ("path", path, "print the file of a model", PATH),
    ):
        parser = add_command(group, name, run, summary, more)
        parser.add_argument("model", nargs="?", metavar="MODEL", help="a name, a path or an address")
        add_config_option(parser)
        if run is pull:
            parser.add_argument(
                "--from",
                dest="origin",
                metavar="PATH_OR_URL",
                help="take the file of a model with a name from here, and check it",
            )
    parser = add_command(group, "rm", remove, "delete a model", REMOVE)
    parser.add_argument("model", metavar="MODEL", help="its name, as `antiphon models list` prints it")
    models_show.add_to(group)


def list_models(arguments: argparse.Namespace) -> int:
    from antiphon.embedded import weights
    from antiphon.embedded.catalogue import CATALOGUE

    local = load_config(arguments, upstreams=False).local
    with _exit_on_weights_error():
        models = weights.list_models()
    rows = [("NAME", "SIZE", "MEMORY", "CONTEXT", "TOOLS", "THINKS", "LICENCE", "FILE")]
    for model in models:
        known = CATALOGUE.get(model.name)
        rows.append(
            (
                model.name,
                _size(model.size),
                _size(known.memory(local.context)) if known else "",
                str(known.context) if known else "",
                ("template" if known.tools else "grammar") if known else "",
                "yes" if known and known.thinking else "",
                known.licence if known else "",
                str(model.path or f"not here; from {model.source}"),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        name, *rest, file = (
            cell.rjust(width) if 0 < n < 4 else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join((name, *rest, file.rstrip())))
    return 0


def _size(amount: int) -> str:
    return f"{amount / 1024**2:.0f} MiB" if amount < 1000 * 1024**2 else f"{amount / 1024**3:.1f} GiB"


def pull(arguments: argparse.Namespace) -> int:
    from antiphon.embedded import weights
    from antiphon.embedded.progress import Console

    wanted = _model_argument(arguments)
    console = Console()
    with _exit_on_weights_error():
        try:
            found = weights.pull(wanted, console, origin=arguments.origin)
        finally:
            console.close()
    print(found)
    return 0


def path(arguments: argparse.Namespace) -> int:
    from antiphon.embedded import weights

    with _exit_on_weights_error():
        print(weights.path(_model_argument(arguments)))
    return 0


def remove(arguments: argparse.Namespace) -> int:
    from antiphon.embedded import weights

    with _exit_on_weights_error():
        weights.remove(arguments.model)
    return 0


def _model_argument(arguments: argparse.Namespace) -> str:
    given: str | None = arguments.model
    return given if given is not None else load_config(arguments, upstreams=False).local.model


@contextmanager
def _exit_on_weights_error() -> Iterator[None]:
    """Ends the command with a message if the file of a model is unusable."""
    from antiphon.embedded.gguf import WeightsError

    try:
        yield
    except WeightsError as error:
        raise CommandFailed(f"antiphon: {error}") from error
