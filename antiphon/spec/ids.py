"""Identifiers on the wire: a prefix that names the kind, then 24 hexadecimal digits."""

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


def new_id(prefix: str) -> str:
    return prefix + urandom(12).hex()
