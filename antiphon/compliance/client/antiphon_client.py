"""Takes Antiphon's own client through every play: `antiphon comply-client --with antiphon`."""

import os

from antiphon.client import Client
from antiphon.spec import events as ev
from antiphon.spec.items import FunctionCall, FunctionCallOutput


def main() -> None:
    with Client(os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"], trust_env=False) as client:
        for model in client.models.list():
            try:
                run_scenario(client, model.id)
            except Exception as error:  # the next scenario follows after any error
                print(f"{model.id}: {type(error).__name__}: {error}")


def run_scenario(client: Client, scenario: str) -> None:
    text = ""
    with client.responses.stream("Begin.", model=scenario) as stream:
        for event in stream:
            if isinstance(event, ev.OutputTextDeltaEvent | ev.RefusalDeltaEvent):
                text += event.delta
        answer = stream.response
    calls = [item for item in answer.output if isinstance(item, FunctionCall)]
    outputs = [FunctionCallOutput(call_id=call.call_id, output="Sunny.") for call in calls]
    client.responses.create(
        outputs or f"{answer.status}|{text}", model=scenario, previous_response_id=answer.id
    )


if __name__ == "__main__":
    main()
