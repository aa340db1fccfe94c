/** Markdown as elements, never as HTML: what a model writes can only become what is drawn here. */

import type { Token, Tokens } from "marked";
import { lazy, memo, type ReactNode, Suspense, useRef } from "react";
import { Blocks, type Block as Parsed } from "./blocks";
import { CodeBlock } from "./code";
import { text as words } from "./text";

const Source = ({ source }: { source: string }) => <code>{source}</code>;
const Formula = lazy(() => import("./formula").catch(() => ({ default: Source })));
/** A cell with more characters is a sentence. */
const SENTENCE = 28;
const SAFE_LINK = /^(https?:|mailto:)/i;

export default function Markdown({ text }: { text: string }) {
  const blocks = useRef(new Blocks());
  return (
    <div className="prose">
      {blocks.current.read(text).map((group, n) => (
        <Group key={n} blocks={group} />
      ))}
    </div>
  );
}

/** Many blocks that are finished: React need not look at each of them whenever a word is added. */
const Group = memo(
  ({ blocks }: { blocks: readonly Parsed[] }): ReactNode => blocks.map(({ token }, n) => blockOf(token, n)),
);

/** Drawn once: a token with the same source is the same. */
const Block = memo(
  ({ token }: { token: Token }): ReactNode => block(token),
  (before, now) => before.token.type === now.token.type && before.token.raw === now.token.raw,
);

function block(token: Token): ReactNode {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return heading(token as Tokens.Heading);
    case "code":
      return <CodeBlock code={(token as Tokens.Code).text} language={(token as Tokens.Code).lang ?? ""} />;
    case "blockquote":
      return <blockquote>{(token as Tokens.Blockquote).tokens.map(blockOf)}</blockquote>;
    case "list":
      return list(token as Tokens.List);
    case "hr":
      return <hr />;
    case "table":
      return table(token as Tokens.Table);
    case "mathBlock":
      return formula((token as Tokens.Generic).text as string, true);
    case "paragraph":
      return <p>{inline((token as Tokens.Paragraph).tokens)}</p>;
    case "text":
      return inline((token as Tokens.Text).tokens ?? [token]);
    default:
      return <p className="whitespace-pre-wrap">{token.raw}</p>;
  }
}

const blockOf = (token: Token, n: number) => <Block key={n} token={token} />;

function heading(token: Tokens.Heading): ReactNode {
  // The page has its own first heading, and each voice its second.
  const Tag = `h${Math.min(token.depth + 2, 6)}` as "h3";
  return <Tag>{inline(token.tokens)}</Tag>;
}

function list(token: Tokens.List): ReactNode {
  const items = token.items.map((item, n) => <ListItem key={n} item={item} />);
  return token.ordered ? <ol start={token.start === "" ? 1 : token.start}>{items}</ol> : <ul>{items}</ul>;
}

const ListItem = memo(
  ({ item }: { item: Tokens.ListItem }) => (
    <li className={item.task ? "list-none" : undefined}>
      {item.task && (
        <input
          type="checkbox"
          checked={item.checked ?? false}
          readOnly
          disabled
          className="mr-2"
          aria-label={item.text}
        />
      )}
      {item.tokens.filter((token) => token.type !== "checkbox").map(blockOf)}
    </li>
  ),
  (before, now) => before.item.raw === now.item.raw,
);

function table(token: Tokens.Table): ReactNode {
  const cells = (row: Tokens.TableCell[], Tag: "th" | "td") =>
    row.map((cell, n) => (
      <Tag key={n} className={widthOf(cell.text)} style={cell.align ? { textAlign: cell.align } : undefined}>
        {inline(cell.tokens)}
      </Tag>
    ));
  return (
    <div className="overflow-x-auto" tabIndex={0}>
      <table>
        <thead>
          <tr>{cells(token.header, "th")}</tr>
        </thead>
        <tbody>
          {token.rows.map((row, n) => (
            <tr key={n}>{cells(row, "td")}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A name or a date is not broken at its hyphens, and a sentence not made as narrow as its longest word. */
function widthOf(cell: string): string | undefined {
  if (!/\s/.test(cell)) return "whitespace-nowrap";
  return cell.length > SENTENCE ? "min-w-[14em]" : undefined;
}

function inline(tokens: Token[] | undefined): ReactNode[] {
  return (tokens ?? []).map((token, n) => <Inline key={n} token={token} />);
}

function Inline({ token }: { token: Token }): ReactNode {
  switch (token.type) {
    case "strong":
      return <strong className="font-semibold">{inline((token as Tokens.Strong).tokens)}</strong>;
    case "em":
      return <em>{inline((token as Tokens.Em).tokens)}</em>;
    case "del":
      return <del>{inline((token as Tokens.Del).tokens)}</del>;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "checkbox":
      return null; // the item of the list has drawn it
    case "br":
      return <br />;
    case "link":
      return link(token as Tokens.Link);
    case "image":
      return <Picture token={token as Tokens.Image} />;
    case "math":
      return formula((token as Tokens.Generic).text as string, false);
    case "escape":
      return (token as Tokens.Escape).text;
    case "text":
      return (token as Tokens.Text).tokens
        ? inline((token as Tokens.Text).tokens)
        : plain(token as Tokens.Text);
    default:
      return token.raw;
  }
}

/** Entities that a model writes out are meant as the characters. */
function plain(token: Tokens.Text): string {
  return token.text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (all, name: string) => ENTITIES[name] ?? all);
}

const ENTITIES: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  "#39": "'",
  nbsp: "\u00a0",
};

function link(token: Tokens.Link): ReactNode {
  const inside = inline(token.tokens);
  if (!SAFE_LINK.test(token.href)) return <span>{inside}</span>;
  return (
    <a href={token.href} target="_blank" rel="noopener noreferrer nofollow">
      {inside}
    </a>
  );
}

/** The address of a picture can carry words of the chat to its server, so no picture is loaded by itself. */
function Picture({ token }: { token: Tokens.Image }): ReactNode {
  if (/^data:image\/(png|jpeg|gif|webp);base64,/i.test(token.href))
    return <img src={token.href} alt={token.text} className="max-w-full rounded" />;
  if (!/^https?:/i.test(token.href)) return token.text;
  return (
    <span className="my-1 inline-flex flex-wrap items-baseline gap-x-2 rounded border border-line bg-panel px-2 py-1 text-sm">
      <span className="text-muted">{words.image.remote(host(token.href))}</span>
      {token.text && <span>{token.text}</span>}
      <a href={token.href} target="_blank" rel="noopener noreferrer nofollow">
        {words.image.open}
      </a>
    </span>
  );
}

function host(address: string): string {
  try {
    return new URL(address).host;
  } catch {
    return address;
  }
}

function formula(source: string, isBlock: boolean): ReactNode {
  return (
    <Suspense fallback={<Source source={source} />}>
      <Formula source={source} isBlock={isBlock} />
    </Suspense>
  );
}
