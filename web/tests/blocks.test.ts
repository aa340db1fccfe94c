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
