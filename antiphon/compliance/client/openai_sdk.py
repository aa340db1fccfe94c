"""Takes the OpenAI SDK through every play: `antiphon comply-client --with openai`.

It is also the pattern for a client of your own: ask for the stream of each listed model, then send what was
understood as the next request of the chain.
"""

from openai import APIError, OpenAI
from openai.types.responses import Response, ResponseInputParam


def main() -> None:
    # OPENAI_BASE_URL and OPENAI_API_KEY say where to.
    client = OpenAI()
    for model in client.models.list():
        try:
            run_scenario(client, model.id)
        except Exception as error:  # the next scenario follows after any error
            print(f"{model.id}: {type(error).__name__}: {error}")


def run_scenario(client: OpenAI, scenario: str) -> None:
    text, response_id, status = "", "", "failed"
    answer: Response | None = None
    try:
        for event in client.responses.create(model=scenario, input="Begin.", stream=True):
            if event.type == "response.created":
                response_id = event.response.id
            elif event.type in ("response.output_text.delta", "response.refusal.delta"):
                text += event.delta
            elif event.type in ("response.completed", "response.incomplete", "response.failed"):
                answer, status = event.response, event.response.status or ""
    except APIError:
        if not response_id:
            raise
    reply: str | ResponseInputParam = f"{status}|{text}"
    if answer is not None and (calls := [item for item in answer.output if item.type == "function_call"]):
        reply = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."} for call in calls
        ]
    client.responses.create(model=scenario, previous_response_id=response_id, input=reply)


if __name__ == "__main__":
    main()
