import { beforeEach, expect, test, vi } from "vitest";

const kept = new Map<string, string>();
vi.stubGlobal("localStorage", {
  getItem: (name: string) => kept.get(name) ?? null,
  setItem: (name: string, value: string) => kept.set(name, value),
});
vi.stubGlobal("document", { documentElement: { dataset: {} } });

const { models, readModel } = await import("../src/models");
const { parameters, settings } = await import("../src/settings");
const { timings } = await import("../src/timings");

beforeEach(() => kept.clear());

test("tools are sent that the chosen model announces, and no others", () => {
  const searching = readModel({
    id: "a",
    owned_by: "p",
    "antiphon:tools": ["web_search", "code_interpreter"],
  });
  models.set({ models: [searching, readModel({ id: "b", owned_by: "p" })], isLoaded: true });
  settings.change({ tools: ["web_search", "gone"] });
  expect(parameters().tools).toEqual([{ type: "web_search" }]);
  settings.change({ model: "b" });
  expect(parameters().tools).toBeUndefined();
});

async function seen(sent: number, words: string[]): Promise<void> {
  const { writable, readable } = timings.watch(sent, null);
  const reading = readable.pipeTo(new WritableStream());
  const writer = writable.getWriter();
  await writer.write({ type: "start", messageMetadata: { responseId: "resp_1" } });
  for (const delta of words) await writer.write({ type: "text-delta", id: "t", delta });
  await writer.close();
  await reading;
}

test("an answer that is resumed keeps the time of its first word, and is as slow as it was", async () => {
  vi.useFakeTimers({ toFake: ["Date", "performance"] });
  vi.advanceTimersByTime(1);
  const sent = performance.now();
  vi.advanceTimersByTime(400);
  await seen(sent, ["One"]);
  expect(timings.of("resp_1")).toEqual({ first: 400, words: 0, thought: null });
  vi.advanceTimersByTime(5000);
  await seen(0, ["One", " two"]);
  expect(timings.of("resp_1")).toEqual({ first: 400, words: 5000, thought: null });
  vi.useRealTimers();
});

test("what another browser has asked has no times", async () => {
  const { writable, readable } = timings.watch(0, null);
  const reading = readable.pipeTo(new WritableStream());
  const writer = writable.getWriter();
  await writer.write({ type: "start", messageMetadata: { responseId: "resp_2" } });
  await writer.write({ type: "text-delta", id: "t", delta: "x" });
  await writer.close();
  await reading;
  expect(timings.of("resp_2")).toBeUndefined();
});
