"""Runs the lines of curl that stand on a page, at the address of a server of the tests."""

import re
import shlex
from typing import Any

import httpx

from tests.server.servers import Client

ADDRESS = "http://127.0.0.1:8080"
"""Where the server is, on the pages."""

# What the examples call the id of the last thing of each kind.
KINDS = {
    "response": "RESPONSE",
    "conversation": "CONVERSATION",
    "antiphon.chat": "CHAT",
    "chat.completion": "COMPLETION",
    "file": "FILE",
    "container": "CONTAINER",
    "vector_store": "STORE",
    "list": "ITEM",
}


class Shell:
    """Does with a line of curl what a shell and curl would do, at another address."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.variables: dict[str, str] = {}

    def run(self, example: str) -> httpx.Response:
        filled = re.sub(r"\$([A-Z]+)", lambda name: self.variables[name[1]], example)
        program, *words = shlex.split(filled.replace("\\\n", " "))
        assert program == "curl"
        method, headers, body, address = "", {}, None, ""
        form: list[tuple[str, tuple[str | None, str]]] = []
        while words:
            match word := words.pop(0):
                case "-X":
                    method = words.pop(0)
                case "-H":
                    name, _, value = words.pop(0).partition(": ")
                    headers[name] = value
                case "-d":
                    body = words.pop(0)
                case "-F":
                    name, _, value = words.pop(0).partition("=")
                    value, _, filename = value.partition(";filename=")
                    form.append((name, (filename or None, value)))
                case "-N":
                    continue
                case _:
                    assert word.startswith(ADDRESS), word
                    address = word.removeprefix(ADDRESS)
        method = method or ("GET" if body is None else "POST")
        answer = self._client.request(method, address, headers=headers, content=body, files=form or None)
        self._remember(answer)
        return answer

    def _remember(self, answer: httpx.Response) -> None:
        if answer.headers.get("content-type") != "application/json":
            return
        body: dict[str, Any] = answer.json()
        kind = KINDS.get(body.get("object", ""))
        if kind == "ITEM":
            if body["data"] and "id" in body["data"][0]:
                self.variables[kind] = body["data"][0]["id"]
        elif kind and body.get("background"):
            self.variables["BACKGROUND"] = body["id"]
        elif kind and kind not in self.variables:
            self.variables[kind] = body["id"]
