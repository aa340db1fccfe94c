import type { UIMessageChunk } from "ai";
import { expect, test } from "vitest";
import { coalesced } from "../src/transport";

async function through(chunks: UIMessageChunk[]): Promise<UIMessageChunk[]> {
  const found: UIMessageChunk[] = [];
  const sink = new WritableStream<UIMessageChunk>({ write: (chunk) => void found.push(chunk) });
  await new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  })
    .pipeThrough(coalesced())
    .pipeTo(sink);
  return found;
}

test("ten thousand deltas become a few, with the same words in the same order", async () => {
  const words = Array.from({ length: 10_000 }, (_, n) => `w${n} `);
  const deltas = words.map((delta): UIMessageChunk => ({ type: "text-delta", id: "t", delta }));
  const found = await through([{ type: "text-start", id: "t" }, ...deltas, { type: "text-end", id: "t" }]);
  expect(found.length).toBeLessThan(200);
  expect(found[0]?.type).toBe("text-start");
  expect(found.at(-1)?.type).toBe("text-end");
  expect(found.map((chunk) => (chunk.type === "text-delta" ? chunk.delta : "")).join("")).toBe(
    words.join(""),
  );
});

test("deltas of different parts are not joined", async () => {
  const found = await through([
    { type: "reasoning-delta", id: "r", delta: "a" },
    { type: "text-delta", id: "t", delta: "b" },
    { type: "text-delta", id: "u", delta: "c" },
  ]);
  expect(found.map((chunk) => chunk.type)).toEqual(["reasoning-delta", "text-delta", "text-delta"]);
});

test("a delta that is held while the answer is stopped is dropped in silence", async () => {
  const { readable, writable } = coalesced();
  const writer = writable.getWriter();
  const reader = readable.getReader();
  const delta = (words: string): UIMessageChunk => ({ type: "text-delta", id: "t", delta: words });
  void writer.write(delta("a"));
  await reader.read();
  const next = reader.read();
  await writer.write(delta("b"));
  await reader.cancel();
  expect((await next).done).toBe(true);
  // What a timer throws would fail the run.
  await new Promise((resolve) => setTimeout(resolve, 100));
});
