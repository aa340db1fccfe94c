"""Every operation of the API in a sentence or two: what the description and its page are made from."""

from antiphon.bridges.ai_sdk.request import ChatBody
from antiphon.bridges.vscode import VsCodeRequest
from antiphon.server.api import chat_completions, file_operations, messages, objects
from antiphon.server.api.operation import LIMIT, ORDER, Operation, Query
from antiphon.spec.request import CompactRequest, Request
from antiphon.spec.response import CompactResource, Response
from antiphon.tools.web_search.standalone import StandaloneSearchBody
from antiphon.wires.hashbrown.messages import HashbrownBody

RESPONSES, STORED, CONVERSATIONS, SERVER = "Responses", "Stored responses", "Conversations", "Server"
CHATS, BRIDGES = "Chats", "Bridges"

GROUPS = {
    RESPONSES: "Create responses. The contract is Open Responses 2026-04-24.",
    STORED: "What was stored can be read, continued, resumed as a stream, cancelled and deleted. "
    "Everything belongs to the key's tenant; another tenant's id does not exist.",
    CONVERSATIONS: "Lists of items that responses can continue: send `conversation` with a request.",
    CHATS: "Trees of responses with a title, which can be listed and searched: send `antiphon:chat` with a "
    "request. The terminal, the web app and the AI SDK bridge all show these.",
    file_operations.GROUP: file_operations.ABOUT,
    messages.GROUP: messages.ABOUT,
    chat_completions.GROUP: chat_completions.ABOUT,
    BRIDGES: "The same runs for user interfaces, each in the protocol of its own client.",
    SERVER: "Models, health, and this description.",
}

PAGING = (Query("after", "Continue after the item with this id.", {"type": "string"}), LIMIT, ORDER)
CHAT_PAGING = (
    Query("after", "Continue after the chat or the response with this id.", {"type": "string"}),
    LIMIT,
)
SEARCH = Query(
    "search",
    "Only chats with all of these words, or beginnings of words, in their title and texts.",
    {"type": "string", "maxLength": 200},
)
RESUMING = (
    Query("stream", "Send the events instead of the response.", {"type": "boolean", "default": False}),
    Query(
        "starting_after",
        "With `stream`: only events with a `sequence_number` above this one.",
        {"type": "integer", "minimum": 0},
    ),
)
FRAMES = (
    Query(
        "dialect",
        "`generation` for the released client, or the events themselves.",
        {"enum": ["generation", "open-responses"], "default": "generation"},
    ),
    Query(
        "threads",
        "`off`: nothing is kept, and the client sends the whole history.",
        {"enum": ["on", "off"], "default": "on"},
    ),
    Query(
        "content_filter",
        "How `open-responses` ends an answer that a filter cut short.",
        {"enum": ["failed", "incomplete"], "default": "failed"},
    ),
    Query(
        "preserve_chunk_boundaries",
        "`on`: a chunk of the upstream without words is a delta without words.",
        {"enum": ["on", "off"], "default": "off"},
    ),
)

