"""Identifiers on the wire: a prefix that names the kind, then 24 hexadecimal digits.

The digits are those of the process, a number that counts up, and chance. Ids made one after the other
lie side by side in an index, which makes storing them cheap; chance makes them hard to guess.
"""

from itertools import count
from os import urandom

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


def new_id(prefix: str) -> str:
    return f"{prefix}{_here}{next(_numbers):08x}{urandom(5).hex()}"
