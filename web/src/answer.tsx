/** The two voices: what was asked, and what was answered. */

import { memo, useEffect, useRef, useState } from "react";
import { CopyButton, IconButton } from "./controls";
import type { Conversation } from "./conversation";
import { money, seconds } from "./figures";
import { Again, Left, Panel, Pencil, Right } from "./icons";
import { type Message, type Part, plainText } from "./messages";
import { costOf, models } from "./models";
import { useObservable } from "./observable";
import { Reasoning, Refusal, type Reply, Sources, ToolCard, Vendor, Words } from "./parts";
import type { Item } from "./protocol";
import { text } from "./text";
import { timings } from "./timings";
import type { Branches } from "./tree";

interface QuestionProps {
  message: Message;
  /** It is stored, and nothing runs. */
  canEdit: boolean;
  conversation: Conversation;
  isEditing: boolean;
  place: number;
  onEdit: (place: number | null) => void;
}

export const Question = memo((props: QuestionProps) => {
  const { message, canEdit, conversation, place, isEditing, onEdit } = props;
  const words = plainText(message);
  return (
    <article className="group/voice border-t border-line pt-5 first:border-0" aria-label={text.you}>
      <h2 className="sr-only">{text.you}</h2>
      {isEditing && canEdit ? (
        <Edit
          words={words}
          onSend={(changed) => {
            onEdit(null);
            void conversation.edit(message, changed);
          }}
          onCancel={() => onEdit(null)}
        />
      ) : (
        <>
          <Files message={message} />
          <div className="flex items-start gap-3">
            <p className="min-w-0 grow leading-relaxed font-semibold break-words whitespace-pre-wrap">
              {words}
            </p>
            {canEdit && (
              <div className="-my-1 flex shrink-0 opacity-0 transition-opacity group-focus-within/voice:opacity-100 group-hover/voice:opacity-100 pointer-coarse:opacity-100">
                <IconButton label={text.answer.edit} onClick={() => onEdit(place)}>
                  <Pencil />
                </IconButton>
                <CopyButton label={text.answer.copy} content={() => words} />
              </div>
            )}
          </div>
        </>
      )}
    </article>
  );
});

