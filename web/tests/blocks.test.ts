import { expect, test } from "vitest";
import { Blocks } from "../src/blocks";

const DOCUMENT = `# Title

Some *text* with \`code\` and a [link](https://example.com).

- one
- two

  still two

1. first
2. second

\`\`\`python
# not a heading

print("$x$")
\`\`\`

| a | b |
|---|---|
| 1 | 2 |

$$
x^2
$$

> quoted
> twice

The end: $a + b$.
`;

const shape = (blocks: Blocks, text: string) =>
  blocks
    .read(text)
    .flat()
    .map(({ raw, token }) => [token.type, raw]);

test("what is read piece by piece is what is read at once, wherever it is cut", () => {
  const whole = shape(new Blocks(), DOCUMENT);
  for (const size of [1, 2, 3, 7, 19]) {
    const blocks = new Blocks();
    let read: unknown = [];
    for (let end = size; end < DOCUMENT.length + size; end += size)
      read = shape(blocks, DOCUMENT.slice(0, end));
    expect(read).toEqual(whole);
  }
});

test("a finished block keeps its identity", () => {
  const blocks = new Blocks();
  const [first] = blocks.read("One.\n\nTwo").flat();
  expect(blocks.read("One.\n\nTwo and three.\n\nFour").flat()[0]).toBe(first);
});

test("another text begins anew", () => {
  const blocks = new Blocks();
  blocks.read("One.\n\nTwo.\n\nThree.");
  expect(shape(blocks, "Else.")).toEqual([["paragraph", "Else."]]);
});

test.each([60, 900, 20_000])("a quote within %i quotes is plain words", (depth) => {
  const text = `${">".repeat(depth)} deep`;
  const [deep] = new Blocks().read(text).flat();
  expect(deep?.token).toEqual({ type: "plain", raw: text });
});

const indented = (depth: number, step: string, mark: string) =>
  Array.from({ length: depth }, (_, n) => `${step.repeat(n)}${mark} item ${n}`).join("\n");

test.each([
  ["two blanks", indented(800, "  ", "-")],
  ["four blanks", indented(400, "    ", "*")],
  ["tabs", indented(600, "\t", "1.")],
  ["one line", `${"- ".repeat(20_000)}deep`],
  ["wide gaps", `${"-   ".repeat(20_000)}deep`],
  ["quotations too", `${"> 1) ".repeat(5_000)}deep`],
])("a list that is nested too deep, by %s, is not read level by level", (_, text) => {
  // 800 levels took 30 s, and again with each word that came.
  const blocks = new Blocks();
  for (let end = text.length - 20; end <= text.length; end += 1) blocks.read(text.slice(0, end));
  expect(blocks.read(text).flat()).toEqual([{ token: { type: "plain", raw: text }, raw: text }]);
});

test("lists of a usual depth are lists, and code may be indented as deep as it likes", () => {
  const [list] = new Blocks().read(indented(20, "  ", "-")).flat();
  expect(list?.token.type).toBe("list");
  const code = `\`\`\`yaml\n${" ".repeat(140)}- deep\n`;
  for (const text of [code, `${code}\`\`\`\n`])
    expect(new Blocks().read(text).flat()[0]?.token.type).toBe("code");
  const rules = [`${"-".repeat(200)}\n`, `${"- ".repeat(20)}\n`, `${"* ".repeat(3)}\n`];
  expect(rules.map((text) => new Blocks().read(text).flat()[0]?.token.type)).toEqual(["hr", "hr", "hr"]);
});
