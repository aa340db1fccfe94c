"""Uploads of one tenant keep no other from uploading."""

import socket
from contextlib import ExitStack

import httpx

from antiphon.tools.file_search.library import UPLOADS
from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.servers import DEADLINE, Client, Serving, until

FORM = (
    b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
)


def begin_upload(server: Serving, key: str) -> socket.socket:
    """An upload of which no more comes."""
    address = httpx.URL(server.url)
    head = (
        f"POST /v1/files HTTP/1.1\r\nHost: {address.netloc.decode()}\r\nAuthorization: Bearer {key}\r\n"
        "Content-Length: 100000\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n"
    )
    connection = socket.create_connection((address.host, address.port or 0), DEADLINE)
    connection.sendall(head.encode() + FORM + b"drip")
    return connection


def upload(client: Client) -> int:
    files = {"file": ("a.txt", b"words")}
    return client.post("/v1/files", files=files, data={"purpose": "user_data"}).status_code


def test_uploads_that_drip_keep_no_other_tenant_from_uploading(serve: Serve) -> None:
    server = serve(key_table("alice") + key_table("bob"))
    alice, bob = server.client("sk-alice"), server.client("sk-bob")
    with ExitStack() as stack:
        for _ in range(UPLOADS // 2):
            stack.enter_context(begin_upload(server, "sk-alice"))
        until(lambda: upload(alice) == 429)
        assert upload(bob) == 200
