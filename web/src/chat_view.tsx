/** One chat: its voices in turn, and the field for the next word. */

import { useChat } from "@ai-sdk/react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Answer, Question, Waiting } from "./answer";
import type { ApiError } from "./api";
import { Composer } from "./composer";
import { Announcement } from "./controls";
import { type Conversation, conversation } from "./conversation";
import { Down } from "./icons";
import { asked, type Message } from "./messages";
import { useObservable } from "./observable";
import { onChange } from "./tabs";
import { text } from "./text";

const NEAR = 80;

interface ChatViewProps {
  id: string;
  /** The newest answer, also while it is under way; null when the chat is left. */
  onLatest: (response: string | null) => void;
  /** An answer that a person wants to look into. */
  onOpen: (response: string) => void;
}

export function ChatView({ id, onLatest, onOpen }: ChatViewProps) {
  const chat = conversation(id);
  const { messages, status } = useChat<Message>({ chat: chat.ai });
  const state = useObservable(chat.state);
  const isRunning = status === "submitted" || status === "streaming";
  // By its place, because a message gets another id when it is stored.
  const [editing, setEditing] = useState<number | null>(null);
  const [isHeard, setHeard] = useState(false);
  if (isRunning && !isHeard) setHeard(true);
  const used = messages.findLast((message) => message.metadata?.usage)?.metadata?.usage;

  useKeptInStep(chat);
  useEffect(() => {
    document.title = state.chat?.title ? `${state.chat.title} · ${text.name}` : text.name;
  }, [state.chat?.title]);
  const latest = messages.findLast((message) => message.metadata?.responseId)?.metadata?.responseId ?? null;
  useEffect(() => {
    onLatest(latest);
    return () => onLatest(null);
  }, [latest, onLatest]);

  if (state.isLoaded && state.chat === null && state.problem?.status === 404) return <Gone />;
  const last = messages.findLastIndex((message) => message.role === "user");
  return (
    <>
      <Scroller marker={messages} isRunning={isRunning}>
        {!state.isLoaded && messages.length === 0 && <Loading />}
        <Voices
          chat={chat}
          isRunning={isRunning}
          messages={messages}
          editing={editing}
          onEdit={setEditing}
          onInspect={onOpen}
        />
        {status === "submitted" && messages.at(-1)?.role === "user" && (
          <div className="pt-3 pb-7 sm:pl-7">
            <Waiting />
          </div>
        )}
        {state.problem && !isRunning && <Problem problem={state.problem} onRetry={() => void chat.retry()} />}
      </Scroller>
      <Announcement>{isHeard && !isRunning ? text.answer.done : ""}</Announcement>
      <Composer
        key={id}
        chat={id}
        isRunning={isRunning}
        queue={state.queue}
        returned={state.returned}
        used={used ? used.inputTokens + used.outputTokens : null}
        onSend={(outgoing) => void chat.send(outgoing)}
        onStop={() => void chat.stop()}
        onUnqueue={(at) => chat.unqueue(at)}
        onTakenBack={() => chat.takeBack()}
        onEditLast={() => setEditing(last)}
      />
    </>
  );
}

/** What another tab, the terminal or a restart has changed is read again. */
function useKeptInStep(chat: Conversation): void {
  useEffect(() => {
    const load = () => {
      if (!chat.isRunning && document.visibilityState === "visible") void chat.load();
    };
    if (!chat.isRunning) void chat.load();
    const stop = onChange((id, isOurs) => {
      if (id === chat.id && !isOurs && !chat.isRunning) void chat.load();
    });
    addEventListener("focus", load);
    addEventListener("online", load);
    return () => {
      stop();
      removeEventListener("focus", load);
      removeEventListener("online", load);
    };
  }, [chat]);
  const { problem } = useObservable(chat.state);
  useEffect(() => {
    if (!problem?.isOffline) return;
    const timer = setInterval(() => void chat.load(), 2000);
    return () => clearInterval(timer);
  }, [chat, problem]);
}

interface VoicesProps {
  chat: Conversation;
  messages: Message[];
  isRunning: boolean;
  editing: number | null;
  onEdit: (place: number | null) => void;
  onInspect: (response: string) => void;
}

