/** A chat is a tree of responses: the path to the current one is what is seen, siblings are branches. */

import type { TreeNode } from "./protocol";

export interface Branches {
  /** The responses that answer the same point of the chat, oldest first. */
  ids: string[];
  /** Which of them is on the path. */
  at: number;
}

export class Tree {
  readonly nodes: ReadonlyMap<string, TreeNode>;
  private readonly children = new Map<string | null, string[]>();

  constructor(nodes: readonly TreeNode[]) {
    this.nodes = new Map(nodes.map((node) => [node.id, node]));
    for (const node of nodes) {
      const parent = this.parent(node);
      this.children.set(parent, [...(this.children.get(parent) ?? []), node.id]);
    }
  }

  /** Whom a response follows; one whose predecessor is gone begins a branch of its own. */
  parent(node: TreeNode): string | null {
    const before = node.previous_response_id;
    return before !== null && this.nodes.has(before) ? before : null;
  }

  /** From the first response to this one. */
  path(current: string | null): TreeNode[] {
    const found: TreeNode[] = [];
    const seen = new Set<string>();
    for (let id = current; id !== null && !seen.has(id); ) {
      const node = this.nodes.get(id);
      if (node === undefined) break;
      seen.add(id);
      found.unshift(node);
      id = this.parent(node);
    }
    return found;
  }

  branches(node: TreeNode): Branches {
    const ids = this.children.get(this.parent(node)) ?? [node.id];
    return { ids, at: ids.indexOf(node.id) };
  }

  /** The newest end of a branch, which is where choosing it leads. */
  newest(id: string): string {
    const below = this.children.get(id);
    const last = below?.at(-1);
    return last === undefined ? id : this.newest(last);
  }
}
