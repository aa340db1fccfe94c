"""Takes Antiphon's own client through every play: `antiphon comply-client --with antiphon`."""

import os

from antiphon.client import Client
from antiphon.spec import events as ev
from antiphon.spec.items import FunctionCall, FunctionCallOutput


def main() -> None:
    with Client(os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"], trust_env=False) as client:
        for model in client.models.list():
            try:
                take_part(client, model.id)
            except Exception as error:  # whatever a play makes of the client, the next one is played
                print(f"{model.id}: {type(error).__name__}: {error}")


def take_part(client: Client, play: str) -> None:
    text = ""
    with client.responses.stream("Begin.", model=play) as stream:
        for event in stream:
            if isinstance(event, ev.OutputTextDeltaEvent | ev.RefusalDeltaEvent):
                text += event.delta
        answer = stream.response
    calls = [item for item in answer.output if isinstance(item, FunctionCall)]
    outputs = [FunctionCallOutput(call_id=call.call_id, output="Sunny.") for call in calls]
    client.responses.create(outputs or f"{answer.status}|{text}", model=play, previous_response_id=answer.id)


if __name__ == "__main__":
    main()
