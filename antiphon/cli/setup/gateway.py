"""What a client needs to know of the gateway: its address, its key, and the facts about its models."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, quote, urlsplit

from antiphon.cli.common import MISTAKE, CommandFailed
from antiphon.cli.setup.safe_files import read_regular_file
from antiphon.config import config_folder
from antiphon.wires.own_command import own_command

if TYPE_CHECKING:
    import httpx

DEFAULT_URL: Final = "http://127.0.0.1:8080/v1"
NO_KEY: Final = "no-key"
"""What a client sends where no key is set; a gateway without [keys] lets everybody in."""
USUAL_WINDOW: Final = 128_000
"""What a client that wants a number is told of a model whose window nobody knows."""
CODEX_VERSION: Final = "0.169.0"
_TIMEOUT: Final = 10.0
_UNKNOWN_TARGET: Final = "PROVIDER/MODEL"
_LARGEST_ANSWER: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class GatewayModel:
    """The facts that the gateway has about a model; None is unknown."""

    id: str
    context_window: int | None = None
    output_limit: int | None = None
    has_vision: bool | None = None
    takes_tools: bool | None = None
    target: str = _UNKNOWN_TARGET
    """Its provider, and what it is called there."""

    def output_in(self, window: int) -> int:
        """Returns the limit of an answer in a window of this size; guesses it if it is unknown."""
        return self.output_limit or min(window // 4, 32_000)


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """What a client needs to know of a gateway; the first model is the one to use."""

    url: str
    """With `/v1` at its end."""
    models: tuple[GatewayModel, ...]
    catalogue: bytes = b""
    """The list of models as Codex reads it from a file."""
    named: int = 0
    """How many of the models its user has named; the second is for small tasks."""
    others: tuple[GatewayModel, ...] = ()
    """What the gateway lists beside the first."""

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    @property
    def model(self) -> GatewayModel:
        return self.models[0]

    @property
    def small_model(self) -> GatewayModel:
        return self.models[1] if self.named > 1 else self.model


def address(given: str | None) -> str:
    """Returns the gateway's address from the option or the environment, with `/v1`."""
    url = (given or os.environ.get("ANTIPHON_BASE_URL") or DEFAULT_URL).strip().rstrip("/")
    if (parts := _parts(url)) is None:
        raise CommandFailed(
            f"antiphon: {url.rpartition('@')[2]!r} is not the address of a gateway; "
            f"expected one such as {DEFAULT_URL}",
            MISTAKE,
        )
    return url if parts.path else f"{url}/v1"


