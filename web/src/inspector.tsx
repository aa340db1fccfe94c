/** The protocol itself, beside the chat: events as they are logged, items, the request, the route, the verdict. */

import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { CopyButton, IconButton, toClipboard } from "./controls";
import { download } from "./export";
import { Cross } from "./icons";
import {
  captureOf,
  curlOf,
  type FullResponse,
  type Inspected,
  Inspection,
  type Logged,
  requestOf,
  type Verdict,
} from "./inspect";
import { JsonTree } from "./json_tree";
import { useObservable } from "./observable";
import { text } from "./text";

const VIEWS = ["events", "items", "request", "route"] as const;
type View = (typeof VIEWS)[number];
/** The outcome of an attempt that did not fail. */
const ANSWERED = "answered";
const ROW = 24;
const AROUND = 20;

interface InspectorProps {
  response: string | null;
  hasKey: boolean;
  onClose: () => void;
}

export default function Inspector({ response, hasKey, onClose }: InspectorProps) {
  const [view, setView] = useState<View>("events");
  return (
    <aside aria-label={text.inspector.title} className="flex h-full flex-col bg-paper">
      <header className="flex items-center justify-between px-3 pt-3 pb-1">
        <h2 className="px-1 font-serif text-[1.0625rem] font-semibold">{text.inspector.title}</h2>
        <IconButton label={text.inspector.hide} onClick={onClose}>
          <Cross />
        </IconButton>
      </header>
      {response === null ? (
        <p className="px-4 py-3 text-sm text-muted">{text.inspector.none}</p>
      ) : (
        <>
          <Tabs view={view} onView={setView} />
          <Response key={response} id={response} view={view} hasKey={hasKey} />
        </>
      )}
    </aside>
  );
}

function Tabs({ view, onView }: { view: View; onView: (view: View) => void }) {
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = VIEWS.at((VIEWS.indexOf(view) + step) % VIEWS.length);
    if (step === 0 || next === undefined) return;
    onView(next);
    document.getElementById(`view-${next}`)?.focus();
  };
  return (
    <div role="tablist" aria-label={text.inspector.title} className="flex gap-1 border-b border-line px-3">
      {VIEWS.map((name) => (
        <button
          key={name}
          id={`view-${name}`}
          type="button"
          role="tab"
          aria-selected={name === view}
          aria-controls="view"
          tabIndex={name === view ? 0 : -1}
          className={`-mb-px border-b-2 px-2 py-2 text-sm ${name === view ? "border-accent font-medium" : "border-transparent text-muted hover:text-ink"}`}
          onClick={() => onView(name)}
          onKeyDown={onKeyDown}
        >
          {text.inspector.views[name]}
        </button>
      ))}
    </div>
  );
}

function Response({ id, view, hasKey }: { id: string; view: View; hasKey: boolean }) {
  const [inspection, setInspection] = useState<Inspection | null>(null);
  useEffect(() => {
    const made = new Inspection(id);
    setInspection(made);
    return () => made.close();
  }, [id]);
  return inspection && <Shown inspection={inspection} view={view} hasKey={hasKey} />;
}

