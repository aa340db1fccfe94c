"""Our own gateway keeps every rule."""

from pathlib import Path

import pytest

from antiphon.compliance.catalog import catalog
from antiphon.embedded.process import available
from tests.compliance.judging import judge, told
from tests.compliance.model import KEYS, toml
from tests.server.serving import Serving, configure

# No check makes a model cite, or a server queue: these are judged on captures, and by the Auditor's tests.
UNSEEN = {"annotation.kept", "annotation.announced", "index.annotation", "order.queued_silent"}


def test_behind_a_chat_upstream_every_rule_holds_and_none_is_left_out(gateway: Serving) -> None:
    report = judge(gateway.url, api_key=KEYS["alice"], second_key=KEYS["bob"])
    assert told(report, "fail").keys() <= {"content.broken_image", "limit.format_name"}
    assert told(report, "skip").keys() == UNSEEN | {"websocket.limit"}
    assert len(report.results) == len([rule for rule in catalog().values() if "2026-04-24" in rule.specs])
    assert report.exit_code == 0


def test_a_socket_that_lives_too_long(model_url: str, tmp_path: Path) -> None:
    with Serving(configure(tmp_path, toml(model_url), SERVER__WEBSOCKET_LIMIT="0.2")) as server:
        report = judge(server.url, only=["websocket.limit"], api_key=KEYS["alice"], websocket_limit=0.2)
    assert told(report, "pass").keys() == {"websocket.limit"}


def test_with_the_script_provider_nothing_fails(tmp_path: Path) -> None:
    script = 'default_model = "model"\n[providers.demo]\ntype = "script"\n[models]\nmodel = "demo/any"\n'
    with Serving(configure(tmp_path, script)) as server:
        report = judge(server.url)
    assert report.exit_code == 0, told(report, "fail")
    assert all(reason for reason in told(report, "skip").values())


@pytest.mark.embedded
def test_with_the_embedded_model_nothing_fails(tmp_path: Path) -> None:
    assert available() is None, available()
    config = configure(tmp_path, LOCAL__ENABLED="true")
    assert config.default_model is not None
    with Serving(config) as server:
        report = judge(server.url, config.default_model, timeout=180.0)
    assert report.exit_code == 0, told(report, "fail")
    assert len(told(report, "pass")) > 180