CHAT = (
    Query(
        "protocol",
        "The stream: of AI SDK 5 to 7, of AI SDK 4, or of the specification. The header "
        "`X-Antiphon-Protocol` has the same effect.",
        {"enum": ["ui", "data-v1", "open-responses"]},
    ),
)

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("POST", "/v1/responses"): Operation(
        "createResponse",
        RESPONSES,
        "Create a response",
        "With `stream: true` the answer is a stream of server-sent events that ends with `[DONE]`. With "
        "`background: true` it comes at once, as `queued`, and the work goes on without the caller. The same "
        "path takes a WebSocket, on which every message of type `response.create` is one turn.",
        body=Request,
        answer=Response,
        streams=True,
        errors=(400, 404, 413, 415, 429, 500, 502, 503, 504),
        receipts=True,
        idempotent=True,
    ),
    ("POST", "/v1/responses/compact"): Operation(
        "compact",
        RESPONSES,
        "Compact a conversation",
        "The model summarises the conversation. The summary comes back sealed in a `compaction` item, which "
        "only this gateway can open, and takes the place of what it sums up.",
        body=CompactRequest,
        answer=CompactResource,
        errors=(400, 404, 413, 415, 500, 502),
        receipts=True,
    ),
    ("POST", "/v1/responses/input_tokens"): Operation(
        "countInputTokens",
        RESPONSES,
        "Count input tokens",
        "Nothing is generated. A provider that cannot count exactly is a 400.",
        body=Request,
        answer=objects.InputTokens,
        errors=(400, 404, 413, 415),
    ),
    ("GET", "/v1/responses/{id}"): Operation(
        "getResponse",
        STORED,
        "Retrieve a response, or resume its stream",
        "With `stream=true`, the events of a background response: those logged so far, then those still to "
        "come, spelled as for the caller who created it. It does not matter which connection or which worker "
        "has sent the earlier ones.",
        answer=Response,
        query=RESUMING,
        streams=True,
        errors=(400, 404),
        receipts=True,
    ),
    ("DELETE", "/v1/responses/{id}"): Operation(
        "deleteResponse",
        STORED,
        "Delete a response",
        "A background response that still runs is cancelled first. Responses that continue this one keep "
        "their context.",
        answer=objects.DeletedResponse,
        errors=(404,),
    ),
    ("POST", "/v1/responses/{id}/cancel"): Operation(
        "cancelResponse",
        STORED,
        "Cancel a response",
        "Only one that runs in the background. It ends as `incomplete`, reason `cancelled`, with the output "
        "so far. One that has ended stays as it is.",
        answer=Response,
        errors=(400, 404),
        receipts=True,
    ),
    ("GET", "/v1/responses/{id}/input_items"): Operation(
        "listInputItems",
        STORED,
        "List input items",
        "All items that the model was given, the earlier turns of its chain included.",
        answer=objects.ItemList,
        query=PAGING,
        errors=(400, 404),
    ),
    ("POST", "/v1/conversations"): Operation(
        "createConversation",
        CONVERSATIONS,
        "Create a conversation",
        body=objects.ConversationBody,
        body_required=False,
        answer=objects.ConversationObject,
        errors=(400, 413, 415),
    ),
    ("GET", "/v1/conversations/{id}"): Operation(
        "getConversation",
        CONVERSATIONS,
        "Retrieve a conversation",
        answer=objects.ConversationObject,
        errors=(404,),
    ),
    ("POST", "/v1/conversations/{id}"): Operation(
        "updateConversation",
        CONVERSATIONS,
        "Update a conversation",
        "The metadata that is sent replaces what was there.",
        body=objects.ConversationBody,
        narrows={"required": ["metadata"], "properties": {"metadata": {"type": "object"}}},
        answer=objects.ConversationObject,
        errors=(400, 404, 413, 415),
    ),
    ("DELETE", "/v1/conversations/{id}"): Operation(
        "deleteConversation",
        CONVERSATIONS,
        "Delete a conversation",
        "Its items go with it; responses that were created in it stay.",
        answer=objects.DeletedConversation,
        errors=(404,),
    ),
    ("GET", "/v1/conversations/{id}/items"): Operation(
        "listItems",
        CONVERSATIONS,
        "List the items of a conversation",
        answer=objects.ItemList,
        query=PAGING,
        errors=(400, 404),
    ),
    ("POST", "/v1/conversations/{id}/items"): Operation(
        "addItems",
        CONVERSATIONS,
        "Add items to a conversation",
        "They go to its end. Items are checked as the input of a response is, and given ids where they "
        "have none.",
        body=objects.ConversationBody,
        narrows={"required": ["items"], "properties": {"items": {"minItems": 1}}},
        answer=objects.ItemList,
        errors=(400, 404, 413, 415),
    ),
    ("GET", "/v1/conversations/{id}/items/{item}"): Operation(
        "getItem", CONVERSATIONS, "Retrieve an item", answer=objects.AnyItem, errors=(404,)
    ),
    ("DELETE", "/v1/conversations/{id}/items/{item}"): Operation(
        "deleteItem",
        CONVERSATIONS,
        "Delete an item",
        "The answer is the conversation.",
        answer=objects.ConversationObject,
        errors=(404,),
    ),
    ("GET", "/v1/antiphon/chats"): Operation(
        "listChats",
        CHATS,
        "List or search chats",
        "The one that changed last comes first.",
        answer=objects.ChatList,
        query=(*CHAT_PAGING, SEARCH),
        errors=(400,),
    ),
    ("POST", "/v1/antiphon/chats"): Operation(
        "createChat",
        CHATS,
        "Create a chat",
        "With `current`, a response that is in no chat yet becomes its newest, and all that it continues "
        "comes with it.",
        body=objects.ChatEditBody,
        body_required=False,
        answer=objects.ChatObject,
        errors=(400, 404, 413, 415),
    ),
    ("GET", "/v1/antiphon/chats/{id}"): Operation(
        "getChat", CHATS, "Retrieve a chat", answer=objects.ChatObject, errors=(404,)
    ),
    ("POST", "/v1/antiphon/chats/{id}"): Operation(
        "updateChat",
        CHATS,
        "Update a chat",
        "Renames it, pins it, or moves it to another branch. What is left out stays.",
        body=objects.ChatEditBody,
        body_required=False,
        answer=objects.ChatObject,
        errors=(400, 404, 413, 415),
    ),
    ("DELETE", "/v1/antiphon/chats/{id}"): Operation(
        "deleteChat",
        CHATS,
        "Delete a chat",
        "Its responses go with it; one that still runs is cancelled first.",
        answer=objects.DeletedChat,
        errors=(404,),
    ),
    ("GET", "/v1/antiphon/chats/{id}/responses"): Operation(
        "listChatResponses",
        CHATS,
        "List the responses of a chat",
        "The whole tree, each response after the one that it continues. The way from the beginning to "
        "`current` is what a reader sees; responses with the same `previous_response_id` are branches.",
        answer=objects.ChatResponseList,
        query=CHAT_PAGING,
        errors=(400, 404),
    ),
    **chat_completions.OPERATIONS,
    ("POST", "/api/v1/chat"): Operation(
        "chatWithAiSdk",
        BRIDGES,
        "Chat with a front end of the Vercel AI SDK",
        "Takes what `useChat` of versions 4 to 7 sends, or plain messages, with any parameter of a response "
        "beside them. The answer is a stream in the protocol that is asked for. The chat is kept under its "
        "`id`; with `session_id`, or a single `message`, it continues from the store.",
        body=ChatBody,
        answer="text/event-stream",
        query=CHAT,
        errors=(400, 404, 413, 415, 429, 500, 502, 503, 504),
        receipts=True,
    ),
    ("GET", "/api/v1/chat"): Operation(
        "resumeChatV1",
        BRIDGES,
        "Resume a stream of AI SDK 4",
        "Without a running answer the stream is empty.",
        answer="text/plain",
        query=(Query("chatId", "The `id` of the chat.", {"type": "string", "minLength": 1}, True), *CHAT),
        errors=(400,),
    ),
    ("GET", "/api/v1/chat/{id}/stream"): Operation(
        "resumeChat",
        BRIDGES,
        "Resume a stream",
        "The answer that a chat with `resumable: true` waits for, from its start; 204 when there is none.",
        answer="text/event-stream",
        empty="The chat waits for no answer",
        query=CHAT,
        errors=(400,),
    ),
    ("GET", "/api/v1/chat/health"): Operation(
        "chatHealth", BRIDGES, "Check that the chat route is up", answer=objects.Health, open=True
    ),
    ("POST", "/api/hashbrown"): Operation(
        "chatWithHashbrown",
        BRIDGES,
        "Chat with Hashbrown's client",
        "The answer is a stream of frames: four bytes with the length, then a JSON object. With a `threadId` "
        "the thread continues from the store; `load-thread` reads it. What goes wrong is a frame, the last.",
        body=HashbrownBody,
        answer="application/octet-stream",
        query=FRAMES,
        errors=(400, 413, 415, 500),
        receipts=True,
    ),
    ("POST", "/api/vscode/chat"): Operation(
        "chatWithVsCode",
        BRIDGES,
        "Chat with an extension of VS Code",
        "Messages, parts and tools are those of VS Code's language model API. The answer is a stream of "
        "lines, each a JSON object: `start`, parts, and `finish`. An empty line keeps the connection alive.",
        body=VsCodeRequest,
        answer="application/x-ndjson",
        errors=(400, 404, 413, 415, 429, 500, 502, 503, 504),
        receipts=True,
    ),
    **file_operations.FILES,
    ("POST", "/v1/alpha/search"): Operation(
        "createSearch",
        SERVER,
        "Create a web search of Codex",
        "Searches that Codex makes beside its responses, with `supports_standalone_web_search`. A failure "
        "is described in `output`, for the model.",
        body=StandaloneSearchBody,
        answer=objects.StandaloneSearchAnswer,
        errors=(400, 413, 415),
    ),
    **messages.MESSAGES,
    ("GET", "/v1/models"): Operation(
        "listModels",
        SERVER,
        "List models",
        "The configured names, then `PROVIDER/model` for what each provider lists. `antiphon:model` has what "
        "is known of each: window, limits, what it takes, and prices; null is unknown. With `client_version` "
        "(Codex) they come as `models` in the shape of its catalogue, with an `ETag`.",
        answer=objects.ModelList,
    ),
    ("GET", "/v1/models/{id}"): Operation(
        "getModel",
        SERVER,
        "Retrieve a model",
        "The id may have slashes in it.",
        answer=objects.ModelObject,
        errors=(404,),
    ),
    ("GET", "/v1/antiphon/session"): Operation(
        "retrieveSession",
        SERVER,
        "Retrieve the session",
        "The name of the caller's key, and which protocol the web app reads by default.",
        answer=objects.SessionObject,
    ),
    ("POST", "/v1/antiphon/session"): Operation(
        "createSession",
        SERVER,
        "Create a session",
        "Sets a cookie that stands for the key of this request. It is for the gateway's own page, and counts "
        "only where the browser says that this page sends it: with `Sec-Fetch-Site: same-origin`, or with "
        "the gateway's own origin as `Origin`. Other programs send their key.",
        answer=objects.SessionObject,
        errors=(403,),
    ),
    ("DELETE", "/v1/antiphon/session"): Operation(
        "deleteSession",
        SERVER,
        "Delete the session",
        "Ends the session of this browser and takes its cookie away.",
        answer=objects.DeletedSession,
    ),
    ("GET", "/v1/audit"): Operation(
        "audit",
        SERVER,
        "Get the audit report",
        "How many streams and answers this worker has audited, as `[server] audit` asks for, and how often "
        "each rule of the protocol was broken.",
        answer=objects.AuditReport,
    ),
    ("GET", "/v1/antiphon/audit/{id}"): Operation(
        "auditResponse",
        STORED,
        "Get the verdict on a response",
        "Holds the logged events of a background response to the rules of the protocol, whether or not "
        "`[server] audit` has chosen it. While it runs, the events so far are judged.",
        answer=objects.ResponseAudit,
        errors=(400, 404),
    ),
    ("GET", "/v1/antiphon/routes"): Operation(
        "listRoutes",
        SERVER,
        "List routes",
        "Every name that has several targets, with the state of each: whether it is asked or rests after "
        "failures, and how fast it is.",
        answer=objects.RouteList,
    ),
    ("GET", "/api/hello"): Operation(
        "hello",
        SERVER,
        "Check liveness, for clients that ask here",
        answer=objects.Health,
        open=True,
    ),
    ("GET", "/healthz"): Operation("health", SERVER, "Check liveness", answer=objects.Health, open=True),
    ("GET", "/readyz"): Operation(
        "readiness",
        SERVER,
        "Check readiness",
        "The server is ready when its store answers. Lists which models are loaded; one that is not is "
        "loaded by its first request.",
        answer=objects.Readiness,
        open=True,
    ),
    ("GET", "/openapi.json"): Operation(
        "describe", SERVER, "Get this description as OpenAPI", answer=objects.Description, open=True
    ),
    ("GET", "/docs"): Operation(
        "page", SERVER, "Get this description as a page", answer="text/html", open=True
    ),
    ("GET", "/"): Operation(
        "home", SERVER, "Get the web app", "This page where it is not built.", answer="text/html", open=True
    ),
    ("GET", "/favicon.svg"): Operation(
        "icon", SERVER, "Get the icon of the page", answer="image/svg+xml", open=True
    ),
}

