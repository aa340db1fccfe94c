"""Builds the file that `antiphon config init` writes."""

from collections.abc import Sequence
from typing import Final

from antiphon.config import FoundProvider, toml_text

_HEAD: Final = """\
# The configuration of Antiphon, as `antiphon config init` wrote it.
# `antiphon config check` shows all that is in force, `antiphon config check --connect` asks every provider.

# What answers a request that names no model: a name of [models], or PROVIDER/MODEL. Else the embedded model.
# default_model = "fast"
"""

_VENDOR: Final = """\
# A vendor is one line; its key comes from the variable of the vendor, here GROQ_API_KEY:
# [providers.groq]
# type = "groq"
"""

_TAIL: Final = """\
# Any server that speaks /chat/completions, or Open Responses with type = "responses":
# [providers.workstation]
# type = "chat"
# base_url = "http://192.168.1.20:8000/v1"
# api_key_env = "WORKSTATION_KEY"

# Names of your own for models:
# [models]
# fast = "groq/llama-3.3-70b-versatile"

# Who may come in. With a host that others can reach, keys are needed:
# [server]
# host = "0.0.0.0"
# port = 8080
# discover = false
#
# [keys.alice]
# key_env = "ALICE_KEY"

# Without the embedded model:
# [local]
# enabled = false
"""


def starter(found: Sequence[FoundProvider]) -> str:
    """Returns a configuration with the found providers, and comments for likely further settings."""
    tables = [_table(one) for one in found]
    if not tables:
        tables = ["# No key of a vendor is in the environment, and no server answers on its usual port.\n"]
    if "groq" not in [one.name for one in found]:
        tables.append(_VENDOR)
    return "\n".join([_HEAD, *tables, _TAIL])


def _table(found: FoundProvider) -> str:
    why = f"{found.by} is set" if found.is_paid else f"answers on {found.by}"
    lines = [f"# Found: {why}.", f"[providers.{found.name}]"]
    lines += [f"{key} = {toml_text(value)}" for key, value in found.table.items()]
    return "\n".join(lines) + "\n"
