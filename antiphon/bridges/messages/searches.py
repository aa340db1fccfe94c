"""A search that the gateway ran, as this API tells of it: a `server_tool_use` and its results, and back.

The results keep the sealed call in the field that is meant for what only the server can read, so that a model
is given the same call and result again when the client sends them back.
"""

from typing import Any

from antiphon.spec.codec import Opaque
from antiphon.spec.ids import prefix
from antiphon.spec.items import Item
from antiphon.tools.base import MARK
from antiphon.wires.sealing import is_sealed

_Json = dict[str, Any]

SEARCH = "web_search_call"
USE = "server_tool_use"
RESULT = "web_search_tool_result"
_PREFIX = "srvtoolu_"
_OURS = _PREFIX + prefix(SEARCH)


def is_search(item: Item) -> bool:
    action = item.fields.get("action") if isinstance(item, Opaque) and item.type == SEARCH else None
    return isinstance(action, dict) and action.get("type") == "search"


def search_blocks(item: Item) -> list[_Json]:
    """The blocks of a search; none for another item."""
    if not isinstance(item, Opaque) or not is_search(item):
        return []
    fields, action, id = item.fields, item.fields["action"], _PREFIX + item.id
    used = {"type": USE, "id": id, "name": "web_search", "input": {"query": action.get("query") or ""}}
    content: Any = {"type": f"{RESULT}_error", "error_code": "unavailable"}
    if fields.get("status") == "completed":
        content = [_result_block(one) for one in fields.get("results") or action.get("sources") or ()]
        if content:
            content[0]["encrypted_content"] = fields.get(MARK) or ""
    return [used, {"type": RESULT, "tool_use_id": id, "content": content}]


def _result_block(result: _Json) -> _Json:
    url = result.get("url") or ""
    told = {"type": "web_search_result", "url": url, "title": result.get("title") or url}
    return {**told, "encrypted_content": "", "page_age": result.get("date")}


def is_own_use(block: _Json) -> bool:
    """Is it the call of a search that the gateway ran? Its results tell of it."""
    return block.get("type") == USE and str(block.get("id")).startswith(_OURS)


def own_search(block: _Json, used: _Json) -> Opaque | None:
    """The item that results of ours were made from, with the call in `used`; None for those of others."""
    id, content = str(block.get("tool_use_id")), block.get("content")
    if block.get("type") != RESULT or not id.startswith(_OURS):
        return None
    found = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    given = used.get("input")
    query = given.get("query") if isinstance(given, dict) else None
    action = {"type": "search", "query": query if isinstance(query, str) else ""}
    status = "completed" if isinstance(content, list) else "failed"
    made = {"type": SEARCH, "id": id.removeprefix(_PREFIX), "status": status, "action": action}
    results = [{"url": one.get("url"), "title": one.get("title")} for one in found]
    mark = found[0].get("encrypted_content") if found else None
    kept = {MARK: mark} if isinstance(mark, str) and is_sealed(mark) else {}
    return Opaque.make(**made, results=results, **kept)
