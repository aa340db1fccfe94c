"""Our own gateway keeps every rule, whatever answers behind it; with each provider: `test_providers`."""

from pathlib import Path

import pytest

from antiphon.embedded.process import available
from tests.compliance.run_tool import judge, told
from tests.compliance.two_tenants import KEYS, toml
from tests.server.servers import Serving, configure


def test_a_socket_that_lives_too_long(model_url: str, tmp_path: Path) -> None:
    with Serving(configure(tmp_path, toml(model_url), SERVER__WEBSOCKET_LIMIT="0.2")) as server:
        report = judge(server.url, only=["websocket.limit"], api_key=KEYS["alice"], websocket_limit=0.2)
    assert told(report, "pass").keys() == {"websocket.limit"}


def test_what_a_model_must_not_do_is_asked_of_it_three_times(gateway: Serving) -> None:
    tempting = ["tools.allowed", "tools.allowed_streamed", "tools.none", "websocket.allowed_tools"]
    report = judge(gateway.url, only=tempting, api_key=KEYS["alice"])
    assert told(report, "pass") == dict.fromkeys(tempting, "(3 tries)")


def test_with_the_script_provider_nothing_fails(tmp_path: Path) -> None:
    script = 'default_model = "model"\n[providers.demo]\ntype = "script"\n[models]\nmodel = "demo/any"\n'
    with Serving(configure(tmp_path, script)) as server:
        report = judge(server.url)
    assert told(report, "fail") == {}
    assert all(reason for reason in told(report, "skip").values())


@pytest.mark.embedded
def test_with_the_embedded_model_nothing_fails(tmp_path: Path) -> None:
    assert available() is None, available()
    config = configure(tmp_path, LOCAL__ENABLED="true")
    assert config.default_model is not None
    with Serving(config) as server:
        report = judge(server.url, config.default_model, timeout=540.0)
    assert report.exit_code == 0, told(report, "fail")
    assert len(told(report, "pass")) > 180
