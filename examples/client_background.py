"""Work that goes on without the program: begun here, and followed from its first word by another client.

ANTIPHON_BASE_URL says which server to ask. The script in the instructions plays the model on a gateway with
the `script` provider; a real model needs none.
"""

import asyncio

from antiphon import AsyncClient

SCRIPT = """
```script
[{"text": "Once upon a time there was an end.", "chunk": 7, "delay": 0.01}]
```
"""


async def main() -> None:
    async with AsyncClient() as client:
        begun = await client.responses.create(
            "Tell me a story.", instructions="Be brief." + SCRIPT, background=True
        )
        print("begun as", begun.status)
    async with AsyncClient() as client:
        async with await client.responses.retrieve(begun.id, stream=True) as stream:
            async for word in stream.text_deltas():
                print(word, end="", flush=True)
        print(f"\nended as {stream.response.status}")
        await client.responses.delete(begun.id)


if __name__ == "__main__":
    asyncio.run(main())

# > begun as queued
# > Once upon a time there was an end.
# > ended as completed
