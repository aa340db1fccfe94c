"""`import antiphon` is light, and the client brings in no server, provider or interface."""

import subprocess
import sys
from pathlib import Path

import antiphon

ROOT = Path(__file__).parents[2]
NOT_FOR_CLIENTS = ("server", "providers", "engine", "store", "config", "embedded", "bridges", "cli", "tui")


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_the_package_alone_loads_nothing_of_its_own() -> None:
    loaded = loaded_by("import antiphon")
    assert {name for name in loaded if name.startswith("antiphon")} == {"antiphon"}
    assert {"asyncio", "httpx", "msgspec", "websockets", "ssl"}.isdisjoint(loaded)


def test_the_client_brings_in_nothing_of_the_gateway() -> None:
    loaded = loaded_by("from antiphon import AsyncClient, Client; Client().close()")
    assert not {f"antiphon.{layer}" for layer in NOT_FOR_CLIENTS} & loaded
    others = {
        "aiohttp",
        "uvicorn",
        "uvloop",
        "cryptography",
        "jsonschema",
        "regex",
        "pydantic",
        "textual",
        "sqlite3",
    }
    assert others.isdisjoint(loaded)


def test_importing_is_little_work() -> None:
    """The aim is less than 150 ms; counted in modules, because a busy machine is no failure."""
    before, after = loaded_by("pass"), loaded_by("import antiphon")
    assert len(after - before) < 60


def test_every_lazy_name_is_there_and_belongs_to_its_home() -> None:
    for name, home in antiphon._HOMES.items():
        assert getattr(antiphon, name) is getattr(sys.modules[home], name)
        assert name in dir(antiphon)
    assert not hasattr(antiphon, "nonsense")
