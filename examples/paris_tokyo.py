"""Two cities, two calls at once, one answer.

ANTIPHON_BASE_URL says which server to ask. The script in the instructions plays the model on a gateway with
the `script` provider; a real model needs none.
"""

import asyncio

from antiphon import Agent, AsyncClient, tool

SCRIPT = """
```script
{"turns": [
  {"when": {"last": "message"}, "steps": [
    {"call": "get_weather", "arguments": {"location": "Paris"}, "id": "call_paris"},
    {"call": "get_weather", "arguments": {"location": "Tokyo"}, "id": "call_tokyo"}]},
  {"when": {"last": "function_call_output"}, "steps": [
    {"text": "It is 18 °C and sunny in Paris, and 22 °C and cloudy in Tokyo.", "chunk": 16},
    {"usage": {"input_tokens": 60, "output_tokens": 20}}]}
]}
```
"""
WEATHER = {"Paris": "18 °C and sunny", "Tokyo": "22 °C and cloudy"}


@tool
async def get_weather(location: str) -> dict[str, str]:
    """Get the current weather in a city.

    Args:
        location: the name of the city
    """
    return {"location": location, "weather": WEATHER[location]}


def weatherman(client: AsyncClient | None = None) -> Agent:
    return Agent(tools=[get_weather], instructions="You know the weather." + SCRIPT, client=client)


async def main() -> None:
    result = await weatherman().run("What is the weather in Paris and in Tokyo?")
    for step in result.steps:
        print(step.response.id, "asked for", len(step.outcomes), "results")
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
