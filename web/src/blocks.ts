/**
 * Markdown that is still being written: what is finished is read once.
 *
 * Only the last block can change with what follows, so that only it is read again; a finished block keeps its identity,
 * and is not drawn again.
 */

import { Marked, type MarkedExtension, type Token } from "marked";

export interface Block {
  token: Token;
  raw: string;
}

const math: MarkedExtension = {
  extensions: [
    {
      name: "mathBlock",
      level: "block",
      start: (text) => text.search(/^(\$\$|\\\[)/m),
      tokenizer(text) {
        const found = /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])(?:\n|$)/.exec(text);
        return found
          ? { type: "mathBlock", raw: found[0], text: (found[1] ?? found[2] ?? "").trim() }
          : undefined;
      },
    },
    {
      name: "math",
      level: "inline",
      start: (text) => text.search(/\$|\\\(/),
      tokenizer(text) {
        const found = /^(?:\$(?!\s)((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d)|\\\(([\s\S]+?)\\\))/.exec(text);
        return found ? { type: "math", raw: found[0], text: found[1] ?? found[2] ?? "" } : undefined;
      },
    },
  ],
};

const marked = new Marked({ gfm: true, breaks: false }, math);

const DEEPEST = 50;
const AS_IT_IS = "plain";
/**
 * A line that begins within more than 50 quotations and lists. The lexer takes the cube of the depth, again with each
 * word, so such a text is not given to it. No blank can be matched in two ways, so this takes one look at each line.
 */
const TOO_DEEP =
  /^ ?(?=[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t]))(?: {2}|\t|>[ \t]*(?![ \t])|(?:[-*+]|\d{1,9}[.)])[ \t]+(?![ \t])){51}/m;
const FENCED = /^ {0,3}(`{3,}|~{3,})[^\n]*\n(?:[\s\S]*?^ {0,3}\1|[\s\S]*)/gm;

/** What is nested so deep that reading or drawing it would end the page is a block of plain words. */
function lex(text: string): Block[] {
  return tokens(text).map((token) => ({
    token: isWithin(token, DEEPEST) ? token : { type: AS_IT_IS, raw: token.raw },
    raw: token.raw,
  }));
}

function tokens(text: string): Token[] {
  try {
    return isTooDeep(text) ? [{ type: AS_IT_IS, raw: text }] : marked.lexer(text);
  } catch {
    return [{ type: AS_IT_IS, raw: text }];
  }
}

/** Code may begin its lines as it likes. */
function isTooDeep(text: string): boolean {
  return TOO_DEEP.test(text) && TOO_DEEP.test(text.replace(FENCED, ""));
}

function isWithin(token: Token, depth: number): boolean {
  const { tokens = [], items = [] } = token as { tokens?: Token[]; items?: Token[] };
  return depth > 0 && [tokens, items].every((inner) => inner.every((one) => isWithin(one, depth - 1)));
}

const TOGETHER = 40;

export class Blocks {
  private text = "";
  /** Finished blocks in groups that never change, and the blocks of an incomplete group. */
  private groups: (readonly Block[])[] = [];
  private rest: Block[] = [];
  /** How much of the text they hold. */
  private upTo = 0;
  private open: Block[] = [];

  /** The blocks of a text, in groups; one that goes on from the last is read from its last block. */
  read(given: string): readonly (readonly Block[])[] {
    const text = given.replace(/\r\n?/g, "\n");
    if (text !== this.text) this.goOn(text);
    return [...this.groups, [...this.rest, ...this.open]];
  }

  private goOn(text: string): void {
    if (!text.startsWith(this.text)) {
      this.groups = [];
      this.rest = [];
      this.upTo = 0;
    }
    this.text = text;
    const read = lex(text.slice(this.upTo));
    const last = Math.max(
      read.findLastIndex((block) => block.token.type !== "space"),
      0,
    );
    const done = read.slice(0, last);
    this.open = read.slice(last);
    this.upTo += done.reduce((sum, block) => sum + block.raw.length, 0);
    this.rest.push(...done);
    while (this.rest.length >= TOGETHER) this.groups.push(this.rest.splice(0, TOGETHER));
  }
}
