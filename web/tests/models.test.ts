import { expect, test } from "vitest";
import { asMarkdown, fileName } from "../src/export";
import { curlOf } from "../src/inspect";
import { costOf, readModel, takes } from "../src/models";
import { structure } from "../src/parts";

const known = readModel({
  id: "m",
  owned_by: "p",
  "antiphon:model": {
    context_window: 8192,
    input_modalities: ["text", "image"],
    reasoning_levels: null,
    prices: { input: 2, cached_input: 0.5, output: 8, steps: [{ above: 200_000 }] },
  },
});
const unknown = readModel({ id: "n", owned_by: "p" });

test("what the catalogue does not know stays unknown", () => {
  expect(unknown).toMatchObject({ window: null, inputs: null, price: null });
  expect(costOf(unknown, { inputTokens: 1, outputTokens: 1 })).toBeNull();
});

test("an answer costs what its tokens cost, cached ones less, and long prompts are not guessed", () => {
  const usage = { inputTokens: 100_000, outputTokens: 50_000, cachedInputTokens: 40_000 };
  expect(costOf(known, usage)?.amount).toBeCloseTo(0.12 + 0.02 + 0.4);
  expect(costOf(known, { inputTokens: 300_000, outputTokens: 1 })).toBeNull();
});

test("a model that takes no audio says so, and one that is not known may take it", () => {
  expect(takes(known, "image/png")).toBe(true);
  expect(takes(known, "audio/wav")).toBe(false);
  expect(takes(known, "text/plain")).toBe(true);
  expect(takes(unknown, "audio/wav")).toBe(true);
});

test("only an answer that is one JSON object or list is structured", () => {
  expect(structure(' {"a": [1]} ')).toEqual({ a: [1] });
  expect(structure("[1, 2")).toBeNull();
  expect(structure("see {a}")).toBeNull();
  expect(structure("12")).toBeNull();
});

test("an export has both voices, and a name that any disk takes", () => {
  const chat = {
    title: "A / b",
    id: "c",
    current: null,
    running: null,
    created_at: 0,
    updated_at: 0,
    expires_at: null,
    pinned: false,
  };
  const written = asMarkdown(chat, [
    { id: "1", role: "user", parts: [{ type: "text", text: "Why?" }] },
    { id: "2", role: "assistant", metadata: { model: "m" }, parts: [{ type: "text", text: "Because." }] },
  ]);
  expect(written).toBe("# A / b\n\n## You\n\nWhy?\n\n## m\n\nBecause.\n");
  expect(fileName("A / b: «ça»!")).toBe("a-b-ça");
});

test("a quote inside the body does not end the shell's string", () => {
  expect(curlOf({ input: "it's" }, "http://h", false)).toContain(`it'\\''s`);
});
