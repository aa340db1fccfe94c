"""`/v1/containers`: folders for the code that a model runs, and what it left there."""

from pathlib import Path
from urllib.parse import unquote

from antiphon.server.api.file_objects import ContainerBody, ContainerFile, ContainerFileList, ContainerObject
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.file_transfer import send_file
from antiphon.server.gateway import Gateway
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.tools.base import ToolFailure
from antiphon.tools.code_interpreter import CodeInterpreter
from antiphon.tools.code_interpreter.containers import files_by_id

_NOT_A_PAGE = ((b"content-disposition", b"attachment"), (b"x-content-type-options", b"nosniff"))


async def create(gateway: Gateway, exchange: Exchange, body: ContainerBody) -> ContainerObject:
    """For code that a model will run, with copies of uploaded files. A tool names it: `{"type":
    "code_interpreter", "container": "cntr_…"}`.
    """
    tool, tenant, now = _tool(gateway), exchange.context.tenant, gateway.engine.clock()
    files = await tool.find_files(tenant, body.file_ids, "file_ids")
    try:
        id = tool.containers.new(tenant, now)
    except ToolFailure as full:
        raise SpecError(ErrorPayload("too_many_requests", str(full), "too_many_containers"), 429) from None
    try:
        await tool.put(tenant, id, files)
    except ToolFailure as full:
        raise SpecError(invalid_param("file_ids", str(full))) from None
    return ContainerObject(id=id, created_at=int(now), name=body.name)


async def list_files(gateway: Gateway, exchange: Exchange) -> ContainerFileList:
    """What code that a model has run keeps from one call to the next."""
    container = exchange.params["id"]
    files = [
        ContainerFile(
            id=id,
            container_id=container,
            created_at=int(file.stat().st_mtime),
            bytes=file.stat().st_size,
            path=f"/mnt/data/{unquote(file.name)}",
        )
        for id, file in files_by_id(_find_container(gateway, exchange)).items()
    ]
    return ContainerFileList(data=files)


async def content(gateway: Gateway, exchange: Exchange) -> None:
    # As an attachment: a model has written the bytes, and a browser must not show them as a page.
    file = files_by_id(_find_container(gateway, exchange)).get(exchange.params["item"])
    if file is None:
        raise _missing(f"there is no file {exchange.params['item']!r} in this container")
    try:
        await send_file(exchange, file, _NOT_A_PAGE)
    except FileNotFoundError:
        raise _missing(f"the file {exchange.params['item']!r} was removed from this container") from None


def _find_container(gateway: Gateway, exchange: Exchange) -> Path:
    id = exchange.params["id"]
    path = _tool(gateway).containers.find(exchange.context.tenant, id)
    if path is None:
        raise _missing(f"there is no container {id!r}, or no longer")
    return path


def _tool(gateway: Gateway) -> CodeInterpreter:
    tool = gateway.engine.hosted.tools["code_interpreter"]
    assert isinstance(tool, CodeInterpreter)
    return tool


def _missing(message: str) -> SpecError:
    return SpecError(ErrorPayload("not_found", message, code="not_found"), 404)


ENDPOINTS = (
    Endpoint(
        "POST /v1/containers",
        create,
        "createContainer",
        "Create a container",
        body_required=False,
        errors=(404, 429),
    ),
    Endpoint(
        "GET /v1/containers/{id}/files", list_files, "listContainerFiles", "List the files of a container"
    ),
    Endpoint(
        "GET /v1/containers/{id}/files/{item}/content",
        content,
        "getContainerFile",
        "Retrieve the content of a file in a container",
        answer="application/octet-stream",
    ),
)