function Shown({ inspection, view, hasKey }: { inspection: Inspection; view: View; hasKey: boolean }) {
  const state = useObservable(inspection.state);
  const { log, size, isLive, response } = state;
  const request = response && requestOf(response, state.input);
  return (
    <>
      <div id="view" role="tabpanel" aria-labelledby={`view-${view}`} className="min-h-0 grow">
        {view === "events" && (log.length > 0 ? <Events log={log} /> : state.isMissing && <Missing />)}
        {view === "items" && (
          <Scrolled>{response && <JsonTree value={response.output} name="output" />}</Scrolled>
        )}
        {view === "request" && (
          <Scrolled>{request && <JsonTree value={request} name="POST /v1/responses" />}</Scrolled>
        )}
        {view === "route" && <Route state={state} />}
      </div>
      <footer className="flex flex-wrap items-center gap-x-1 border-t border-line px-4 py-2">
        <p className="figures grow">
          {text.inspector.events(log.length)} · {text.inspector.bytes(size)} ·{" "}
          {isLive ? text.inspector.live : text.inspector.stored}
        </p>
        <button
          type="button"
          className="quiet text-xs"
          disabled={request === null}
          onClick={() => request && toClipboard(curlOf(request, location.origin, hasKey))}
        >
          {text.inspector.curl}
        </button>
        <button
          type="button"
          className="quiet text-xs"
          disabled={log.length === 0}
          onClick={() => download(`${inspection.id}.sse`, "text/event-stream", captureOf(log))}
        >
          {text.inspector.capture}
        </button>
      </footer>
    </>
  );
}

function Missing() {
  return <p className="px-4 py-3 text-sm text-muted">{text.inspector.notLogged}</p>;
}

function Scrolled({ children }: { children: React.ReactNode }) {
  return (
    <div className="h-full overflow-auto p-3 font-mono text-xs leading-relaxed" tabIndex={0}>
      {children}
    </div>
  );
}

