import copy
import logging
import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import ClientKey, ConfigErrors, ProviderSettings, Secret, UpstreamTimeouts, load
from antiphon.config.kinds import ExtraOptions
from antiphon.config.mistakes import quote
from antiphon.config.reader import keys
from antiphon.providers.registry import TYPES


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
    assert repr(ExtraOptions(token="sk-1234", region="eu")) == "Options(['region', 'token'])"


MARKER = "sk_hunter2"
"""Also a valid name of a variable, of a file and of much else."""
texts = st.sampled_from([MARKER, f"{MARKER}\n", f"{{ api_key = '{MARKER}' ", f"x {MARKER} é", f"[{MARKER}"])
fields = st.sampled_from(
    sorted(
        {
            name
            for kind in (*TYPES.values(), ProviderSettings, ClientKey, UpstreamTimeouts)
            for name in keys(kind)
        }
        | {"other"}
    )
)
values = st.recursive(
    texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(fields, inner, max_size=3),
    max_leaves=4,
)
places = st.tuples(
    st.sampled_from(["keys", "providers", "sealing"]), st.lists(fields | st.just("alice"), max_size=3)
).map(lambda found: [found[0], *found[1]])


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else quote(str(value), limit=None)


@given(place=places, value=values, kind=st.sampled_from([None, *TYPES]), by_variable=st.booleans())
def test_no_mistake_shows_what_stands_where_a_secret_may(
    tmp_path_factory: pytest.TempPathFactory,
    place: list[str],
    value: object,
    kind: str | None,
    by_variable: bool,
) -> None:
    file = tmp_path_factory.getbasetemp() / "antiphon.toml"
    typed = f"providers.alice.type = {quote(kind)}\n" if kind and len(place) > 2 else ""
    environ = {}
    if by_variable:
        file.write_text(typed)
        environ = {"ANTIPHON_" + "__".join(place).upper(): value if isinstance(value, str) else toml(value)}
    else:
        is_typed = place == ["providers", "alice", "type"]
        file.write_text(f"{'' if is_typed else typed}{'.'.join(place)} = {toml(value)}\n")
    told = ""
    try:
        load(file, environ, types=TYPES)
    except ConfigErrors as errors:
        told = str(errors)
    assert "hunter2" not in told
