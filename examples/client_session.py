"""A conversation that only this program remembers: `store=False`, over one WebSocket.

Stop the server between two turns and start it again: the conversation goes on. ANTIPHON_BASE_URL says which
server to ask.
"""

import asyncio

from antiphon import AsyncClient

LINES = ("My name is Ada.", "I live in London.", "Goodbye.")


async def main() -> None:
    async with AsyncClient() as client, client.session(store=False) as session:
        for line in LINES:
            async with session.stream(line) as stream:
                async for word in stream.text_deltas():
                    print(word, end="", flush=True)
            print()
        print(len(session.items), "items over", session.transport)


if __name__ == "__main__":
    asyncio.run(main())

# > My name is Ada.
# > I live in London.
# > Goodbye.
# > 6 items over websocket