def _parts(url: str) -> SplitResult | None:
    """Parses the address of a gateway; returns None if it cannot be one."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (it is checked when it is asked for)
    except ValueError:
        return None
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    return parts if is_web and not parts.username and not parts.query else None


def ask(url: str, wanted: list[str]) -> GatewayInfo:
    """Asks the gateway for its models. If no gateway answers, only the named models are known."""
    import httpx

    headers = {"Authorization": f"Bearer {key() or NO_KEY}"}
    try:
        with _client(_TIMEOUT, headers) as http:
            listed = _json_object(http.get(f"{url}/models"), url, "data")["data"]
            ids = {one["id"] for one in listed}
            unlisted = {name: _ask_for(http, url, name) for name in wanted if name not in ids}
            codex = http.get(f"{url}/models", params={"client_version": CODEX_VERSION})
    except httpx.HTTPError as error:
        if wanted:
            print(
                f"antiphon: no gateway answers on {url}, so the context window of the model is unknown; "
                "run this command again when it runs",
                file=sys.stderr,
            )
            return GatewayInfo(url, tuple(map(GatewayModel, wanted)), named=len(wanted))
        raise CommandFailed(
            f"antiphon: no gateway answers on {url} ({type(error).__name__}); start it with "
            f"`{own_command('serve')}`, name another with --url, or name a model with --model"
        ) from None
    known = {one["id"]: _model(one) for one in listed}
    models = [known.get(name) or unlisted[name] for name in wanted]
    if not wanted:
        models = [one for name, one in known.items() if "/" not in name] or list(known.values())[:1]
    if not models:
        raise CommandFailed(f"antiphon: the gateway on {url} has no models; name one with --model")
    catalogue = codex.content if codex.is_success and codex.content.startswith(b'{"models":') else b""
    others = tuple(one for one in known.values() if one != models[0])
    return GatewayInfo(url, tuple(models), catalogue, len(wanted), others)


def _ask_for(http: "httpx.Client", url: str, name: str) -> GatewayModel:
    """Asks for a model that the list lacks, because a pattern may serve it; refuses an unknown one."""
    answer = http.get(f"{url}/models/{quote(name, safe='/')}")
    if answer.status_code == 404:
        said = _error_message(answer)
        raise CommandFailed(f"antiphon: the gateway on {url} has no model {name!r}: {said}", MISTAKE)
    print(f"antiphon: the gateway does not list the model {name!r}", file=sys.stderr)
    return _model(_json_object(answer, url, "id"))


def _error_message(answer: "httpx.Response") -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"it answers {answer.status_code}"


def is_up(url: str) -> bool:
    """Returns whether a gateway answers at the address."""
    import httpx

    try:
        with _client(2.0) as http:
            return http.get(f"{url.removesuffix('/v1')}/healthz").is_success
    except httpx.HTTPError:
        return False


def _client(timeout: float, headers: Mapping[str, str] | None = None) -> "httpx.Client":
    import httpx

    from antiphon.client.transport.answer_limits import UNPACKED, limit_sync_answers

    return httpx.Client(
        headers={**UNPACKED, **(headers or {})},
        timeout=timeout,
        trust_env=False,
        event_hooks={"response": [limit_sync_answers(_LARGEST_ANSWER)]},
    )


def key_file() -> Path:
    return config_folder() / "token"


def key() -> str:
    """Returns `ANTIPHON_API_KEY`, else the key that `antiphon token --save` stored, else an empty text."""
    if text := os.environ.get("ANTIPHON_API_KEY", "").strip():
        return text
    file = key_file()
    try:
        if file.stat().st_mode & 0o077:
            raise CommandFailed(f"antiphon: others can read {file}; make it yours alone: chmod 600 {file}")
        return read_regular_file(file).decode("utf-8-sig").strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise CommandFailed(f"antiphon: {file} holds no key: it is not UTF-8 text") from None
    except OSError as error:
        raise CommandFailed(f"antiphon: cannot read {file}: {error.strerror}") from None


def token_command() -> list[str]:
    """Returns the command that prints the key, in a form that a client can start from any folder."""
    started = os.path.abspath(sys.argv[0])
    if found := shutil.which("antiphon"):
        is_same = os.path.realpath(found) == os.path.realpath(started)
        return ["antiphon" if is_same else found, "token"]
    if os.path.basename(started) == "antiphon":
        return [started, "token"]
    return [sys.executable, "-m", "antiphon", "token"]


def token_line() -> str:
    return shlex.join(token_command())


def _model(listed: dict[str, Any]) -> GatewayModel:
    known = listed.get("antiphon:model") or {}
    taken = known.get("input_modalities")
    return GatewayModel(
        listed["id"],
        known.get("context_window"),
        known.get("output_limit"),
        None if taken is None else "image" in taken,
        known.get("tools"),
        known.get("target") or _UNKNOWN_TARGET,
    )


def _json_object(answer: "httpx.Response", url: str, field: str) -> dict[str, Any]:
    """Returns the JSON object of a gateway's answer, or fails if it lacks this field."""
    if answer.status_code in (401, 403):
        raise CommandFailed(
            f"antiphon: the gateway on {url} wants a key: set ANTIPHON_API_KEY, "
            f"or keep one with `{own_command('token --save')}`"
        )
    try:
        found: dict[str, Any] = answer.json()
        if answer.is_success and isinstance(found[field], list | str):
            return found
    except (ValueError, KeyError, TypeError):
        pass
    raise CommandFailed(f"antiphon: {url}/models answers, but not as a gateway does ({answer.status_code})")