function Files({ message }: { message: Message }) {
  const files = message.parts.filter((part) => part.type === "file");
  if (files.length === 0) return null;
  return (
    <ul className="mb-2 flex flex-wrap gap-2">
      {files.map((file, n) => (
        <li key={n}>
          {file.mediaType.startsWith("image/") && /^(data|blob):/.test(file.url) ? (
            <img
              src={file.url}
              alt={file.filename ?? text.image.attached}
              className="max-h-48 rounded-md border border-line"
            />
          ) : (
            <span className="figures rounded-md border border-line px-2 py-1">
              {file.filename ?? file.mediaType}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

function Edit({
  words,
  onSend,
  onCancel,
}: {
  words: string;
  onSend: (words: string) => void;
  onCancel: () => void;
}) {
  const [draft, setDraft] = useState(words);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (draft.trim() !== "") onSend(draft.trim());
      }}
    >
      <textarea
        ref={field}
        className="field"
        rows={Math.min(12, draft.split("\n").length + 1)}
        aria-label={text.answer.edit}
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") onCancel();
          if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
            event.preventDefault();
            event.currentTarget.form?.requestSubmit();
          }
        }}
      />
      <div className="mt-2 flex gap-2">
        <button type="submit" className="firm main">
          {text.answer.save}
        </button>
        <button type="button" className="firm" onClick={onCancel}>
          {text.answer.cancel}
        </button>
      </div>
    </form>
  );
}

export function BranchArrows({ branches, conversation }: { branches: Branches; conversation: Conversation }) {
  const { ids, at } = branches;
  const go = (step: number) => {
    const branch = ids[at + step];
    if (branch !== undefined) void conversation.select(branch);
  };
  return (
    <span className="flex items-center">
      <IconButton label={text.answer.previous} disabled={at === 0} onClick={() => go(-1)}>
        <Left />
      </IconButton>
      <span className="figures" role="img" aria-label={text.answer.branch(at + 1, ids.length)}>
        {at + 1}/{ids.length}
      </span>
      <IconButton label={text.answer.next} disabled={at === ids.length - 1} onClick={() => go(1)}>
        <Right />
      </IconButton>
    </span>
  );
}

interface AnswerProps {
  message: Message;
  branches: Branches | null;
  conversation: Conversation;
  isRunning: boolean;
  isLast: boolean;
  onInspect: (response: string) => void;
}

export const Answer = memo((props: AnswerProps) => {
  const { message, branches, conversation, isRunning, isLast, onInspect } = props;
  const { metadata } = message;
  // What was asked before the chat went on is not answered any more.
  const onReply = isLast && !isRunning ? (item: Item) => void conversation.reply(item) : null;
  // Steps are in a stream and not in the store: without them a part keeps its place when it is stored.
  const parts = message.parts.filter((part) => part.type !== "step-start");
  const isSilent = parts.length === 0;
  return (
    <article className="group/voice pt-3 pb-7 sm:pl-7" aria-label={metadata?.model} aria-busy={isRunning}>
      <h2 className="sr-only">{metadata?.model}</h2>
      {parts.map((part, n) => (
        <AnswerPart
          key={n}
          part={part}
          isRunning={isRunning && n === parts.length - 1}
          response={metadata?.responseId}
          onReply={onReply}
        />
      ))}
      {isRunning && isSilent && <Waiting />}
      {!isRunning && isSilent && metadata?.status === "completed" && (
        <p className="text-muted">{text.answer.nothing}</p>
      )}
      <Sources message={message} />
      {!isRunning && <Ending message={message} conversation={conversation} />}
      {!isRunning && (
        <Footer message={message} branches={branches} conversation={conversation} onInspect={onInspect} />
      )}
    </article>
  );
});

export function Waiting() {
  return (
    <p className="breathes text-muted" role="status">
      {text.answer.waiting}
    </p>
  );
}

interface PartProps {
  part: Part;
  isRunning: boolean;
  response?: string;
  onReply: Reply;
}

function AnswerPart({ part, isRunning, response, onReply }: PartProps) {
  switch (part.type) {
    case "text":
      return <Words words={part.text} isDone={!isRunning} />;
    case "reasoning":
      return <Reasoning words={part.text} isRunning={isRunning} response={response} />;
    case "file":
      return part.url.startsWith("data:image/") ? (
        <img src={part.url} alt="" className="my-3 max-w-full rounded-md" />
      ) : null;
    case "source-url":
    case "source-document":
      return null;
  }
  if (part.type === "dynamic-tool" || part.type.startsWith("tool-")) return <Tool part={part as ToolPart} />;
  if (part.type === "data-refusal") return <Refusal words={(part as { data: { text: string } }).data.text} />;
  if (part.type.startsWith("data-")) return <Vendor item={(part as { data: Item }).data} onReply={onReply} />;
  return null;
}

type ToolPart = Extract<Part, { type: "dynamic-tool" }>;

function Tool({ part }: { part: ToolPart }) {
  const name = part.toolName ?? (part.type as string).replace(/^tool-/, "");
  const error = part.state === "output-error" ? part.errorText : undefined;
  const states: Record<string, string> = {
    "input-streaming": text.tool.running,
    "input-available": text.tool.called,
    "output-available": text.tool.done,
    "output-error": text.tool.failed,
  };
  return (
    <ToolCard
      name={name}
      state={states[part.state] ?? part.state}
      isRunning={part.state === "input-streaming"}
      given={part.input}
      result={part.state === "output-available" ? part.output : undefined}
      error={error}
    />
  );
}

/** How it ended, where that was not well. */
function Ending({ message, conversation }: { message: Message; conversation: Conversation }) {
  const { status, failure, incomplete, responseId } = message.metadata ?? {};
  if (status === "cancelled" || incomplete === "cancelled")
    return <p className="mt-3 text-sm text-muted">{text.answer.cancelled}</p>;
  if (status === "incomplete") {
    const reason = incomplete ?? "";
    return (
      <p className="mt-3 border-l-2 border-line pl-4 text-sm text-muted">
        {text.answer.incomplete[reason] ?? text.answer.incompleteOther(reason)}
      </p>
    );
  }
  if (status !== "failed") return null;
  const request = timings.requestOf(responseId);
  return (
    <section className="mt-3 border-l-2 border-accent pl-4" role="alert">
      <p className="font-semibold">{text.answer.failed}</p>
      <p>{failure?.message}</p>
      <p className="figures my-2 flex flex-wrap gap-x-4">
        {failure?.code && (
          <span>
            {text.answer.code} {failure.code}
          </span>
        )}
        <span>
          {text.answer.response} {responseId}
        </span>
        {request && (
          <span>
            {text.answer.request} {request}
          </span>
        )}
      </p>
      <button type="button" className="firm" onClick={() => void conversation.regenerate(message.id)}>
        {text.answer.retry}
      </button>
    </section>
  );
}

interface FooterProps {
  message: Message;
  branches: Branches | null;
  conversation: Conversation;
  onInspect: (response: string) => void;
}

function Footer({ message, branches, conversation, onInspect }: FooterProps) {
  const { models: known } = useObservable(models);
  const { responseId, model, usage } = message.metadata ?? {};
  const timing = timings.of(responseId);
  const cost = costOf(
    known.find((one) => one.id === model),
    usage,
  );
  const facts = [
    model,
    usage && text.answer.tokens(usage.inputTokens, usage.outputTokens),
    usage?.cachedInputTokens ? text.answer.cached(usage.cachedInputTokens) : null,
    timing?.first != null ? text.answer.firstWord(seconds(timing.first)) : null,
    timing && usage && timing.words > 50
      ? text.answer.speed((usage.outputTokens / (timing.words / 1000)).toFixed(1))
      : null,
    cost && money(cost.amount, cost.currency),
  ].filter(Boolean);
  return (
    <footer className="mt-3 flex flex-wrap items-center gap-x-1">
      <div className="-ml-1.5 flex items-center">
        <CopyButton label={text.answer.copy} content={() => plainText(message)} />
        <IconButton label={text.answer.regenerate} onClick={() => void conversation.regenerate(message.id)}>
          <Again />
        </IconButton>
        {responseId && (
          <IconButton label={text.answer.inspect} onClick={() => onInspect(responseId)}>
            <Panel />
          </IconButton>
        )}
        {branches && branches.ids.length > 1 && (
          <BranchArrows branches={branches} conversation={conversation} />
        )}
      </div>
      <p className="figures ml-1 flex flex-wrap gap-x-3">
        {facts.map((fact) => (
          <span key={String(fact)}>{fact}</span>
        ))}
      </p>
    </footer>
  );
}