function Voices({ chat, messages, isRunning, editing, onEdit, onInspect }: VoicesProps) {
  const { tree } = useObservable(chat.state);
  const branches = useMemo(
    () => new Map([...tree.nodes.values()].map((node) => [node.id, tree.branches(node)])),
    [tree],
  );
  const stored = useMemo(
    () => new Set([...tree.nodes.values()].flatMap((node) => asked(node).map(({ id }) => id))),
    [tree],
  );
  return messages.map((message, n) => {
    const isLast = n === messages.length - 1;
    if (message.role === "user")
      return (
        <Question
          key={n}
          message={message}
          canEdit={!isRunning && stored.has(message.id)}
          conversation={chat}
          place={n}
          isEditing={editing === n}
          onEdit={onEdit}
        />
      );
    return (
      <Answer
        key={n}
        message={message}
        branches={branches.get(message.id) ?? null}
        conversation={chat}
        isRunning={isRunning && isLast}
        isLast={isLast}
        onInspect={onInspect}
      />
    );
  });
}

interface ScrollerProps {
  marker: unknown;
  isRunning: boolean;
  children: React.ReactNode;
}

/** Follows the answer as long as its end is in sight. */
function Scroller({ marker, isRunning, children }: ScrollerProps) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const top = useRef(0);
  const [isAway, setAway] = useState(false);
  const toEnd = useCallback(() => {
    const area = box.current;
    if (area) area.scrollTop = area.scrollHeight;
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each change of what is shown may move the end
  useEffect(() => {
    if (follows.current) toEnd();
  }, [marker, isRunning, toEnd]);
  useEffect(() => {
    const area = box.current;
    if (area === null) return;
    const observer = new ResizeObserver(() => {
      if (follows.current) toEnd();
    });
    observer.observe(area);
    if (area.firstElementChild) observer.observe(area.firstElementChild);
    return () => observer.disconnect();
  }, [toEnd]);
  const onScroll = () => {
    const area = box.current;
    if (area === null) return;
    // The end may have moved on since; only who scrolls back wants to stay where that leads.
    if (area.scrollHeight - area.scrollTop - area.clientHeight < NEAR) follows.current = true;
    else if (area.scrollTop < top.current) follows.current = false;
    top.current = area.scrollTop;
    setAway(!follows.current);
  };
  return (
    <div className="relative min-h-0 grow">
      <div
        ref={box}
        className="h-full overflow-y-auto"
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={text.chat.label}
      >
        <div className="mx-auto max-w-[44rem] px-4 pt-4 pb-8">{children}</div>
      </div>
      {isAway && (
        <button
          type="button"
          className="absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full border border-line bg-paper p-2 shadow-sm"
          aria-label={text.chat.latest}
          title={text.chat.latest}
          onClick={toEnd}
        >
          <Down />
        </button>
      )}
    </div>
  );
}

function Loading() {
  return (
    <div role="status" className="space-y-3 pt-6" aria-label={text.chat.loading}>
      {["w-2/5", "w-full", "w-11/12", "w-3/5"].map((width) => (
        <div key={width} className={`breathes h-3.5 rounded bg-panel ${width}`} />
      ))}
    </div>
  );
}

export function Problem({ problem, onRetry }: { problem: ApiError; onRetry?: () => void }) {
  const { failure, requestId, isOffline } = problem;
  return (
    <section role="alert" className="my-4 border-l-2 border-accent pl-4">
      <p className="font-semibold">{isOffline ? text.error.offline : text.error.title}</p>
      <p>{isOffline ? text.error.offlineWhy : failure.message}</p>
      {!isOffline && (
        <p className="figures my-2 flex flex-wrap gap-x-4">
          {failure.code && (
            <span>
              {text.answer.code} {failure.code}
            </span>
          )}
          {requestId && (
            <span>
              {text.answer.request} {requestId}
            </span>
          )}
        </p>
      )}
      {onRetry && (
        <button type="button" className="firm mt-2" onClick={onRetry}>
          {text.answer.retry}
        </button>
      )}
    </section>
  );
}

function Gone() {
  return (
    <div className="m-auto max-w-sm p-6 text-center">
      <p className="font-serif text-xl">{text.chat.gone}</p>
      <p className="mt-2 text-muted">{text.chat.goneWhy}</p>
    </div>
  );
}
