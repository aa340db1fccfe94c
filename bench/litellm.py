"""LiteLLM's proxy, in an environment of its own in the user's cache, made when it is first asked for."""

import os
import platform
import subprocess
import sys
from pathlib import Path

from bench.processes import Program

# To it an upstream of the kind `openai` has responses of its own; for `llamafile` it makes them of a chat.
_CONFIG = """\
model_list:
  - model_name: "*"
    litellm_params:
      model: "openai/*"
      api_base: "http://127.0.0.1:{upstream}/v1"
      api_key: "none"
  - model_name: "translated/*"
    litellm_params:
      model: "llamafile/*"
      api_base: "http://127.0.0.1:{upstream}/v1"
      api_key: "none"
general_settings:
  master_key: "{key}"
litellm_settings:
  telemetry: false
"""


def environment() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "antiphon-bench" / f"litellm-{platform.python_version()}"


def install() -> Path:
    """The folder of its programs; takes a minute the first time."""
    home = environment()
    programs = home / "bin"
    if not (programs / "litellm").exists():
        print(f"bench: making an environment with LiteLLM's proxy in {home}", flush=True)
        uv = [sys.executable, "-m", "uv"]
        try:
            # On the interpreter that runs us, since some are built to be faster than others.
            made = [*uv, "venv", "-q", "--clear", "--python", sys.executable, str(home)]
            subprocess.run(made, check=True, timeout=60)
            wanted = [*uv, "pip", "install", "-q", "--python", str(programs / "python"), "litellm[proxy]"]
            subprocess.run(wanted, check=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            raise SystemExit(f"bench: LiteLLM could not be installed: {error}") from None
    return programs


def start(folder: Path, port: int, upstream: int, key: str) -> Program:
    """As its documentation starts it: one worker, a master key, no database, logging of errors only."""
    programs = install()
    folder.mkdir()
    config = folder / "config.yaml"
    config.write_text(_CONFIG.format(upstream=upstream, key=key))
    command = [str(programs / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    env = {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_DOCS": "True"}
    return Program("litellm", [*command, "--num_workers", "1"], port, log=folder / "output.log", env=env)
