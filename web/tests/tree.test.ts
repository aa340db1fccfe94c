import { describe, expect, test } from "vitest";
import type { TreeNode } from "../src/protocol";
import { Tree } from "../src/tree";

function node(id: string, previous: string | null): TreeNode {
  const rest = { created_at: 0, status: "completed" as const, model: "m", input: [], output: [] };
  return { id, previous_response_id: previous, usage: null, error: null, incomplete_details: null, ...rest };
}

const tree = new Tree([
  node("a", null),
  node("b", "a"),
  node("c", "b"),
  node("b2", "a"),
  node("lost", "gone"),
]);

describe("a tree of responses", () => {
  test("shows the path to the current one", () => {
    expect(tree.path("c").map(({ id }) => id)).toEqual(["a", "b", "c"]);
    expect(tree.path("b2").map(({ id }) => id)).toEqual(["a", "b2"]);
    expect(tree.path(null)).toEqual([]);
  });

  test("knows the branches beside a response", () => {
    const [, b] = tree.path("c");
    expect(b && tree.branches(b)).toEqual({ ids: ["b", "b2"], at: 0 });
  });

  test("leads to the newest end of a branch", () => {
    expect(tree.newest("b")).toBe("c");
    expect(tree.newest("b2")).toBe("b2");
  });

  test("begins anew where a predecessor is gone", () => {
    expect(tree.path("lost").map(({ id }) => id)).toEqual(["lost"]);
  });
});
