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
"""

LIST: Final = """\
Prints every model that is here or can be fetched by its name: name, size, and file.

example:
  antiphon models list
"""

PULL: Final = """\
Fetches a model, or links the file at a path, and prints where it is. Without a name it takes the one that
the server would use. The fragment #sha256=... of an address is checked against the file.

examples:
  antiphon models pull
  antiphon models pull ~/Downloads/Qwen3-0.6B-Q8_0.gguf
  antiphon models pull https://example.com/Qwen3-0.6B-Q8_0.gguf
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
    add_command(group, "list", list_models, "print the models that are here", LIST)
    for name, run, summary, more in (
        ("pull", pull, "fetch a model, or link a file", PULL),
        ("path", path, "print the file of a model", PATH),
    ):
        parser = add_command(group, name, run, summary, more)
        parser.add_argument("model", nargs="?", metavar="MODEL", help="a name, a path or an address")
        add_config_option(parser)
    parser = add_command(group, "rm", remove, "delete a model", REMOVE)
    parser.add_argument("model", metavar="MODEL", help="its name, as `antiphon models list` prints it")
    models_show.add_to(group)


def list_models(arguments: argparse.Namespace) -> int:
    from antiphon.embedded import weights

    with _sentences():
        models = weights.list_models()
    width = max((len(model.name) for model in models), default=0)
    for model in models:
        size = f"{model.size / 1024**2:.0f} MiB"
        where = model.path or f"not here yet; from {model.source}"
        print(f"{model.name:<{width}}  {size:>9}  {where}")
    return 0


def pull(arguments: argparse.Namespace) -> int:
    from antiphon.embedded import weights
    from antiphon.embedded.progress import Console

    wanted = _wanted(arguments)
    console = Console()
    with _sentences():
        try:
            found = weights.pull(wanted, console)
        finally:
            console.close()
    print(found)
    return 0


def path(arguments: argparse.Namespace) -> int:
    from antiphon.embedded import weights

    with _sentences():
        print(weights.path(_wanted(arguments)))
    return 0


def remove(arguments: argparse.Namespace) -> int:
    from antiphon.embedded import weights

    with _sentences():
        weights.remove(arguments.model)
    return 0


def _wanted(arguments: argparse.Namespace) -> str:
    given: str | None = arguments.model
    return given if given is not None else load_config(arguments, upstreams=False).local.model


@contextmanager
def _sentences() -> Iterator[None]:
    """What is wrong with a model's file, as the end of the command."""
    from antiphon.embedded.gguf import WeightsError

    try:
        yield
    except WeightsError as error:
        raise CommandFailed(f"antiphon: {error}") from error
