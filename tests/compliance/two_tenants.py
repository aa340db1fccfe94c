"""A chat upstream with a mind that does what the checks ask, and a gateway with two tenants before it."""

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.compliance.fake_model import answer
from tests.providers.chat.fake import FakeChat

KEYS = {"alice": "key-of-alice-0123456789", "bob": "key-of-bob-0123456789"}
_TOOLS = 'tools = ["file_search", "code_interpreter", "web_search"]\n'
TENANTS = "".join(
    f'[keys.{name}]\nkey_sha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n{_TOOLS}'
    for name, key in KEYS.items()
)


@contextmanager
def obedient() -> Iterator[str]:
    """Its base URL, while it runs in a thread of its own."""
    address: list[str] = []
    up, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with FakeChat(strict=False) as upstream:
            upstream.mind = answer
            address.append(upstream.base_url)
            up.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="obedient-model", daemon=True)
    thread.start()
    assert up.wait(60)
    try:
        yield address[0]
    finally:
        over.set()
        thread.join(60)


def toml(url: str, searches: str = "http://127.0.0.1:9") -> str:
    """A gateway in front of it, with two tenants; nobody answers where it searches, unless somebody does."""
    return (
        'default_model = "model"\n[models]\nmodel = "up/some-model"\n'
        f'[providers.up]\ntype = "chat"\nprofile = "openai"\nbase_url = "{url}"\n{TENANTS}'
        f'[tools.web_search]\nsearxng = "{searches}"\n'
    )
