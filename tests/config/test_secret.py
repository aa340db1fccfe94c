import copy
import logging
import pickle

import msgspec
import pytest

from antiphon.config import Secret
from antiphon.config.kinds import Options


def test_a_secret_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret("sk-1234")
    logging.getLogger("test").warning("%s %r %s", secret, secret, {"key": secret})
    for text in (str(secret), repr(secret), f"{secret}", f"{secret!r:>40}", repr([secret]), caplog.text):
        assert "sk-1234" not in text
        assert "********" in text
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)


def test_a_secret_can_be_revealed_compared_and_copied() -> None:
    secret = Secret("sk-1234")
    assert secret.reveal() == "sk-1234"
    assert secret == Secret("sk-1234")
    assert secret != Secret("sk-12345")
    assert secret != "sk-1234"
    assert Secret("ké\udcff") != secret
    assert len({secret, Secret("sk-1234")}) == 1
    assert copy.deepcopy(secret) == pickle.loads(pickle.dumps(secret)) == secret


def test_options_show_only_their_names() -> None:
    assert repr(Options(token="sk-1234", region="eu")) == "Options(['region', 'token'])"
