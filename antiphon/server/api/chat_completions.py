"""The operations of OpenAI's older APIs: chat completions and embeddings."""

from antiphon.bridges.chat_completions import ChatCompletion, ChatCompletionBody
from antiphon.bridges.chat_completions.embeddings import EmbeddingBody, EmbeddingList
from antiphon.server.api import objects
from antiphon.server.api.operation import Operation

GROUP = "Compatible APIs"
ABOUT = "APIs of others, for clients that speak no Responses."

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("POST", "/v1/chat/completions"): Operation(
        "createChatCompletion",
        GROUP,
        "Create a chat completion",
        "OpenAI's older API, for the clients that speak nothing else: any model answers it, with the same "
        "routes, limits and receipts. The `id` of an answer with `store: true` is that of a response, which "
        "can be continued. With `stream: true` the answer is a stream of chunks that ends with `[DONE]`.",
        body=ChatCompletionBody,
        answer=ChatCompletion,
        streams=True,
        stream="A chunk of the completion, or an error, after which nothing follows.",
        errors=(400, 404, 413, 415, 429, 500, 502, 503, 504),
        receipts=True,
        idempotent=True,
    ),
    ("GET", "/v1/chat/completions/{id}"): Operation(
        "getChatCompletion",
        GROUP,
        "Retrieve a chat completion",
        "Any stored response that has ended, told as a chat completion.",
        answer=ChatCompletion,
        errors=(404,),
        receipts=True,
    ),
    ("DELETE", "/v1/chat/completions/{id}"): Operation(
        "deleteChatCompletion",
        GROUP,
        "Delete a chat completion",
        answer=objects.DeletedCompletion,
        errors=(404,),
    ),
    ("POST", "/v1/embeddings"): Operation(
        "createEmbeddings",
        GROUP,
        "Create embeddings",
        "Vectors of texts, from the providers that give them; a model of another provider is a 404.",
        body=EmbeddingBody,
        answer=EmbeddingList,
        errors=(400, 404, 413, 415, 429, 500, 502, 503, 504),
        receipts=True,
    ),
}
