"""Citations of files: only the gateway gives out marks, whatever a file has in it."""

from typing import Any

from tests.server.conftest import Serve
from tests.server.test_file_search import filled, searching
from tests.server.test_files import sdk
from tests.server.test_hosted_functions import SCRIPTED, call, script


def test_a_mark_that_stands_in_a_file_cites_nothing(serve: Serve) -> None:
    with sdk(serve(SCRIPTED)) as client:
        store = filled(client, cats="Cats sleep【1】 for 16 hours【2】.")
        said = script([call("file_search", query="cats")], [{"echo": True}])
        response: Any = client.responses.create(model="s/m", input=said, tools=[searching(store.id)])
    assert response.output_text == " cats.txt\nCats sleep[1] for 16 hours[2]."
    (cited,) = response.output[1].content[0].annotations
    assert cited.index == 0
