"""`/v1/files` over real sockets: uploads as they come, tenants, quotas, and what a model is given."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from openai import DefaultHttpxClient, NotFoundError, OpenAI

from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Serving
from tests.server.upstream import Upstream
from tests.tools.file_search.documents import docx, pdf

KEYS = """
[keys.alice]
key_sha256 = "{alice}"
tenant = "alice"
[keys.bob]
key_sha256 = "{bob}"
tenant = "bob"
""".format(**{name: hashlib.sha256(f"sk-{name}".encode()).hexdigest() for name in ("alice", "bob")})
ECHO = 'default_model = "s/m"\n[providers.s]\ntype = "script"\nfrom_requests = true\n'
LIMITS = '[files]\nlimit = "1 MiB"\nquota = "2 MiB"\n'


@pytest.fixture
def server(serve: Serve) -> Serving:
    return serve(ECHO + LIMITS + KEYS)


def sdk(server: Serving, name: str = "alice") -> OpenAI:
    http = DefaultHttpxClient(trust_env=False)
    return OpenAI(
        base_url=f"{server.url}/v1", api_key=f"sk-{name}", max_retries=0, timeout=DEADLINE, http_client=http
    )


@pytest.fixture
def alice(server: Serving) -> Iterator[OpenAI]:
    with sdk(server) as client:
        yield client


@pytest.fixture
def bob(server: Serving) -> Iterator[OpenAI]:
    with sdk(server, "bob") as client:
        yield client


def stored(server: Serving) -> list[Path]:
    folder = Path(server.gateway.config.store.path or "") / "files"
    return sorted(path for path in folder.glob("*/*") if path.is_file())


def test_a_file_is_uploaded_listed_read_and_deleted(server: Serving, alice: OpenAI) -> None:
    made = alice.files.create(file=("naïve plan.txt", b"hello\r\n--x\r\n"), purpose="user_data")
    assert (made.object, made.bytes, made.filename) == ("file", 12, "naïve plan.txt")
    assert (made.purpose, made.status, made.expires_at) == ("user_data", "processed", None)
    other = alice.files.create(file=("b.bin", bytes(range(256))), purpose="vision")
    assert [one.id for one in alice.files.list()] == [other.id, made.id]
    assert [one.id for one in alice.files.list(purpose="user_data", order="asc")] == [made.id]
    assert [one.id for one in alice.files.list(limit=1)] == [other.id, made.id]  # page after page
    assert alice.files.retrieve(made.id) == made
    assert alice.files.content(made.id).read() == b"hello\r\n--x\r\n"
    assert alice.files.content(other.id).read() == bytes(range(256))
    assert alice.files.delete(made.id).deleted
    with pytest.raises(NotFoundError):
        alice.files.retrieve(made.id)
    with pytest.raises(NotFoundError):
        alice.files.delete(made.id)


def test_a_file_whose_bytes_are_on_another_machine_is_told_so(server: Serving, alice: OpenAI) -> None:
    made = alice.files.create(file=("plan.txt", b"hello"), purpose="user_data")
    for path in stored(server):
        path.unlink()
    with pytest.raises(NotFoundError, match="is not on this machine; gateways that share a store"):
        alice.files.content(made.id)


def test_a_file_is_never_served_as_a_page(server: Serving, alice: OpenAI) -> None:
    made = alice.files.create(file=("x.html", b"<script>alert(1)</script>"), purpose="user_data")
    answer = server.client("sk-alice").get(f"/v1/files/{made.id}/content")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''x.html"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_no_tenant_reaches_anothers_file(server: Serving, alice: OpenAI, bob: OpenAI) -> None:
    made = alice.files.create(file=("a.txt", b"secret"), purpose="user_data")
    assert list(bob.files.list()) == []
    for reach in (bob.files.retrieve, bob.files.content, bob.files.delete):
        with pytest.raises(NotFoundError) as refused:
            reach(made.id)
        assert refused.value.code == "file_not_found"
    with pytest.raises(NotFoundError):
        bob.files.list(after=made.id)
    message: Any = {"role": "user", "content": [{"type": "input_file", "file_id": made.id}]}
    with pytest.raises(NotFoundError) as refused:
        bob.responses.create(model="s/m", input=[message])
    assert refused.value.param == "input[0].content[0].file_id"
    assert alice.files.content(made.id).read() == b"secret"


def test_equal_files_are_kept_once_until_the_last_is_deleted(
    server: Serving, alice: OpenAI, bob: OpenAI
) -> None:
    files = [
        (client, client.files.create(file=(f"{n}.txt", b"same"), purpose="user_data"))
        for n, client in enumerate((alice, alice, bob))
    ]
    assert [path.name for path in stored(server)] == [hashlib.sha256(b"same").hexdigest()]
    for n, (client, file) in enumerate(files):
        assert client.files.content(file.id).read() == b"same"
        client.files.delete(file.id)
        assert len(stored(server)) == (n < 2)


def test_a_file_has_a_largest_size_and_a_tenant_a_quota(server: Serving, alice: OpenAI, bob: OpenAI) -> None:
    raw = server.client("sk-alice")
    for size in (1024 * 1024 + 1, 3 * 1024 * 1024):
        error = raw.refused(
            413, "POST", "/v1/files", files={"file": ("big", bytes(size))}, data={"purpose": "user_data"}
        )
        assert error["code"] in ("file_too_large", "body_too_large")
    for n in range(2):
        alice.files.create(file=(f"{n}", bytes([n]) * 1024 * 1024), purpose="user_data")
    error = raw.refused(
        413, "POST", "/v1/files", files={"file": ("one", b"x")}, data={"purpose": "user_data"}
    )
    assert error["code"] == "quota_exceeded"
    assert len(stored(server)) == 2
    bob.files.create(file=("one", b"x"), purpose="user_data")
    alice.files.delete(next(iter(alice.files.list())).id)
    alice.files.create(file=("one", b"x"), purpose="user_data")
    incoming = Path(server.gateway.config.store.path or "") / "files" / "incoming"
    assert list(incoming.iterdir()) == []


FORM = {"content-type": "multipart/form-data; boundary=B"}
PART = b'--B\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
PURPOSE = PART % (b"purpose", b"", b"user_data")
FILE = PART % (b"file", b'; filename="a.txt"', b"text")


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        (FORM, b"", 400, "invalid_form"),
        (FORM, b"nonsense", 400, "invalid_form"),
        (FORM, FILE + PURPOSE, 400, "invalid_form"),  # without its end
        (FORM, FILE[:-10], 400, "invalid_form"),
        (FORM, FILE + FILE + PURPOSE + b"--B--", 400, "invalid_form"),
        (FORM, PURPOSE + b"--B--", 400, "missing_field"),
        (FORM, PURPOSE + PART % (b"file", b"", b"text") + b"--B--", 400, "missing_field"),
        (FORM, FILE + b"--B--", 400, "invalid_value"),
        (FORM, FILE + PART % (b"purpose", b"", b"world domination") + b"--B--", 400, "invalid_value"),
        (FORM, FILE + PURPOSE + PART % (b"x", b"", b"y" * 70000) + b"--B--", 400, "invalid_form"),
        (FORM, FILE + PURPOSE * 40 + b"--B--", 400, "invalid_form"),
        (FORM, b"--B\r\nX: " + b"y" * 10000 + b"\r\n\r\n\r\n--B--", 400, "invalid_form"),
        (FORM, b"--B\r\nX: y\r\n\r\n\r\n--B--", 400, "invalid_form"),
        ({"content-type": "multipart/form-data"}, FILE + b"--B--", 400, "invalid_form"),
        ({"content-type": "application/json"}, b"{}", 415, "unsupported_media_type"),
        ({**FORM, "content-encoding": "gzip"}, FILE + b"--B--", 415, "unsupported_encoding"),
    ],
    ids=range(16),
)
def test_a_bad_form_is_refused(
    server: Serving, headers: dict[str, str], body: bytes, status: int, code: str
) -> None:
    error = server.client("sk-alice").refused(status, "POST", "/v1/files", headers=headers, content=body)
    assert error["code"] == code
    assert stored(server) == []


def test_a_form_may_come_byte_by_byte_and_names_no_folder(server: Serving) -> None:
    file = PART % (b"file", b'; filename="../../etc/pa\\\\sswd"', b"\r\n--B \r\n-")
    body = file + PURPOSE + b"--B--\r\n"
    pieces = (body[n : n + 1] for n in range(len(body)))
    made = server.client("sk-alice").ok("POST", "/v1/files", headers=FORM, content=pieces)
    assert "/" not in made["filename"]
    assert "\\" not in made["filename"]
    content = server.client("sk-alice").get(f"/v1/files/{made['id']}/content")
    assert content.content == b"\r\n--B \r\n-"


@pytest.mark.parametrize("name", [b"..", b".", b"a/..", b" .. ", b"\x01..", b" "])
def test_a_name_that_names_a_folder_is_replaced(server: Serving, name: bytes) -> None:
    body = PART % (b"file", b'; filename="%b"' % name, b"x") + PURPOSE + b"--B--\r\n"
    made = server.client("sk-alice").ok("POST", "/v1/files", headers=FORM, content=body)
    assert made["filename"] == "file"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"expires_after[anchor]": "created_at"}, "expires_after.seconds"),
        ({"expires_after[seconds]": "3600"}, "expires_after.anchor"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "3599"}, "expires_after.seconds"),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "soon"}, "expires_after.seconds"),
    ],
)
def test_a_wrong_expiry_is_refused(server: Serving, fields: dict[str, str], param: str) -> None:
    error = server.client("sk-alice").refused(
        400, "POST", "/v1/files", files={"file": ("a", b"x")}, data={"purpose": "user_data", **fields}
    )
    assert error["param"] == param


def test_a_file_expires_and_its_bytes_with_it(
    server: Serving, alice: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    expiry: Any = {"anchor": "created_at", "seconds": 3600}
    made = alice.files.create(file=("a.txt", b"gone soon"), purpose="user_data", expires_after=expiry)
    kept = alice.files.create(file=("b.txt", b"stays"), purpose="user_data")
    assert made.expires_at == made.created_at + 3600
    monkeypatch.setattr(server.gateway.engine, "clock", lambda: made.created_at + 3600.0)
    with pytest.raises(NotFoundError):
        alice.files.retrieve(made.id)
    server.call(server.gateway.store.prune(made.created_at + 3600.0))
    server.call(server.gateway.library.sweep(made.created_at + 3600.0))
    assert [one.id for one in alice.files.list()] == [kept.id]
    assert [path.read_bytes() for path in stored(server)] == [b"stays"]


# --- what a model is given --------------------------------------------------------------------------------


def asked(upstream: Upstream, client: Any, parts: list[dict[str, Any]], **more: Any) -> Any:
    """What the upstream is sent for a message of these parts."""
    answers: list[Any] = []
    request = {"input": [{"role": "user", "content": parts}], **more}
    thread = threading.Thread(
        target=lambda: answers.append(client.post("/v1/responses", json=request).json())
    )
    thread.start()
    seen = upstream.next()
    seen.finish("Read.")
    thread.join()
    return seen.body["messages"][-1]["content"], answers[0]


def text_only(upstream: Upstream) -> str:
    return upstream.toml.replace('type = "chat"', 'type = "chat"\nprofile = "groq"')


def upload(client: Any, name: str, content: bytes) -> str:
    made = client.ok("POST", "/v1/files", files={"file": (name, content)}, data={"purpose": "user_data"})
    return str(made["id"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "plain wörds".encode()),
        ("a.md", b"# plain w\xc3\xb6rds"),
        ("a.html", "<title>t</title><script>no</script><p>plain <b>wörds</b></p>".encode()),
        ("a.pdf", pdf("plain wörds")),
        ("a.docx", docx("plain wörds")),
    ],
    ids=["text", "markdown", "html", "pdf", "docx"],
)
def test_a_model_that_only_reads_gets_the_text(
    serve: Serve, upstream: Upstream, name: str, content: bytes
) -> None:
    client = serve(text_only(upstream)).client(**{"X-Antiphon-Receipts": "1"})
    id = upload(client, name, content)
    parts = [{"type": "input_text", "text": "Sum up:"}, {"type": "input_file", "file_id": id}]
    sent, answer = asked(upstream, client, parts)
    said = sent if isinstance(sent, str) else "".join(part["text"] for part in sent)
    assert name in said
    assert "plain wörds" in said
    assert "<" not in said.partition(name)[2]
    (receipt,) = answer["antiphon:receipts"]
    assert (receipt["param"], receipt["action"]) == ("input[0].content[1].file_id", "rewritten")
    items = client.ok("GET", f"/v1/responses/{answer['id']}/input_items")["data"]
    assert items[0]["content"][1] == parts[1]  # stored as it was sent


def test_a_model_that_takes_files_gets_the_bytes(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml).client()
    id = upload(client, "a.pdf", b"%PDF-1.4 whatever")
    sent, _ = asked(upstream, client, [{"type": "input_file", "file_id": id}])
    assert sent[0]["type"] == "file"
    head, _, data = sent[0]["file"]["file_data"].partition(",")
    assert (head, base64.b64decode(data)) == ("data:application/pdf;base64", b"%PDF-1.4 whatever")
    assert sent[0]["file"]["filename"] == "a.pdf"


def test_in_the_background_the_target_of_a_route_gets_the_bytes(serve: Serve, upstream: Upstream) -> None:
    """The router itself takes no files, so a file became its text on the way, or was refused without any."""
    toml = upstream.toml.replace('model = "up/some-model"', 'model = ["up/some-model", "up/other"]')
    client = serve(toml).client(**{"X-Antiphon-Receipts": "1"})
    for name, content in (("a.txt", b"words"), ("a.bin", b"\xff\x00\x01")):
        part = {"type": "input_file", "file_id": upload(client, name, content)}
        made = client.create(input=[{"role": "user", "content": [part]}], background=True)
        seen = upstream.next()
        seen.finish("Read.")
        response = client.ended(made["id"])
        assert response["status"] == "completed"
        (sent,) = seen.body["messages"][-1]["content"]
        assert base64.b64decode(sent["file"]["file_data"].partition(",")[2]) == content
        assert "rewritten" not in [one["action"] for one in response["antiphon:receipts"]]


def test_a_file_without_text_is_refused_with_the_reason(serve: Serve, upstream: Upstream) -> None:
    client = serve(text_only(upstream)).client()
    for name, content, words in (
        ("a.bin", b"\xff\x00\x01", "no text"),
        ("a.pdf", b"%PDF-1.4 broken", "could not be read"),
        ("a.docx", b"PK\x03\x04 broken", "could not be read"),
        ("empty.txt", b" \n", "no text in it"),
    ):
        part = {"type": "input_file", "file_id": upload(client, name, content)}
        error = client.refused(
            400, "POST", "/v1/responses", json={"input": [{"role": "user", "content": [part]}]}
        )
        assert (error["code"], error["param"]) == ("file_unreadable", "input[0].content[0].file_id")
        assert words in error["message"]


def test_strict_refuses_what_would_be_rewritten(serve: Serve, upstream: Upstream) -> None:
    client = serve(text_only(upstream) + "[server]\nstrict = true\n").client()
    part = {"type": "input_file", "file_id": upload(client, "a.txt", b"text")}
    error = client.refused(
        400, "POST", "/v1/responses", json={"input": [{"role": "user", "content": [part]}]}
    )
    assert error["param"] == "input[0].content[0].file_id"


def test_a_large_upload_does_not_stand_in_memory(serve: Serve) -> None:
    """The gateway may hold 1 MB of bodies, and the file has 40."""
    server = serve(ECHO + '[server]\nmemory_limit = "1 MB"\nbody_limit = "1 MB"\n')
    content = bytes(range(256)) * 160 * 1024
    made = server.client().ok(
        "POST", "/v1/files", files={"file": ("big", BytesIO(content))}, data={"purpose": "user_data"}
    )
    assert made["bytes"] == len(content)
    digest = hashlib.sha256(server.client().get(f"/v1/files/{made['id']}/content").content).hexdigest()
    assert digest == hashlib.sha256(content).hexdigest() == stored(server)[0].name


def test_chat_completions_name_files_too(serve: Serve, upstream: Upstream) -> None:
    client = serve(text_only(upstream)).client()
    id = upload(client, "a.txt", b"in the file")
    message = {"role": "user", "content": [{"type": "file", "file": {"file_id": id}}]}
    body = {"model": "m", "messages": [message]}
    body["model"] = json.loads(client.get("/v1/models").text)["data"][0]["id"]
    thread = threading.Thread(target=lambda: client.post("/v1/chat/completions", json=body))
    thread.start()
    seen = upstream.next()
    seen.finish("Read.")
    thread.join()
    assert "in the file" in json.dumps(seen.body["messages"])
