/** The parts of an answer: reasoning, calls of tools, requests for approval, sources, structured output, refusals. */

import { lazy, memo, type ReactNode, Suspense, useState } from "react";
import { seconds } from "./figures";
import { JsonTree } from "./json_tree";
import type { Message, Part } from "./messages";
import type { Item } from "./protocol";
import { text } from "./text";
import { timings } from "./timings";

const Plain = ({ text }: { text: string }) => <div className="prose whitespace-pre-wrap">{text}</div>;
/** While the gateway is away, the words stand there as they are. */
const loadMarkdown = () => import("./markdown").catch(() => ({ default: Plain }));
const Markdown = lazy(loadMarkdown);

/** It is not needed to paint the page, and soon after. */
export function warmUp(): void {
  if ("requestIdleCallback" in globalThis) requestIdleCallback(() => void loadMarkdown());
  else setTimeout(loadMarkdown, 300);
}

export const Words = memo(({ words, isDone }: { words: string; isDone: boolean }): ReactNode => {
  const structured = isDone ? structure(words) : null;
  if (structured !== null) return <Structured value={structured} words={words} />;
  return (
    <Suspense fallback={<Plain text={words} />}>
      <Markdown text={words} />
    </Suspense>
  );
});

/** An answer that is one JSON object or list. */
export function structure(words: string): object | null {
  const trimmed = words.trim();
  if (!/^[{[][\s\S]*[}\]]$/.test(trimmed)) return null;
  try {
    const value: unknown = JSON.parse(trimmed);
    return value !== null && typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function Structured({ value, words }: { value: object; words: string }) {
  const [isRaw, setRaw] = useState(false);
  return (
    <div className="rounded-md border border-line bg-panel p-3">
      <button type="button" className="quiet figures float-right" onClick={() => setRaw(!isRaw)}>
        {isRaw ? text.json.tree : text.json.raw}
      </button>
      <div className="font-mono text-[0.8125rem] leading-relaxed">
        {isRaw ? <pre className="whitespace-pre-wrap">{words}</pre> : <JsonTree value={value} />}
      </div>
    </div>
  );
}

export function Reasoning({
  words,
  isRunning,
  response,
}: {
  words: string;
  isRunning: boolean;
  response?: string;
}) {
  const took = timings.of(response)?.thought;
  const label = isRunning
    ? text.answer.thinking
    : took
      ? text.answer.thought(seconds(took))
      : text.answer.thoughts;
  return (
    <details className="group my-1">
      <summary className="inline-flex items-baseline gap-2 rounded text-sm text-muted hover:text-ink">
        <span className={isRunning ? "breathes" : ""}>{label}</span>
        <span aria-hidden="true" className="figures transition-transform group-open:rotate-90">
          ›
        </span>
      </summary>
      <div className="mt-2 border-l border-line pl-4 text-[0.9375rem] whitespace-pre-wrap text-muted">
        {words}
      </div>
    </details>
  );
}

interface CardProps {
  name: string;
  state: string;
  isRunning?: boolean;
  given?: unknown;
  result?: unknown;
  error?: string;
}

/** A call of a tool: what it was given, what came of it, and how long that took while this page looked on. */
export function ToolCard({ name, state, isRunning, given, result, error }: CardProps) {
  const [began] = useState(() => performance.now());
  const [wasRunning] = useState(isRunning);
  const [took, setTook] = useState<number | null>(null);
  if (wasRunning && !isRunning && took === null) setTook(performance.now() - began);
  return (
    <details className="group my-2 rounded-md border border-line">
      <summary className="flex items-baseline gap-3 rounded-md px-3 py-2 text-sm hover:bg-panel">
        <span className="font-mono text-[0.8125rem] font-medium">{name}</span>
        <span className={`figures ${isRunning ? "breathes" : ""} ${error ? "text-accent" : ""}`}>
          {state}
        </span>
        {took !== null && <span className="figures">{seconds(took)}</span>}
        <span aria-hidden="true" className="figures ml-auto group-open:rotate-90">
          ›
        </span>
      </summary>
      <div className="space-y-2 border-t border-line px-3 py-2 font-mono text-[0.8125rem]">
        {given !== undefined && <Value label={text.tool.arguments} value={given} />}
        {result !== undefined && <Value label={text.tool.result} value={result} />}
        {error !== undefined && <p className="whitespace-pre-wrap text-accent">{error}</p>}
      </div>
    </details>
  );
}

function Value({ label, value }: { label: string; value: unknown }) {
  return (
    <div>
      <div className="label font-sans">{label}</div>
      {typeof value === "string" ? (
        <pre className="whitespace-pre-wrap">{value}</pre>
      ) : (
        <JsonTree value={value} />
      )}
    </div>
  );
}

/** Says an item for the asker; null where the chat has gone on. */
export type Reply = ((item: Item) => void) | null;

export function Approval({ item, onReply }: { item: Item; onReply: Reply }) {
  const [isAnswered, setAnswered] = useState(false);
  const isOver = isAnswered || onReply === null;
  const question = text.tool.approval(item.name ?? "", item.server_label ?? "");
  const reply = (approve: boolean) => {
    setAnswered(true);
    onReply?.({ type: "mcp_approval_response", approval_request_id: item.id, approve });
  };
  return (
    <section
      className={`my-2 rounded-md border p-3 ${isOver ? "border-line" : "border-accent"}`}
      aria-label={question}
    >
      <p className="font-semibold">{question}</p>
      <pre className="my-2 overflow-x-auto font-mono text-[0.8125rem] whitespace-pre-wrap">
        {item.arguments}
      </pre>
      <div className="flex gap-2">
        <button type="button" className="firm main" disabled={isOver} onClick={() => reply(true)}>
          {text.tool.approve}
        </button>
        <button type="button" className="firm" disabled={isOver} onClick={() => reply(false)}>
          {text.tool.deny}
        </button>
      </div>
    </section>
  );
}

/** Without the vendor that the dialect puts before it. */
function plainType(type: string): string {
  return type.slice(type.indexOf(":") + 1);
}

/** An item that the protocol leaves to vendors, or a hosted tool. */
export function Vendor({ item, onReply }: { item: Item; onReply: Reply }) {
  if (plainType(item.type) === "mcp_approval_request") return <Approval item={item} onReply={onReply} />;
  const { type, id: _, status, ...fields } = item;
  const isRunning = status === "in_progress";
  const state = isRunning ? text.tool.running : (status ?? text.tool.done);
  return <ToolCard name={item.name ?? plainType(type)} state={state} isRunning={isRunning} given={fields} />;
}

export function Refusal({ words }: { words: string }) {
  return (
    <section className="my-2 border-l-2 border-accent pl-4">
      <p className="label">{text.answer.refusal}</p>
      <p className="whitespace-pre-wrap">{words}</p>
    </section>
  );
}

export function Sources({ message }: { message: Message }) {
  const sources = message.parts.filter(
    (part) => part.type === "source-url" || part.type === "source-document",
  );
  const unique = sources.filter(
    (part, n) => sources.findIndex((other) => address(other) === address(part)) === n,
  );
  if (unique.length === 0) return null;
  return (
    <section className="mt-4" aria-label={text.answer.sources}>
      <p className="label">{text.answer.sources}</p>
      <ol className="mt-1 space-y-0.5 text-sm">
        {unique.map((part, n) => (
          <li key={part.sourceId} className="flex gap-2">
            <span className="figures pt-0.5">{n + 1}</span>
            {part.type === "source-url" && /^https?:/i.test(part.url) ? (
              <a
                className="truncate underline decoration-line underline-offset-4 hover:decoration-accent"
                href={part.url}
                target="_blank"
                rel="noopener noreferrer nofollow"
              >
                {part.title || part.url}
              </a>
            ) : (
              <span>{part.title}</span>
            )}
          </li>
        ))}
      </ol>
    </section>
  );
}

function address(part: Part): string {
  return part.type === "source-url" ? part.url : part.type === "source-document" ? part.title : "";
}
