"""Once with the embedded model, as a user without any configuration has it."""

from pathlib import Path

import pytest

from antiphon.embedded import weights
from antiphon.tui.entries import AnswerEntry
from tests.tui.conftest import Start


@pytest.mark.embedded
async def test_the_embedded_model_answers(
    chat: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not weights.list_models():
        pytest.skip("the embedded model is not on this machine")
    file = tmp_path / "antiphon.toml"
    file.write_text(f'[store]\npath = "{tmp_path / "store"}"\n[server]\ndiscover = false\n')
    async with chat(base_url=None, local=True, config=str(file), system="Be brief.") as chatting:
        await chatting.say("Say hello.")
        [answer] = [one for one in chatting.app.transcript.entries if isinstance(one, AnswerEntry)]
        assert answer.plain()
        status = chatting.app._status()
        assert status.tokens_out
        assert status.model
