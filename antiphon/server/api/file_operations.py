"""The operations on uploaded files, on vector stores, and on the files of containers."""

from antiphon.server.api import file_objects as objects
from antiphon.server.api.operation import LIMIT, ORDER, Operation, Query

GROUP = "Files"
ABOUT = (
    "Files that requests name by their id, in the shape of the Messages API for a client that sends "
    "`anthropic-version`; vector stores that the hosted tool `file_search` looks "
    "through, and containers in which `code_interpreter` keeps files. Everything belongs to the key's tenant."
)

_PAGING = (Query("after", "Continue after the one with this id.", {"type": "string"}), LIMIT, ORDER)

FILES: dict[tuple[str, str], Operation] = {
    ("POST", "/v1/files"): Operation(
        "createFile",
        GROUP,
        "Create a file",
        "A form (`multipart/form-data`) with the file and its purpose; with `expires_after[anchor]` "
        "(`created_at`) and `expires_after[seconds]` it expires. A request names the file as "
        '`{"type": "input_file", "file_id": …}`.',
        body=objects.FileForm,
        body_type="multipart/form-data",
        answer=objects.FileObject,
        errors=(400, 413, 415, 429),
    ),
    ("GET", "/v1/files"): Operation(
        "listFiles",
        GROUP,
        "List files",
        answer=objects.FileList,
        query=(Query("purpose", "Only files of this purpose.", {"type": "string"}), *_PAGING),
        errors=(400,),
    ),
    ("GET", "/v1/files/{id}"): Operation(
        "getFile", GROUP, "Retrieve a file", answer=objects.FileObject, errors=(404,)
    ),
    ("DELETE", "/v1/files/{id}"): Operation(
        "deleteFile",
        GROUP,
        "Delete a file",
        "It is taken out of all vector stores, too.",
        answer=objects.DeletedFile,
        errors=(404,),
    ),
    ("GET", "/v1/files/{id}/content"): Operation(
        "getFileContent",
        GROUP,
        "Get the content of a file",
        answer="application/octet-stream",
        errors=(404,),
    ),
    ("POST", "/v1/vector_stores"): Operation(
        "createVectorStore",
        GROUP,
        "Create a vector store",
        "Files that are named are read before the answer comes.",
        body=objects.VectorStoreBody,
        body_required=False,
        answer=objects.VectorStoreObject,
        errors=(400, 404, 413, 415),
    ),
    ("GET", "/v1/vector_stores"): Operation(
        "listVectorStores",
        GROUP,
        "List vector stores",
        answer=objects.VectorStoreList,
        query=_PAGING,
        errors=(400,),
    ),
    ("GET", "/v1/vector_stores/{id}"): Operation(
        "getVectorStore", GROUP, "Retrieve a vector store", answer=objects.VectorStoreObject, errors=(404,)
    ),
    ("POST", "/v1/vector_stores/{id}"): Operation(
        "updateVectorStore",
        GROUP,
        "Update a vector store",
        "Its name, metadata and expiry. What is left out stays.",
        body=objects.VectorStoreBody,
        body_required=False,
        answer=objects.VectorStoreObject,
        errors=(400, 404, 413, 415),
    ),
    ("DELETE", "/v1/vector_stores/{id}"): Operation(
        "deleteVectorStore",
        GROUP,
        "Delete a vector store",
        "Its files stay.",
        answer=objects.DeletedVectorStore,
        errors=(404,),
    ),
    ("POST", "/v1/vector_stores/{id}/files"): Operation(
        "addVectorStoreFile",
        GROUP,
        "Add a file to a vector store",
        "It is read and cut into chunks before the answer comes; `status` says whether that was possible.",
        body=objects.VectorStoreFileBody,
        answer=objects.VectorStoreFile,
        errors=(400, 404, 413, 415),
    ),
    ("GET", "/v1/vector_stores/{id}/files"): Operation(
        "listVectorStoreFiles",
        GROUP,
        "List the files of a vector store",
        answer=objects.VectorStoreFileList,
        query=(
            Query("filter", "Only files with this status.", {"enum": ["completed", "failed"]}),
            *_PAGING,
        ),
        errors=(400, 404),
    ),
    ("GET", "/v1/vector_stores/{id}/files/{item}"): Operation(
        "getVectorStoreFile",
        GROUP,
        "Retrieve a file of a vector store",
        answer=objects.VectorStoreFile,
        errors=(404,),
    ),
    ("DELETE", "/v1/vector_stores/{id}/files/{item}"): Operation(
        "removeVectorStoreFile",
        GROUP,
        "Delete a file from a vector store",
        "The file itself stays.",
        answer=objects.DeletedVectorStoreFile,
        errors=(404,),
    ),
    ("POST", "/v1/vector_stores/{id}/search"): Operation(
        "searchVectorStore",
        GROUP,
        "List the passages that fit a query",
        "A search in a vector store: by their words and, with an embedding model, by their meaning.",
        body=objects.VectorStoreSearchBody,
        answer=objects.SearchResultPage,
        errors=(400, 404, 413, 415, 502),
    ),
    ("POST", "/v1/containers"): Operation(
        "createContainer",
        GROUP,
        "Create a container",
        "For code that a model will run, with copies of uploaded files. A tool names it: "
        '`{"type": "code_interpreter", "container": "cntr_…"}`.',
        body=objects.ContainerBody,
        body_required=False,
        answer=objects.ContainerObject,
        errors=(400, 404, 413, 415, 429),
    ),
    ("GET", "/v1/containers/{id}/files"): Operation(
        "listContainerFiles",
        GROUP,
        "List the files of a container",
        "What code that a model has run keeps from one call to the next.",
        answer=objects.ContainerFileList,
        errors=(404,),
    ),
    ("GET", "/v1/containers/{id}/files/{item}/content"): Operation(
        "getContainerFile",
        GROUP,
        "Retrieve the content of a file in a container",
        answer="application/octet-stream",
        errors=(404,),
    ),
}
