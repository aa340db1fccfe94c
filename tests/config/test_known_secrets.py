"""Which texts of a configuration are secrets, and how they are taken out of what others say."""

from pathlib import Path

import pytest

from antiphon.config import load
from antiphon.config.known_secrets import KnownSecrets
from antiphon.providers.registry import TYPES
from antiphon.tools.registry import TOOLS

FILE = """
[providers.a]
type = "chat"
base_url = "http://127.0.0.1:9/v1"
api_key = "key-of-provider-a"
headers = { Authorization = "Bearer header-of-provider-a", Referer = "https://app.example.com/long" }
[providers.b]
type = "openai"
api_key_env = "KEY_OF_B"
[store]
url = "postgresql://user:password-of-store@127.0.0.1:1/database"
[sealing]
keys = ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]
[tools.web_search]
brave_key = "key-of-the-search"
[tools.mcp.servers.files]
command = ["files"]
env = { TOKEN = "token-of-files", FOLDER = "/srv/shared/documents", GREETING = "hello to you all" }
[tools.mcp.servers.crm]
url = "http://127.0.0.1:9/mcp"
authorization = "token-of-the-crm"
[tools.mcp.servers.crm.oauth]
client_id = "the-gateway-itself"
client_secret = "secret-of-the-client"
issuer = "http://127.0.0.1:9"
"""
HIDDEN = [
    *("key-of-provider-a", "header-of-provider-a", "key-of-provider-b", "password-of-store"),
    *("key-of-the-search", "token-of-files", "token-of-the-crm", "secret-of-the-client"),
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
]
SHOWN = [
    *("https://app.example.com/long", "/srv/shared/documents", "hello to you all"),
    *("the-gateway-itself", "http://127.0.0.1:9/mcp"),
]


@pytest.fixture
def known(tmp_path: Path) -> KnownSecrets:
    file = tmp_path / "antiphon.toml"
    file.write_text(FILE)
    return KnownSecrets.of(load(file, {"KEY_OF_B": "key-of-provider-b"}, types=TYPES, tools=TOOLS))


@pytest.mark.parametrize("text", HIDDEN)
def test_every_secret_of_the_configuration_is_hidden(known: KnownSecrets, text: str) -> None:
    assert known.mask(f"<{text}>") == "<********>"


@pytest.mark.parametrize("text", SHOWN)
def test_what_is_no_secret_is_left(known: KnownSecrets, text: str) -> None:
    assert known.mask(text) == text


def test_short_texts_are_left_and_long_ones_are_hidden_as_a_whole() -> None:
    known = KnownSecrets(["12 letters!!", "11 letters!", "before 12 letters!! after"])
    assert known.mask("11 letters!") == "11 letters!"
    assert known.mask("before 12 letters!! after, 12 letters!!") == "********, ********"


def test_a_value_of_any_shape_is_masked() -> None:
    known = KnownSecrets(["of a request"], KnownSecrets(["of the gateway"]))
    value = {"a": ["of the gateway", {"b": "so: of a request"}], "c": 1}
    assert known.mask_in(value) == {"a": ["********", {"b": "so: ********"}], "c": 1}
