"""An endpoint of your own: `uvicorn producer_endpoint:app`, and every Open Responses client can call it.

This agent has no model: it asks the first tool of the caller about everything, and tells what the tool said.
"""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx

from antiphon import (
    AsyncClient,
    CallDelta,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    ReasoningDelta,
    Request,
    ResponsesApp,
)


async def answer(request: Request) -> AsyncIterator[str | ReasoningDelta | CallDelta]:
    assert isinstance(request.input, list)  # the whole conversation, whatever the client has sent
    tools = [tool for tool in request.tools if isinstance(tool, FunctionTool)]
    match request.input[-1]:
        case FunctionCallOutput(output=said):
            yield f"The tool says: {said}"
        case _ if tools and request.tool_choice != "none":
            wanted = (tools[0].parameters or {}).get("required", ())
            arguments = dict.fromkeys(wanted, request.last_user_text())
            yield CallDelta(0, json.dumps(arguments), name=tools[0].name)
        case _:
            yield ReasoningDelta("Somebody is there.")
            for word in ("Hello, ", "world."):
                yield word


async def summarise(request: Request) -> str:
    return f"They have said {len(request.input or ())} things."


app = ResponsesApp(answer, model="greeter", summarise=summarise, without=("images", "files", "videos"))


async def main() -> None:
    transport = httpx.ASGITransport(app=app)
    weather = FunctionTool("get_weather", parameters={"type": "object", "required": ["city"]})
    async with AsyncClient("http://127.0.0.1/v1", transport=transport) as client:
        response = await client.responses.create("Hi!")
        print(response.model, "says", response.output_text)
        response = await client.responses.create("Paris", tools=[weather])
        (call,) = response.output
        assert isinstance(call, FunctionCall)
        print(call.name, call.arguments)
        told = FunctionCallOutput(call_id=call.call_id, output="18 degrees")
        response = await client.responses.create([told], tools=[weather], previous_response_id=response.id)
        print(response.output_text)


if __name__ == "__main__":
    asyncio.run(main())

# > greeter says Hello, world.
# > get_weather {"city": "Paris"}
# > The tool says: 18 degrees
