"""Identifiers on the wire: a prefix that names the kind, then 24 hexadecimal digits.

The digits are those of the process, a number that counts up, and chance. Ids made one after the other
lie side by side in an index, which makes storing them cheap; chance makes them hard to guess.
"""

from itertools import count
from os import register_at_fork, urandom

RESPONSE = "resp_"
MESSAGE = "msg_"
FUNCTION_CALL = "fc_"
CALL = "call_"
FUNCTION_CALL_OUTPUT = "fco_"
REASONING = "rs_"
CUSTOM_CALL = "ctc_"
COMPACTION = "cmp_"
CONVERSATION = "conv_"
ITEM = "item_"


_here = urandom(3).hex()
_numbers = count(int.from_bytes(urandom(3)))


_chances: list[str] = []
register_at_fork(after_in_child=_chances.clear)


def new_id(prefix: str) -> str:
    try:
        chance = _chances.pop()
    except IndexError:
        chance = _ask_for_chance()
    return f"{prefix}{_here}{next(_numbers):08x}{chance}"


def _ask_for_chance() -> str:
    """Asking the kernel costs more than the rest of an id, so it is asked for many at once."""
    chance, *rest = urandom(5 * 256).hex(" ", 5).split()
    _chances.extend(rest)
    return chance
