"""Our own gateway keeps every rule, whatever answers behind it; with each provider: `test_providers`."""

from pathlib import Path

import pytest

from antiphon.compliance.catalog import select
from antiphon.embedded.process import why_unavailable
from tests.compliance.run_tool import judge, judge_rules, told
from tests.compliance.two_tenants import KEYS, toml
from tests.server.servers import Serving, configure
from tests.tools.search_servers import web_of_pages


def test_a_socket_that_lives_too_long(model_url: str, tmp_path: Path) -> None:
    with Serving(configure(tmp_path, toml(model_url), SERVER__WEBSOCKET_LIMIT="0.2")) as server:
        report = judge(server.url, only=["websocket.limit"], api_key=KEYS["alice"], websocket_limit=0.2)
    assert told(report, "pass").keys() == {"websocket.limit"}


def test_what_a_model_must_not_do_is_asked_of_it_three_times(gateway: Serving) -> None:
    tempting = ["tools.allowed", "tools.allowed_streamed", "tools.none", "websocket.allowed_tools"]
    report = judge(gateway.url, only=tempting, api_key=KEYS["alice"])
    assert told(report, "pass") == dict.fromkeys(tempting, "(3 tries)")


def test_hosted_tools_keep_their_rules(model_url: str, tmp_path: Path) -> None:
    hosted = [name for name in select() if name.startswith(("code_", "web_", "file_", "mcp."))]
    with web_of_pages() as web:
        web.find("/bridge", "The bridge", "It is 244 metres long.")
        with Serving(configure(tmp_path, toml(model_url, web.url))) as server:
            report = judge(server.url, only=hosted, api_key=KEYS["alice"])
        assert web.queries() == ["bridge", "bridge"]
    assert len(hosted) == 8
    assert told(report, "fail") == {}
    assert told(report, "pass").keys() == set(hosted)


def test_with_the_script_provider_nothing_fails(tmp_path: Path) -> None:
    script = 'default_model = "model"\n[providers.demo]\ntype = "script"\n[models]\nmodel = "demo/any"\n'
    with Serving(configure(tmp_path, script)) as server:
        report = judge(server.url)
    assert told(report, "fail") == {}
    assert all(reason for reason in told(report, "skip").values())


@pytest.mark.embedded
def test_with_the_embedded_model_nothing_fails(tmp_path: Path) -> None:
    assert why_unavailable() is None, why_unavailable()
    config = configure(tmp_path, LOCAL__ENABLED="true")
    assert config.default_model is not None
    # Chains, sockets and hosted tools are the gateway's own: held above, and in `test_providers` over every
    # wire, as is all that a server should do.
    rules = {
        name: rule
        for name, rule in select().items()
        if rule.level == "MUST" and rule.group not in ("state", "websocket", "hosted")
    }
    with Serving(config) as server:
        report = judge_rules(server.url, rules, config.default_model, timeout=540.0)
    assert report.exit_code == 0, told(report, "fail")
    assert len(told(report, "pass")) > 100
