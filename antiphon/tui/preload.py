"""Imports what the prompt does not need, while the prompt is already there."""

import gc
from functools import cache


@cache
def load_client() -> None:
    """What talks to a server, and what draws its answers.

    All of it stays for good. Kept out of the garbage collector's sight, it does not hold up a key press for
    60 ms each time that everything is looked through.
    """
    import antiphon.tui.turns  # noqa: F401
    from antiphon.tui.markdown.document import warm_up

    warm_up()
    gc.freeze()
