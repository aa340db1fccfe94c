"""An endpoint of your own: `uvicorn producer_endpoint:app`, and every Open Responses client can call it."""

import asyncio
from collections.abc import AsyncIterator

import httpx

from antiphon import AsyncClient, ReasoningDelta, Request, ResponsesApp, TextDelta


async def answer(request: Request) -> AsyncIterator[str | ReasoningDelta | TextDelta]:
    yield ReasoningDelta("Somebody is there.")
    for word in ("Hello, ", "world."):
        yield word


app = ResponsesApp(answer, model="greeter")


async def main() -> None:
    transport = httpx.ASGITransport(app=app)
    async with AsyncClient("http://127.0.0.1/v1", transport=transport) as client:
        response = await client.responses.create("Hi!")
        print(response.model, "says", response.output_text)


if __name__ == "__main__":
    asyncio.run(main())