# What each parameter of a request does here.
PARAMETERS = {
    "model": "A configured name, or `PROVIDER/model`. Without one, the default model answers.",
    "input": "A text, or a list of items. It may be absent where there is something else to answer.",
    "instructions": "A system message for this response only; a continuation does not inherit it.",
    "previous_response_id": "Continue this response: its context and its output come before `input`.",
    "conversation": "Continue this conversation, and add to it. Not together with `previous_response_id`.",
    "tools": "The tools that the model may call. All of them go to the model, whatever `tool_choice` says.",
    "tool_choice": "`none`, `auto`, `required`, one function, or `allowed_tools`; enforced on the output.",
    "parallel_tool_calls": "With `false`, at most one call is let through.",
    "max_tool_calls": "How many calls are let through; more of them end the response as `incomplete`.",
    "text": "The form of the answer. A `json_schema` is enforced, or the answer is checked against it.",
    "reasoning": "How much the model should reason, and whether it should summarise its reasoning.",
    "include": "More in the answer: encrypted reasoning, log probabilities.",
    "max_output_tokens": "At least 16. Reaching it ends the response as `incomplete`.",
    "temperature": "Sampling temperature, if the provider takes one.",
    "top_p": "Nucleus sampling, if the provider takes it.",
    "presence_penalty": "Above 0, words that were said are said less again; if the provider takes it.",
    "frequency_penalty": "The same, in proportion to how often a word was said; if the provider takes it.",
    "top_logprobs": "0 to 20 alternatives for each token, where the provider gives them.",
    "truncation": "`auto` leaves out the oldest items of an input that does not fit; else that is an error.",
    "metadata": "Up to 16 pairs, kept with the response.",
    "service_tier": "Which of the provider's tiers is to answer, where it has some.",
    "safety_identifier": "Who the end user is, for providers that want to know.",
    "prompt_cache_key": "Helps providers to find a cached prompt.",
    "store": "`false`: nothing is written, and the response cannot be read or continued over HTTP.",
    "background": "Answer at once and work on without the caller. Needs `store`.",
    "stream": "Answer with server-sent events.",
    "stream_options": "`include_obfuscation: true` hides the length of words in the size of packets.",
    "antiphon:chat": "The chat that the response joins, under the one that it continues. Needs `store`.",
}