/** Ten thousand rows, of which only those in sight are drawn. */
function Events({ log }: { log: readonly Logged[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [chosen, setChosen] = useState<number | null>(null);
  const follows = useRef(true);
  const first = Math.max(0, Math.floor(top / ROW) - AROUND);
  const shown = log.slice(first, first + Math.ceil((box.current?.clientHeight ?? 800) / ROW) + 2 * AROUND);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each event may move the end
  useEffect(() => {
    if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [log.length]);
  const longest = useMemo(() => Math.max(...shown.map((event) => event.size), 1), [shown]);
  const event = log.find((one) => one.number === chosen);
  return (
    <div className="flex h-full flex-col">
      <div
        ref={box}
        tabIndex={0}
        className="min-h-0 grow overflow-y-auto font-mono text-xs"
        onScroll={({ currentTarget: area }) => {
          setTop(area.scrollTop);
          follows.current = area.scrollHeight - area.scrollTop - area.clientHeight < ROW * 2;
        }}
      >
        <ol className="relative" style={{ height: log.length * ROW }}>
          {shown.map((one, n) => (
            <li
              key={one.number}
              className="absolute inset-x-0"
              style={{ top: (first + n) * ROW, height: ROW }}
            >
              <button
                type="button"
                className={`flex h-full w-full items-center gap-2.5 px-3 text-left hover:bg-panel ${one.number === chosen ? "bg-wash" : ""}`}
                onClick={() => setChosen(one.number === chosen ? null : one.number)}
              >
                <span className="w-8 shrink-0 text-right text-muted tabular-nums">{one.number}</span>
                <span className="min-w-0 grow truncate">{one.type.replace(/^response\./, "")}</span>
                {one.at !== null && (
                  <span className="shrink-0 text-muted tabular-nums">{(one.at / 1000).toFixed(2)} s</span>
                )}
                <span className="w-12 shrink-0 text-right text-muted tabular-nums">
                  {text.inspector.bytes(one.size)}
                </span>
                <span className="h-1 w-6 shrink-0 rounded bg-line" aria-hidden="true">
                  <span
                    className="block h-1 rounded bg-accent"
                    style={{ width: `${(100 * one.size) / longest}%` }}
                  />
                </span>
              </button>
            </li>
          ))}
        </ol>
      </div>
      {event && (
        <div className="max-h-1/2 overflow-auto border-t border-line p-3 font-mono text-xs leading-relaxed">
          <JsonTree value={JSON.parse(event.data)} name={event.type} />
        </div>
      )}
    </div>
  );
}

interface Attempt {
  target: string;
  reason: string;
  milliseconds: number;
  outcome: string;
}

interface Receipt {
  action?: string;
  reason?: string;
  attempts?: Attempt[];
  [field: string]: unknown;
}

/** The receipts of a response; null where they were not kept, or are not read yet. */
function receiptsOf(response: FullResponse | null): Receipt[] | null {
  const found = response?.["antiphon:receipts"];
  return Array.isArray(found) ? (found as Receipt[]) : null;
}

function Route({ state }: { state: Inspected }) {
  const receipts = receiptsOf(state.response);
  const routes = receipts?.filter((receipt) => receipt.action === "route") ?? [];
  const others = receipts?.filter((receipt) => receipt.action !== "route") ?? [];
  const notKept = state.response === null ? "" : text.inspector.notKept;
  return (
    <div className="h-full space-y-5 overflow-auto p-4 text-sm" tabIndex={0}>
      <section>
        <h3 className="label">{text.inspector.attempts}</h3>
        <p className="mt-1 font-mono text-xs">{state.response?.model}</p>
        {routes.length === 0 ? (
          <p className="text-muted">{receipts === null ? notKept : text.inspector.noRoute}</p>
        ) : (
          routes.map((receipt, n) => <Attempts key={n} receipt={receipt} />)
        )}
      </section>
      <section>
        <h3 className="label">{text.inspector.receipts}</h3>
        {others.length === 0 ? (
          <p className="text-muted">{receipts === null ? notKept : text.inspector.noReceipts}</p>
        ) : (
          <Receipts receipts={others} />
        )}
      </section>
      <section>
        <h3 className="label">{text.inspector.audit}</h3>
        <Judged verdict={state.verdict} />
      </section>
      <section>
        <h3 className="label">{text.inspector.comply}</h3>
        <Command command={`antiphon comply ${location.origin}/v1`} />
      </section>
    </div>
  );
}

/** Each target that was asked, in order, and what came of it. */
function Attempts({ receipt }: { receipt: Receipt }) {
  return (
    <>
      <p>{receipt.reason}</p>
      <ol className="mt-2 space-y-2">
        {receipt.attempts?.map(({ target, outcome, milliseconds, reason }, n) => (
          <li key={n} className="border-l-2 border-line pl-3">
            <p className="font-mono text-xs break-words">{target}</p>
            <p>
              <span className={outcome === ANSWERED ? undefined : "text-accent"}>{outcome}</span>
              <span className="text-muted"> · {milliseconds} ms</span>
            </p>
            <p className="text-muted break-words">{reason}</p>
          </li>
        ))}
      </ol>
    </>
  );
}

function Receipts({ receipts }: { receipts: Receipt[] }) {
  return (
    <div className="mt-1 font-mono text-xs leading-relaxed">
      {receipts.map((receipt, n) => (
        <JsonTree key={n} value={receipt} name={receipt.action} />
      ))}
    </div>
  );
}

function Judged({ verdict }: { verdict: Verdict | null }) {
  if (verdict === null) return <p className="mt-1 text-muted">{text.inspector.notJudged}</p>;
  if (verdict.violations.length === 0)
    return <p className="mt-1">{text.inspector.conforms(verdict.events)}</p>;
  return (
    <>
      <p className="mt-1 text-accent">{text.inspector.broken(verdict.violations.length)}</p>
      <ol className="mt-1 space-y-2">
        {verdict.violations.map(({ rule, level, event, type, message }, n) => (
          <li key={n}>
            <p className="font-mono text-xs text-muted">
              #{event} {type} · {rule} · {level}
            </p>
            <p className="break-words">{message}</p>
          </li>
        ))}
      </ol>
    </>
  );
}

function Command({ command }: { command: string }) {
  return (
    <div className="mt-1 flex items-center justify-between gap-2 rounded-md border border-line bg-panel py-1 pr-1 pl-3">
      <code className="font-mono text-xs break-all">{command}</code>
      <CopyButton label={text.answer.copy} content={() => command} />
    </div>
  );
}
